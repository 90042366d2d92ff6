/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in hooks around steps that the caller computes. */
#include "session/own.h"
#include "session/session.h"
#include "support/clock.h"

#include <math.h>
#include <signal.h>

/* Opens a session that restores from the directory and saves every `steps` steps. */
static void open_saving(own *o, int64_t steps)
{
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = steps);
    own_open(o, HS_SESSION_OPTIONS(.checkpoint_dir = o->directory), &saver, 1);
}

static void nan_stops_the_loop_and_is_not_saved(void **state)
{
    own *o = *state;
    const hs_hook hooks[] = {hs_nan_tensor(.tensor = "loss"),
                             hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1)};
    own_open(o, NULL, hooks, 2);
    assert_int_equal(own_loop(o, 2), 2);
    assert_true(hs_step_begin(o->session));
    o->loss = NAN;
    assert_int_not_equal(hs_step_end(o->session), HS_OK);
    assert_false(hs_step_begin(o->session));
    assert_int_equal(own_close(o)->reason, HS_REASON_FAILED);
    assert_string_equal(o->outcome.hook, "nan_tensor");
    assert_true(own_saved(o, "weight") == 3);
}

static void losses_are_logged(void **state)
{
    own *o = *state;
    own_open_hook(o, hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 2));
    assert_int_equal(own_loop(o, 3), 3);
    assert_contains(o->t.log, "loss = -1");
    assert_lacks(o->t.log, "loss = -3");
    assert_contains(o->t.log, "loss = -6");
}

static hs_code summarize(void *self, hs_op *op, hs_error *err)
{
    static hs_string text;
    hs_summary *summary = self;
    hs_summary_clear(summary);
    hs_summary_scalar(summary, "loss", hs_tensor_number(hs_op_input(op, 0), 0), err);
    text = hs_summary_serialized(summary);
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, &text);
    return hs_op_set_output(op, 0, &value, err);
}

static size_t count_of(const char *text, size_t bytes, const char *part)
{
    size_t n = 0, length = strlen(part);
    for (size_t i = 0; i + length <= bytes; i++)
        n += memcmp(text + i, part, length) == 0;
    return n;
}

static void summaries_are_written(void **state)
{
    own *o = *state;
    size_t bytes;
    hs_summary *summary = hs_summary_new(NULL);
    hs_graph_op(o->graph, .name = "summary", .run = summarize, .user = summary, .inputs = HS_NAMES("loss"),
                .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
    hs_summary_writer *writer = hs_summary_writer_open(o->directory, NULL, &o->err);
    char path[4096];
    snprintf(path, sizeof path, "%s", hs_summary_writer_path(writer));
    own_open_hook(o, hs_summary_saver(.summary_ops = HS_NAMES("summary"), .summary_writer = writer, .every_n_steps = 2));
    assert_int_equal(own_loop(o, 4), 4);
    own_close(o);
    assert_ok(hs_summary_writer_close(writer, &o->err), &o->err);
    char *events = test_read_file(path, &bytes);
    assert_int_equal(count_of(events, bytes, "loss"), 2); /* in the first step, and two steps later */
    free(events);
    hs_summary_free(summary);
}

static void checkpoints_hold_the_step_that_was_ended(void **state)
{
    own *o = *state;
    open_saving(o, 2);
    assert_int_equal(own_loop(o, 2), 2);
    assert_true(hs_step_begin(o->session));
    own_compute(o); /* not in the checkpoint */
    assert_true(own_saved(o, "weight") == 3);
    assert_ok(hs_step_end(o->session), &o->err);
    assert_int_equal(own_close(o)->last_saved_step, 3);
    assert_true(own_saved(o, "weight") == 6);
}

/* The losses are exactly those of an uninterrupted loop, wherever it was closed. */
static void a_resumed_loop_has_exactly_the_same_losses(void **state)
{
    own *o = *state;
    open_saving(o, 3);
    assert_int_equal(own_loop(o, 4), 4);
    own_close(o);
    own_forget(o);
    open_saving(o, 3);
    assert_int_equal(hs_session_global_step(o->session, NULL), 4);
    assert_int_equal(o->position, 4);
    assert_int_equal(own_loop(o, 2), 2);
    assert_true(o->loss == -21);
    assert_int_equal(own_close(o)->step, 6);
}

static void a_loop_that_is_done_makes_no_step(void **state)
{
    own *o = *state;
    for (int i = 0; i < 2; i++) {
        const hs_hook hooks[] = {hs_stop_at_step(.last_step = 2),
                                 hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 9)};
        own_open(o, HS_SESSION_OPTIONS(.checkpoint_dir = o->directory), hooks, 2);
        assert_int_equal(own_loop(o, 9), i == 0 ? 2 : 0);
        assert_int_equal(own_close(o)->reason, i == 0 ? HS_REASON_STOPPED : HS_REASON_ALREADY_DONE);
    }
}

