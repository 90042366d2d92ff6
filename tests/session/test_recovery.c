/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery of a lost session: attempts, backoff, stops, and what hooks see. */
#include "session/lost.h"

#include <signal.h>

static void ms_035_without_a_loss_nothing_is_recovered(void **state)
{
    lost *l = *state;
    lost_open(l, NULL);
    assert_true(lost_same(l, 51) == 51);
    assert_int_equal(hs_session_recoveries(l->session), 0);
}

static void recovers_from(void **state, hs_code code)
{
    lost *l = *state;
    lost_probe(l, a, .fails_in = PROBE_BEFORE, .fails_at = 4, .code = code);
    lost_open(l, NULL);
    assert_int_equal(lost_step(l), 0);
    assert_int_equal(lost_inc(l), 1);
    assert_int_equal(lost_inc(l), 2);
    assert_int_equal(lost_inc(l), 1); /* the initial state was restored, and the run repeated */
    assert_false(hs_session_should_stop(l->session));
    assert_int_equal(lost_inc(l), 2);
    assert_int_equal(hs_session_recoveries(l->session), 1);
    assert_contains(l->t.log, "recovering, attempt 1 of 10: ");
    assert_contains(l->t.log, "step 0: recovered from a failure at step 2, with a copy of the initial state");
}

static void ms_059_aborted_is_recovered_from(void **state)
{
    recovers_from(state, HS_ABORTED);
}

static void ms_060_unavailable_is_recovered_from(void **state)
{
    recovers_from(state, HS_UNAVAILABLE);
}

static void ms_061_a_recovery_restores_the_newest_checkpoint(void **state)
{
    lost *l = *state;
    lost_probe(l, a, .fails_in = PROBE_BEFORE, .fails_at = 4, .code = HS_ABORTED);
    lost_open_saving(l);
    assert_int_equal(lost_step(l), 0);
    assert_int_equal(lost_inc(l), 1);
    assert_int_equal(lost_inc(l), 2);
    assert_int_equal(lost_inc(l), 3);
    assert_false(hs_session_should_stop(l->session));
    assert_int_equal(lost_inc(l), 4);
    assert_contains(l->t.log, "step 2: recovered from a failure at step 2");
}

/* Initializing again would discard the training. */
static void a_checkpoint_that_cannot_be_restored_ends_the_recovery(void **state)
{
    lost *l = *state;
    lost_open_saving(l);
    lost_inc(l);
    char *newest = hs_checkpoint_latest(NULL, l->directory, NULL, &l->err), index[1024];
    snprintf(index, sizeof index, "%s.index", newest);
    hs_env_free(NULL, newest);
    test_empty_directory(l->directory);
    test_write_file(index, "x", 1);
    assert_fails(lost_fail(l, HS_ABORTED), HS_DATA_LOSS, &l->err, "cannot recover: ");
    assert_contains(l->err.message, "none of its 1 checkpoints can be restored");
    assert_int_equal(lost_close(l)->error.code, HS_DATA_LOSS);
}

static void ms_057_a_later_session_resumes(void **state)
{
    lost *l = *state;
    lost_open_saving(l);
    assert_int_equal(lost_step(l), 0);
    lost_inc(l);
    lost_inc(l);
    lost_close(l);
    lost_open(l, HS_SESSION_OPTIONS(.checkpoint_dir = l->directory));
    assert_int_equal(lost_step(l), 2);
    lost_close(l);
    char *newest = hs_checkpoint_latest(NULL, l->directory, NULL, &l->err);
    lost_open(l, HS_SESSION_OPTIONS(.checkpoint_prefix = newest));
    assert_int_equal(lost_step(l), 2);
    hs_env_free(NULL, newest);
}

