/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks that leave a call into the session by longjmp. Exceptions are in test_exceptions.cpp. */
#include "session/own.h"

#include <setjmp.h>
#include <signal.h>

static jmp_buf outside;

static hs_code jump(probe *p, const probe_call *call)
{
    if (call->point == *(const probe_point *)p->user && p->calls[call->point] == 2)
        longjmp(outside, 1);
    return HS_OK;
}

/* Asserts that the session has failed: it refuses runs, and its loop ends. */
static void has_failed(own *o)
{
    assert_fails(hs_session_run(o->session, "same", &o->err), HS_FAILED_PRECONDITION, &o->err, "an earlier step failed");
    assert_true(hs_session_should_stop(o->session));
    assert_int_equal(own_close(o)->reason, HS_REASON_FAILED);
    assert_says(&o->outcome.error, HS_INTERNAL, "a callback threw an exception or called longjmp instead of returning");
    assert_int_equal(o->a.calls[PROBE_END], 0);
    assert_int_equal(o->a.calls[PROBE_CLOSE], 1);
    assert_int_equal(o->a.destroyed, 1);
}

static void open_jumping(own *o, const probe_point *where)
{
    own_probe(o, a, .act = jump, .user = (void *)where);
    own_open_probes(o, NULL);
}

static void a_run_may_be_left(void **state)
{
    static const probe_point points[] = {PROBE_BEFORE, PROBE_AFTER};
    static volatile size_t i;
    own *o = *state;
    const double number = 1;
    hs_tensor in = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &number);
    const hs_run_args same = HS_INIT(hs_run_args, .names = HS_NAMES("same"), .feeds = HS_FEEDS({"in", in}));
    for (i = 0; i < 2; i++) {
        open_jumping(o, &points[i]);
        assert_ok(hs_session_run_args(o->session, &same, NULL, &o->err), &o->err);
        if (!setjmp(outside)) {
            hs_session_run_args(o->session, &same, NULL, &o->err);
            fail();
        }
        has_failed(o);
    }
}

static void a_step_of_the_callers_own_may_be_left(void **state)
{
    static const probe_point points[] = {PROBE_BEFORE, PROBE_AFTER};
    static volatile size_t i;
    own *o = *state;
    for (i = 0; i < 2; i++) {
        open_jumping(o, &points[i]);
        assert_int_equal(own_loop(o, 1), 1);
        if (!setjmp(outside)) {
            own_loop(o, 1);
            fail();
        }
        has_failed(o);
    }
}

static void between_begin_and_end_no_call_is_left(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    if (!setjmp(outside)) {
        assert_true(hs_step_begin(o->session));
        longjmp(outside, 1);
    }
    assert_ok(hs_step_end(o->session), &o->err);
    assert_int_equal(own_loop(o, 2), 2);
    assert_int_equal(own_close(o)->reason, HS_REASON_CLOSED);
}

static hs_code leave_step(void *user, hs_step_context *step, hs_error *err)
{
    (void)user, (void)step, (void)err;
    longjmp(outside, 1);
    return HS_OK;
}

static void a_step_function_may_be_left(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    if (!setjmp(outside)) {
        hs_session_run_step(o->session, leave_step, NULL, &o->err);
        fail();
    }
    has_failed(o);
}

static hs_code close_inside(probe *p, const probe_call *call)
{
    own *o = p->user;
    if (call->point == PROBE_AFTER) {
        hs_outcome outcome = hs_session_close(o->session, NULL);
        assert_says(&outcome.error, HS_FAILED_PRECONDITION, "cannot be closed from its own callbacks");
    }
    return HS_OK;
}

static void a_callback_still_cannot_close_its_session(void **state)
{
    own *o = *state;
    own_probe(o, a, .act = close_inside, .user = o);
    own_open_probes(o, NULL);
    assert_int_equal(own_loop(o, 3), 3);
    assert_int_equal(own_close(o)->reason, HS_REASON_CLOSED);
}

static hs_code jump_at_the_end(probe *p, const probe_call *call)
{
    if (call->point == PROBE_END && p->calls[PROBE_END] == 1)
        longjmp(outside, 1);
    return HS_OK;
}

static void a_close_that_was_left_is_made_again(void **state)
{
    own *o = *state;
    own_probe(o, a, .act = jump_at_the_end);
    own_open_probes(o, NULL);
    if (!setjmp(outside)) {
        own_close(o);
        fail();
    }
    assert_int_equal(own_close(o)->reason, HS_REASON_FAILED);
    assert_int_equal(o->a.calls[PROBE_END], 1);
    assert_int_equal(o->b.calls[PROBE_CLOSE], 1);
}

static void signals_are_as_before_when_it_is_closed(void **state)
{
    static const probe_point after = PROBE_AFTER;
    own *o = *state;
    struct sigaction found;
    own_probe(o, a, .act = jump, .user = (void *)&after);
    own_open_probes(o, HS_SESSION_OPTIONS(.signals = true));
    assert_int_equal(own_loop(o, 1), 1);
    if (!setjmp(outside))
        own_loop(o, 1);
    has_failed(o);
    sigaction(SIGTERM, NULL, &found);
    assert_true(found.sa_handler == SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        own_test(a_run_may_be_left),
        own_test(a_step_of_the_callers_own_may_be_left),
        own_test(between_begin_and_end_no_call_is_left),
        own_test(a_step_function_may_be_left),
        own_test(a_callback_still_cannot_close_its_session),
        own_test(a_close_that_was_left_is_made_again),
        own_test(signals_are_as_before_when_it_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
