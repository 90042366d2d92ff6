/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a session: the reported error, and the calls of `end`. */
#include "session/probe.h"

#include <errno.h>

static const hs_error thread_lost = {.code = HS_UNKNOWN, .message = "thread lost"};

/* The hook's before_run fails in its `run`-th run. */
static void open_failing(play *p, size_t run, hs_code code)
{
    play_probe(p, a, .fails_in = PROBE_BEFORE, .fails_at = run, .code = code, .message = "test failure");
    play_open_probes(p, 1);
}

static void ms_062_ms_089_the_end_of_input_is_a_clean_end(void **state)
{
    play *p = *state;
    open_failing(p, 2, HS_OUT_OF_RANGE);
    play_train(p);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_OUT_OF_RANGE);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(p->err.code, HS_OK);
    assert_int_equal(hs_outcome_exit_code(&p->outcome), 0);
    assert_int_equal(p->a.calls[PROBE_END], 1);
}

static void ms_064_a_hooks_error_is_the_runs_and_the_closes(void **state)
{
    play *p = *state;
    open_failing(p, 4, HS_USER);
    for (int i = 0; i < 3; i++)
        assert_int_equal(play_train(p), i + 1);
    assert_fails(hs_session_run(p->session, "train", &p->err), HS_USER, &p->err, "test failure");
    assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
    assert_says(&p->err, HS_USER, "hook 'a', before_run at step 3: test failure");
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(p->outcome.step, 3);
}

static void ms_088_a_single_session_retries_nothing(void **state)
{
    play *p = *state;
    open_failing(p, 1, HS_ABORTED);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_ABORTED);
    assert_int_equal(p->a.calls[PROBE_BEFORE], 1);
    assert_int_equal(p->a.calls[PROBE_CREATE], 1);
    assert_int_equal(play_close(p)->error.code, HS_ABORTED);
}

static void ms_065_ms_090_a_threads_error_comes_out_of_close(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_coordinator_request_stop(hs_session_coordinator(p->session), &thread_lost);
    assert_true(play_number(p, "global_step") == 0); /* runs are still possible */
    assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
    assert_says(&p->err, HS_UNKNOWN, "thread lost");
    assert_string_equal(p->outcome.hook, "");
}

static void ms_067_ms_091_a_good_end(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    for (int i = 1; i <= 2; i++)
        assert_int_equal(play_train(p), i);
    assert_false(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
    assert_int_equal(p->outcome.step, 2);
    assert_int_equal(p->outcome.last_saved_step, -1);
    assert_true(hs_session_should_stop(p->session));
    assert_null(hs_session_raw(p->session));
}

static void ms_068_ms_106s_the_callers_own_error(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    play_train(p);
    play_train(p);
    hs_error why;
    hs_error_set_errno(&why, EIO, "the caller's reason");
    why.code = HS_USER + 3;
    hs_session_fail(p->session, &why);
    hs_error_clear(&why); /* it was copied */
    assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
    assert_int_equal(p->err.code, HS_USER + 3);
    assert_contains(p->err.message, "the caller's reason");
    assert_int_equal(p->err.os_error, EIO);
    assert_int_equal(p->a.calls[PROBE_END], 0);
    assert_int_equal(p->a.calls[PROBE_CLOSE], 1);
    assert_null(hs_session_raw(p->session));
}

static void the_callers_error_may_be_taken_back(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_session_fail(p->session, NULL);
    hs_session_fail(p->session, &(hs_error){.code = HS_OK});
    assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
    assert_int_equal(p->a.calls[PROBE_END], 1);
}

static void the_caller_need_not_say_why(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_session_fail(p->session, NULL);
    assert_string_equal(play_close(p)->error.message, "the caller gave up");
}

/* The caller's own step ended normally. */
static void the_caller_may_leave_for_a_good_reason(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_session_fail(p->session, test_error(HS_OUT_OF_RANGE, "the caller's own input has ended"));
    assert_int_equal(play_close(p)->reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(p->a.calls[PROBE_END], 1);
    assert_int_equal(p->err.code, HS_OK);
}

/* The caller's clean code, which main may always pass, does not turn a failed run into a normal end. */
static void a_clean_code_of_the_caller_does_not_hide_a_failed_run(void **state)
{
    play *p = *state;
    const hs_code clean[] = {HS_STOP, HS_OUT_OF_RANGE, HS_OK};
    for (size_t i = 0; i < sizeof clean / sizeof *clean; i++) {
        open_failing(p, 2, HS_USER);
        play_train(p);
        assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_USER);
        hs_session_fail(p->session, test_error(clean[i], "done"));
        assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
        assert_says(&p->outcome.error, HS_USER, "test failure");
        assert_string_equal(p->outcome.hook, "a");
        assert_int_equal(p->a.calls[PROBE_END], 0);
        assert_int_equal(p->a.calls[PROBE_BOUNDARY], 1); /* only that of the creation */
    }
}

static void the_callers_stop_after_good_runs_is_a_good_end(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    play_train(p);
    hs_session_fail(p->session, test_error(HS_STOP, "enough"));
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
    assert_int_equal(p->err.code, HS_OK);
    assert_string_equal(p->outcome.hook, "");
    assert_int_equal(p->a.calls[PROBE_END], 1);
}

/* The caller's error counts even after the end of the input. */
static void a_clean_run_does_not_hide_the_callers_error(void **state)
{
    play *p = *state;
    open_failing(p, 1, HS_OUT_OF_RANGE);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_OUT_OF_RANGE);
    hs_session_fail(p->session, test_error(HS_USER, "the evaluation went wrong"));
    assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
    assert_says(&p->err, HS_USER, "the evaluation went wrong");
    assert_int_equal(p->a.calls[PROBE_END], 0);
}