/* The checkpoint itself may have been deleted since. */
static void a_recovery_restores_checkpoint_prefix_again(void **state)
{
    lost *l = *state;
    lost_open_saving(l);
    lost_inc(l);
    lost_close(l);
    char *newest = hs_checkpoint_latest(NULL, l->directory, NULL, &l->err);
    const hs_session_options options = HS_INIT(hs_session_options, .checkpoint_prefix = newest);
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = l->directory, .every_n_steps = 1);
    if (!lost_try_open(l, &options, &saver, 1))
        fail_msg("opening: %s", l->err.message);
    hs_env_free(NULL, newest);
    for (int64_t step = 2; step < 9; step++)
        assert_int_equal(lost_inc(l), step);
    lost_recover(l);
    assert_int_equal(lost_step(l), 1);
}

/* Earlier checkpoints in the directory are not of this training. */
static void a_recovery_ignores_checkpoints_that_restore_never_excludes(void **state)
{
    lost *l = *state;
    lost_open_saving(l);
    lost_inc(l);
    lost_inc(l);
    lost_close(l);
    lost_open(l, HS_SESSION_OPTIONS(.checkpoint_dir = l->directory, .restore = HS_RESTORE_NEVER));
    assert_int_equal(lost_inc(l), 1);
    lost_recover(l);
    assert_int_equal(lost_step(l), 0);
}

/* But the session's own checkpoints are. */
static void a_recovery_restores_the_sessions_own_checkpoints(void **state)
{
    lost *l = *state;
    l->directory = test_make_directory();
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = l->directory, .every_n_steps = 1);
    lost_try_open(l, HS_SESSION_OPTIONS(.checkpoint_dir = l->directory, .restore = HS_RESTORE_NEVER), &saver, 1);
    assert_int_equal(lost_inc(l), 1);
    assert_int_equal(lost_inc(l), 2);
    lost_recover(l);
    assert_int_equal(lost_step(l), 2);
}

static hs_code aborted_once(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    int *calls = user;
    (void)scaffold, (void)session;
    return (*calls)++ ? HS_OK : hs_error_set(err, HS_ABORTED, "not yet");
}

static void ms_058_the_opening_is_retried(void **state)
{
    lost *l = *state;
    int calls = 0;
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.init_fn = aborted_once, .user = &calls), NULL);
    lost_open(l, HS_SESSION_OPTIONS(.scaffold = scaffold, .take_scaffold = true));
    assert_int_equal(calls, 2);
    assert_false(hs_session_should_stop(l->session));
    assert_int_equal(lost_step(l), 0);
    assert_contains(l->t.log, "session not opened; retrying, attempt 1 of 10: ABORTED: ");
    assert_int_equal(l->a.calls[PROBE_BEGIN], 1);
}

static void ms_111s_other_failures_of_the_opening_are_not_retried(void **state)
{
    lost *l = *state;
    lost_probe(l, a, .fails_in = PROBE_CREATE, .fails_at = 1, .code = HS_INTERNAL);
    assert_null(lost_try_open(l, NULL, NULL, 0));
    assert_int_equal(l->err.code, HS_INTERNAL);
    assert_string_equal(hs_script_calls(l->calls), "a.begin b.begin a.create b.close a.close");
}

static void ms_111s_hooks_that_abort_their_creation_are_created_again(void **state)
{
    lost *l = *state;
    lost_probe(l, b, .fails_in = PROBE_CREATE, .fails_at = 1, .code = HS_UNAVAILABLE);
    lost_open(l, NULL);
    assert_string_equal(hs_script_calls(l->calls),
                        "a.begin b.begin a.create b.create a.create b.create a.boundary b.boundary");
    assert_int_equal(l->opens, 2);
}

static void ms_108s_every_hook_is_called_for_each_attempt(void **state)
{
    lost *l = *state;
    lost_open(l, NULL);
    hs_script_clear_calls(l->calls);
    lost_recover(l);
    assert_string_equal(hs_script_calls(l->calls), "a.before b.before a.create b.create a.boundary b.boundary "
                                                   "a.before b.before a.after b.after");
}

static void ms_113s_other_errors_are_not_recovered_from(void **state)
{
    lost *l = *state;
    const hs_code others[] = {HS_CANCELLED, HS_UNKNOWN, HS_DEADLINE_EXCEEDED, HS_INTERNAL, HS_DATA_LOSS, HS_OUT_OF_RANGE};
    lost_open(l, NULL);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(lost_fail(l, others[i]), others[i]);
    }
    assert_int_equal(l->opens, 1);
}

