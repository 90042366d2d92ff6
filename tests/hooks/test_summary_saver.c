/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/stage.h"
#include "summary/events.h"

#include <errno.h>

/* A graph with an op "inc" that makes `per_run` steps, and summary ops that count how often they are evaluated: "summary1"
 * by ones, "summary2" by twos. */
typedef struct {
    hs_graph *graph;
    hs_summary *summaries[2];
    int counts[2];
    hs_string strings[2];
    int64_t step, per_run;
    bool silent; /* the summaries are empty */
} counters;

static hs_code inc(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    counters *c = self;
    c->step += c->per_run;
    return HS_OK;
}

static hs_code evaluate(counters *c, hs_op *op, int which, hs_error *err)
{
    hs_summary *summary = c->summaries[which];
    c->counts[which] += which + 1;
    hs_summary_clear(summary);
    if (!c->silent)
        hs_summary_scalar(summary, which ? "s2" : "s1", c->counts[which], err);
    c->strings[which] = hs_summary_serialized(summary);
    const hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, &c->strings[which]);
    return hs_op_set_output(op, 0, &value, err);
}

static hs_code evaluate1(void *self, hs_op *op, hs_error *err)
{
    return evaluate(self, op, 0, err);
}

static hs_code evaluate2(void *self, hs_op *op, hs_error *err)
{
    return evaluate(self, op, 1, err);
}

