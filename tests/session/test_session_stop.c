/* SPDX-License-Identifier: Apache-2.0 */
/* When a session should stop, and which calls are possible after a stop. */
#include "session/probe.h"

static hs_code look_when_closed(probe *p, const probe_call *call)
{
    const play *all = p->user;
    if (call->point == PROBE_CLOSE)
        assert_true(hs_session_should_stop(all->session) && hs_coordinator_should_stop(p->coordinator));
    else if (call->point != PROBE_BEGIN && all->session)
        assert_false(hs_session_should_stop(all->session) || hs_coordinator_should_stop(p->coordinator));
    return HS_OK;
}

static void ms_023_ms_029_closing_stops(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = look_when_closed, .user = p);
    play_open_probes(p, 1);
    assert_false(hs_session_should_stop(p->session));
    play_train(p);
    play_close(p);
    assert_int_equal(p->a.calls[PROBE_CLOSE], 1);
    assert_true(hs_session_should_stop(p->session)); /* of NULL */
}

static void ms_024_ms_048_a_hook_stops_in_its_time(void **state)
{
    play *p = *state;
    play_probe(p, a, .stops_at = 4);
    play_open_probes(p, 2);
    for (int i = 1; i <= 4; i++) {
        play_train(p);
        assert_true(hs_session_should_stop(p->session) == (i == 4));
    }
}

static void ms_026_ms_076_closing_twice_is_refused_and_harmless(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
    assert_true(hs_session_should_stop(p->session));
    play_close(p);
    assert_says(&p->err, HS_FAILED_PRECONDITION, "session is NULL");
    assert_int_equal(p->outcome.reason, HS_REASON_FAILED);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(p->a.calls[PROBE_END], 1);
}

static void ms_099s_nothing_runs_after_the_close(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    play_close(p);
    assert_fails(hs_session_run(p->session, "train", &p->err), HS_FAILED_PRECONDITION, &p->err, "already closed");
    assert_int_equal(hs_script_runs(p->script), 0);
}

static void ms_100s_nothing_runs_after_a_hooks_stop(void **state)
{
    play *p = *state;
    play_probe(p, b, .stops_at = 1);
    play_open_probes(p, 2);
    play_train(p);
    play_calls(p);
    assert_fails(hs_session_run(p->session, "train", &p->err), HS_FAILED_PRECONDITION, &p->err, "asked to stop by hook b");
    assert_string_equal(play_calls(p), "");
    assert_int_equal(hs_session_global_step(p->session, NULL), 1);
}

typedef struct {
    probe_point point;
    bool interrupts;
    hs_code code;
} stopping;

static hs_code stop_and_fail(probe *p, const probe_call *call)
{
    const stopping *s = p->user;
    if (call->point != s->point || p->calls[s->point] > 1)
        return HS_OK;
    if (s->interrupts)
        hs_run_context_interrupt(call->run);
    else
        hs_run_context_request_stop(call->run);
    return s->code;
}

static void a_callback_that_stops_and_fails_has_stopped(void **state)
{
    play *p = *state;
    for (int i = 0; i < 4; i++) {
        stopping s = {i % 2 ? PROBE_BEFORE : PROBE_AFTER, i / 2, HS_INTERNAL};
        play_probe(p, a, .act = stop_and_fail, .user = &s);
        play_open_probes(p, 1);
        assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_INTERNAL);
        assert_true(hs_session_should_stop(p->session));
        assert_fails(hs_session_run(p->session, "train", &p->err), HS_FAILED_PRECONDITION, &p->err,
                     "asked to stop by hook a");
        assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
    }
}

/* Training continues after the failure of such a hook. */
static void the_stop_of_a_best_effort_hook_that_fails_counts(void **state)
{
    play *p = *state;
    stopping s = {PROBE_AFTER, true, HS_INTERNAL};
    play_probe(p, a, .act = stop_and_fail, .user = &s);
    play_open(p, (hs_hook[]){hs_hook_best_effort(probe_hook(&p->a), 0)}, 1);
    assert_ok(hs_session_run(p->session, "train", &p->err), &p->err);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
    assert_true(p->outcome.interrupted);
}

/* A refused run does not change a normal end into a failure. */
static void ms_100s_a_refused_run_does_not_spoil_the_outcome(void **state)
{
    play *p = *state;
    play_probe(p, a, .stops_at = 1);
    play_open_probes(p, 1);
    play_train(p);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_FAILED_PRECONDITION);
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
    assert_string_equal(p->outcome.hook, "a");
    assert_int_equal(p->err.code, HS_OK);
    assert_int_equal(p->a.calls[PROBE_END], 1);
}

static void ms_030_a_stop_of_the_coordinator_is_seen_at_once(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    assert_false(hs_session_should_stop(p->session));
    hs_coordinator_request_stop(hs_session_coordinator(p->session), NULL);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
    assert_string_equal(p->outcome.hook, "");
}

