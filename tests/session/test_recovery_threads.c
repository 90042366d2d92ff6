/* SPDX-License-Identifier: Apache-2.0 */
/* A session that recovers: reports of threads to the coordinator, and step functions. */
#include "session/lost.h"

#include <math.h>
#include <stdatomic.h>

/* A thread reports an error in the second run, in which a hook may fail as well. */
typedef struct {
    lost *l;
    hs_code reports, fails;
} trouble;

static hs_code in_the_second_run(probe *p, const probe_call *call)
{
    trouble *t = p->user;
    if (call->point != PROBE_AFTER || p->calls[PROBE_AFTER] != 2)
        return HS_OK;
    lost_report(t->l, t->reports);
    return t->fails ? hs_error_set(call->err, t->fails, "stuck") : HS_OK;
}

static void open_with(lost *l, trouble *t)
{
    lost_probe(l, a, .act = in_the_second_run, .user = t);
    lost_open(l, NULL);
}

/* Three kinds of step: a run, a step function with hooks, and one with the raw session, for which the test reports the
 * thread's error itself. */
typedef struct {
    lost *l;
    trouble *t;
    double number, result;
    int calls;
} step;

static hs_code with_hooks(void *user, hs_step_context *context, hs_error *err)
{
    step *s = user;
    const hs_run_values *values;
    hs_tensor in = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &s->number);
    s->calls++;
    hs_code code = hs_step_context_run_with_hooks(
        context, HS_RUN_ARGS(.names = HS_NAMES("same"), .feeds = HS_FEEDS({"in", in})), &values, err);
    s->result = code ? 0 : hs_run_values_number(values, 0);
    return code;
}

static hs_code with_raw_session(void *user, hs_step_context *context, hs_error *err)
{
    step *s = user;
    const hs_run_values *values;
    hs_tensor in = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &s->number);
    if (++s->calls == 2)
        lost_report(s->l, s->t->reports);
    hs_code code = hs_raw_session_run(hs_step_context_session(context),
                                      HS_RUN_ARGS(.names = HS_NAMES("same"), .feeds = HS_FEEDS({"in", in})), &values, err);
    s->result = code ? 0 : hs_run_values_number(values, 0);
    return code;
}

static double make_step(step *s, hs_session_run_step_fn fn, double number)
{
    s->number = number;
    assert_ok(hs_session_run_step(s->l->session, fn, s, &s->l->err), &s->l->err);
    return s->result;
}

/* A query does not recover the session. The next run does. */
static void assert_trains_on(lost *l)
{
    assert_false(hs_session_should_stop(l->session));
    assert_true(lost_same(l, 43) == 43);
    assert_int_equal(l->opens, 2);
    assert_false(hs_session_should_stop(l->session));
    assert_int_equal(lost_close(l)->reason, HS_REASON_CLOSED);
}

static void has_failed(lost *l, hs_code code)
{
    assert_true(hs_session_should_stop(l->session));
    assert_int_equal(l->opens, 1);
    assert_int_equal(lost_close(l)->error.code, code);
}

static void ms_037_a_thread_may_report_that_the_session_is_lost(void **state)
{
    trouble t = {*state, HS_ABORTED, HS_OK};
    open_with(t.l, &t);
    assert_true(lost_same(t.l, 51) == 51);
    assert_false(hs_session_should_stop(t.l->session));
    assert_true(lost_same(t.l, 42) == 42);
    assert_trains_on(t.l);
}

static void ms_038_other_reports_end_it(void **state)
{
    trouble t = {*state, HS_UNKNOWN, HS_OK};
    open_with(t.l, &t);
    assert_true(lost_same(t.l, 51) == 51);
    assert_true(lost_same(t.l, 42) == 42);
    has_failed(t.l, HS_UNKNOWN);
}