/* TensorFlow has no limit. */
static void ms_138s_recovery_has_a_limit(void **state)
{
    lost *l = *state;
    l->recovery.max_attempts = 3;
    lost_open(l, NULL);
    int64_t before = l->t.now_ns;
    l->fails_left = 100;
    l->fails_with = HS_UNAVAILABLE;
    assert_fails(lost_run(l, "fail"), HS_UNAVAILABLE, &l->err, "no progress after 3 recoveries: op 'fail': no luck");
    assert_int_equal(l->opens, 4);
    assert_int_equal((l->t.now_ns - before + 500000000) / 1000000000, 1 + 2); /* no wait before the first attempt */
    assert_true(hs_session_should_stop(l->session));
    assert_fails(lost_run(l, "inc"), HS_FAILED_PRECONDITION, &l->err, "could not be recovered");
    assert_int_equal(lost_close(l)->reason, HS_REASON_FAILED);
    assert_int_equal(l->outcome.error.code, HS_UNAVAILABLE);
    assert_int_equal(l->a.calls[PROBE_END], 0);
}

/* Makes all attempts without success. Returns the sum of the waits in seconds. */
static double backoff_of(lost *l, double backoff_secs, int64_t attempts)
{
    l->recovery.max_attempts = attempts;
    l->recovery.backoff_secs = backoff_secs;
    l->fails_left = 100;
    l->fails_with = HS_UNAVAILABLE;
    lost_open(l, NULL);
    int64_t before = l->t.now_ns;
    assert_int_equal(lost_run(l, "fail"), HS_UNAVAILABLE);
    double secs = (double)(l->t.now_ns - before) / 1e9;
    lost_close(l);
    return secs;
}

static void the_backoff_grows_up_to_a_minute(void **state)
{
    lost *l = *state;
    assert_float_equal(backoff_of(l, 0, 7), 1 + 2 + 4 + 8 + 16 + 32, 1e-3);
    assert_float_equal(backoff_of(l, 0, 9), 1 + 2 + 4 + 8 + 16 + 32 + 60 + 60, 1e-3);
    assert_float_equal(backoff_of(l, 59, 4), 59 + 60 + 60, 1e-3);
    assert_float_equal(backoff_of(l, 100, 4), 3 * 100, 1e-3); /* a backoff over a minute does not grow */
}

static void ms_138s_progress_resets_the_attempts(void **state)
{
    lost *l = *state;
    l->recovery.max_attempts = 1;
    lost_open_saving(l);
    for (int i = 0; i < 5; i++) {
        lost_inc(l);
        assert_ok(lost_fail(l, HS_UNAVAILABLE), &l->err);
    }
    assert_int_equal(lost_step(l), 5);
    assert_int_equal(hs_session_recoveries(l->session), 5);
}

static void ms_138s_a_later_saved_step_is_progress(void **state)
{
    lost *l = *state;
    l->recovery.max_attempts = 1;
    lost_open_saving(l);
    for (int i = 0; i < 3; i++) {
        lost_inc(l);
        l->hides_step = true;
        assert_ok(lost_fail(l, HS_UNAVAILABLE), &l->err);
    }
    assert_int_equal(lost_step(l), 3);
}

static hs_code ask_to_stop(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    lost *l = user;
    (void)scaffold, (void)session;
    if (l->opens == 1)
        return HS_OK;
    hs_session_interrupt(l->session);
    return hs_error_set(err, HS_UNAVAILABLE, "still away");
}

static hs_code ask_by_signal(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    const lost *l = user;
    (void)scaffold, (void)session;
    if (l->opens == 1)
        return HS_OK;
    raise(SIGTERM);
    return hs_error_set(err, HS_UNAVAILABLE, "still away");
}

