/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that the caller computes between hs_step_begin and hs_step_end. */
#include "session/own.h"

static const hs_run_args wants_all = HS_INIT(hs_run_args, .names = HS_NAMES("loss", "weight", "global_step"));

/* The parts of a step. */

static void the_order_of_callbacks_is_a_runs(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    own_calls(o);
    assert_ok(own_step(o), &o->err);
    assert_string_equal(own_calls(o), "a.before b.before a.after b.after");
    own_close(o);
    assert_string_equal(own_calls(o), "a.end b.end a.boundary b.boundary b.close a.close");
}

static hs_code ask_for_boundary(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_AFTER)
        hs_run_context_request_boundary(call->run);
    return HS_OK;
}

static void a_boundary_is_called_if_a_hook_requests_it(void **state)
{
    own *o = *state;
    own_probe(o, a, .act = ask_for_boundary);
    own_open_probes(o, NULL);
    own_calls(o);
    assert_ok(own_step(o), &o->err);
    assert_string_equal(own_calls(o), "a.before b.before a.after b.after a.boundary b.boundary");
}

typedef struct {
    double numbers[3];
    int64_t kind, before, after;
} seen;

static hs_code look(probe *p, const probe_call *call)
{
    seen *s = p->user;
    if (call->point == PROBE_BEFORE) {
        s->kind = hs_run_context_kind(call->run);
        s->before = hs_run_context_global_step(call->run, call->err);
        return call->err->code;
    }
    if (call->point != PROBE_AFTER)
        return HS_OK;
    for (size_t i = 0; i < hs_run_values_count(call->values); i++)
        s->numbers[i] = hs_run_values_number(call->values, i);
    s->after = hs_run_context_global_step(call->run, call->err);
    return call->err->code;
}

static void hooks_see_the_memory_of_the_step(void **state)
{
    own *o = *state;
    seen s = {.kind = -1};
    own_probe(o, a, .act = look, .wants = &wants_all, .user = &s);
    own_open_probes(o, NULL);
    assert_ok(own_step(o), &o->err);
    assert_ok(own_step(o), &o->err);
    assert_true(s.numbers[0] == -3 && s.numbers[1] == 3 && s.numbers[2] == 2);
    assert_int_equal(s.kind, HS_RUN_TRAIN);
    assert_int_equal(s.before, 1);
    assert_int_equal(s.after, 2);
}

/* Feeds of a hook reach only the fetches of hooks. */
static void feeds_of_hooks_do_not_reach_the_step(void **state)
{
    own *o = *state;
    const double number = 42;
    hs_tensor fed = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &number);
    hs_run_args feeds = HS_INIT(hs_run_args, .names = HS_NAMES("same"), .feeds = HS_FEEDS({"in", fed}, {"loss", fed}));
    own_probe(o, a, .wants = &feeds);
    own_probe(o, b, .wants = &wants_all);
    own_open_probes(o, NULL);
    assert_ok(own_step(o), &o->err);
    assert_true(o->a.number == 42);
    assert_true(o->b.number == 42);
    assert_true(o->loss == -1);
}

static void the_session_is_at_the_step_before_until_the_end(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    for (int64_t i = 0; i < 3; i++) {
        assert_true(hs_step_begin(o->session));
        assert_int_equal(hs_session_global_step(o->session, NULL), i);
        assert_ok(hs_step_end(o->session), &o->err);
        assert_int_equal(hs_session_global_step(o->session, NULL), i + 1);
    }
    assert_int_equal(own_close(o)->step, 3);
}

static void a_good_loop_closes_normally(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    assert_int_equal(own_loop(o, 3), 3);
    assert_int_equal(own_close(o)->reason, HS_REASON_CLOSED);
    assert_int_equal(hs_outcome_exit_code(&o->outcome), 0);
}

/* Stopping. */

static void stop_at_step_ends_the_loop_after_its_last_step(void **state)
{
    own *o = *state;
    own_open_hook(o, hs_stop_at_step(.last_step = 3));
    assert_int_equal(own_loop(o, 99), 3);
    assert_int_equal(own_close(o)->reason, HS_REASON_STOPPED);
    assert_int_equal(o->outcome.step, 3);
    assert_int_equal(o->outcome.interrupted, 0);
    assert_string_equal(o->outcome.hook, "stop_at_step");
}

static void a_stop_requested_during_a_step_comes_after_it(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    assert_true(hs_step_begin(o->session));
    hs_session_interrupt(o->session);
    own_compute(o);
    assert_ok(hs_step_end(o->session), &o->err);
    assert_false(hs_step_begin(o->session));
    assert_int_equal(own_close(o)->reason, HS_REASON_STOPPED);
    assert_int_equal(o->outcome.step, 1);
    assert_int_not_equal(o->outcome.interrupted, 0);
    assert_int_equal(o->b.calls[PROBE_END], 1);
}

static void a_loop_that_is_done_ends_after_the_step(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    assert_true(hs_step_begin(o->session));
    own_compute(o);
    hs_session_request_stop(o->session);
    assert_ok(hs_step_end(o->session), &o->err);
    assert_false(hs_step_begin(o->session));
    assert_int_equal(own_close(o)->reason, HS_REASON_STOPPED);
    assert_int_equal(o->outcome.step, 1);
    assert_int_equal(o->outcome.interrupted, 0);
}

static void a_step_that_is_discarded_is_not_done(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    assert_true(hs_step_begin(o->session));
    hs_session_request_stop(o->session);
    own_close(o);
    assert_int_not_equal(o->outcome.interrupted, 0);
}

