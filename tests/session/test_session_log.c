/* SPDX-License-Identifier: Apache-2.0 */
/* A failure to open, and a failure of a session, is reported once: in the caller's error, or in the log if `err` is
 * NULL. */
#include "session/probe.h"

#include <signal.h>

static size_t lines_of(const play *p, const char *level)
{
    size_t n = 0;
    for (const char *at = p->t.log; (at = strstr(at, level)); at++)
        n++;
    return n;
}

/* Asserts that this is the only error in the log. */
static void assert_logged(const play *p, const char *says, const char *message)
{
    char line[HS_MESSAGE_SIZE + 128];
    snprintf(line, sizeof line, "ERROR: %s: %s\n", says, message);
    assert_contains(p->t.log, line);
    assert_int_equal(lines_of(p, "ERROR: "), 1);
}

/* Asserts that opening failed with an error. Closing the NULL session, as every program does, logs nothing. */
static void assert_not_opened(play *p)
{
    assert_null(p->session);
    assert_true(p->err.message[0]);
    play_close(p);
    assert_int_equal(lines_of(p, "ERROR: "), 0);
    test_env_clear_log(&p->t);
}

static void options_that_keep_a_session_from_opening(void **state)
{
    play *p = *state;
    const hs_session_options refused[] = {
        {.target = "without a size"},
        HS_INIT(hs_session_options, .signal_grace_secs = -2),
        HS_INIT(hs_session_options, .checkpoint_prefix = "nowhere/model.ckpt-7"),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        p->session = hs_session_open(p->backend, &refused[i], &p->err);
        assert_not_opened(p);
    }
}

static void hooks_that_keep_a_session_from_opening(void **state)
{
    play *p = *state;
    const probe_point points[] = {PROBE_BEGIN, PROBE_CREATE, PROBE_BOUNDARY};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        play_probe(p, b, .fails_in = points[i], .fails_at = 1, .message = "test failure");
        play_try_open(p, (hs_hook[]){probe_hook(&p->a), probe_hook(&p->b)}, 2);
        assert_not_opened(p);
        assert_contains(p->err.message, "hook 'b'");
    }
}

static hs_code no_session(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    (void)self, (void)target, (void)config, (void)session;
    return hs_error_set(err, HS_UNAVAILABLE, "no server");
}

static void a_backend_that_keeps_a_session_from_opening(void **state)
{
    play *p = *state;
    p->spied = *p->backend.ops;
    p->spied.open = no_session;
    p->backend.ops = &p->spied;
    play_try_open(p, NULL, 0);
    assert_not_opened(p);
}

static void a_caller_without_an_error_finds_it_in_the_log(void **state)
{
    play *p = *state;
    assert_null(hs_session_open(p->backend, HS_SESSION_OPTIONS(.config = {NULL, 1}), NULL));
    assert_int_equal(lines_of(p, "ERROR: session not opened: "), 1);
    assert_int_equal(hs_session_close(NULL, NULL).reason, HS_REASON_FAILED);
    assert_int_equal(lines_of(p, "ERROR: "), 1);
}

/* Failures of sessions. */

static void assert_failure_logged(play *p, const char *says)
{
    assert_int_equal(lines_of(p, "ERROR: "), 0); /* the caller of a failed run may continue */
    p->outcome = hs_session_close(p->session, NULL);
    p->session = NULL;
    assert_int_equal(p->outcome.reason, HS_REASON_FAILED);
    assert_logged(p, says, p->outcome.error.message);
}

static void a_failure_that_is_returned_is_not_logged(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_END, .fails_at = 1, .message = "test failure");
    play_open_probes(p, 1);
    assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
    assert_contains(p->err.message, "test failure");
    assert_string_equal(p->t.log, "");
}

static void a_run_that_failed(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_AFTER, .fails_at = 2, .message = "test failure");
    play_open_probes(p, 1);
    play_train(p);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_INTERNAL);
    assert_failure_logged(p, "session failed");
}

static void the_callers_own_error(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_session_fail(p->session, test_error(HS_USER, "no batches any more"));
    assert_failure_logged(p, "step 0: session failed");
}

static void a_threads_error(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_coordinator_request_stop(hs_session_coordinator(p->session), &(hs_error){.code = HS_UNKNOWN, .message = "lost"});
    assert_failure_logged(p, "step 0: session failed");
}

static void an_end_that_failed(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_END, .fails_at = 1, .message = "test failure");
    play_open_probes(p, 1);
    assert_failure_logged(p, "session failed");
}

static hs_code fail_to_close(void *session, hs_error *err)
{
    (void)session;
    return hs_error_set(err, HS_INTERNAL, "the server is gone");
}