static void counters_build(counters *c, const hs_env *env)
{
    *c = (counters){.graph = hs_graph_new(env), .per_run = 1};
    hs_graph_global_step(c->graph, NULL, &c->step);
    hs_graph_op(c->graph, .name = "inc", .run = inc, .user = c, .writes = HS_NAMES("global_step"));
    hs_graph_op(c->graph, .name = "summary1", .run = evaluate1, .user = c, .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
    hs_graph_op(c->graph, .name = "summary2", .run = evaluate2, .user = c, .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
    for (int i = 0; i < 2; i++)
        c->summaries[i] = hs_summary_new(NULL);
}

static void counters_free(counters *c)
{
    hs_graph_free(c->graph);
    for (int i = 0; i < 2; i++)
        hs_summary_free(c->summaries[i]);
}

static hs_hook every_eight(const stage *s)
{
    return hs_summary_saver(.every_n_steps = 8, .summary_dir = s->directory, .summary_ops = HS_NAMES("summary1"));
}

static void open_counters(stage *s, counters *c, hs_hook hook)
{
    counters_build(c, &s->t.env);
    assert_ok(stage_try(s, hs_graph_backend(c->graph), &hook, 1), &s->err);
}

static void close_counters(stage *s, counters *c)
{
    stage_close(s);
    counters_free(c);
}

/* Options. */

static void bh_047_neither_scaffold_nor_summary_ops(void **state)
{
    stage_refuses(*state, hs_summary_saver(.every_n_steps = 1, .summary_dir = "x"), HS_INVALID_ARGUMENT,
                  "none of scaffold and summary_ops");
}

static void bh_048_both_scaffold_and_summary_ops(void **state)
{
    hs_scaffold *scaffold = hs_scaffold_new(NULL, NULL);
    stage_refuses(
        *state,
        hs_summary_saver(.every_n_steps = 1, .summary_dir = "x", .scaffold = scaffold, .summary_ops = HS_NAMES("s")),
        HS_INVALID_ARGUMENT, "each of scaffold and summary_ops");
    hs_scaffold_free(scaffold);
}

static void bh_049_both_secs_and_steps(void **state)
{
    stage_refuses(
        *state, hs_summary_saver(.every_n_secs = 10, .every_n_steps = 20, .summary_dir = "x", .summary_ops = HS_NAMES("s")),
        HS_INVALID_ARGUMENT, "each of every_n_secs and every_n_steps");
}

static void bh_050_neither_secs_nor_steps(void **state)
{
    stage_refuses(*state, hs_summary_saver(.summary_dir = "x", .summary_ops = HS_NAMES("s")), HS_INVALID_ARGUMENT,
                  "none of every_n_secs and every_n_steps");
}

static void exactly_one_of_directory_and_writer_is_given(void **state)
{
    stage *s = *state;
    hs_summary_writer *writer = hs_summary_writer_open(s->directory, NULL, NULL);
    stage_refuses(s, hs_summary_saver(.every_n_steps = 1, .summary_ops = HS_NAMES("s")), HS_INVALID_ARGUMENT,
                  "none of summary_dir and summary_writer");
    stage_refuses(s,
                  hs_summary_saver(.every_n_steps = 1, .summary_ops = HS_NAMES("s"), .summary_dir = s->directory,
                                   .summary_writer = writer),
                  HS_INVALID_ARGUMENT, "each of summary_dir and summary_writer");
    stage_refuses(s, hs_summary_saver(.every_n_steps = 1, .summary_ops = HS_NAMES(NULL), .summary_dir = s->directory),
                  HS_INVALID_ARGUMENT, "empty list");
    hs_summary_writer_close(writer, NULL);
}

static void bh_076s_a_graph_without_a_global_step(void **state)
{
    stage *s = *state;
    counted c;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_hook hook = every_eight(s);
    hs_code code = stage_try(s, count_calls(&c, hs_graph_backend(graph)), &hook, 1);
    hs_graph_free(graph);
    assert_fails(code, HS_FAILED_PRECONDITION, &s->err, "hook 'summary_saver', begin: the graph has no global step");
    assert_int_equal(c.opens, 0);
    assert_int_equal(test_count_files(s->directory, "events"), 0);
}

/* When. */

static void bh_051_every_eight_steps(void **state)
{
    stage *s = *state;
    counters c;
    open_counters(s, &c, every_eight(s));
    stage_run(s, "inc", 30, 0);
    close_counters(s, &c);
    assert_string_equal(events_text(s->directory), "version start@1 s1=1@1 s1=2@9 s1=3@17 s1=4@25");
    assert_int_equal(c.counts[0], 4);
}

static void bh_052_bh_104s_several_summary_ops(void **state)
{
    stage *s = *state;
    counters c;
    open_counters(
        s, &c,
        hs_summary_saver(.every_n_steps = 8, .summary_dir = s->directory, .summary_ops = HS_NAMES("summary1", "summary2")));
    stage_run(s, "inc", 10, 0);
    close_counters(s, &c);
    assert_string_equal(events_text(s->directory), "version start@1 s1=1@1 s2=2@1 s1=2@9 s2=4@9");
}

static void bh_053_every_half_second(void **state)
{
    stage *s = *state;
    counters c;
    open_counters(s, &c,
                  hs_summary_saver(.every_n_secs = 0.5, .summary_dir = s->directory, .summary_ops = HS_NAMES("summary1")));
    stage_run(s, "inc", 4, 0.5);
    stage_run(s, "inc", 2, 0.1); /* not yet due */
    close_counters(s, &c);
    assert_string_equal(events_text(s->directory), "version start@1 s1=1@1 s1=2@2 s1=3@3 s1=4@4");
}

/* TensorFlow writes START after the first run, at the step it has reached. */
static void bh_099s_start_is_written_before_the_first_run(void **state)
{
    stage *s = *state;
    hs_script_set_step(s->script, 40);
    hs_script_fail_at(s->script, 1, HS_UNAVAILABLE, "lost");
    hs_hook hook =
        hs_summary_saver(.every_n_steps = 8, .summary_dir = s->directory, .summary_ops = HS_NAMES("global_step"));
    stage_open(s, hook);
    assert_int_equal(stage_run_once(s, "train"), HS_UNAVAILABLE);
    hs_session_close(s->session, NULL);
    s->session = NULL;
    assert_string_equal(events_text(s->directory), "version start@41");
}

/* And once more after a recovery (drivers/test_training_roles.c). */
static void bh_099s_start_is_written_once_a_session(void **state)
{
    stage *s = *state;
    counters c;
    open_counters(s, &c, every_eight(s));
    stage_run(s, "inc", 20, 0);
    close_counters(s, &c);
    assert_int_equal(count_of(events_text(s->directory), "start@"), 1);
}

static void bh_099s_start_does_not_wait_for_the_first_summary(void **state)
{
    stage *s = *state;
    counters c;
    open_counters(
        s, &c,
        hs_summary_saver(.when = HS_EVERY_STEPS(8), .summary_dir = s->directory, .summary_ops = HS_NAMES("summary1")));
    stage_run(s, "inc", 9, 0);
    close_counters(s, &c);
    assert_string_equal(events_text(s->directory), "version start@1 s1=1@8");
}

static void bh_100s_the_first_run_fetches_whatever_the_interval(void **state)
{
    stage *s = *state;
    counters c;
    open_counters(s, &c, every_eight(s));
    c.step = 1000; /* another process has trained */
    stage_run(s, "inc", 1, 0);
    assert_int_equal(c.counts[0], 1);
    stage_run(s, "inc", 7, 0);
    assert_int_equal(c.counts[0], 1);
    stage_run(s, "inc", 1, 0);
    assert_int_equal(c.counts[0], 2);
    close_counters(s, &c);
}

static void bh_100s_the_decision_is_made_before_the_run(void **state)
{
    stage *s = *state;
    counters c;
    open_counters(s, &c, every_eight(s));
    stage_run(s, "inc", 8, 0);
    c.step += 100; /* unknown to the hook, which uses the last step that it read */
    stage_run(s, "inc", 1, 0);
    assert_int_equal(c.counts[0], 2);
    close_counters(s, &c);
    assert_string_equal(events_text(s->directory), "version start@1 s1=1@1 s1=2@109");
}

/* TensorFlow uses the step that it read during the run. */
static void bh_101s_the_step_is_read_once_a_run(void **state)
{
    stage *s = *state;
    counters c;
    counted reads;
    counters_build(&c, &s->t.env);
    hs_hook hooks[] = {every_eight(s), hs_stop_at_step(.last_step = 100)};
    assert_ok(stage_try(s, count_calls(&reads, hs_graph_backend(c.graph)), hooks, 2), &s->err);
    stage_run(s, "inc", 1, 0);
    reads.step_reads = 0;
    stage_run(s, "inc", 8, 0); /* one of them fetches */
    assert_int_equal(reads.step_reads, 8);
    close_counters(s, &c);
}

/* Four runs a step: as often as where each is one. */
static void runs_that_make_no_step_do_not_shift_the_schedule(void **state)
{
    stage *s = *state;
    counters c;
    open_counters(s, &c, every_eight(s));
    for (int step = 0; step < 32; step++) {
        c.per_run = 0;
        stage_run(s, "inc", 3, 0);
        c.per_run = 1;
        stage_run(s, "inc", 1, 0);
    }
    close_counters(s, &c);
    assert_string_equal(events_text(s->directory), "version start@1 s1=1@0 s1=2@7 s1=3@14 s1=4@21 s1=5@28");
}

/* The decision is made for the last step plus one, whatever earlier runs have made. */
static void runs_that_change_their_steps_are_followed(void **state)
{
    stage *s = *state;
    counters c;
    open_counters(s, &c, every_eight(s));
    stage_run(s, "inc", 9, 0); /* 1, 9 */
    c.per_run = 4;
    stage_run(s, "inc", 6, 0); /* 13, 17, 21, 25, 29, 33 */
    close_counters(s, &c);
    assert_string_equal(events_text(s->directory), "version start@1 s1=1@1 s1=2@9 s1=3@21 s1=4@33");
}

static void runs_of_several_steps(void **state)
{
    stage *s = *state;
    counters c;
    open_counters(s, &c, every_eight(s));
    c.per_run = 5;
    stage_run(s, "inc", 6, 0); /* 5, 10, 15, 20, 25, 30 */
    close_counters(s, &c);
    assert_string_equal(events_text(s->directory), "version start@1 s1=1@5 s1=2@20");
}

/* Ops and directories. */

static void bh_104s_a_scaffolds_summary_op(void **state)
{
    stage *s = *state;
    counters c;
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.summary_op = "summary2"), &s->err);
    open_counters(s, &c, hs_summary_saver(.every_n_steps = 1, .summary_dir = s->directory, .scaffold = scaffold));
    stage_run(s, "inc", 2, 0);
    close_counters(s, &c);
    hs_scaffold_free(scaffold);
    assert_string_equal(events_text(s->directory), "version start@1 s2=2@1 s2=4@2");
}