/* The session ended because of the signal, not because of the loss. */
static void a_signal_that_ends_the_backoff_is_in_the_outcome(void **state)
{
    lost *l = *state;
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.init_fn = ask_by_signal, .user = l), NULL);
    l->recovery.backoff_secs = 1e6;
    lost_open(l, HS_SESSION_OPTIONS(.scaffold = scaffold, .take_scaffold = true, .signals = true));
    assert_int_equal(lost_fail(l, HS_ABORTED), HS_UNAVAILABLE);
    assert_int_equal(lost_close(l)->reason, HS_REASON_FAILED);
    assert_int_equal(l->outcome.signal, SIGTERM);
    assert_int_equal(hs_outcome_exit_code(&l->outcome), 128 + SIGTERM);
}

static void a_stop_ends_the_backoff(void **state)
{
    lost *l = *state;
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.init_fn = ask_to_stop, .user = l), NULL);
    l->recovery.backoff_secs = 1e6;
    lost_open(l, HS_SESSION_OPTIONS(.scaffold = scaffold, .take_scaffold = true));
    int64_t before = l->t.now_ns;
    assert_fails(lost_fail(l, HS_ABORTED), HS_UNAVAILABLE, &l->err,
                 "a stop was requested before the next attempt to recover");
    assert_true(l->t.now_ns - before < 1000000000);
}

static hs_code stop_and_lose(probe *p, const probe_call *call)
{
    if (call->point != PROBE_BEFORE || p->calls[PROBE_BEFORE] != 1)
        return HS_OK;
    hs_run_context_request_stop(call->run);
    return HS_OK;
}

static hs_code fail_at_the_first_creation(probe *p, const probe_call *call)
{
    return call->point == PROBE_CREATE && p->calls[PROBE_CREATE] == 1 ? hs_error_set(call->err, HS_INTERNAL, "not yet")
                                                                      : HS_OK;
}

/* Its after_create_session is called again before its backoff is over. */
static void a_recovery_resumes_a_best_effort_hook(void **state)
{
    lost *l = *state;
    lost_probe(l, c, .act = fail_at_the_first_creation);
    hs_hook hook = hs_hook_best_effort(probe_hook(&l->c), 0);
    lost_try_open(l, NULL, &hook, 1);
    lost_recover(l);
    assert_contains(l->t.log, "hook 'c' recovered after 1 failure in a row");
    lost_inc(l);
    assert_int_equal(l->c.calls[PROBE_CREATE], 2);
}

/* In TensorFlow the stop is lost with the session. */
static void a_stop_is_not_lost_with_the_session(void **state)
{
    lost *l = *state;
    lost_probe(l, a, .act = stop_and_lose);
    lost_open(l, NULL);
    lost_recover(l);
    assert_int_equal(hs_session_recoveries(l->session), 1);
    assert_true(hs_session_should_stop(l->session));
    assert_int_equal(lost_close(l)->reason, HS_REASON_STOPPED);
    assert_string_equal(l->outcome.hook, "a");
}

static hs_code stop_and_abort(probe *p, const probe_call *call)
{
    const int *kind = p->user;
    if (call->point != (*kind % 2 ? PROBE_BEFORE : PROBE_AFTER) || p->calls[call->point] > 1)
        return HS_OK;
    if (*kind / 2)
        hs_run_context_interrupt(call->run);
    else
        hs_run_context_request_stop(call->run);
    return hs_error_set(call->err, HS_ABORTED, "the hook's device is lost");
}

static void a_stop_of_the_hook_that_reports_the_loss_is_not_lost(void **state)
{
    lost *l = *state;
    for (int kind = 0; kind < 4; kind++) {
        lost_probe(l, a, .act = stop_and_abort, .user = &kind);
        lost_open(l, NULL);
        lost_run(l, "inc");
        assert_int_equal(hs_session_recoveries(l->session), 1);
        assert_true(hs_session_should_stop(l->session));
        assert_int_equal(lost_close(l)->reason, HS_REASON_STOPPED);
        assert_true(l->outcome.interrupted == (kind / 2 == 1));
    }
}

static void a_stop_of_the_coordinator_is_not_lost_either(void **state)
{
    lost *l = *state;
    lost_open(l, NULL);
    hs_coordinator_request_stop(l->a.coordinator, NULL);
    lost_recover(l);
    assert_int_equal(hs_session_recoveries(l->session), 1);
    assert_true(hs_session_should_stop(l->session));
}

