/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that the caller computes, in a session that is lost and recovers. */
#include "session/own.h"

#include <pthread.h>

static void recovers(own *o)
{
    o->recovery = (hs_recovery)HS_INIT(hs_recovery);
}

static void open_saving(own *o)
{
    const hs_hook hooks[] = {probe_hook(&o->a), hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 2)};
    own_open(o, HS_SESSION_OPTIONS(.checkpoint_dir = o->directory), hooks, 2);
}

static void a_loss_in_step_end_resumes_from_the_initial_state(void **state)
{
    own *o = *state;
    recovers(o);
    o->weight = 100;
    own_probe(o, a, .fails_in = PROBE_AFTER, .fails_at = 3, .code = HS_UNAVAILABLE);
    own_open_probes(o, NULL);
    assert_int_equal(own_loop(o, 2), 2);
    assert_int_equal(own_step(o), HS_ABORTED);
    assert_int_equal(hs_session_global_step(o->session, NULL), 0);
    assert_true(o->weight == 100 && o->position == 0);
    assert_int_equal(own_loop(o, 3), 3);
    assert_true(o->weight == 106);
    assert_int_equal(own_close(o)->reason, HS_REASON_CLOSED);
    assert_int_equal(o->a.calls[PROBE_CREATE], 2);
}

static void a_loss_in_step_end_resumes_from_the_newest_checkpoint(void **state)
{
    own *o = *state;
    recovers(o);
    own_probe(o, a, .fails_in = PROBE_AFTER, .fails_at = 4, .code = HS_ABORTED);
    open_saving(o);
    assert_int_equal(own_loop(o, 3), 3);
    assert_int_equal(own_step(o), HS_ABORTED);
    assert_int_equal(hs_session_global_step(o->session, NULL), 2);
    assert_true(o->weight == 3 && o->position == 2);
    assert_int_equal(own_loop(o, 3), 3);
    assert_int_equal(own_close(o)->step, 5);
    assert_true(own_saved(o, "weight") == 15);
}

/* A loop that checks no result repeats the steps that were lost. */
static void a_loop_that_checks_nothing_repeats_the_lost_steps(void **state)
{
    own *o = *state;
    recovers(o);
    own_probe(o, a, .fails_in = PROBE_BOUNDARY, .fails_at = 3, .code = HS_UNAVAILABLE);
    const hs_hook hooks[] = {probe_hook(&o->a), hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 2),
                             hs_stop_at_step(.last_step = 6)};
    own_open(o, HS_SESSION_OPTIONS(.checkpoint_dir = o->directory), hooks, 3);
    assert_int_equal(own_loop(o, 99), 8); /* two of them were lost */
    assert_true(o->weight == 21 && o->position == 6);
    assert_int_equal(own_close(o)->reason, HS_REASON_STOPPED);
}

/* The step has not begun yet: the session recovers, and the step begins. */
static void lost_in_the_beginning(void **state, bool return_aborted)
{
    own *o = *state;
    recovers(o);
    o->recovery.return_aborted = return_aborted;
    own_probe(o, a, .fails_in = PROBE_BEFORE, .fails_at = 3, .code = HS_UNAVAILABLE);
    own_open_probes(o, NULL);
    assert_int_equal(own_loop(o, 2), 2);
    assert_true(hs_step_begin(o->session));
    assert_int_equal(hs_session_recoveries(o->session), 1);
    assert_int_equal(hs_session_global_step(o->session, NULL), 0);
    own_compute(o);
    assert_ok(hs_step_end(o->session), &o->err);
    assert_true(o->weight == 1);
    assert_int_equal(own_close(o)->reason, HS_REASON_CLOSED);
}

static void a_loss_in_step_begin_is_recovered_there(void **state)
{
    lost_in_the_beginning(state, false);
}

static void a_loss_in_step_begin_is_recovered_with_return_aborted(void **state)
{
    lost_in_the_beginning(state, true);
}

static void *report(void *coordinator)
{
    hs_error lost = {.code = HS_UNAVAILABLE, .message = "a thread's"};
    hs_coordinator_request_stop(coordinator, &lost);
    return NULL;
}

static void a_threads_report_is_handled_when_the_next_step_begins(void **state)
{
    own *o = *state;
    pthread_t thread;
    recovers(o);
    o->recovery.return_aborted = true;
    own_open_probes(o, NULL);
    assert_true(hs_step_begin(o->session));
    own_compute(o);
    assert_int_equal(pthread_create(&thread, NULL, report, o->a.coordinator), 0);
    pthread_join(thread, NULL);
    assert_ok(hs_step_end(o->session), &o->err);
    assert_true(hs_step_begin(o->session));
    assert_int_equal(hs_session_global_step(o->session, NULL), 0);
    assert_true(o->weight == 0);
    assert_ok(hs_step_end(o->session), &o->err);
    assert_int_equal(own_close(o)->reason, HS_REASON_CLOSED);
}

static hs_code always_lost(probe *p, const probe_call *call)
{
    return call->point == PROBE_BEFORE && p->calls[PROBE_BEFORE] > 1 ? HS_UNAVAILABLE : HS_OK;
}

static void recoveries_without_progress_end_the_loop(void **state)
{
    own *o = *state;
    recovers(o);
    o->recovery.max_attempts = 2;
    own_probe(o, a, .act = always_lost);
    own_open_probes(o, NULL);
    assert_int_equal(own_loop(o, 9), 1);
    assert_true(hs_session_should_stop(o->session));
    own_close(o);
    assert_says(&o->err, HS_UNAVAILABLE, "no progress after 2 recoveries");
}

static void without_recovery_a_loss_ends_the_loop(void **state)
{
    own *o = *state;
    own_probe(o, a, .fails_in = PROBE_AFTER, .fails_at = 1, .code = HS_UNAVAILABLE);
    own_open_probes(o, NULL);
    assert_int_equal(own_loop(o, 9), 1);
    assert_int_equal(own_close(o)->error.code, HS_UNAVAILABLE);
}

static void a_stop_requested_during_a_recovery_ends_the_loop_normally(void **state)
{
    own *o = *state;
    recovers(o);
    own_probe(o, a, .fails_in = PROBE_AFTER, .fails_at = 2, .code = HS_UNAVAILABLE);
    own_open_probes(o, NULL);
    own_step(o);
    assert_true(hs_step_begin(o->session));
    hs_session_interrupt(o->session);
    own_compute(o);
    assert_int_equal(hs_step_end(o->session), HS_ABORTED);
    assert_false(hs_step_begin(o->session));
    assert_int_equal(own_close(o)->reason, HS_REASON_STOPPED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        own_test(a_loss_in_step_end_resumes_from_the_initial_state),
        own_test(a_loss_in_step_end_resumes_from_the_newest_checkpoint),
        own_test(a_loop_that_checks_nothing_repeats_the_lost_steps),
        own_test(a_loss_in_step_begin_is_recovered_there),
        own_test(a_loss_in_step_begin_is_recovered_with_return_aborted),
        own_test(a_threads_report_is_handled_when_the_next_step_begins),
        own_test(recoveries_without_progress_end_the_loop),
        own_test(without_recovery_a_loss_ends_the_loop),
        own_test(a_stop_requested_during_a_recovery_ends_the_loop_normally),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