/* Otherwise a loop that checks nothing would end normally without any run. */
static void a_run_of_no_op_and_a_step_of_no_function_are_failures(void **state)
{
    play *p = *state;
    for (int i = 0; i < 2; i++) {
        play_probe(p, a, .destroyed = 0);
        play_open_probes(p, 1);
        hs_code code = i ? hs_session_run_step(p->session, NULL, NULL, &p->err) : hs_session_run(p->session, NULL, &p->err);
        assert_fails(code, HS_INVALID_ARGUMENT, &p->err, "is NULL");
        assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
        assert_says(&p->outcome.error, HS_INVALID_ARGUMENT, "is NULL");
        assert_int_equal(p->a.calls[PROBE_END], 0);
    }
}

/* If every run is refused, a run without an op adds no failure. */
static void a_run_of_no_op_after_a_stop_is_refused(void **state)
{
    play *p = *state;
    play_probe(p, a, .stops_at = 1);
    play_open_probes(p, 1);
    play_train(p);
    assert_fails(hs_session_run(p->session, NULL, &p->err), HS_FAILED_PRECONDITION, &p->err, "asked to stop");
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
}

static void a_good_run_makes_up_for_a_bad_one(void **state)
{
    play *p = *state;
    open_failing(p, 1, HS_UNAVAILABLE);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_UNAVAILABLE);
    play_train(p);
    assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
    assert_string_equal(p->outcome.hook, "");
}

/* Hook a failed once, and a good run followed. The later failure is the backend's. */
static void the_outcome_names_the_hook_of_the_last_failure_only(void **state)
{
    play *p = *state;
    open_failing(p, 1, HS_UNAVAILABLE);
    hs_script_fail_at(p->script, 2, HS_INTERNAL, "the backend's");
    hs_session_run(p->session, "train", &p->err);
    play_train(p);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_INTERNAL);
    assert_string_equal(play_close(p)->error.message, "the backend's");
    assert_string_equal(p->outcome.hook, "");
}

static void the_outcome_names_no_hook_for_the_callers_error(void **state)
{
    play *p = *state;
    open_failing(p, 1, HS_UNAVAILABLE);
    hs_session_run(p->session, "train", &p->err);
    hs_session_fail(p->session, test_error(HS_INTERNAL, "mine"));
    assert_string_equal(play_close(p)->error.message, "mine");
    assert_string_equal(p->outcome.hook, "");
}

static hs_code still_alive(probe *p, const probe_call *call)
{
    if (call->point == PROBE_END) {
        assert_false(hs_coordinator_should_stop(p->coordinator));
        assert_ok(hs_raw_session_run(call->raw, HS_RUN_ARGS(.names = HS_NAMES("train")), NULL, call->err), call->err);
    }
    if (call->point == PROBE_CLOSE) {
        assert_true(hs_coordinator_should_stop(p->coordinator));
        assert_non_null(hs_raw_session_handle(p->raw));
    }
    return HS_OK;
}

static void ms_096s_ends_come_first_then_threads_then_the_backend(void **state)
{
    play *p = *state;
    play_spy(p);
    play_probe(p, a, .act = still_alive);
    play_open_probes(p, 1);
    play_calls(p);
    play_close(p);
    assert_string_equal(play_calls(p), "a.end run a.boundary a.close shut unfinalize");
    assert_int_equal(p->outcome.step, 1);
}

static hs_code fail_to_close(void *session, hs_error *err)
{
    (void)session;
    return hs_error_set(err, HS_INTERNAL, "the server refuses");
}

