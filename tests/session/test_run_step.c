/* SPDX-License-Identifier: Apache-2.0 */
/* Step functions, which make a step's runs themselves. */
#include "session/probe.h"

/* Actions of a step function, and its view of the session. */
typedef struct {
    play *p;
    int calls;
    hs_code code;  /* returned, with a message */
    bool stop;     /* requests a stop first */
    bool forgets;  /* and then returns HS_OK */
    size_t runs;   /* how many runs with hooks it makes */
    double number; /* of the last of them */
    hs_code last;  /* what that returned */
} steps;

static hs_code step(void *user, hs_step_context *context, hs_error *err)
{
    static const double fed = 3.2;
    steps *s = user;
    s->calls++;
    if (s->stop) {
        hs_code code = hs_step_context_request_stop(context);
        return s->forgets ? HS_OK : code;
    }
    for (size_t i = 0; i < s->runs; i++) {
        const hs_run_values *values;
        hs_feed feeds[] = {play_feed("a", &fed), {NULL}};
        hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("a", "train"), .feeds = feeds);
        if ((s->last = hs_step_context_run_with_hooks(context, &args, &values, err)))
            return s->last;
        s->number = hs_run_values_number(values, 0);
    }
    return s->code ? hs_error_set(err, s->code, "the step's own") : HS_OK;
}

static hs_code run_step(play *p, steps *s)
{
    s->p = p;
    return hs_session_run_step(p->session, step, s, &p->err);
}

static void ms_074_ms_079_a_step_returns_what_its_function_returns(void **state)
{
    play *p = *state;
    steps s = {.runs = 1};
    play_open_probes(p, 1);
    play_calls(p);
    assert_ok(run_step(p, &s), &p->err);
    assert_true(s.number == 3.2);
    assert_string_equal(play_calls(p), "a.before run a.after");
    s.code = HS_USER + 7;
    assert_fails(run_step(p, &s), HS_USER + 7, &p->err, "the step's own");
}

static void ms_075_ms_130s_a_step_may_request_a_stop(void **state)
{
    play *p = *state;
    steps s = {.stop = true};
    play_open_probes(p, 1);
    assert_int_equal(run_step(p, &s), HS_STOP);
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
    assert_int_equal(p->err.code, HS_OK);
    assert_int_equal(p->a.calls[PROBE_END], 1);
    assert_true(hs_session_should_stop(p->session));
}

static void ms_077_after_a_steps_stop_the_session_is_to_stop(void **state)
{
    play *p = *state;
    steps s = {.stop = true};
    play_open_probes(p, 1);
    assert_fails(run_step(p, &s), HS_STOP, &p->err, "requested a stop");
    assert_true(hs_session_should_stop(p->session));
    assert_false(hs_coordinator_should_stop(hs_session_coordinator(p->session)));
}

static void ms_078_a_loop_ends_with_the_steps_stop(void **state)
{
    play *p = *state;
    steps s = {.stop = true};
    play_open_probes(p, 1);
    while (!hs_session_should_stop(p->session))
        run_step(p, &s);
    assert_int_equal(s.calls, 1);
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
}

static void ms_082_a_step_that_stops_at_once_calls_no_hook(void **state)
{
    play *p = *state;
    steps s = {.stop = true, .runs = 1};
    play_open_probes(p, 2);
    play_calls(p);
    run_step(p, &s);
    assert_string_equal(play_calls(p), "a.boundary b.boundary"); /* of the stop */
}

/* A requested stop counts whatever the function returns. */
static void ms_130s_a_stop_counts_without_its_return_code(void **state)
{
    play *p = *state;
    steps s = {.stop = true, .forgets = true};
    play_open_probes(p, 1);
    assert_int_equal(run_step(p, &s), HS_STOP);
    assert_true(hs_session_should_stop(p->session));
}

static void ms_085_a_single_session_does_not_retry_a_step(void **state)
{
    play *p = *state;
    steps s = {.code = HS_ABORTED};
    play_open_probes(p, 1);
    assert_int_equal(run_step(p, &s), HS_ABORTED);
    assert_int_equal(s.calls, 1);
    assert_int_equal(play_close(p)->error.code, HS_ABORTED);
    assert_int_equal(p->a.calls[PROBE_END], 0);
}

static hs_code stop_and_fail(void *user, hs_step_context *context, hs_error *err)
{
    (void)user;
    hs_step_context_request_stop(context);
    return hs_error_set(err, HS_INTERNAL, "and it fails");
}

static void a_step_that_stops_and_fails_has_stopped(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    assert_int_equal(hs_session_run_step(p->session, stop_and_fail, NULL, &p->err), HS_INTERNAL);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->error.code, HS_INTERNAL);
}

static void a_hooks_stop_ends_the_step_after_its_run(void **state)
{
    play *p = *state;
    steps s = {.runs = 3};
    play_probe(p, a, .stops_at = 2);
    play_open_probes(p, 1);
    assert_int_equal(run_step(p, &s), HS_STOP);
    assert_int_equal(hs_session_global_step(p->session, NULL), 2);
    assert_fails(run_step(p, &s), HS_FAILED_PRECONDITION, &p->err, "by hook a");
    assert_int_equal(s.calls, 1);
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
    assert_string_equal(p->outcome.hook, "a");
}

static hs_code stop_from_outside(probe *p, const probe_call *call)
{
    if (call->point == PROBE_AFTER)
        hs_session_interrupt(((play *)p->user)->session);
    return HS_OK;
}