static void the_caller_may_prepare_its_batch_again(void **state)
{
    lost *l = *state;
    l->recovery.return_aborted = true;
    lost_open_saving(l);
    lost_inc(l);
    assert_fails(lost_fail(l, HS_UNAVAILABLE), HS_ABORTED, &l->err, "restored at step 1");
    assert_false(hs_session_should_stop(l->session));
    assert_int_equal(lost_inc(l), 2);
    assert_int_equal(lost_close(l)->reason, HS_REASON_CLOSED);
}

/* The caller does not repeat the call, and nothing has failed. */
static void a_stop_is_not_a_failure_while_a_batch_must_be_repeated(void **state)
{
    lost *l = *state;
    l->recovery.return_aborted = true;
    lost_open(l, NULL);
    assert_int_equal(lost_fail(l, HS_UNAVAILABLE), HS_ABORTED);
    assert_int_equal(lost_fail(l, HS_UNAVAILABLE), HS_ABORTED);
    hs_session_interrupt(l->session);
    assert_int_equal(lost_close(l)->reason, HS_REASON_STOPPED);
    assert_int_equal(l->a.calls[PROBE_END], 1);
    lost_open(l, NULL);
    assert_int_equal(lost_fail(l, HS_UNAVAILABLE), HS_ABORTED);
    assert_int_equal(lost_fail(l, HS_INTERNAL), HS_INTERNAL);
    hs_session_interrupt(l->session);
    assert_int_equal(lost_close(l)->reason, HS_REASON_FAILED);
}

static void without_recovery_a_loss_is_an_error(void **state)
{
    lost *l = *state;
    l->recovery.max_attempts = HS_NEVER;
    lost_open(l, NULL);
    assert_int_equal(lost_fail(l, HS_ABORTED), HS_ABORTED);
    assert_int_equal(l->opens, 1);
}

static void all_kinds_of_run_recover(void **state)
{
    lost *l = *state;
    lost_open(l, NULL);
    for (int64_t kind = HS_RUN_TRAIN; kind <= HS_RUN_AUX; kind++) {
        l->fails_left = 1;
        l->fails_with = HS_ABORTED;
        assert_ok(hs_session_run_args(l->session, HS_RUN_ARGS(.names = HS_NAMES("fail"), .kind = kind), NULL, &l->err),
                  &l->err);
    }
    assert_int_equal(hs_session_recoveries(l->session), 3);
}

static void invalid_options_are_refused(void **state)
{
    lost *l = *state;
    const hs_recovery wrong[] = {HS_INIT(hs_recovery, .max_attempts = -2), HS_INIT(hs_recovery, .backoff_secs = -1),
                                 HS_INIT(hs_recovery, .snapshot_limit = -7)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        l->recovery = wrong[i];
        assert_null(lost_try_open(l, NULL, NULL, 0));
        assert_says(&l->err, HS_INVALID_ARGUMENT, "hs_recovery");
    }
}

static hs_code use_the_session(probe *p, const probe_call *call)
{
    lost *l = p->user;
    if (!l->session || (call->point != PROBE_CREATE && call->point != PROBE_BOUNDARY))
        return HS_OK;
    assert_int_equal(hs_session_run(l->session, "inc", NULL), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_session_close(l->session, NULL).error.code, HS_FAILED_PRECONDITION);
    return HS_OK;
}

static void a_session_cannot_be_used_during_its_recovery(void **state)
{
    lost *l = *state;
    lost_probe(l, a, .act = use_the_session, .user = l);
    lost_open(l, NULL);
    lost_recover(l);
    assert_int_equal(l->a.calls[PROBE_CREATE], 2);
    assert_int_equal(lost_inc(l), 1);
}