static void a_backend_that_failed_to_close(void **state)
{
    play *p = *state;
    p->spied = *p->backend.ops;
    p->spied.close = fail_to_close;
    p->backend.ops = &p->spied;
    play_open_probes(p, 1);
    assert_failure_logged(p, "step 0: session failed");
}

/* Stops before the end. */

static hs_code save_each_boundary(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_BOUNDARY)
        hs_raw_session_record_save(hs_run_context_session(call->run), hs_run_context_global_step(call->run, NULL));
    return HS_OK;
}

static hs_code save_at_the_creation(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_CREATE)
        hs_raw_session_record_save(call->raw, 0);
    return HS_OK;
}

/* Returns the log of a session that a signal stops after one step. */
static const char *log_of_signal(play *p, int number, hs_code (*act)(probe *p, const probe_call *call), bool done)
{
    test_env_clear_log(&p->t);
    play_probe(p, a, .act = act);
    p->session =
        hs_session_open(p->backend, HS_SESSION_OPTIONS(.signals = true, .hooks = HS_HOOKS(probe_hook(&p->a))), &p->err);
    play_train(p);
    raise(number);
    if (done)
        hs_session_request_stop(p->session);
    play_close(p);
    return p->t.log;
}

static void a_signal_and_where_to_continue(void **state)
{
    play *p = *state;
    assert_string_equal(log_of_signal(p, SIGTERM, save_each_boundary, false),
                        "INFO: SIGTERM: stopping after step 1\nINFO: saved step 1; start again to continue\n");
    hs_script_set_step(p->script, 0);
    assert_string_equal(log_of_signal(p, SIGINT, save_at_the_creation, false),
                        "INFO: SIGINT: stopping after step 1\n"
                        "WARNING: step 1 is not saved; start again to continue from step 0\n");
    assert_string_equal(log_of_signal(p, SIGINT, NULL, false), "INFO: SIGINT: stopping after step 2\n");
    assert_string_equal(log_of_signal(p, SIGTERM, save_each_boundary, true), "INFO: SIGTERM: stopping after step 3\n");
}

static void a_request_and_where_to_continue(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = save_each_boundary);
    play_open_probes(p, 1);
    play_train(p);
    hs_session_interrupt(p->session);
    play_close(p);
    assert_string_equal(p->t.log, "INFO: saved step 1; start again to continue\n");
}

/* Good ends. */

static hs_code already_done(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_CREATE)
        hs_coordinator_request_stop(call->coordinator, NULL);
    return HS_OK;
}

static void assert_quiet(play *p, hs_reason reason)
{
    assert_int_equal(play_close(p)->reason, reason);
    assert_string_equal(p->t.log, "");
}

static void a_good_end_logs_nothing(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    play_train(p);
    assert_quiet(p, HS_REASON_CLOSED);
    play_probe(p, a, .stops_at = 1);
    play_open_probes(p, 1);
    play_train(p);
    assert_quiet(p, HS_REASON_STOPPED);
    play_probe(p, a, .fails_in = PROBE_BEFORE, .fails_at = 1, .code = HS_OUT_OF_RANGE);
    play_open_probes(p, 1);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_OUT_OF_RANGE);
    assert_quiet(p, HS_REASON_END_OF_INPUT);
    play_probe(p, a, .act = already_done);
    play_open_probes(p, 1);
    assert_quiet(p, HS_REASON_ALREADY_DONE);
}

static void a_run_that_a_good_one_made_up_for_is_not_logged(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_BEFORE, .fails_at = 1);
    play_open_probes(p, 1);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_INTERNAL);
    play_train(p);
    assert_quiet(p, HS_REASON_CLOSED);
}

static void an_empty_list_of_hooks_logs_no_warning(void **state)
{
    play *p = *state;
    play_open(p, NULL, 0);
    assert_quiet(p, HS_REASON_CLOSED);
    p->session = hs_session_open(p->backend, NULL, &p->err);
    assert_quiet(p, HS_REASON_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(options_that_keep_a_session_from_opening),
        play_test(hooks_that_keep_a_session_from_opening),
        play_test(a_backend_that_keeps_a_session_from_opening),
        play_test(a_caller_without_an_error_finds_it_in_the_log),
        play_test(a_failure_that_is_returned_is_not_logged),
        play_test(a_run_that_failed),
        play_test(the_callers_own_error),
        play_test(a_threads_error),
        play_test(an_end_that_failed),
        play_test(a_backend_that_failed_to_close),
        play_test(a_signal_and_where_to_continue),
        play_test(a_request_and_where_to_continue),
        play_test(a_good_end_logs_nothing),
        play_test(a_run_that_a_good_one_made_up_for_is_not_logged),
        play_test(an_empty_list_of_hooks_logs_no_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