/* TensorFlow's sessions have a coordinator without clean codes, so that it is an error of the session. */
static void co_019s_the_end_of_a_threads_input_is_no_error(void **state)
{
    trouble t = {*state, HS_OUT_OF_RANGE, HS_OK};
    open_with(t.l, &t);
    assert_true(lost_same(t.l, 51) == 51);
    assert_true(lost_same(t.l, 42) == 42);
    assert_true(hs_session_should_stop(t.l->session));
    assert_int_equal(t.l->opens, 1);
    assert_int_equal(lost_close(t.l)->error.code, HS_OK);
    assert_int_equal(t.l->outcome.reason, HS_REASON_STOPPED);
    assert_int_equal(hs_outcome_exit_code(&t.l->outcome), 0);
    assert_int_equal(t.l->a.calls[PROBE_END], 1);
}

static void ms_039_a_run_that_is_stuck_failed_for_the_threads_reason(void **state)
{
    trouble t = {*state, HS_ABORTED, HS_CANCELLED};
    open_with(t.l, &t);
    assert_true(lost_same(t.l, 51) == 51);
    assert_true(lost_same(t.l, 42) == 42);
    assert_int_equal(t.l->opens, 2);
    assert_false(hs_session_should_stop(t.l->session));
}

static void ms_040_the_same_in_step_functions(void **state)
{
    trouble t = {*state, HS_ABORTED, HS_OK};
    step s = {.l = t.l};
    open_with(t.l, &t);
    assert_true(make_step(&s, with_hooks, 51) == 51);
    assert_true(make_step(&s, with_hooks, 42) == 42);
    assert_trains_on(t.l);
}

static void ms_041_other_reports_in_step_functions(void **state)
{
    trouble t = {*state, HS_UNKNOWN, HS_OK};
    step s = {.l = t.l};
    open_with(t.l, &t);
    assert_true(make_step(&s, with_hooks, 51) == 51);
    assert_true(make_step(&s, with_hooks, 42) == 42);
    has_failed(t.l, HS_UNKNOWN);
}

static void ms_042_a_step_that_is_stuck_is_made_again(void **state)
{
    trouble t = {*state, HS_ABORTED, HS_CANCELLED};
    step s = {.l = t.l};
    open_with(t.l, &t);
    assert_true(make_step(&s, with_hooks, 51) == 51);
    assert_true(make_step(&s, with_hooks, 42) == 42);
    assert_int_equal(s.calls, 3);
    assert_int_equal(t.l->opens, 2);
    assert_false(hs_session_should_stop(t.l->session));
}

static void ms_043_the_same_with_the_raw_session(void **state)
{
    trouble t = {*state, HS_ABORTED, HS_OK};
    step s = {.l = t.l, .t = &t};
    lost_open(t.l, NULL);
    assert_true(make_step(&s, with_raw_session, 51) == 51);
    assert_true(make_step(&s, with_raw_session, 42) == 42);
    assert_trains_on(t.l);
}

static void ms_044_other_reports_with_the_raw_session(void **state)
{
    trouble t = {*state, HS_UNKNOWN, HS_OK};
    step s = {.l = t.l, .t = &t};
    lost_open(t.l, NULL);
    assert_true(make_step(&s, with_raw_session, 51) == 51);
    assert_true(make_step(&s, with_raw_session, 42) == 42);
    has_failed(t.l, HS_UNKNOWN);
}

static hs_code aborted_at_first(void *user, hs_step_context *context, hs_error *err)
{
    step *s = user;
    (void)context;
    if (++s->calls == 1)
        return hs_error_set(err, HS_ABORTED, "the first time");
    s->result = s->number;
    return HS_OK;
}

static void ms_083_a_step_function_that_aborts_is_called_again(void **state)
{
    step s = {.l = *state};
    lost_open(s.l, NULL);
    assert_true(make_step(&s, aborted_at_first, 3.2) == 3.2);
    assert_int_equal(s.calls, 2);
    assert_int_equal(s.l->opens, 2);
}

/* TensorFlow passes the lost raw session again. */
static hs_code aborted_then_raw(void *user, hs_step_context *context, hs_error *err)
{
    step *s = user;
    const hs_run_values *values;
    hs_tensor in = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &s->number);
    if (++s->calls == 1)
        return hs_error_set(err, HS_ABORTED, "the first time");
    hs_code code = hs_raw_session_run(hs_step_context_session(context),
                                      HS_RUN_ARGS(.names = HS_NAMES("same"), .feeds = HS_FEEDS({"in", in})), &values, err);
    s->result = code ? 0 : hs_run_values_number(values, 0);
    return code;
}