/* The caller may not have checked for a stop since. */
static void runs_after_a_stop_from_outside_are_still_made(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_session_interrupt(p->session);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(play_train(p), 1);
    assert_int_equal(play_train(p), 2);
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
    assert_int_equal(p->outcome.step, 2);
    assert_int_equal(p->a.calls[PROBE_END], 1);
}

static void a_run_after_a_stop_of_the_coordinator_is_still_made(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_coordinator_request_stop(hs_session_coordinator(p->session), NULL);
    assert_int_equal(play_train(p), 1);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
}

static void ms_116s_an_error_of_a_thread_only_stops(void **state)
{
    play *p = *state;
    hs_error lost = {.code = HS_UNKNOWN, .message = "thread lost"};
    play_open_probes(p, 1);
    hs_coordinator_request_stop(hs_session_coordinator(p->session), &lost);
    assert_true(hs_session_should_stop(p->session));
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->error.code, HS_UNKNOWN);
}

/* A callback that returns HS_STOP. */

/* A loop that checks only hs_session_should_stop. Returns the number of its runs. */
static int loop(play *p)
{
    int runs = 0;
    while (!hs_session_should_stop(p->session) && runs < 10) {
        hs_session_run(p->session, "train", &p->err);
        runs++;
    }
    return runs;
}

static void is_stopped_by_a(play *p)
{
    play_close(p);
    assert_int_equal(p->outcome.reason, HS_REASON_STOPPED);
    assert_int_equal(hs_outcome_exit_code(&p->outcome), 0);
    assert_string_equal(p->outcome.hook, "a");
    assert_int_equal(p->outcome.failing_hooks, 0);
    assert_ok(p->outcome.error.code, &p->outcome.error);
    assert_int_equal(p->b.calls[PROBE_END], 1);
}

static hs_code request_boundary(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_AFTER)
        hs_run_context_request_boundary(call->run);
    return HS_OK;
}

static void a_callback_that_returns_stop_ends_the_loop(void **state)
{
    static const struct {
        probe_point point;
        size_t call; /* the creation has a boundary, too */
    } rows[] = {{PROBE_BEFORE, 3}, {PROBE_AFTER, 3}, {PROBE_BOUNDARY, 4}};
    play *p = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        play_probe(p, a, .fails_in = rows[i].point, .fails_at = rows[i].call, .code = HS_STOP, .act = request_boundary);
        play_probe(p, b, .code = HS_OK);
        play_open_probes(p, 2);
        assert_int_equal(loop(p), 3);
        assert_int_equal(p->err.code, HS_STOP);
        is_stopped_by_a(p);
    }
}

static void stop_from_the_boundary_of_the_creation_ends_the_loop(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_BOUNDARY, .fails_at = 1, .code = HS_STOP);
    play_open_probes(p, 2);
    assert_int_equal(loop(p), 0);
    is_stopped_by_a(p);
}

static void a_hook_of_best_effort_may_return_stop(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_AFTER, .fails_at = 2, .code = HS_STOP);
    play_open(p, (hs_hook[]){hs_hook_best_effort(probe_hook(&p->a), 0), probe_hook(&p->b)}, 2);
    assert_int_equal(loop(p), 2);
    is_stopped_by_a(p);
}

/* As a hook does if the stop ended its own run. */
static hs_code pass_the_stop_on(probe *p, const probe_call *call)
{
    const play *all = p->user;
    if (call->point != PROBE_AFTER || p->calls[PROBE_AFTER] != 2)
        return HS_OK;
    hs_session_interrupt(all->session);
    return HS_STOP;
}

static void a_hook_that_passes_a_stop_on_has_not_requested_it(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = pass_the_stop_on, .user = p);
    play_open_probes(p, 1);
    assert_int_equal(loop(p), 2);
    assert_true(play_close(p)->interrupted);
    assert_string_equal(p->outcome.hook, "");
}

static void stop_from_after_create_session_means_already_done(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_CREATE, .fails_at = 1, .code = HS_STOP);
    play_open_probes(p, 1);
    assert_int_equal(loop(p), 0);
    assert_int_equal(play_close(p)->reason, HS_REASON_ALREADY_DONE);
    assert_string_equal(p->outcome.hook, "a");
}

static void stop_from_the_last_callbacks_changes_nothing(void **state)
{
    const probe_point points[] = {PROBE_BOUNDARY, PROBE_END};
    play *p = *state;
    for (size_t i = 0; i < 2; i++) {
        play_probe(p, a, .fails_in = points[i], .fails_at = points[i] == PROBE_BOUNDARY ? 2 : 1, .code = HS_STOP);
        play_open_probes(p, 1);
        play_train(p);
        assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
        assert_int_equal(p->outcome.error.code, HS_OK);
    }
}

static hs_code already_done(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_CREATE)
        hs_coordinator_request_stop(call->coordinator, NULL);
    return HS_OK;
}

static void a_stop_at_the_creation_means_already_done(void **state)
{
    play *p = *state;
    play_probe(p, b, .act = already_done);
    play_probe(p, c, .act = already_done);
    play_open_probes(p, 3);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->reason, HS_REASON_ALREADY_DONE);
    assert_string_equal(p->outcome.hook, "b"); /* the first of the two hooks */
    assert_int_equal(hs_outcome_exit_code(&p->outcome), 0);
    assert_int_equal(p->b.calls[PROBE_END], 1);
}