static hs_code lose_at_close(void *session, hs_error *err)
{
    (void)session;
    return hs_error_set(err, HS_UNAVAILABLE, "the server is gone");
}

static void train_and_close(play *p, hs_code (*close)(void *session, hs_error *err))
{
    p->spied = *p->backend.ops;
    p->spied.close = close;
    p->backend.ops = &p->spied;
    play_probe(p, a, .stops_at = 1);
    play_open_probes(p, 1);
    play_train(p);
    play_close(p);
}

static void a_backend_that_fails_to_close_fails_the_session(void **state)
{
    play *p = *state;
    train_and_close(p, fail_to_close);
    assert_int_equal(p->outcome.reason, HS_REASON_FAILED);
    assert_says(&p->err, HS_INTERNAL, "the server refuses");
    assert_string_equal(p->outcome.hook, ""); /* a requested the stop, but did not fail */
}

/* Everything has been saved by then. */
static void a_backend_that_is_lost_at_the_close_does_not_fail_the_session(void **state)
{
    play *p = *state;
    train_and_close(p, lose_at_close);
    assert_int_equal(p->outcome.reason, HS_REASON_STOPPED);
    assert_int_equal(hs_outcome_exit_code(&p->outcome), 0);
    assert_contains(p->t.log, "WARNING: session lost after training ended: the server is gone");
}

static void the_first_error_is_reported(void **state)
{
    play *p = *state;
    p->spied = *p->backend.ops;
    p->spied.close = fail_to_close;
    p->backend.ops = &p->spied;
    play_probe(p, a, .fails_in = PROBE_END, .fails_at = 1, .message = "earlier");
    play_open_probes(p, 1);
    hs_coordinator_request_stop(hs_session_coordinator(p->session), NULL);
    assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
    assert_contains(p->outcome.error.message, "earlier");
    assert_string_equal(p->outcome.hook, "a");
}

static void ms_114s_the_run_reports_its_own_error_and_close_the_threads(void **state)
{
    play *p = *state;
    hs_script_fail_at(p->script, 1, HS_CANCELLED, "queue closed");
    play_open_probes(p, 1);
    hs_coordinator_request_stop(hs_session_coordinator(p->session), &thread_lost);
    assert_fails(hs_session_run(p->session, "train", &p->err), HS_CANCELLED, &p->err, "queue closed");
    assert_int_equal(play_close(p)->error.code, HS_UNKNOWN); /* the first error is the cause */
    assert_int_equal(p->a.calls[PROBE_END], 0);
}

static void ms_114s_an_error_after_the_runs_is_not_its_cause(void **state)
{
    play *p = *state;
    hs_script_fail_at(p->script, 1, HS_DATA_LOSS, "bad input");
    play_open_probes(p, 1);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_DATA_LOSS);
    hs_coordinator_request_stop(hs_session_coordinator(p->session), &thread_lost);
    assert_int_equal(play_close(p)->error.code, HS_DATA_LOSS);
}

static void ms_139s_a_threads_error_comes_before_the_callers(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_coordinator_request_stop(hs_session_coordinator(p->session), &thread_lost);
    hs_session_fail(p->session, test_error(HS_INTERNAL, "no batches any more"));
    assert_int_equal(play_close(p)->error.code, HS_UNKNOWN);
    assert_int_equal(p->a.calls[PROBE_END], 0);
}

static void ms_139s_the_callers_error_is_kept_if_it_came_first(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_session_fail(p->session, test_error(HS_INTERNAL, "mine"));
    hs_coordinator_request_stop(hs_session_coordinator(p->session), &thread_lost);
    assert_string_equal(play_close(p)->error.message, "mine");
}

static void the_exit_code_is_the_outcomes(void **state)
{
    (void)state;
    for (int32_t reason = HS_REASON_FAILED; reason <= HS_REASON_ALREADY_DONE; reason++) {
        hs_outcome outcome = {.reason = (hs_reason)reason};
        assert_int_equal(hs_outcome_exit_code(&outcome), reason == HS_REASON_FAILED);
    }
    assert_int_equal(hs_outcome_exit_code(NULL), 1);
    hs_outcome ended = {.reason = HS_REASON_STOPPED, .interrupted = 1, .signal = 15, .step = 7, .last_saved_step = 7};
    assert_int_equal(hs_outcome_exit_code(&ended), 75);
    ended.last_saved_step = 5;
    assert_int_equal(hs_outcome_exit_code(&ended), 143);
    ended.reason = HS_REASON_FAILED; /* saving it failed */
    assert_int_equal(hs_outcome_exit_code(&ended), 143);
    ended.last_saved_step = 7; /* the failure is not of the save */
    assert_int_equal(hs_outcome_exit_code(&ended), 143);
    assert_string_equal(hs_reason_name(HS_REASON_FAILED), "failed");
    assert_string_equal(hs_reason_name(HS_REASON_ALREADY_DONE), "already done");
    assert_string_equal(hs_reason_name(5), "unknown");
    assert_string_equal(hs_reason_name((hs_reason)-1), "unknown");
}