/* Wherever it was closed, the resumed loop ends at the same last step. */
static void stop_at_step_counts_restored_steps(void **state)
{
    own *o = *state;
    for (int64_t at = 0; at <= 3; at++) {
        own_forget(o);
        hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 9);
        own_open_hook(o, saver); /* starts at step 0 again */
        own_loop(o, (int)at);
        own_close(o);
        const hs_hook hooks[] = {hs_stop_at_step(.last_step = 3)};
        own_open(o, HS_SESSION_OPTIONS(.checkpoint_dir = o->directory), hooks, 1);
        assert_int_equal(own_loop(o, 9), 3 - at);
        assert_int_equal(own_close(o)->step, 3);
        assert_true(o->weight == 6);
    }
}

/* The loop continues without the hook. */
static void hooks_of_best_effort_may_fail(void **state)
{
    own *o = *state;
    own_probe(o, a, .fails_in = PROBE_BEFORE, .fails_at = 2);
    own_probe(o, b, .fails_in = PROBE_AFTER, .fails_at = 1);
    const hs_hook hooks[] = {hs_hook_best_effort(probe_hook(&o->a), 0), hs_hook_best_effort(probe_hook(&o->b), 0)};
    own_open(o, NULL, hooks, 2);
    assert_int_equal(own_loop(o, 4), 4);
    assert_int_equal(own_close(o)->reason, HS_REASON_CLOSED);
    assert_int_equal(o->outcome.failing_hooks, 2);
    assert_int_equal(o->outcome.failures, 2);
}

/* Closing during a step. */

static void left_in_the_middle_it_is_not_saved(void **state)
{
    own *o = *state;
    open_saving(o, 9);
    assert_int_equal(own_loop(o, 2), 2);
    assert_true(hs_step_begin(o->session));
    own_compute(o);
    own_close(o);
    assert_int_equal(o->outcome.reason, HS_REASON_STOPPED);
    assert_true(o->outcome.interrupted);
    assert_int_equal(hs_outcome_exit_code(&o->outcome), 1);
    assert_int_equal(o->outcome.step, 2);
    assert_int_equal(o->outcome.last_saved_step, 0);
    assert_contains(o->t.log, "step 2: not saved: the session was closed before hs_step_end");
    assert_true(own_saved(o, "weight") == 0);
}

static void a_step_that_is_left_is_logged(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    assert_int_equal(own_loop(o, 4), 4);
    assert_true(hs_step_begin(o->session));
    own_close(o);
    assert_contains(o->t.log, "WARNING: step 5 discarded: the session was closed before hs_step_end");
    test_env_clear_log(&o->t);
    own_open_probes(o, NULL);
    assert_int_equal(own_loop(o, 2), 2);
    own_close(o);
    assert_lacks(o->t.log, "discarded");
}

static void left_in_the_middle_after_a_stop_it_is_interrupted_and_not_saved(void **state)
{
    own *o = *state;
    open_saving(o, 9);
    assert_int_equal(own_loop(o, 2), 2);
    assert_true(hs_step_begin(o->session));
    hs_session_interrupt(o->session);
    own_close(o);
    assert_int_equal(o->outcome.reason, HS_REASON_STOPPED);
    assert_int_not_equal(o->outcome.interrupted, 0);
    assert_int_equal(hs_outcome_exit_code(&o->outcome), 1);
}

/* The checkpoint saved just before is the state to resume from. */
static void left_in_the_middle_of_the_step_after_a_save_it_is_resumable(void **state)
{
    own *o = *state;
    open_saving(o, 2);
    assert_int_equal(own_loop(o, 2), 2);
    assert_true(hs_step_begin(o->session));
    hs_session_interrupt(o->session);
    own_compute(o);
    own_close(o);
    assert_int_equal(hs_outcome_exit_code(&o->outcome), 75);
    assert_true(own_saved(o, "weight") == 3);
}