static void ms_083_a_repeated_step_function_has_the_new_session(void **state)
{
    step s = {.l = *state};
    lost_open(s.l, NULL);
    assert_true(make_step(&s, aborted_then_raw, 3.2) == 3.2);
    assert_int_equal(s.calls, 2);
    assert_int_equal(s.l->opens, 2);
}

/* A step with two runs. The second one loses the session. */
static hs_code two_runs(void *user, hs_step_context *context, hs_error *err)
{
    step *s = user;
    s->calls++;
    hs_code code = hs_step_context_run_with_hooks(context, HS_RUN_ARGS(.names = HS_NAMES("inc")), NULL, err);
    return code ? code : hs_step_context_run_with_hooks(context, HS_RUN_ARGS(.names = HS_NAMES("fail")), NULL, err);
}

static void ms_136s_the_whole_step_is_made_again(void **state)
{
    lost *l = *state;
    step s = {.l = l};
    lost_open(l, NULL);
    l->fails_left = 1;
    l->fails_with = HS_UNAVAILABLE;
    make_step(&s, two_runs, 0);
    assert_int_equal(s.calls, 2);
    assert_int_equal(l->a.calls[PROBE_BEFORE], 4);
    assert_int_equal(hs_session_global_step(l->session, NULL), 1); /* the first of the two runs was rolled back */
}

static void the_caller_may_repeat_its_step(void **state)
{
    lost *l = *state;
    step s = {.l = l};
    l->recovery.return_aborted = true;
    lost_open(l, NULL);
    assert_fails(hs_session_run_step(l->session, aborted_at_first, &s, &l->err), HS_ABORTED, &l->err, "restored at step 0");
    assert_int_equal(s.calls, 1);
    assert_true(make_step(&s, aborted_at_first, 3) == 3);
}

/* A call after a thread has lost the session has a batch from before the loss. */
static void a_loss_that_a_thread_reports_may_be_the_callers_to_repeat(void **state)
{
    lost *l = *state;
    step s = {.l = l};
    l->recovery.return_aborted = true;
    lost_open(l, NULL);
    lost_inc(l);
    lost_report(l, HS_UNAVAILABLE);
    assert_fails(lost_run(l, "inc"), HS_ABORTED, &l->err, "restored at step 0");
    assert_int_equal(lost_inc(l), 1);
    lost_report(l, HS_ABORTED);
    assert_fails(hs_session_run_step(l->session, with_hooks, &s, &l->err), HS_ABORTED, &l->err, "restored at step 0");
    assert_int_equal(s.calls, 0);
    assert_int_equal(hs_session_recoveries(l->session), 2);
}

/* A hook may wait for an event that never comes in a lost session. */
static hs_code wait_for_nothing(probe *p, const probe_call *call)
{
    if (call->point != PROBE_BEFORE || p->calls[PROBE_BEFORE] != 1)
        return HS_OK;
    assert_false(hs_raw_session_stop_requested(hs_run_context_session(call->run)));
    lost_report(p->user, HS_ABORTED);
    assert_true(hs_raw_session_stop_requested(hs_run_context_session(call->run)));
    return HS_OK;
}

static void waiting_hooks_see_the_loss(void **state)
{
    lost *l = *state;
    lost_probe(l, a, .act = wait_for_nothing, .user = l);
    lost_open(l, NULL);
    lost_inc(l);
    assert_false(hs_session_should_stop(l->session));
    assert_int_equal(lost_inc(l), 1);
    assert_int_equal(hs_session_recoveries(l->session), 1);
}

/* Threads that end only when the coordinator stops. */

typedef struct {
    atomic_int begun, ended;
    atomic_bool stuck;
} crew;