static void bh_104s_a_scaffold_without_a_summary_op(void **state)
{
    stage *s = *state;
    counters c;
    hs_scaffold *scaffold = hs_scaffold_new(NULL, &s->err);
    open_counters(s, &c, hs_summary_saver(.every_n_steps = 1, .summary_dir = s->directory, .scaffold = scaffold));
    stage_run(s, "inc", 3, 0);
    close_counters(s, &c);
    hs_scaffold_free(scaffold);
    assert_string_equal(events_text(s->directory), "version start@1");
    assert_int_equal(c.counts[0], 0);
}

/* The steps that it missed are not counted as one run. */
static void a_hook_that_is_called_again_continues_its_schedule(void **state)
{
    static const hs_string empty = {0};
    stage *s = *state;
    hs_tensor none = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &(double){0}), summary = hs_tensor_of(HS_STRING, HS_SCALAR, &empty);
    hs_hook hook = hs_summary_saver(.every_n_steps = 100, .summary_dir = s->directory, .summary_ops = HS_NAMES("summary"));
    assert_ok(hs_script_constant(s->script, "summary", &none), &s->err);
    stage_open(s, hs_hook_best_effort(hook, 0));
    stage_run(s, "train", 66, 0);
    assert_ok(hs_script_constant(s->script, "summary", &summary), &s->err);
    test_env_advance(&s->t, 2);
    stage_run(s, "train", 34, 0);
    assert_lacks(hs_script_last_run(s->script), "summary");
    stage_run(s, "train", 1, 0);
    assert_contains(hs_script_last_run(s->script), "summary");
    stage_close(s);
}

