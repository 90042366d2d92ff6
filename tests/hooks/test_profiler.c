/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/stage.h"
#include "summary/events.h"
#include "support/json.h"

#include "base/state.h"

#include <errno.h>

static hs_hook every(const stage *s, int64_t steps)
{
    return hs_profiler(.every_n_steps = steps, .trace_dir = s->directory);
}

static size_t timelines(const stage *s)
{
    return test_count_files(s->directory, "timeline-");
}

static bool has_timeline(const stage *s, int64_t step)
{
    char name[64];
    snprintf(name, sizeof name, "timeline-%lld.json", (long long)step);
    return test_exists(s->directory, name);
}

/* Runs once, and returns the number of files. */
static size_t after_one(stage *s)
{
    stage_run(s, "train", 1, 0);
    return timelines(s);
}

/* Options. */

static void bh_062_both_secs_and_steps(void **state)
{
    stage_refuses(*state, hs_profiler(.every_n_secs = 10, .every_n_steps = 20), HS_INVALID_ARGUMENT,
                  "each of every_n_secs and every_n_steps");
}

static void bh_063_neither_secs_nor_steps(void **state)
{
    stage_refuses(*state, hs_profiler(.trace_dir = "x"), HS_INVALID_ARGUMENT, "none of every_n_secs and every_n_steps");
}

static void invalid_options_are_refused(void **state)
{
    stage_refuses(*state, hs_profiler(.every_n_steps = -1), HS_INVALID_ARGUMENT, "every_n_steps is -1");
    stage_refuses(*state, hs_profiler_hook(NULL), HS_INVALID_ARGUMENT, "hs_profiler_options is NULL");
}

static void a_graph_without_a_global_step(void **state)
{
    stage *s = *state;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_hook hook = every(s, 1);
    hs_code code = stage_try(s, hs_graph_backend(graph), &hook, 1);
    hs_graph_free(graph);
    assert_fails(code, HS_FAILED_PRECONDITION, &s->err,
                 "hook 'profiler', begin: the graph has no global step; add one with hs_graph_global_step");
    assert_lacks(s->err.message, "Python");
}

/* When. */

static void bh_064_by_seconds_not_in_the_first_run(void **state)
{
    stage *s = *state;
    stage_open(s, hs_profiler(.every_n_secs = 2, .trace_dir = s->directory));
    assert_int_equal(after_one(s), 0);
    test_env_advance(&s->t, 1);
    assert_int_equal(after_one(s), 0);
    test_env_advance(&s->t, 1);
    assert_int_equal(after_one(s), 1);
    assert_int_equal(after_one(s), 1);
    test_env_advance(&s->t, 2);
    assert_int_equal(after_one(s), 2);
    assert_true(has_timeline(s, 3) && has_timeline(s, 5));
}

static void bh_066_by_steps_not_in_the_first_run(void **state)
{
    stage *s = *state;
    stage_open(s, every(s, 1));
    assert_int_equal(after_one(s), 0);
    assert_int_equal(after_one(s), 1);
}

static void bh_067_every_two_steps(void **state)
{
    static const size_t files[] = {0, 1, 1, 2, 2};
    stage *s = *state;
    stage_open(s, every(s, 2));
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(after_one(s), files[i]);
    assert_true(has_timeline(s, 2) && has_timeline(s, 4));
}

/* A run is decided for the last step plus one, as in TensorFlow. */
static void runs_of_several_steps(void **state)
{
    stage *s = *state;
    hs_script_steps_per_run(s->script, 5);
    stage_open(s, every(s, 10));
    stage_run(s, "train", 6, 0);
    assert_int_equal(timelines(s), 2);
    assert_true(has_timeline(s, 15) && has_timeline(s, 30));
}

static void bh_109s_only_runs_that_are_due_are_traced(void **state)
{
    stage *s = *state;
    stage_open(s, every(s, 2));
    stage_run(s, "train", 1, 0);
    assert_string_equal(hs_script_last_run(s->script), "fetch train; feed");
    stage_run(s, "train", 1, 0);
    assert_contains(hs_script_last_run(s->script), "fetch train; feed; trace 3 ");
    stage_run(s, "train", 1, 0);
    assert_string_equal(hs_script_last_run(s->script), "fetch train; feed");
}

static void a_run_that_fails_is_not_profiled(void **state)
{
    stage *s = *state;
    hs_script_fail_at(s->script, 2, HS_UNAVAILABLE, "lost");
    stage_open(s, every(s, 1));
    stage_run(s, "train", 1, 0);
    assert_int_equal(stage_run_once(s, "train"), HS_UNAVAILABLE);
    assert_int_equal(timelines(s), 0);
    assert_int_equal(after_one(s), 1);
}

static hs_code fail_at_two(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)values;
    hs_run_context_request_boundary(run);
    return hs_run_context_global_step(run, err) == 2 ? hs_error_set(err, HS_INTERNAL, "failed") : HS_OK;
}

