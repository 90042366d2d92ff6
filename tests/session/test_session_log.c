/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever looks only at the log learns why a session was not opened, or failed: once. */
#include "session/probe.h"

static size_t lines_of(const play *p, const char *level)
{
    size_t n = 0;
    for (const char *at = p->t.log; (at = strstr(at, level)); at++)
        n++;
    return n;
}

/* This is the log's one error. */
static void assert_logged(const play *p, const char *says, const char *message)
{
    char line[HS_MESSAGE_SIZE + 128];
    snprintf(line, sizeof line, "ERROR: %s: %s\n", says, message);
    assert_contains(p->t.log, line);
    assert_int_equal(lines_of(p, "ERROR: "), 1);
}

/* Opening has failed. Closing what is not there, as every program does, says nothing more. */
static void assert_not_opened(play *p)
{
    assert_null(p->session);
    assert_true(p->err.message[0]);
    play_close(p);
    assert_logged(p, "the session was not opened", p->err.message);
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
        play_probe(p, b, .fails_in = points[i], .fails_at = 1, .message = "as told");
        play_try_open(p, (hs_hook[]){probe_hook(&p->a), probe_hook(&p->b)}, 2);
        assert_not_opened(p);
        assert_contains(p->err.message, "hook 'b'");
    }
}

static hs_code no_session(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    (void)self, (void)target, (void)config, (void)session;
    return hs_error_set(err, HS_UNAVAILABLE, "nobody at home");
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

/* Who asks for no error finds it in the log all the same. */
static void it_is_logged_for_who_asks_for_no_error(void **state)
{
    play *p = *state;
    assert_null(hs_session_open(p->backend, HS_SESSION_OPTIONS(.config = {NULL, 1}), NULL));
    assert_int_equal(lines_of(p, "ERROR: the session was not opened: "), 1);
}

/* What the session failed of. */

static void assert_failure_logged(play *p, const char *says)
{
    assert_int_equal(lines_of(p, "ERROR: "), 0); /* a run that fails is its caller's business, who may go on */
    assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
    assert_logged(p, says, p->outcome.error.message);
}

static void a_run_that_failed(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_AFTER, .fails_at = 2, .message = "as told");
    play_open_probes(p, 1);
    play_train(p);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_INTERNAL);
    assert_failure_logged(p, "the session failed at step 2");
}

static void the_callers_own_error(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_session_fail(p->session, test_error(HS_USER, "no batches any more"));
    assert_failure_logged(p, "the session failed at step 0");
}

static void a_threads_error(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_coordinator_request_stop(hs_session_coordinator(p->session), &(hs_error){.code = HS_UNKNOWN, .message = "lost"});
    assert_failure_logged(p, "the session failed at step 0");
}

static void an_end_that_failed(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_END, .fails_at = 1, .message = "as told");
    play_open_probes(p, 1);
    assert_failure_logged(p, "the session failed at step 0");
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
    assert_failure_logged(p, "the session failed at step 0");
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

static void no_hooks_are_no_reason_for_a_warning(void **state)
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
        play_test(it_is_logged_for_who_asks_for_no_error),
        play_test(a_run_that_failed),
        play_test(the_callers_own_error),
        play_test(a_threads_error),
        play_test(an_end_that_failed),
        play_test(a_backend_that_failed_to_close),
        play_test(a_good_end_logs_nothing),
        play_test(a_run_that_a_good_one_made_up_for_is_not_logged),
        play_test(no_hooks_are_no_reason_for_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