static hs_code work(void *user, hs_coordinator *coordinator, hs_error *err)
{
    crew *all = user;
    (void)err;
    atomic_fetch_add(&all->begun, 1);
    hs_coordinator_wait_for_stop(coordinator, HS_NEVER);
    while (atomic_load(&all->stuck))
        ;
    atomic_fetch_add(&all->ended, 1);
    return HS_OK;
}

static hs_code start_work(probe *p, const probe_call *call)
{
    return call->point == PROBE_CREATE
               ? hs_coordinator_start(call->coordinator, call->err, .name = "worker", .run = work, .user = p->user)
               : HS_OK;
}

static void threads_are_joined_and_started_again(void **state)
{
    lost *l = *state;
    crew all = {.begun = 0};
    lost_probe(l, a, .act = start_work, .user = &all);
    lost_open(l, NULL);
    lost_recover(l);
    assert_int_equal(atomic_load(&all.ended), 1);
    lost_close(l);
    assert_int_equal(atomic_load(&all.ended), 2);
    assert_int_equal(atomic_load(&all.begun), 2);
}

static void ms_131s_threads_that_do_not_stop_are_named_and_abandoned(void **state)
{
    lost *l = *state;
    crew all = {.begun = 0};
    lost_open(l, NULL);
    lost_close(l);
    size_t before = test_env_live(&l->t); /* includes the memory of the graph */
    atomic_store(&all.stuck, true);
    lost_probe(l, a, .act = start_work, .user = &all);
    lost_open(l, HS_SESSION_OPTIONS(.stop_grace_secs = 0.01));
    lost_close(l);
    assert_int_equal(l->outcome.reason, HS_REASON_CLOSED);
    assert_contains(l->t.log, "worker");
    atomic_store(&all.stuck, false);
    while (test_env_live(&l->t) > before) /* until the thread has freed its memory */
        ;
    assert_int_equal(atomic_load(&all.ended), 1);
}

static hs_code report_and_end(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)user;
    hs_coordinator_wait_for_stop(coordinator, HS_NEVER);
    return hs_error_set(err, HS_DATA_LOSS, "the last page was not written");
}

static hs_code start_reporter(probe *p, const probe_call *call)
{
    (void)p;
    return call->point == PROBE_CREATE
               ? hs_coordinator_start(call->coordinator, call->err, .name = "reporter", .run = report_and_end)
               : HS_OK;
}

/* The program gives up because of a thread, whose session is lost. The next run recovers it, and with it that thread. */
static void what_the_program_reports_counts_after_a_recovery(void **state)
{
    lost *l = *state;
    hs_error why;
    lost_open(l, NULL);
    lost_report(l, HS_ABORTED);
    hs_error_set(&why, HS_RESOURCE_EXHAUSTED, "the data are used up");
    hs_session_fail(l->session, &why);
    assert_true(lost_same(l, 5) == 5);
    assert_int_equal(lost_close(l)->reason, HS_REASON_FAILED);
    assert_says(&l->outcome.error, HS_RESOURCE_EXHAUSTED, "the data are used up");
}

/* TensorFlow ignores errors that are reported after a stop. */
static void ms_131s_what_a_thread_reports_at_its_end_counts(void **state)
{
    lost *l = *state;
    lost_probe(l, a, .act = start_reporter);
    lost_open(l, NULL);
    assert_int_equal(lost_close(l)->reason, HS_REASON_FAILED);
    assert_says(&l->outcome.error, HS_DATA_LOSS, "the last page was not written");
    assert_int_equal(l->a.calls[PROBE_END], 1);
}

static hs_code cancelled_at_the_end(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)user;
    hs_coordinator_wait_for_stop(coordinator, HS_NEVER);
    return hs_error_set(err, HS_CANCELLED, "woken");
}

static hs_code start_cancelled(probe *p, const probe_call *call)
{
    (void)p;
    return call->point == PROBE_CREATE
               ? hs_coordinator_start(call->coordinator, call->err, .name = "woken", .run = cancelled_at_the_end)
               : HS_OK;
}

/* A thread's own error is reported even if the session is also lost. */