static void the_callers_own_error_in_the_middle_counts(void **state)
{
    own *o = *state;
    open_saving(o, 9);
    assert_true(hs_step_begin(o->session));
    hs_session_fail(o->session, test_error(HS_DATA_LOSS, "the file is damaged"));
    own_close(o);
    assert_says(&o->err, HS_DATA_LOSS, "the file is damaged");
}

/* Signals. */

static void a_signal_in_the_middle_ends_the_loop_with_its_state_saved(void **state)
{
    own *o = *state;
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 9);
    own_open(o, HS_SESSION_OPTIONS(.signals = true), &saver, 1);
    own_step(o);
    assert_true(hs_step_begin(o->session));
    raise(SIGTERM);
    assert_true(hs_session_poll(o->session));
    own_compute(o);
    assert_ok(hs_step_end(o->session), &o->err);
    assert_false(hs_step_begin(o->session));
    own_close(o);
    assert_int_equal(o->outcome.signal, SIGTERM);
    assert_int_equal(o->outcome.last_saved_step, 2);
    assert_int_equal(hs_outcome_exit_code(&o->outcome), 75);
    assert_true(own_saved(o, "weight") == 3);
}

static void after_a_second_signal_nothing_is_saved(void **state)
{
    own *o = *state;
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 9);
    own_open(o, HS_SESSION_OPTIONS(.signals = true), &saver, 1);
    assert_true(hs_step_begin(o->session));
    raise(SIGTERM);
    atomic_fetch_add(clock_ahead_ns, 600000000); /* otherwise both count as one signal */
    raise(SIGINT);
    assert_ok(hs_step_end(o->session), &o->err);
    assert_false(hs_step_begin(o->session));
    own_close(o);
    assert_int_equal(o->outcome.last_saved_step, 0);
    assert_int_equal(hs_outcome_exit_code(&o->outcome), 128 + SIGTERM);
}

static void the_session_knows_the_time_until_the_kill(void **state)
{
    own *o = *state;
    own_open(o, HS_SESSION_OPTIONS(.signals = true, .signal_grace_secs = 20), NULL, 0);
    assert_true(hs__grace_left_secs(o->session) == HS_NEVER);
    raise(SIGTERM);
    atomic_fetch_add(clock_ahead_ns, 5000000000); /* before a hook looks */
    double left = hs__grace_left_secs(o->session);
    assert_true(left > 5 && left <= 15);
    test_env_advance(&o->t, 3);
    assert_true(hs__grace_left_secs(o->session) <= left - 3);
    test_env_advance(&o->t, 30);
    assert_true(hs__grace_left_secs(o->session) == 0);
    own_close(o);
}

static void after_a_second_signal_no_time_remains(void **state)
{
    own *o = *state;
    own_open(o, HS_SESSION_OPTIONS(.signals = true, .signal_grace_secs = HS_NEVER), NULL, 0);
    raise(SIGTERM);
    assert_true(hs__grace_left_secs(o->session) == HS_NEVER);
    atomic_fetch_add(clock_ahead_ns, 600000000);
    raise(SIGINT);
    assert_true(hs__grace_left_secs(o->session) == 0);
    own_close(o);
}

static void without_signals_a_request_leaves_30_seconds(void **state)
{
    own *o = *state;
    own_open(o, NULL, NULL, 0);
    assert_true(hs__grace_left_secs(o->session) == HS_NEVER);
    hs_session_interrupt(o->session);
    assert_true(hs__grace_left_secs(o->session) == 30);
    test_env_advance(&o->t, 4);
    assert_true(hs__grace_left_secs(o->session) == 26);
    own_close(o);
}

/* The background. */