static void an_empty_summary_writes_no_event(void **state)
{
    stage *s = *state;
    counters c;
    open_counters(s, &c, every_eight(s));
    c.silent = true;
    stage_run(s, "inc", 1, 0);
    close_counters(s, &c);
    assert_string_equal(events_text(s->directory), "version start@1");
}

static void bh_105s_a_given_writer_is_flushed_and_stays_open(void **state)
{
    stage *s = *state;
    counters c;
    hs_summary_writer *writer = hs_summary_writer_open(s->directory, NULL, &s->err);
    open_counters(s, &c,
                  hs_summary_saver(.every_n_steps = 8, .summary_writer = writer, .summary_ops = HS_NAMES("summary1")));
    stage_run(s, "inc", 1, 0);
    close_counters(s, &c);
    assert_string_equal(events_text(s->directory), "version start@1 s1=1@1");
    assert_ok(hs_summary_writer_scalar(writer, "own", 1, 2, &s->err), &s->err);
    assert_ok(hs_summary_writer_close(writer, &s->err), &s->err);
    assert_string_equal(events_text(s->directory), "version start@1 s1=1@1 own=1@2");
}

static void bh_105s_used_again_it_starts_again(void **state)
{
    stage *s = *state;
    counters c;
    hs_summary_writer *writer = hs_summary_writer_open(s->directory, NULL, &s->err);
    hs_hook hook =
        hs_hook_hold(hs_summary_saver(.every_n_steps = 8, .summary_writer = writer, .summary_ops = HS_NAMES("summary1")));
    open_counters(s, &c, hook);
    stage_run(s, "inc", 2, 0);
    stage_close(s);
    assert_ok(stage_try(s, hs_graph_backend(c.graph), &hook, 1), &s->err);
    stage_run(s, "inc", 1, 0);
    close_counters(s, &c);
    hs_hook_free(hook);
    assert_ok(hs_summary_writer_close(writer, &s->err), &s->err);
    assert_string_equal(events_text(s->directory), "version start@1 s1=1@1 start@3 s1=2@3");
}

static void hooks_of_one_directory_share_a_file(void **state)
{
    stage *s = *state;
    counters c;
    counters_build(&c, &s->t.env);
    hs_hook hooks[] = {every_eight(s), hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 100)};
    assert_ok(stage_try(s, hs_graph_backend(c.graph), hooks, 2), &s->err);
    stage_run(s, "inc", 1, 0);
    close_counters(s, &c);
    assert_int_equal(test_count_files(s->directory, "events"), 1);
    assert_string_equal(events_text(s->directory), "version start@1 graph meta checkpoint@0 s1=1@1 checkpoint@1");
}

/* Failures. */

static void a_value_that_is_not_a_summary_is_refused(void **state)
{
    stage *s = *state;
    stage_open(s,
               hs_summary_saver(.every_n_steps = 1, .summary_dir = s->directory, .summary_ops = HS_NAMES("global_step")));
    assert_fails(stage_run_once(s, "train"), HS_INVALID_ARGUMENT, &s->err,
                 "summary op 'global_step' does not return a string (a serialized Summary)");
}

static void an_unknown_op_is_refused(void **state)
{
    stage *s = *state;
    stage_open(s, hs_summary_saver(.every_n_steps = 1, .summary_dir = s->directory, .summary_ops = HS_NAMES("unknown")));
    assert_fails(stage_run_once(s, "train"), HS_NOT_FOUND, &s->err, "hook 'summary_saver', before_run");
    assert_contains(s->err.message, "'unknown'");
}

