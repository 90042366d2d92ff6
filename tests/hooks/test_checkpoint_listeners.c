/* SPDX-License-Identifier: Apache-2.0 */
/* The listeners of a checkpoint saver. */
#include "hooks/stage.h"
#include "summary/events.h"

/* A listener that records its calls: "a.before@3". */
typedef struct {
    stage *s;
    const char *name;
    bool stop;           /* requests a stop */
    const char *fail_in; /* fails in this call */
} listener;

static hs_code record_call(const listener *l, const char *what, int64_t step, hs_error *err)
{
    char word[64];
    if (step < 0)
        snprintf(word, sizeof word, "%s.%s", l->name, what);
    else
        snprintf(word, sizeof word, "%s.%s@%lld", l->name, what, (long long)step);
    hs_script_note(l->s->script, word);
    return l->fail_in && strcmp(l->fail_in, what) == 0 ? hs_error_set(err, HS_ABORTED, "had enough") : HS_OK;
}

static hs_code l_begin(void *self, hs_error *err)
{
    return record_call(self, "begin", -1, err);
}

static hs_code l_before(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    (void)session;
    return record_call(self, "before", step, err);
}

static hs_code l_after(void *self, hs_raw_session *session, int64_t step, bool *request_stop, hs_error *err)
{
    (void)session;
    const listener *l = self;
    assert_false(*request_stop);
    *request_stop = l->stop;
    return record_call(l, "after", step, err);
}

static hs_code l_end(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    (void)session;
    return record_call(self, "end", step, err);
}

static const hs_saver_listener_ops listener_ops =
    HS_INIT(hs_saver_listener_ops, .begin = l_begin, .before_save = l_before, .after_save = l_after, .end = l_end);

/* The hook with n listeners, saving every step. */
static hs_hook listened(const stage *s, listener *listeners, size_t n)
{
    hs_saver_listener list[3] = {{.ops = NULL}};
    for (size_t i = 0; i < n; i++)
        list[i] = (hs_saver_listener){&listener_ops, &listeners[i]};
    return hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .listeners = list);
}

/* The step that a session on the directory begins with. */
static int64_t step_of_second_session(stage *s)
{
    hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = s->directory);
    hs_script_set_step(s->script, 0);
    hs_session *session = hs_session_open(hs_script_backend(s->script), &options, &s->err);
    int64_t step = hs_session_global_step(session, NULL);
    hs_session_close(session, NULL);
    return step;
}

static void bh_024_a_listener_and_a_scaffold(void **state)
{
    stage *s = *state;
    listener l = {s, "a", false, NULL};
    const hs_saver_listener given = {&listener_ops, &l};
    hs_scaffold *scaffold = hs_scaffold_new(NULL, &s->err);
    hs_hook hook = hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .scaffold = scaffold,
                                       .listeners = HS_LISTENERS(given));
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook), .scaffold = scaffold);
    s->session = hs_session_open(hs_script_backend(s->script), &options, &s->err);
    assert_non_null(s->session);
    stage_run(s, "train", 2, 0);
    assert_int_equal(hs_session_global_step(s->session, NULL), 2);
    stage_close(s);
    hs_scaffold_free(scaffold);
    assert_string_equal(hs_script_calls(s->script), "a.begin a.before@0 a.after@0 run a.before@1 a.after@1 "
                                                    "run a.before@2 a.after@2 a.end@2");
}

static void bh_026_a_listener_and_the_default_saver(void **state)
{
    stage *s = *state;
    listener l = {s, "a", false, NULL};
    stage_open(s, listened(s, &l, 1));
    stage_run(s, "train", 2, 0);
    stage_close(s);
    assert_string_equal(hs_script_calls(s->script), "a.begin a.before@0 a.after@0 run a.before@1 a.after@1 "
                                                    "run a.before@2 a.after@2 a.end@2");
    assert_int_equal(step_of_second_session(s), 2);
}

static void bh_027_bh_085s_two_listeners_in_their_order(void **state)
{
    stage *s = *state;
    listener l[2] = {{s, "a", false, NULL}, {s, "b", false, NULL}};
    stage_open(s, listened(s, l, 2));
    stage_run(s, "train", 2, 0);
    stage_close(s);
    assert_string_equal(hs_script_calls(s->script), "a.begin b.begin a.before@0 b.before@0 a.after@0 b.after@0 "
                                                    "run a.before@1 b.before@1 a.after@1 b.after@1 "
                                                    "run a.before@2 b.before@2 a.after@2 b.after@2 a.end@2 b.end@2");
    assert_int_equal(step_of_second_session(s), 2);
}