/* The caller checks for a stop between two steps, not between two runs of one step. */
static void a_stop_from_outside_lets_the_step_be_finished(void **state)
{
    play *p = *state;
    steps s = {.runs = 2};
    play_probe(p, a, .act = stop_from_outside, .user = p);
    play_open_probes(p, 1);
    assert_ok(run_step(p, &s), &p->err);
    assert_int_equal(hs_session_global_step(p->session, NULL), 2);
    assert_true(hs_session_should_stop(p->session));
}

/* Or its run stops waiting because of the stop. */
static void a_step_that_stops_because_of_a_stop_from_outside_is_interrupted(void **state)
{
    play *p = *state;
    steps s = {.stop = true};
    play_open_probes(p, 1);
    hs_session_interrupt(p->session);
    assert_int_equal(run_step(p, &s), HS_STOP);
    assert_true(play_close(p)->interrupted);
}

static void the_end_of_input_comes_through_a_step(void **state)
{
    play *p = *state;
    steps s = {.runs = 1};
    hs_script_fail_at(p->script, 1, HS_OUT_OF_RANGE, "no more");
    play_open_probes(p, 1);
    assert_fails(run_step(p, &s), HS_OUT_OF_RANGE, &p->err, "no more");
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->reason, HS_REASON_END_OF_INPUT);
}

static hs_code forgive(void *user, hs_step_context *context, hs_error *err)
{
    *(hs_code *)user = hs_step_context_run_with_hooks(context, NULL, NULL, err);
    return HS_OK;
}

static void a_step_may_forgive_its_run(void **state)
{
    play *p = *state;
    hs_code inner = HS_OK;
    hs_script_fail_at(p->script, 1, HS_UNAVAILABLE, "for a moment");
    play_open_probes(p, 1);
    assert_ok(hs_session_run_step(p->session, forgive, &inner, &p->err), &p->err);
    assert_int_equal(inner, HS_UNAVAILABLE);
    assert_int_equal(p->err.code, HS_OK);
    assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
}

static hs_code fail_wordlessly(void *user, hs_step_context *context, hs_error *err)
{
    (void)user, (void)context, (void)err;
    return HS_USER;
}

static hs_code say_one_thing_and_do_another(void *user, hs_step_context *context, hs_error *err)
{
    (void)user, (void)context;
    hs_error_set(err, HS_NOT_FOUND, "a file");
    return HS_DATA_LOSS;
}

static void the_code_is_the_one_returned(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    assert_fails(hs_session_run_step(p->session, say_one_thing_and_do_another, NULL, &p->err), HS_DATA_LOSS, &p->err,
                 "a file");
    assert_int_equal(play_close(p)->error.code, HS_DATA_LOSS);
}

static void a_step_that_fails_without_a_message_gets_one(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    assert_fails(hs_session_run_step(p->session, fail_wordlessly, NULL, &p->err), HS_USER, &p->err,
                 "the step function failed with USER");
    assert_fails(hs_session_run_step(p->session, NULL, NULL, &p->err), HS_INVALID_ARGUMENT, &p->err, "is NULL");
}

static hs_code use_the_raw_session(void *user, hs_step_context *context, hs_error *err)
{
    hs_raw_session *raw = hs_step_context_session(context);
    assert_ptr_equal(raw, hs_session_raw(((play *)user)->session));
    return hs_raw_session_run(raw, HS_RUN_ARGS(.names = HS_NAMES("train")), NULL, err);
}

static void a_raw_run_of_a_step_calls_no_hook(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    play_calls(p);
    assert_ok(hs_session_run_step(p->session, use_the_raw_session, p, &p->err), &p->err);
    assert_string_equal(play_calls(p), "run");
}

static hs_code close_it(void *user, hs_step_context *context, hs_error *err)
{
    (void)context;
    hs_outcome outcome = hs_session_close(((play *)user)->session, err);
    assert_int_equal(outcome.error.code, HS_FAILED_PRECONDITION);
    return HS_OK;
}

static void a_step_does_not_close_its_session(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    assert_ok(hs_session_run_step(p->session, close_it, p, &p->err), &p->err);
    assert_int_equal(p->a.calls[PROBE_CLOSE], 0);
    assert_int_equal(play_train(p), 1);
    assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(ms_074_ms_079_a_step_returns_what_its_function_returns),
        play_test(ms_075_ms_130s_a_step_may_request_a_stop),
        play_test(ms_077_after_a_steps_stop_the_session_is_to_stop),
        play_test(ms_078_a_loop_ends_with_the_steps_stop),
        play_test(ms_082_a_step_that_stops_at_once_calls_no_hook),
        play_test(ms_130s_a_stop_counts_without_its_return_code),
        play_test(ms_085_a_single_session_does_not_retry_a_step),
        play_test(a_step_that_stops_and_fails_has_stopped),
        play_test(a_hooks_stop_ends_the_step_after_its_run),
        play_test(a_stop_from_outside_lets_the_step_be_finished),
        play_test(a_step_that_stops_because_of_a_stop_from_outside_is_interrupted),
        play_test(the_end_of_input_comes_through_a_step),
        play_test(a_step_may_forgive_its_run),
        play_test(the_code_is_the_one_returned),
        play_test(a_step_that_fails_without_a_message_gets_one),
        play_test(a_raw_run_of_a_step_calls_no_hook),
        play_test(a_step_does_not_close_its_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