static void a_run_in_which_a_later_hook_fails_is_not_profiled(void **state)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "failing", .after_run = fail_at_two);
    stage *s = *state;
    const hs_hook hooks[] = {every(s, 2), HS_HOOK(.ops = &ops)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "train", 1, 0);
    assert_int_equal(stage_run_once(s, "train"), HS_INTERNAL);
    assert_int_equal(after_one(s), 0);
    assert_int_equal(after_one(s), 1);
    assert_true(has_timeline(s, 4));
}

static void by_seconds_the_step_is_read_only_in_runs_that_are_due(void **state)
{
    stage *s = *state;
    counted c;
    hs_hook hook = hs_profiler(.every_n_secs = 1, .trace_dir = s->directory);
    assert_ok(stage_try(s, count_calls(&c, hs_script_backend(s->script)), &hook, 1), &s->err);
    stage_run(s, "train", 1, 0);
    c.step_reads = 0;
    stage_run(s, "train", 11, 0.125);
    assert_int_equal(c.step_reads, 1);
    assert_int_equal(timelines(s), 1);
    stage_close(s); /* before the backend is freed */
}

/* A graph whose steps take half a millisecond, in a session that saves in the stage's directory. */

static hs_code slow_step(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    test_env_advance(&((stage *)self)->t, 0.0005);
    return HS_OK;
}

static void train(stage *s, hs_hook hook, int steps)
{
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_op(graph, .name = "train", .run = slow_step, .user = s, .advances_step = true);
    const char *directory = s->directory;
    hs_hook hooks[] = {hook, hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_steps = 1000), {.ops = NULL}};
    hs_session_options options = HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = directory);
    s->session = hs_session_open(hs_graph_backend(graph), &options, &s->err);
    assert_non_null(s->session);
    stage_run(s, "train", steps, 0);
    stage_close(s);
    hs_graph_free(graph);
}

static void bh_109s_a_resumed_run_continues_the_schedule(void **state)
{
    stage *s = *state;
    train(s, every(s, 4), 6);
    train(s, every(s, 4), 1);
    train(s, every(s, 4), 2); /* the first run is due */
    assert_int_equal(timelines(s), 2);
    assert_true(has_timeline(s, 4) && has_timeline(s, 8));
}

static void by_seconds_a_resumed_run_starts_a_new_interval(void **state)
{
    stage *s = *state;
    train(s, hs_profiler(.every_n_secs = 0.001, .trace_dir = s->directory), 1);
    test_env_advance(&s->t, 60);
    train(s, hs_profiler(.every_n_secs = 0.001, .trace_dir = s->directory), 1);
    assert_int_equal(timelines(s), 0);
}

/* The file. */

/* It is valid until the next one. */
static hs__json_value timeline(const stage *s, const char *name)
{
    static char *text;
    size_t bytes;
    free(text);
    text = test_read_file(test_path(s->directory, name), &bytes);
    assert_non_null(text);
    return json_root(text, bytes);
}

/* Returns the first span with this name. No value: not found. */
static hs__json_value work(hs__json_value read, const char *name)
{
    hs__json_item event = {.value = {NULL, 0}};
    while (hs__json_next(hs__json_member(read, "traceEvents"), &event))
        if (hs__json_equals(hs__json_member(event.value, "ph"), "X") &&
            hs__json_equals(hs__json_member(event.value, "name"), name))
            return event.value;
    return (hs__json_value){NULL, 0};
}

static void what_the_backends_ops_did(void **state)
{
    stage *s = *state;
    train(s, every(s, 2), 2);
    hs__json_value read = timeline(s, "timeline-2.json");
    assert_true(json_number(work(read, "train"), "dur") == 500);
    assert_int_equal(json_int(hs__json_member(read, "metadata"), "step"), 2);
}