static void fails_of_lost_data(lost *l)
{
    assert_true(hs_session_should_stop(l->session));
    assert_int_equal(hs_session_recoveries(l->session), 0);
    assert_int_equal(hs_outcome_exit_code(lost_close(l)), 1);
    assert_int_equal(l->outcome.error.code, HS_DATA_LOSS);
}

static void a_lost_run_does_not_recover_from_a_threads_error(void **state)
{
    lost *l = *state;
    lost_open(l, NULL);
    lost_report(l, HS_DATA_LOSS);
    assert_int_equal(lost_fail(l, HS_ABORTED), HS_DATA_LOSS);
    assert_int_equal(l->opens, 1);
    fails_of_lost_data(l);
}

static void an_own_step_does_not_recover_from_a_threads_error(void **state)
{
    lost *l = *state;
    lost_probe(l, a, .fails_in = PROBE_AFTER, .fails_at = 1, .code = HS_ABORTED);
    lost_open(l, NULL);
    assert_true(hs_step_begin(l->session));
    lost_report(l, HS_DATA_LOSS);
    assert_int_equal(hs_step_end(l->session), HS_DATA_LOSS);
    assert_false(hs_step_begin(l->session));
    fails_of_lost_data(l);
}

static void an_error_outweighs_an_earlier_report_of_loss(void **state)
{
    lost *l = *state;
    lost_open(l, NULL);
    lost_report(l, HS_ABORTED);
    lost_report(l, HS_DATA_LOSS);
    lost_report(l, HS_UNKNOWN);
    assert_int_equal(lost_fail(l, HS_UNAVAILABLE), HS_DATA_LOSS);
    fails_of_lost_data(l);
}

static void an_error_while_recovery_stops_the_threads_ends_it(void **state)
{
    lost *l = *state;
    lost_probe(l, a, .act = start_reporter);
    lost_open(l, NULL);
    assert_fails(lost_fail(l, HS_ABORTED), HS_DATA_LOSS, &l->err, "the last page was not written");
    assert_int_equal(l->opens, 1);
    fails_of_lost_data(l);
}

/* A completed and saved training is complete, even if its session is lost then. */

static hs_code lost_at_the_end(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)user;
    hs_coordinator_wait_for_stop(coordinator, HS_NEVER);
    return hs_error_set(err, HS_ABORTED, "the server is gone");
}

static hs_code start_lost(probe *p, const probe_call *call)
{
    (void)p;
    return call->point == PROBE_CREATE
               ? hs_coordinator_start(call->coordinator, call->err, .name = "lost", .run = lost_at_the_end)
               : HS_OK;
}

static void is_done(lost *l, hs_reason reason, int exit_code)
{
    lost_close(l);
    assert_ok(l->outcome.error.code, &l->outcome.error);
    assert_int_equal(l->outcome.reason, reason);
    assert_int_equal(hs_outcome_exit_code(&l->outcome), exit_code);
    assert_contains(l->t.log, "WARNING: session lost after training ended: thread 'lost': the server is gone");
}

static void a_loss_after_a_hooks_stop_is_not_a_failure(void **state)
{
    lost *l = *state;
    lost_probe(l, a, .act = start_lost, .stops_at = 1);
    lost_open_saving(l);
    lost_inc(l);
    is_done(l, HS_REASON_STOPPED, 0);
    assert_int_equal(l->outcome.last_saved_step, 1);
}

static void a_loss_after_a_stop_from_outside_is_not_a_failure(void **state)
{
    lost *l = *state;
    lost_probe(l, a, .act = start_lost);
    lost_open_saving(l);
    lost_inc(l);
    hs_session_interrupt(l->session);
    is_done(l, HS_REASON_STOPPED, 75);
}

static void a_loss_after_a_callers_close_is_not_a_failure(void **state)
{
    lost *l = *state;
    l->recovery.max_attempts = HS_NEVER;
    lost_probe(l, a, .act = start_lost);
    lost_open_saving(l);
    lost_inc(l);
    is_done(l, HS_REASON_CLOSED, 0);
}

