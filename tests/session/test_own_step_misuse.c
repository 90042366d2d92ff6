/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong use of hs_step_begin and hs_step_end: in loops, in callbacks, and with backends that cannot advance the step. */
#include "session/own.h"

static const hs_run_args wants_loss = HS_INIT(hs_run_args, .names = HS_NAMES("loss"));

/* Mistakes of the loop. */

static void an_end_without_a_beginning_is_an_error(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    assert_int_equal(hs_step_end(o->session), HS_FAILED_PRECONDITION);
    assert_false(hs_step_begin(o->session));
    own_close(o);
    assert_says(&o->err, HS_FAILED_PRECONDITION, "hs_step_end was called without an hs_step_begin that returned true");
}

static void a_second_beginning_is_an_error_that_the_end_does_not_hide(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    assert_true(hs_step_begin(o->session));
    assert_false(hs_step_begin(o->session));
    assert_int_equal(hs_step_end(o->session), HS_FAILED_PRECONDITION);
    assert_true(hs_session_should_stop(o->session));
    own_close(o);
    assert_says(&o->err, HS_FAILED_PRECONDITION,
                "hs_step_begin was called before hs_step_end of step 1 (a `break` or `continue` within the step?)");
    assert_int_equal(o->outcome.reason, HS_REASON_FAILED);
}

/* The loop still has its own step++. */
static void is_refused(own *o, int64_t made)
{
    assert_int_equal(hs_session_global_step(o->session, NULL), made + 1);
    char message[128];
    snprintf(message, sizeof message, "the program changed the global step from %lld to %lld; only hs_step_end advances it",
             (long long)made, (long long)made + 1);
    assert_int_equal(hs_step_end(o->session), HS_FAILED_PRECONDITION);
    assert_false(hs_step_begin(o->session));
    own_close(o);
    assert_says(&o->err, HS_FAILED_PRECONDITION, message);
    assert_int_equal(hs_outcome_exit_code(&o->outcome), 1);
    assert_int_equal(o->b.calls[PROBE_AFTER], made);
}

/* Opens a session whose global step is in the program's memory. */
static void open_with_step(own *o, int64_t *step)
{
    hs_graph_free(o->graph);
    o->graph = hs_graph_new(&o->t.env);
    hs_graph_global_step(o->graph, NULL, step);
    own_open_probes(o, NULL);
}

static void make_step(own *o)
{
    assert_true(hs_step_begin(o->session));
    assert_ok(hs_step_end(o->session), &o->err);
}

static void the_program_must_not_change_the_global_step(void **state)
{
    own *o = *state;
    int64_t step = 0;
    open_with_step(o, &step);
    assert_true(hs_step_begin(o->session));
    step++;
    is_refused(o, 0);
    step = 0;
    own_probe(o, b, .code = HS_OK);
    own_open_probes(o, NULL);
    make_step(o);
    assert_true(hs_step_begin(o->session));
    step++;
    is_refused(o, 1);
    step = 0;
    own_probe(o, b, .code = HS_OK);
    own_open_probes(o, NULL);
    make_step(o);
    step++;
    assert_false(hs_step_begin(o->session));
    is_refused(o, 1);
}

static void a_step_that_the_program_changed_last_is_refused_at_the_close(void **state)
{
    own *o = *state;
    int64_t step = 0;
    open_with_step(o, &step);
    make_step(o);
    step++;
    own_close(o);
    assert_says(&o->err, HS_FAILED_PRECONDITION, "the program changed the global step from 1 to 2");
    assert_int_equal(hs_outcome_exit_code(&o->outcome), 1);
    assert_int_equal(o->b.calls[PROBE_END], 0);
}

static void before_its_first_step_the_program_may_set_it(void **state)
{
    own *o = *state;
    int64_t step = 0;
    open_with_step(o, &step);
    step = 40;
    make_step(o);
    assert_int_equal(own_close(o)->step, 41);
}

static hs_code never(void *user, hs_step_context *step, hs_error *err)
{
    (void)user, (void)step, (void)err;
    fail();
    return HS_OK;
}

static void between_the_two_only_raw_runs_are_made(void **state)
{
    own *o = *state;
    const hs_run_values *values;
    hs_run_args weight = HS_INIT(hs_run_args, .names = HS_NAMES("weight"));
    own_probe(o, a, .wants = &wants_loss);
    own_open_probes(o, NULL);
    assert_true(hs_step_begin(o->session));
    own_compute(o);
    assert_fails(hs_session_run(o->session, "same", &o->err), HS_FAILED_PRECONDITION, &o->err, "run the raw session");
    assert_fails(hs_session_run_step(o->session, never, NULL, &o->err), HS_FAILED_PRECONDITION, &o->err, "hs_step_end");
    assert_ok(hs_raw_session_run(hs_session_raw(o->session), &weight, &values, &o->err), &o->err);
    assert_true(hs_run_values_number(values, 0) == 1);
    assert_ok(hs_step_end(o->session), &o->err);
    assert_true(o->a.number == -1);
    assert_int_equal(own_close(o)->reason, HS_REASON_CLOSED);
}