static void a_recovery_does_not_pass_the_last_step(void **state)
{
    lost *l = *state;
    l->directory = test_make_directory();
    lost_probe(l, c, .fails_in = PROBE_BOUNDARY, .fails_at = 4, .code = HS_UNAVAILABLE);
    const hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = l->directory);
    const hs_hook more[] = {hs_checkpoint_saver(.checkpoint_dir = l->directory, .every_n_steps = 1),
                            hs_stop_at_step(.last_step = 3), probe_hook(&l->c)};
    if (!lost_try_open(l, &options, more, 3))
        fail_msg("opening: %s", l->err.message);
    lost_inc(l);
    lost_inc(l);
    assert_fails(lost_run(l, "inc"), HS_STOP, &l->err, "step 3");
    assert_int_equal(hs_session_recoveries(l->session), 1);
    assert_int_equal(hs_session_global_step(l->session, NULL), 3);
    assert_true(hs_session_should_stop(l->session));
    assert_int_equal(lost_close(l)->error.code, HS_OK);
}

/* A session that is lost once and recovers. */
static hs_code lose_and_recover(test_env *t, void *user)
{
    hs_error err = {0};
    hs_graph *graph = hs_graph_new(&t->env);
    lost l = {.fails_left = 1, .fails_with = HS_ABORTED};
    (void)user;
    test_tolerate_harmless(t); /* the copy grows instead */
    test_tolerate(t, "recovery is impossible until a checkpoint is saved: ");
    if (!graph)
        return HS_RESOURCE_EXHAUSTED;
    hs_graph_global_step(graph, NULL, NULL);
    hs_graph_op(graph, .name = "fail", .run = (hs_op_fn)NULL, .user = &l);
    const hs_recovery recovery = HS_INIT(hs_recovery);
    lost_probe(&l, a, .fails_in = PROBE_BEFORE, .fails_at = 1, .code = HS_ABORTED);
    hs_hook hook = probe_hook(&l.a);
    hs_session *session =
        hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook), .recovery = &recovery), &err);
    hs_code code = session ? hs_session_run(session, "fail", &err) : err.code;
    hs_outcome outcome = hs_session_close(session, &err);
    hs_graph_free(graph);
    return code ? code : outcome.error.code;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(lose_and_recover, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lost_test(ms_035_without_a_loss_nothing_is_recovered),
        lost_test(ms_059_aborted_is_recovered_from),
        lost_test(ms_060_unavailable_is_recovered_from),
        lost_test(ms_061_a_recovery_restores_the_newest_checkpoint),
        lost_test(a_checkpoint_that_cannot_be_restored_ends_the_recovery),
        lost_test(ms_057_a_later_session_resumes),
        lost_test(a_recovery_restores_checkpoint_prefix_again),
        lost_test(a_recovery_ignores_checkpoints_that_restore_never_excludes),
        lost_test(a_recovery_restores_the_sessions_own_checkpoints),
        lost_test(ms_058_the_opening_is_retried),
        lost_test(ms_111s_other_failures_of_the_opening_are_not_retried),
        lost_test(ms_111s_hooks_that_abort_their_creation_are_created_again),
        lost_test(ms_108s_every_hook_is_called_for_each_attempt),
        lost_test(ms_113s_other_errors_are_not_recovered_from),
        lost_test(ms_138s_recovery_has_a_limit),
        lost_test(the_backoff_grows_up_to_a_minute),
        lost_test(ms_138s_progress_resets_the_attempts),
        lost_test(ms_138s_a_later_saved_step_is_progress),
        lost_test(a_signal_that_ends_the_backoff_is_in_the_outcome),
        lost_test(a_stop_ends_the_backoff),
        lost_test(a_recovery_resumes_a_best_effort_hook),
        lost_test(a_stop_is_not_lost_with_the_session),
        lost_test(a_stop_of_the_hook_that_reports_the_loss_is_not_lost),
        lost_test(a_stop_of_the_coordinator_is_not_lost_either),
        lost_test(the_caller_may_prepare_its_batch_again),
        lost_test(a_stop_is_not_a_failure_while_a_batch_must_be_repeated),
        lost_test(without_recovery_a_loss_is_an_error),
        lost_test(all_kinds_of_run_recover),
        lost_test(invalid_options_are_refused),
        lost_test(a_session_cannot_be_used_during_its_recovery),
        lost_test(a_recovery_does_not_pass_the_last_step),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