static void closing_nothing_makes_an_outcome_of_the_error(void **state)
{
    (void)state;
    hs_error err = {.code = HS_NOT_FOUND, .message = "no such graph"};
    hs_outcome outcome = hs_session_close(NULL, &err);
    assert_string_equal(outcome.error.message, "no such graph");
    assert_int_equal(outcome.step, -1);
    assert_int_equal(outcome.last_saved_step, -1);
    hs_error_clear(&err);
    assert_int_equal(hs_session_close(NULL, &err).reason, HS_REASON_FAILED);
    assert_int_equal(err.code, HS_FAILED_PRECONDITION);
    assert_int_equal(hs_session_close(NULL, NULL).error.code, HS_FAILED_PRECONDITION);
}

static void an_outcome_is_made_of_an_error(void **state)
{
    (void)state;
    hs_error err = {.code = HS_NOT_FOUND, .os_error = 2, .message = "no such graph"};
    hs_outcome outcome = hs_outcome_from_error(&err);
    assert_int_equal(outcome.reason, HS_REASON_FAILED);
    assert_int_equal(outcome.error.code, HS_NOT_FOUND);
    assert_int_equal(outcome.error.os_error, 2);
    assert_string_equal(outcome.error.message, "no such graph");
    assert_int_equal(outcome.step, -1);
    assert_int_equal(outcome.last_saved_step, -1);
    assert_int_equal(hs_outcome_exit_code(&outcome), 1);
    assert_true(outcome.opening);
    err.code = HS_UNAVAILABLE;
    outcome = hs_outcome_from_error(&err);
    assert_int_equal(hs_outcome_exit_code(&outcome), 75);
    outcome.opening = false; /* a session that was lost, and could not be recovered */
    assert_int_equal(hs_outcome_exit_code(&outcome), 1);
    hs_error_clear(&err);
    assert_int_equal(hs_outcome_from_error(&err).error.code, HS_FAILED_PRECONDITION);
    assert_int_equal(err.code, HS_OK); /* the error is only read */
    assert_int_equal(hs_outcome_from_error(NULL).error.code, HS_FAILED_PRECONDITION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(ms_062_ms_089_the_end_of_input_is_a_clean_end),
        play_test(ms_064_a_hooks_error_is_the_runs_and_the_closes),
        play_test(ms_088_a_single_session_retries_nothing),
        play_test(ms_065_ms_090_a_threads_error_comes_out_of_close),
        play_test(ms_067_ms_091_a_good_end),
        play_test(ms_068_ms_106s_the_callers_own_error),
        play_test(the_callers_error_may_be_taken_back),
        play_test(the_caller_need_not_say_why),
        play_test(the_caller_may_leave_for_a_good_reason),
        play_test(a_clean_code_of_the_caller_does_not_hide_a_failed_run),
        play_test(the_callers_stop_after_good_runs_is_a_good_end),
        play_test(a_clean_run_does_not_hide_the_callers_error),
        play_test(a_run_of_no_op_and_a_step_of_no_function_are_failures),
        play_test(a_run_of_no_op_after_a_stop_is_refused),
        play_test(a_good_run_makes_up_for_a_bad_one),
        play_test(the_outcome_names_the_hook_of_the_last_failure_only),
        play_test(the_outcome_names_no_hook_for_the_callers_error),
        play_test(ms_096s_ends_come_first_then_threads_then_the_backend),
        play_test(a_backend_that_fails_to_close_fails_the_session),
        play_test(a_backend_that_is_lost_at_the_close_does_not_fail_the_session),
        play_test(the_first_error_is_reported),
        play_test(ms_114s_the_run_reports_its_own_error_and_close_the_threads),
        play_test(ms_114s_an_error_after_the_runs_is_not_its_cause),
        play_test(ms_139s_a_threads_error_comes_before_the_callers),
        play_test(ms_139s_the_callers_error_is_kept_if_it_came_first),
        cmocka_unit_test(the_exit_code_is_the_outcomes),
        cmocka_unit_test(closing_nothing_makes_an_outcome_of_the_error),
        cmocka_unit_test(an_outcome_is_made_of_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