static void bh_025_a_listener_stops_the_training(void **state)
{
    stage *s = *state;
    listener l = {s, "a", false, NULL};
    stage_open(s, listened(s, &l, 1));
    stage_run(s, "train", 2, 0);
    assert_false(hs_session_should_stop(s->session));
    l.stop = true;
    stage_run(s, "train", 1, 0);
    assert_true(hs_session_should_stop(s->session));
    stage_close(s);
    assert_int_equal(s->outcome.reason, HS_REASON_STOPPED);
    assert_string_equal(s->outcome.hook, "checkpoint_saver");
}

static void bh_025_a_stop_after_the_save_at_the_creation_counts(void **state)
{
    stage *s = *state;
    listener l = {s, "a", true, NULL};
    stage_open(s, listened(s, &l, 1));
    assert_true(hs_session_should_stop(s->session));
    stage_close(s);
    assert_int_equal(s->outcome.step, 0);
    assert_int_equal(hs_outcome_exit_code(&s->outcome), 0);
    assert_string_equal(s->outcome.hook, "checkpoint_saver");
}

/* A stop at the end has no effect, because the caller has closed the session. */
static void a_stop_after_the_last_save_has_no_effect(void **state)
{
    stage *s = *state;
    listener l = {s, "a", false, NULL};
    const hs_saver_listener given = {&listener_ops, &l};
    stage_open(s,
               hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 100, .listeners = HS_LISTENERS(given)));
    stage_run(s, "train", 1, 0);
    l.stop = true;
    stage_close(s);
    assert_contains(hs_script_calls(s->script), "a.after@1 a.end@1");
    assert_int_equal(s->outcome.reason, HS_REASON_CLOSED);
    assert_string_equal(s->outcome.hook, "");
}

static void bh_084s_after_a_stop_the_other_listeners_are_called(void **state)
{
    stage *s = *state;
    listener l[2] = {{s, "a", true, NULL}, {s, "b", false, NULL}};
    stage_open(s, listened(s, l, 2));
    assert_contains(hs_script_calls(s->script), "a.after@0 b.after@0");
    assert_true(hs_session_should_stop(s->session));
    stage_close(s);
    assert_contains(hs_script_calls(s->script), "a.end@0 b.end@0");
}

/* The files that exist when a listener is called. */

static hs_code not_there_yet(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    (void)session, (void)err;
    stage *s = self;
    assert_int_equal(latest_step(s->directory), step - 1);
    return HS_OK;
}

static hs_code all_there(void *self, hs_raw_session *session, int64_t step, bool *request_stop, hs_error *err)
{
    (void)request_stop;
    stage *s = self;
    char event[32];
    hs_summary_writer *writer;
    hs_code code = hs_raw_session_summary_writer(session, s->directory, &writer, err);
    if (!code)
        code = hs_summary_writer_flush(writer, false, err);
    snprintf(event, sizeof event, " checkpoint@%lld", (long long)step);
    assert_contains(events_text(s->directory), event);
    assert_int_equal(latest_step(s->directory), step);
    hs_script_note(s->script, "seen");
    return code;
}

static void bh_085s_before_the_files_and_after_the_event(void **state)
{
    static const hs_saver_listener_ops ops =
        HS_INIT(hs_saver_listener_ops, .before_save = not_there_yet, .after_save = all_there);
    stage *s = *state;
    const hs_saver_listener given = {&ops, s};
    stage_open(s,
               hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .listeners = HS_LISTENERS(given)));
    stage_run(s, "train", 2, 0);
    stage_close(s);
    assert_string_equal(hs_script_calls(s->script), "seen run seen run seen");
}

/* TensorFlow opens the event file in begin, also for a session that is not opened then. */
static void bh_093s_begin_checks_the_step_and_calls_the_listeners(void **state)
{
    stage *s = *state;
    listener l = {s, "a", false, NULL};
    hs_hook hooks[] = {listened(s, &l, 1), hs_stop_at_step(.last_step = -1)};
    assert_int_equal(stage_try(s, hs_script_backend(s->script), hooks, 2), HS_INVALID_ARGUMENT);
    assert_string_equal(hs_script_calls(s->script), "a.begin");
    assert_int_equal(test_count_files(s->directory, "tfevents"), 0);
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_hook hook = listened(s, &l, 1);
    assert_int_equal(stage_try(s, hs_graph_backend(graph), &hook, 1), HS_FAILED_PRECONDITION);
    assert_string_equal(hs_script_calls(s->script), "a.begin"); /* the others are not called */
    hs_graph_free(graph);
}

/* Failures. */

static hs_code open_failing_in(stage *s, listener *l, const char *where)
{
    *l = (listener){s, "a", false, where};
    hs_hook hook = listened(s, l, 1);
    return stage_try(s, hs_script_backend(s->script), &hook, 1);
}

static void a_begin_that_fails(void **state)
{
    stage *s = *state;
    listener l;
    assert_fails(open_failing_in(s, &l, "begin"), HS_ABORTED, &s->err,
                 "hook 'checkpoint_saver', begin: listener 0, begin: had enough");
}