static void bh_068_the_event_file_has_the_runs_metadata(void **state)
{
    stage *s = *state;
    stage_open(s, every(s, 1));
    stage_run(s, "train", 2, 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version run[step_2]@2");
}

static void what_the_hooks_did(void **state)
{
    stage *s = *state;
    stage_open(s, every(s, 2));
    stage_run(s, "train", 2, 0);
    hs__json_value read = timeline(s, "timeline-2.json");
    assert_string_equal(json_text(hs__json_member(work(read, "after_run"), "args"), "hook"), "profiler");
}

/* A length of 5 bytes. */
static size_t put_length(unsigned char *to, unsigned char field, size_t length)
{
    to[0] = field;
    for (int i = 1; i <= 5; i++, length >>= 7)
        to[i] = (unsigned char)((length & 0x7f) | (i < 5 ? 0x80 : 0));
    return 6;
}

/* The name of the run's only op takes more than the 64 MiB of a file's events. */
static void events_that_do_not_fit_are_counted(void **state)
{
    enum { NAME = (64 << 20) + 1, HEADERS = 3 * 6, START = 2 };
    stage *s = *state;
    unsigned char *metadata = malloc(HEADERS + 6 + NAME + START), *at = metadata;
    assert_non_null(metadata);
    at += put_length(at, 0x0a, 2 * 6 + 6 + NAME + START); /* RunMetadata.step_stats */
    at += put_length(at, 0x0a, 6 + 6 + NAME + START);     /* StepStats.dev_stats */
    at += put_length(at, 0x12, 6 + NAME + START);         /* DeviceStepStats.node_stats */
    at += put_length(at, 0x0a, NAME);                     /* NodeExecStats.node_name */
    memset(at, 'a', NAME);
    memcpy(at + NAME, "\x10\x01", START); /* NodeExecStats.all_start_micros */
    hs_script_metadata_at(s->script, 2, (hs_bytes){metadata, HEADERS + 6 + NAME + START});
    stage_open(s, every(s, 2));
    stage_run(s, "train", 2, 0);
    free(metadata);
    assert_contains(s->t.log, "timeline-2.json: 1 events were dropped, because they exceed 67108864 bytes");
    hs__json_value read = timeline(s, "timeline-2.json");
    assert_int_equal(json_int(hs__json_member(read, "metadata"), "dropped_events"), 1);
}

/* Directories. */

static void bh_111s_nothing_is_made_before_it_is_needed(void **state)
{
    stage *s = *state;
    stage_open(s, hs_profiler(.every_n_steps = 2, .trace_dir = test_path(s->directory, "deep/profiles")));
    stage_run(s, "train", 1, 0);
    assert_false(test_exists(s->directory, "deep"));
    stage_run(s, "train", 1, 0);
    assert_true(test_exists(s->directory, "deep/profiles/timeline-2.json"));
}

/* Failures. */

static void a_full_disk_is_a_warning(void **state)
{
    stage *s = *state;
    stage_open(s, every(s, 1));
    stage_run(s, "train", 1, 0);
    s->t.fail_file_at = s->t.file_calls + 1;
    s->t.fail_file_on = true;
    s->t.fail_file_errno = ENOSPC;
    stage_run(s, "train", 1, 0);
    assert_contains(s->t.log, "WARNING: step 2: profiler: profile not written: ");
    s->t.fail_file_at = 0;
    stage_run(s, "train", 1, 0);
    assert_int_equal(timelines(s), 1);
    assert_true(has_timeline(s, 3));
}

static void invalid_metadata_is_a_warning(void **state)
{
    stage *s = *state;
    hs_script_metadata_at(s->script, 2, (hs_bytes){"\x0a\x7f?", 3});
    stage_open(s, every(s, 1));
    stage_run(s, "train", 2, 0);
    assert_contains(s->t.log, "WARNING: step 2: profiler: profile not written: the backend's run metadata");
    assert_int_equal(timelines(s), 0);
}

static hs_code profile_twice(test_env *t, void *user)
{
    hs_error err = {0};
    const stage *s = user;
    test_tolerate(t, ": profile not written: ");
    test_tolerate(t, ": cannot record its span: ");
    test_tolerate(t, "event file in "); /* it is retried */
    test_tolerate(t, "'summary writer' failed ");
    test_empty_directory(s->directory);
    hs_script *script = hs_script_new(&t->env);
    if (!script || hs_script_metadata_at(script, 2, (hs_bytes){"\x0a\x00", 2})) {
        hs_script_free(script);
        return HS_RESOURCE_EXHAUSTED;
    }
    hs_hook hook = hs_profiler(.every_n_steps = 1, .trace_dir = s->directory);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    for (int i = 0; i < 3 && session && !err.code; i++)
        hs_session_run(session, "train", &err);
    hs_session_close(session, &err);
    hs_script_free(script);
    return err.code;
}

/* After any failure, no incomplete file remains. */
static void each_allocation_and_each_file_call(void **state)
{
    stage *s = *state;
    test_each_allocation(profile_twice, s);
    test_each_file_call(profile_twice, NULL, EIO, false, s);
    assert_int_equal(timelines(s), 2);
    timeline(s, "timeline-2.json");
    timeline(s, "timeline-3.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(bh_062_both_secs_and_steps),
        with_stage(bh_063_neither_secs_nor_steps),
        with_stage(invalid_options_are_refused),
        with_stage(a_graph_without_a_global_step),
        with_stage(bh_064_by_seconds_not_in_the_first_run),
        with_stage(bh_066_by_steps_not_in_the_first_run),
        with_stage(bh_067_every_two_steps),
        with_stage(runs_of_several_steps),
        with_stage(bh_109s_only_runs_that_are_due_are_traced),
        with_stage(a_run_that_fails_is_not_profiled),
        with_stage(a_run_in_which_a_later_hook_fails_is_not_profiled),
        with_stage(by_seconds_the_step_is_read_only_in_runs_that_are_due),
        with_stage(bh_109s_a_resumed_run_continues_the_schedule),
        with_stage(by_seconds_a_resumed_run_starts_a_new_interval),
        with_stage(what_the_backends_ops_did),
        with_stage(bh_068_the_event_file_has_the_runs_metadata),
        with_stage(what_the_hooks_did),
        with_stage(events_that_do_not_fit_are_counted),
        with_stage(bh_111s_nothing_is_made_before_it_is_needed),
        with_stage(a_full_disk_is_a_warning),
        with_stage(invalid_metadata_is_a_warning),
        with_stage(each_allocation_and_each_file_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