static void other_runs_are_made_between_the_steps(void **state)
{
    own *o = *state;
    const hs_run_values *values;
    hs_run_args evaluates = HS_INIT(hs_run_args, .names = HS_NAMES("weight"), .kind = HS_RUN_EVAL);
    own_open_probes(o, NULL);
    own_step(o);
    own_calls(o);
    assert_ok(hs_session_run_args(o->session, &evaluates, &values, &o->err), &o->err);
    assert_true(hs_run_values_number(values, 0) == 1);
    assert_string_equal(own_calls(o), "");
    assert_int_equal(own_loop(o, 2), 2);
    assert_int_equal(own_close(o)->step, 3);
}

static hs_code step_inside(probe *p, const probe_call *call)
{
    hs_session *session = p->user ? *(hs_session **)p->user : NULL;
    if (session && (call->point == PROBE_BEFORE || call->point == PROBE_AFTER)) {
        assert_false(hs_step_begin(session));
        assert_int_equal(hs_step_end(session), HS_FAILED_PRECONDITION);
    }
    return HS_OK;
}

static void a_callback_cannot_begin_a_step(void **state)
{
    own *o = *state;
    own_probe(o, a, .act = step_inside, .user = &o->session);
    own_open_probes(o, NULL);
    assert_int_equal(own_loop(o, 2), 2);
    assert_contains(o->t.log, "hs_step_begin was called from a callback");
    assert_int_equal(own_close(o)->reason, HS_REASON_CLOSED);
}

static hs_code run_at_the_end(probe *p, const probe_call *call)
{
    hs_error err = {0};
    if (call->point == PROBE_CLOSE)
        assert_fails(hs_session_run(*(hs_session **)p->user, "loss", &err), HS_FAILED_PRECONDITION, &err,
                     "in its own callbacks");
    return HS_OK;
}

static void a_step_that_the_close_cuts_short_is_over_when_hooks_are_called(void **state)
{
    own *o = *state;
    own_probe(o, a, .act = run_at_the_end, .user = &o->session);
    own_open_probes(o, NULL);
    assert_true(hs_step_begin(o->session));
    own_close(o);
    assert_int_equal(o->a.calls[PROBE_CLOSE], 1);
}

static hs_code meddle(void *self, hs_op *op, hs_error *err)
{
    own *o = self;
    (void)op;
    assert_false(hs_step_begin(o->session));
    assert_int_equal(hs_step_end(o->session), HS_FAILED_PRECONDITION);
    hs_session_close(o->session, err);
    return HS_OK;
}

/* An op of a raw run during a step can neither end the step nor close the session. */
static void an_op_cannot_begin_a_step(void **state)
{
    own *o = *state;
    hs_graph_op(o->graph, .name = "meddle", .run = meddle, .user = o);
    own_open_probes(o, NULL);
    assert_true(hs_step_begin(o->session));
    hs_run_args meddles = HS_INIT(hs_run_args, .names = HS_NAMES("meddle"));
    assert_ok(hs_raw_session_run(hs_session_raw(o->session), &meddles, NULL, &o->err), &o->err);
    assert_ok(hs_step_end(o->session), &o->err);
    assert_int_equal(own_loop(o, 2), 2);
    assert_int_equal(own_close(o)->step, 3);
}

static hs_code step_within(void *user, hs_step_context *step, hs_error *err)
{
    (void)step, (void)err;
    assert_false(hs_step_begin(((own *)user)->session));
    return HS_OK;
}

static void a_step_function_cannot_begin_a_step(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    assert_ok(hs_session_run_step(o->session, step_within, o, &o->err), &o->err);
    assert_int_equal(own_loop(o, 1), 1);
    assert_int_equal(own_close(o)->reason, HS_REASON_CLOSED);
}

/* Backends that cannot. */

static void a_graph_without_a_global_step_has_no_steps(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_graph *graph = hs_graph_new(NULL);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &err);
    assert_false(hs_step_begin(session));
    assert_true(hs_session_should_stop(session));
    assert_int_equal(hs_session_close(session, &err).reason, HS_REASON_FAILED);
    assert_says(&err, HS_UNIMPLEMENTED, "hs_graph_global_step");
    hs_graph_free(graph);
}

static void a_backend_that_cannot_advance_has_no_steps(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_script *script = hs_script_new(NULL);
    hs_session *session = hs_session_open(hs_script_backend(script), NULL, &err);
    assert_false(hs_step_begin(session));
    hs_session_close(session, &err);
    assert_says(&err, HS_UNIMPLEMENTED, "backend 'script'");
    hs_script_free(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        own_test(an_end_without_a_beginning_is_an_error),
        own_test(a_second_beginning_is_an_error_that_the_end_does_not_hide),
        own_test(the_program_must_not_change_the_global_step),
        own_test(a_step_that_the_program_changed_last_is_refused_at_the_close),
        own_test(before_its_first_step_the_program_may_set_it),
        own_test(between_the_two_only_raw_runs_are_made),
        own_test(other_runs_are_made_between_the_steps),
        own_test(a_callback_cannot_begin_a_step),
        own_test(a_step_that_the_close_cuts_short_is_over_when_hooks_are_called),
        own_test(an_op_cannot_begin_a_step),
        own_test(a_step_function_cannot_begin_a_step),
        cmocka_unit_test(a_graph_without_a_global_step_has_no_steps),
        cmocka_unit_test(a_backend_that_cannot_advance_has_no_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