/* The disk fails at the end of a run of one step. */
static void end_on_a_bad_disk(stage *s, hs_hook hook)
{
    counters c;
    open_counters(s, &c, hook);
    stage_run(s, "inc", 1, 0);
    s->t.fail_file_at = s->t.file_calls + 1;
    s->t.fail_file_on = true;
    s->outcome = hs_session_close(s->session, &s->err);
    s->session = NULL;
    counters_free(&c);
}

static void a_disk_that_fails_is_counted_and_no_failure(void **state)
{
    stage *s = *state;
    end_on_a_bad_disk(s, every_eight(s));
    assert_int_equal(s->err.code, HS_OK);
    assert_int_equal(s->outcome.reason, HS_REASON_CLOSED);
    assert_int_equal(s->outcome.failing_hooks, 1);
    assert_true(s->outcome.failures > 0);
    assert_contains(s->t.log, "training continues");
}

static void a_writer_that_is_to_fail_makes_the_outcome_a_failure(void **state)
{
    stage *s = *state;
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &s->t.env, .on_error = HS_WRITER_FAILS);
    hs_summary_writer *writer = hs_summary_writer_open(s->directory, &options, &s->err);
    end_on_a_bad_disk(s,
                      hs_summary_saver(.every_n_steps = 8, .summary_writer = writer, .summary_ops = HS_NAMES("summary1")));
    assert_says(&s->err, HS_RESOURCE_EXHAUSTED, "injected");
    assert_int_equal(s->outcome.reason, HS_REASON_FAILED);
    assert_string_equal(s->outcome.hook, "summary_saver");
    assert_int_equal(s->outcome.error.os_error, ENOSPC);
    hs_summary_writer_close(writer, NULL);
}

static hs_code run_twice(test_env *t, void *user)
{
    hs_error err = {0};
    counters c;
    const stage *s = user;
    test_tolerate(t, "event file in "); /* it is retried */
    test_tolerate(t, "'summary writer' failed ");
    events_remove(s->directory);
    counters_build(&c, &t->env);
    hs_hook hook = hs_summary_saver(.every_n_steps = 1, .summary_dir = s->directory, .summary_ops = HS_NAMES("summary1"));
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_graph_backend(c.graph), &options, &err);
    for (int i = 0; i < 2 && session && !err.code; i++)
        hs_session_run(session, "inc", &err);
    hs_session_close(session, &err);
    counters_free(&c);
    return err.code;
}

static void each_allocation_and_each_file_call(void **state)
{
    test_each_allocation(run_twice, *state);
    test_each_file_call(run_twice, NULL, ENOSPC, false, *state);
    test_each_file_call(run_twice, NULL, EIO, true, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(bh_047_neither_scaffold_nor_summary_ops),
        with_stage(bh_048_both_scaffold_and_summary_ops),
        with_stage(bh_049_both_secs_and_steps),
        with_stage(bh_050_neither_secs_nor_steps),
        with_stage(exactly_one_of_directory_and_writer_is_given),
        with_stage(bh_076s_a_graph_without_a_global_step),
        with_stage(bh_051_every_eight_steps),
        with_stage(bh_052_bh_104s_several_summary_ops),
        with_stage(bh_053_every_half_second),
        with_stage(bh_099s_start_is_written_before_the_first_run),
        with_stage(bh_099s_start_is_written_once_a_session),
        with_stage(bh_099s_start_does_not_wait_for_the_first_summary),
        with_stage(bh_100s_the_first_run_fetches_whatever_the_interval),
        with_stage(bh_100s_the_decision_is_made_before_the_run),
        with_stage(bh_101s_the_step_is_read_once_a_run),
        with_stage(runs_that_make_no_step_do_not_shift_the_schedule),
        with_stage(runs_that_change_their_steps_are_followed),
        with_stage(runs_of_several_steps),
        with_stage(bh_104s_a_scaffolds_summary_op),
        with_stage(bh_104s_a_scaffold_without_a_summary_op),
        with_stage(a_hook_that_is_called_again_continues_its_schedule),
        with_stage(an_empty_summary_writes_no_event),
        with_stage(bh_105s_a_given_writer_is_flushed_and_stays_open),
        with_stage(bh_105s_used_again_it_starts_again),
        with_stage(hooks_of_one_directory_share_a_file),
        with_stage(a_value_that_is_not_a_summary_is_refused),
        with_stage(an_unknown_op_is_refused),
        with_stage(a_disk_that_fails_is_counted_and_no_failure),
        with_stage(a_writer_that_is_to_fail_makes_the_outcome_a_failure),
        with_stage(each_allocation_and_each_file_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