static void a_before_save_that_fails_saves_nothing(void **state)
{
    stage *s = *state;
    listener l;
    assert_fails(open_failing_in(s, &l, "before"), HS_ABORTED, &s->err, "listener 0, before_save: had enough");
    assert_int_equal(latest_step(s->directory), -1);
}

static void a_failed_after_save_keeps_the_checkpoint(void **state)
{
    stage *s = *state;
    listener l;
    assert_fails(open_failing_in(s, &l, "after"), HS_ABORTED, &s->err, "listener 0, after_save: had enough");
    assert_int_equal(latest_step(s->directory), 0);
}

/* The listener's own file fails, not the checkpoint's. */

static hs_code copy_before(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    (void)self, (void)session;
    return step ? hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no space for a copy") : HS_OK;
}

static hs_code copy_after(void *self, hs_raw_session *session, int64_t step, bool *request_stop, hs_error *err)
{
    (void)request_stop;
    return copy_before(self, session, step, err);
}

static void run_with_failing_listener(stage *s, const hs_saver_listener_ops *ops, int64_t saved)
{
    const hs_saver_listener given = {ops, NULL};
    stage_open(s,
               hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .listeners = HS_LISTENERS(given)));
    assert_fails(stage_run_once(s, "train"), HS_RESOURCE_EXHAUSTED, &s->err, "no space for a copy");
    s->outcome = hs_session_close(s->session, &s->err);
    s->session = NULL;
    assert_int_equal(s->outcome.last_saved_step, saved);
    assert_int_equal(latest_step(s->directory), saved);
}

static void a_before_save_without_space_ends_the_run(void **state)
{
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .before_save = copy_before);
    run_with_failing_listener(*state, &ops, 0);
}

static void an_after_save_without_space_ends_the_run(void **state)
{
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .after_save = copy_after);
    run_with_failing_listener(*state, &ops, 1);
}

static void an_end_that_fails(void **state)
{
    stage *s = *state;
    listener l;
    assert_ok(open_failing_in(s, &l, "end"), &s->err);
    stage_run(s, "train", 1, 0);
    s->outcome = hs_session_close(s->session, &s->err);
    s->session = NULL;
    assert_says(&s->err, HS_ABORTED, "listener 0, end: had enough");
    assert_int_equal(s->outcome.reason, HS_REASON_FAILED);
    assert_int_equal(s->outcome.last_saved_step, 1);
}

static void after_a_failed_run_end_is_not_called(void **state)
{
    stage *s = *state;
    listener l;
    hs_script_fail_at(s->script, 1, HS_INTERNAL, "lost");
    assert_ok(open_failing_in(s, &l, NULL), &s->err);
    assert_int_equal(stage_run_once(s, "train"), HS_INTERNAL);
    hs_session_close(s->session, NULL);
    s->session = NULL;
    assert_string_equal(hs_script_calls(s->script), "a.begin a.before@0 a.after@0 run");
}

static void any_function_may_be_missing(void **state)
{
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops);
    stage *s = *state;
    const hs_saver_listener given = {&ops, NULL};
    stage_open(s,
               hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .listeners = HS_LISTENERS(given)));
    stage_run(s, "train", 1, 0);
    stage_close(s);
}

static void invalid_listeners_are_refused(void **state)
{
    static const hs_saver_listener_ops no_size = {.begin = l_begin};
    stage *s = *state;
    stage_refuses(
        s, hs_checkpoint_saver(.checkpoint_dir = "x", .every_n_steps = 1, .listeners = HS_LISTENERS({&no_size, NULL})),
        HS_INVALID_ARGUMENT, "HS_INIT(hs_saver_listener_ops");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(bh_024_a_listener_and_a_scaffold),
        with_stage(bh_026_a_listener_and_the_default_saver),
        with_stage(bh_027_bh_085s_two_listeners_in_their_order),
        with_stage(bh_025_a_listener_stops_the_training),
        with_stage(bh_025_a_stop_after_the_save_at_the_creation_counts),
        with_stage(a_stop_after_the_last_save_has_no_effect),
        with_stage(bh_084s_after_a_stop_the_other_listeners_are_called),
        with_stage(bh_085s_before_the_files_and_after_the_event),
        with_stage(bh_093s_begin_checks_the_step_and_calls_the_listeners),
        with_stage(a_begin_that_fails),
        with_stage(a_before_save_that_fails_saves_nothing),
        with_stage(a_failed_after_save_keeps_the_checkpoint),
        with_stage(a_before_save_without_space_ends_the_run),
        with_stage(an_after_save_without_space_ends_the_run),
        with_stage(an_end_that_fails),
        with_stage(after_a_failed_run_end_is_not_called),
        with_stage(any_function_may_be_missing),
        with_stage(invalid_listeners_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