static void a_step_that_stops_after_a_request_is_interrupted(void **state)
{
    own *o = *state;
    own_probe(o, a, .fails_in = PROBE_AFTER, .fails_at = 1, .code = HS_STOP);
    own_open_probes(o, NULL);
    assert_true(hs_step_begin(o->session));
    hs_session_interrupt(o->session);
    assert_int_equal(hs_step_end(o->session), HS_STOP);
    assert_int_equal(own_close(o)->reason, HS_REASON_STOPPED);
    assert_int_not_equal(o->outcome.interrupted, 0);
}

static void a_null_session_has_no_steps(void **state)
{
    (void)state;
    assert_false(hs_step_begin(NULL));
    assert_int_equal(hs_step_end(NULL), HS_FAILED_PRECONDITION);
}

/* Hooks that fail. */

static void fails_in(own *o, probe_point point, int steps, const char *message)
{
    own_probe(o, a, .act = ask_for_boundary);
    own_probe(o, b, .fails_in = point, .fails_at = 2, .code = HS_DATA_LOSS, .message = "no good");
    own_open_probes(o, NULL);
    assert_int_equal(own_loop(o, 9), steps);
    assert_true(hs_session_should_stop(o->session));
    assert_false(hs_step_begin(o->session));
    own_close(o);
    assert_says(&o->err, HS_DATA_LOSS, message);
    assert_int_equal(o->outcome.reason, HS_REASON_FAILED);
    assert_string_equal(o->outcome.hook, "b");
    assert_int_equal(o->b.calls[PROBE_END], 0);
}

static void a_hook_that_fails_before_ends_the_loop(void **state)
{
    fails_in(*state, PROBE_BEFORE, 1, "hook 'b', before_run at step 1: no good");
}

static void a_hook_that_fails_after_ends_the_loop(void **state)
{
    fails_in(*state, PROBE_AFTER, 2, "hook 'b', after_run at step 2: no good");
}

static void a_hook_that_fails_at_the_boundary_ends_the_loop(void **state)
{
    /* the first boundary is that of the creation */
    fails_in(*state, PROBE_BOUNDARY, 1, "hook 'b', boundary at step 1: no good");
}

static void an_error_is_returned_too(void **state)
{
    own *o = *state;
    own_probe(o, a, .fails_in = PROBE_AFTER, .fails_at = 1, .code = HS_DATA_LOSS);
    own_open_probes(o, NULL);
    assert_int_equal(own_step(o), HS_DATA_LOSS);
}

/* No run is made after the loop, as it would hide the error. */
static void after_a_failure_nothing_runs_and_the_error_stays(void **state)
{
    own *o = *state;
    own_probe(o, a, .fails_in = PROBE_AFTER, .fails_at = 1, .code = HS_DATA_LOSS, .message = "the first");
    own_open_probes(o, NULL);
    own_step(o);
    assert_fails(hs_session_run(o->session, "same", &o->err), HS_FAILED_PRECONDITION, &o->err, "an earlier step failed");
    assert_int_equal(hs_step_end(o->session), HS_DATA_LOSS);
    own_close(o);
    assert_says(&o->err, HS_DATA_LOSS, "the first");
}

static void the_end_of_the_input_is_not_a_failure(void **state)
{
    own *o = *state;
    own_probe(o, a, .fails_in = PROBE_AFTER, .fails_at = 2, .code = HS_OUT_OF_RANGE);
    own_open_probes(o, NULL);
    assert_int_equal(own_loop(o, 9), 2);
    assert_int_equal(own_close(o)->reason, HS_REASON_END_OF_INPUT);
}

/* Each allocation. */

static hs_code short_life(test_env *t, void *user)
{
    hs_error err = {0};
    double loss = 1;
    hs_graph *graph = hs_graph_new(&t->env);
    (void)user;
    hs_graph_global_step(graph, NULL, NULL);
    hs_graph_value(graph, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_hook hook = hs_nan_tensor(.tensor = "loss");
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_graph_backend(graph), &options, &err);
    for (int i = 0; i < 2 && hs_step_begin(session); i++)
        hs_step_end(session);
    hs_code code = hs_session_close(session, &err).error.code;
    hs_graph_free(graph);
    return code;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(short_life, NULL);
}

static void a_step_allocates_nothing(void **state)
{
    own *o = *state;
    own_probe(o, a, .wants = &wants_all);
    own_open_probes(o, NULL);
    own_loop(o, 2);
    size_t before = o->t.allocations;
    own_loop(o, 100);
    assert_int_equal(o->t.allocations, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        own_test(the_order_of_callbacks_is_a_runs),
        own_test(a_boundary_is_called_if_a_hook_requests_it),
        own_test(hooks_see_the_memory_of_the_step),
        own_test(feeds_of_hooks_do_not_reach_the_step),
        own_test(the_session_is_at_the_step_before_until_the_end),
        own_test(a_good_loop_closes_normally),
        own_test(stop_at_step_ends_the_loop_after_its_last_step),
        own_test(a_stop_requested_during_a_step_comes_after_it),
        own_test(a_loop_that_is_done_ends_after_the_step),
        own_test(a_step_that_is_discarded_is_not_done),
        own_test(a_step_that_stops_after_a_request_is_interrupted),
        cmocka_unit_test(a_null_session_has_no_steps),
        own_test(a_hook_that_fails_before_ends_the_loop),
        own_test(a_hook_that_fails_after_ends_the_loop),
        own_test(a_hook_that_fails_at_the_boundary_ends_the_loop),
        own_test(an_error_is_returned_too),
        own_test(after_a_failure_nothing_runs_and_the_error_stays),
        own_test(the_end_of_the_input_is_not_a_failure),
        cmocka_unit_test(any_allocation_may_fail),
        own_test(a_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