/* The library is not notified of the program's writes between steps, so a copy that overlaps a step would mix two steps. */
static void copies_are_of_one_step(own *o, bool announces)
{
    enum { LARGE = 1 << 20, STEPS = 8 };
    double *large = calloc(LARGE, sizeof *large), *back = calloc(LARGE, sizeof *large);
    hs_graph_variable(o->graph, "large", HS_DOUBLE, HS_SHAPE(LARGE), large);
    own_open_hook(o, hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1, .background = true,
                                         .overlap = !announces, .busy = HS_BUSY_WAIT));
    for (int step = 1; step <= STEPS; step++) {
        assert_true(hs_step_begin(o->session));
        if (announces)
            hs_step_before_update(o->session);
        for (size_t i = 0; i < LARGE; i++)
            large[i] = step;
        assert_ok(hs_step_end(o->session), &o->err);
        if (!announces)
            large[LARGE - 1] = -1; /* after the end */
    }
    hs_session_fail(o->session, test_error(HS_INTERNAL, "no last save"));
    own_close(o);
    char *path = hs_checkpoint_latest(NULL, o->directory, NULL, &o->err);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, path, &o->err);
    assert_ok(hs_checkpoint_read(reader, "large", back, LARGE * sizeof *back, &o->err), &o->err);
    for (size_t i = 0; i < LARGE; i++)
        assert_true(back[i] == back[0]);
    assert_true(back[0] == STEPS);
    hs_checkpoint_close(reader);
    hs_env_free(NULL, path);
    free(large);
    free(back);
}

static void a_concurrent_copy_is_of_one_step(void **state)
{
    copies_are_of_one_step(*state, false);
}

/* Until hs_step_before_update is called, a copy may overlap the next step. */
static void a_program_announces_its_updates(void **state)
{
    copies_are_of_one_step(*state, true);
}

static void an_announcement_outside_of_a_step_does_nothing(void **state)
{
    own *o = *state;
    hs_step_before_update(NULL);
    own_open(o, NULL, NULL, 0);
    hs_step_before_update(o->session);
    own_close(o);
}

/* A training session. */

static void a_training_session_counts_the_steps_of_a_graph_without_ops(void **state)
{
    own *o = *state;
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_variable(graph, "weight", HS_DOUBLE, HS_SCALAR, &o->weight);
    hs_hook stop = hs_stop_at_step(.last_step = 3);
    hs_training_options options = HS_INIT(hs_training_options, .checkpoint_dir = o->directory, .hooks = HS_HOOKS(stop));
    o->session = hs_training_session_open(hs_graph_backend(graph), &options, &o->err);
    assert_non_null(o->session);
    assert_int_equal(own_loop(o, 9), 3);
    assert_int_equal(own_close(o)->last_saved_step, 3);
    assert_true(own_saved(o, "weight") == 6);
    hs_graph_free(graph);
}

static void with_ops_a_global_step_is_the_programs_to_name(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_op(graph, .name = "train");
    hs_hook stop = hs_stop_at_step(.last_step = 3);
    hs_training_options options = HS_INIT(hs_training_options, .hooks = HS_HOOKS(stop));
    assert_null(hs_training_session_open(hs_graph_backend(graph), &options, &err));
    assert_contains(err.message, "global step");
    hs_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        own_test(nan_stops_the_loop_and_is_not_saved),
        own_test(losses_are_logged),
        own_test(summaries_are_written),
        own_test(checkpoints_hold_the_step_that_was_ended),
        own_test(a_resumed_loop_has_exactly_the_same_losses),
        own_test(a_loop_that_is_done_makes_no_step),
        own_test(stop_at_step_counts_restored_steps),
        own_test(hooks_of_best_effort_may_fail),
        own_test(left_in_the_middle_it_is_not_saved),
        own_test(a_step_that_is_left_is_logged),
        own_test(left_in_the_middle_after_a_stop_it_is_interrupted_and_not_saved),
        own_test(left_in_the_middle_of_the_step_after_a_save_it_is_resumable),
        own_test(the_callers_own_error_in_the_middle_counts),
        own_test(a_signal_in_the_middle_ends_the_loop_with_its_state_saved),
        own_test(after_a_second_signal_nothing_is_saved),
        own_test(the_session_knows_the_time_until_the_kill),
        own_test(after_a_second_signal_no_time_remains),
        own_test(without_signals_a_request_leaves_30_seconds),
        own_test(a_concurrent_copy_is_of_one_step),
        own_test(a_program_announces_its_updates),
        own_test(an_announcement_outside_of_a_step_does_nothing),
        own_test(a_training_session_counts_the_steps_of_a_graph_without_ops),
        own_test(with_ops_a_global_step_is_the_programs_to_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