static hs_code stop_at_the_first_boundary(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_BOUNDARY)
        hs_run_context_request_stop(call->run);
    return HS_OK;
}

static void a_hook_may_stop_in_its_boundary(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = stop_at_the_first_boundary);
    play_open_probes(p, 1);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_FAILED_PRECONDITION);
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
    assert_string_equal(p->outcome.hook, "a");
}

static hs_code stop_at_the_last_boundary(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_BOUNDARY && hs_run_context_boundary(call->run) == HS_BOUNDARY_END)
        hs_run_context_request_stop(call->run);
    return HS_OK;
}

/* The caller is closing the session already, or another hook had stopped it. */
static void a_stop_in_the_last_boundary_stops_nothing(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = stop_at_the_last_boundary);
    play_open_probes(p, 2);
    play_train(p);
    assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
    assert_string_equal(p->outcome.hook, "");
    play_probe(p, b, .stops_at = 1);
    play_open_probes(p, 2);
    play_train(p);
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
    assert_string_equal(p->outcome.hook, "b");
}

/* The hook that found the training complete is the reason, even if another one stops after it. */
static void a_stop_in_the_first_boundary_does_not_replace_already_done(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = already_done);
    play_probe(p, b, .act = stop_at_the_first_boundary);
    play_open_probes(p, 2);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->reason, HS_REASON_ALREADY_DONE);
    assert_string_equal(p->outcome.hook, "a");
}

static void the_first_hook_that_stops_is_named(void **state)
{
    play *p = *state;
    play_probe(p, a, .stops_at = 2);
    play_probe(p, b, .stops_at = 1);
    play_open_probes(p, 2);
    play_train(p);
    play_close(p);
    assert_string_equal(p->outcome.hook, "b");
}

static hs_code expect_stop(probe *p, const probe_call *call)
{
    if (call->point == PROBE_BEFORE)
        assert_false(hs_run_context_stop_requested(call->run));
    if (call->point == PROBE_AFTER)
        assert_true(hs_run_context_stop_requested(call->run) == (p->calls[PROBE_AFTER] == 2));
    return HS_OK;
}

/* Hooks see each other's stop in the same run; each run begins without one. */
static void ms_120s_the_stop_of_a_run_is_shared_and_begins_false(void **state)
{
    play *p = *state;
    play_probe(p, a, .stops_at = 2);
    play_probe(p, b, .act = expect_stop);
    play_open_probes(p, 2);
    play_train(p);
    play_train(p);
    assert_int_equal(p->b.calls[PROBE_AFTER], 2);
}

static void the_end_of_input_stops_until_a_good_run(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_BEFORE, .fails_at = 1, .code = HS_OUT_OF_RANGE);
    play_open_probes(p, 1);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_OUT_OF_RANGE);
    assert_true(hs_session_should_stop(p->session));
    play_train(p); /* the next epoch */
    assert_false(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
}

static void a_failed_run_stops_nothing(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_BEFORE, .fails_at = 1, .code = HS_INTERNAL);
    play_open_probes(p, 1);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_INTERNAL);
    assert_false(hs_session_should_stop(p->session));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(ms_023_ms_029_closing_stops),
        play_test(ms_024_ms_048_a_hook_stops_in_its_time),
        play_test(ms_026_ms_076_closing_twice_is_refused_and_harmless),
        play_test(ms_099s_nothing_runs_after_the_close),
        play_test(ms_100s_nothing_runs_after_a_hooks_stop),
        play_test(a_callback_that_stops_and_fails_has_stopped),
        play_test(the_stop_of_a_best_effort_hook_that_fails_counts),
        play_test(ms_100s_a_refused_run_does_not_spoil_the_outcome),
        play_test(ms_030_a_stop_of_the_coordinator_is_seen_at_once),
        play_test(runs_after_a_stop_from_outside_are_still_made),
        play_test(a_run_after_a_stop_of_the_coordinator_is_still_made),
        play_test(ms_116s_an_error_of_a_thread_only_stops),
        play_test(a_callback_that_returns_stop_ends_the_loop),
        play_test(stop_from_the_boundary_of_the_creation_ends_the_loop),
        play_test(a_hook_of_best_effort_may_return_stop),
        play_test(a_hook_that_passes_a_stop_on_has_not_requested_it),
        play_test(stop_from_after_create_session_means_already_done),
        play_test(stop_from_the_last_callbacks_changes_nothing),
        play_test(a_stop_at_the_creation_means_already_done),
        play_test(a_hook_may_stop_in_its_boundary),
        play_test(a_stop_in_the_last_boundary_stops_nothing),
        play_test(a_stop_in_the_first_boundary_does_not_replace_already_done),
        play_test(the_first_hook_that_stops_is_named),
        play_test(ms_120s_the_stop_of_a_run_is_shared_and_begins_false),
        play_test(the_end_of_input_stops_until_a_good_run),
        play_test(a_failed_run_stops_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