static void a_loss_that_ends_the_loop_is_a_failure(void **state)
{
    lost *l = *state;
    l->recovery.max_attempts = HS_NEVER;
    lost_open_saving(l);
    lost_inc(l);
    lost_report(l, HS_ABORTED);
    assert_true(hs_session_should_stop(l->session));
    assert_int_equal(hs_outcome_exit_code(lost_close(l)), 1);
    assert_int_equal(l->outcome.error.code, HS_ABORTED);
}

static void ms_139s_a_threads_error_comes_before_that_of_an_end(void **state)
{
    lost *l = *state;
    lost_probe(l, b, .fails_in = PROBE_END, .fails_at = 1, .code = HS_INTERNAL);
    lost_open(l, NULL);
    lost_inc(l);
    lost_report(l, HS_UNKNOWN);
    assert_int_equal(lost_close(l)->error.code, HS_UNKNOWN);
    assert_string_equal(l->outcome.hook, "");
    assert_contains(l->t.log, "hook 'b', end");
}

static hs_code fail_by_itself(void *user, hs_step_context *context, hs_error *err)
{
    (void)user, (void)context;
    return hs_error_set(err, HS_INTERNAL, "its own error");
}

static void a_step_functions_failure_is_not_blamed_on_a_hook(void **state)
{
    lost *l = *state;
    lost_probe(l, a, .fails_in = PROBE_BEFORE, .fails_at = 1);
    lost_open(l, NULL);
    assert_int_equal(lost_run(l, "inc"), HS_INTERNAL);
    assert_fails(hs_session_run_step(l->session, fail_by_itself, NULL, &l->err), HS_INTERNAL, &l->err, "its own error");
    assert_string_equal(lost_close(l)->hook, "");
}

static void being_woken_to_stop_is_not_a_failure(void **state)
{
    lost *l = *state;
    lost_probe(l, a, .act = start_cancelled);
    lost_open(l, NULL);
    assert_int_equal(lost_close(l)->reason, HS_REASON_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lost_test(ms_037_a_thread_may_report_that_the_session_is_lost),
        lost_test(ms_038_other_reports_end_it),
        lost_test(co_019s_the_end_of_a_threads_input_is_no_error),
        lost_test(what_the_program_reports_counts_after_a_recovery),
        lost_test(ms_039_a_run_that_is_stuck_failed_for_the_threads_reason),
        lost_test(ms_040_the_same_in_step_functions),
        lost_test(ms_041_other_reports_in_step_functions),
        lost_test(ms_042_a_step_that_is_stuck_is_made_again),
        lost_test(ms_043_the_same_with_the_raw_session),
        lost_test(ms_044_other_reports_with_the_raw_session),
        lost_test(ms_083_a_step_function_that_aborts_is_called_again),
        lost_test(ms_083_a_repeated_step_function_has_the_new_session),
        lost_test(ms_136s_the_whole_step_is_made_again),
        lost_test(the_caller_may_repeat_its_step),
        lost_test(a_loss_that_a_thread_reports_may_be_the_callers_to_repeat),
        lost_test(waiting_hooks_see_the_loss),
        lost_test(threads_are_joined_and_started_again),
        lost_test(ms_131s_threads_that_do_not_stop_are_named_and_abandoned),
        lost_test(ms_131s_what_a_thread_reports_at_its_end_counts),
        lost_test(a_lost_run_does_not_recover_from_a_threads_error),
        lost_test(an_own_step_does_not_recover_from_a_threads_error),
        lost_test(an_error_outweighs_an_earlier_report_of_loss),
        lost_test(an_error_while_recovery_stops_the_threads_ends_it),
        lost_test(a_loss_after_a_hooks_stop_is_not_a_failure),
        lost_test(a_loss_after_a_stop_from_outside_is_not_a_failure),
        lost_test(a_loss_after_a_callers_close_is_not_a_failure),
        lost_test(a_loss_that_ends_the_loop_is_a_failure),
        lost_test(ms_139s_a_threads_error_comes_before_that_of_an_end),
        lost_test(a_step_functions_failure_is_not_blamed_on_a_hook),
        lost_test(being_woken_to_stop_is_not_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
