/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/stage.h"

/* An op that does not change the global step, which the test sets. */
static int setup(void **state)
{
    stage_setup(state);
    hs_script_op(((stage *)*state)->script, "noop");
    return 0;
}
#define with_noop(test) cmocka_unit_test_setup_teardown(test, setup, stage_teardown)

/* Runs with this global step. Returns true if the hook then requests a stop. */
static bool stops_at(stage *s, int64_t step)
{
    hs_script_set_step(s->script, step);
    assert_ok(stage_run_once(s, "noop"), &s->err);
    return hs_session_should_stop(s->session);
}

static void bh_006_both_last_step_and_num_steps(void **state)
{
    stage_refuses(*state, hs_stop_at_step(.num_steps = 10, .last_step = 20), HS_INVALID_ARGUMENT,
                  "each of num_steps and last_step");
}

static void bh_007_stops_at_last_step(void **state)
{
    stage *s = *state;
    hs_hook hook = hs_hook_hold(hs_stop_at_step(.last_step = 10));
    hs_script_set_step(s->script, 5);
    stage_open(s, hook);
    assert_false(stops_at(s, 5));
    assert_false(stops_at(s, 9));
    assert_true(stops_at(s, 10));
    stage_close(s);
    stage_open(s, without_creation(hook)); /* the stop is forgotten, the hook is not */
    assert_false(hs_session_should_stop(s->session));
    assert_true(stops_at(s, 11));
    stage_close(s);
    hs_hook_free(hook);
}

static void bh_009_stops_when_the_step_jumps(void **state)
{
    stage *s = *state;
    hs_script_set_step(s->script, 5);
    stage_open(s, hs_stop_at_step(.num_steps = 10));
    assert_false(stops_at(s, 5));
    assert_true(stops_at(s, 15));
}

static void watched_it_stops_at_the_same_step(void **state)
{
    stage *s = *state;
    hs_script_set_step(s->script, 5);
    stage_open(s, hs_script_watch(s->script, NULL, hs_stop_at_step(.num_steps = 10)));
    assert_false(stops_at(s, 5));
    assert_true(stops_at(s, 15));
}

static void num_steps_counts_from_the_sessions_step(void **state)
{
    stage *s = *state;
    hs_script_set_step(s->script, 5);
    stage_open(s, hs_stop_at_step(.num_steps = 10));
    assert_false(stops_at(s, 14));
    assert_true(stops_at(s, 15));
}

static void it_makes_exactly_num_steps(void **state)
{
    stage *s = *state;
    stage_open(s, hs_stop_at_step(.last_step = 7));
    while (!hs_session_should_stop(s->session))
        assert_ok(stage_run_once(s, "train"), &s->err);
    assert_int_equal(hs_session_global_step(s->session, NULL), 7);
    stage_close(s);
    assert_int_equal(s->outcome.reason, HS_REASON_STOPPED);
    assert_string_equal(s->outcome.hook, "stop_at_step");
    assert_int_equal(s->outcome.step, 7);
}

static void bh_074s_neither_last_step_nor_num_steps(void **state)
{
    stage_refuses(*state, hs_stop_at_step(.last_step = 0), HS_INVALID_ARGUMENT, "neither num_steps nor last_step");
}

/* TensorFlow makes one step too many. */
static void bh_074s_a_target_that_is_reached_runs_nothing(void **state)
{
    stage *s = *state;
    hs_script_set_step(s->script, 12);
    stage_open(s, hs_stop_at_step(.last_step = 10));
    assert_true(hs_session_should_stop(s->session));
    assert_int_equal(hs_script_runs(s->script), 0);
    stage_close(s);
    assert_int_equal(s->outcome.reason, HS_REASON_ALREADY_DONE);
    assert_string_equal(s->outcome.hook, "stop_at_step");
    assert_int_equal(hs_outcome_exit_code(&s->outcome), 0);
    assert_contains(s->t.log, "INFO: step 12: training is already done: last_step is 10");
}

static void bh_074s_a_target_that_is_just_reached_runs_nothing(void **state)
{
    stage *s = *state;
    hs_script_set_step(s->script, 10);
    stage_open(s, hs_stop_at_step(.last_step = 10));
    assert_true(hs_session_should_stop(s->session));
}

/* After a recovery it is the same (which comes with recovery). */
static void bh_075s_the_target_of_the_first_session_stays(void **state)
{
    stage *s = *state;
    hs_hook hook = hs_hook_hold(hs_stop_at_step(.num_steps = 5));
    stage_open(s, hook);
    assert_false(stops_at(s, 3));
    stage_close(s);
    stage_open(s, hook);
    assert_false(stops_at(s, 4));
    assert_true(stops_at(s, 5));
    stage_close(s);
    hs_hook_free(hook);
}

static void bh_076s_a_graph_without_a_global_step(void **state)
{
    stage *s = *state;
    counted c;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_hook hook = hs_stop_at_step(.last_step = 3);
    hs_code code = stage_try(s, count_calls(&c, hs_graph_backend(graph)), &hook, 1);
    hs_graph_free(graph);
    assert_fails(code, HS_FAILED_PRECONDITION, &s->err, "hook 'stop_at_step', begin: the graph has no global step");
    assert_int_equal(c.opens, 0);
}

static void steps_are_positive(void **state)
{
    stage_refuses(*state, hs_stop_at_step(.num_steps = -3), HS_INVALID_ARGUMENT, "num_steps is -3");
    stage_refuses(*state, hs_stop_at_step(.last_step = HS_NEVER), HS_INVALID_ARGUMENT, "last_step is -1");
    stage_refuses(*state, hs_stop_at_step_hook(&(hs_stop_at_step_options){.last_step = 3}), HS_INVALID_ARGUMENT,
                  "HS_INIT(hs_stop_at_step_options");
}

static hs_code no_step(void *session, int64_t *step, hs_error *err)
{
    (void)session, (void)step;
    return hs_error_set(err, HS_UNAVAILABLE, "the worker is gone");
}

static void a_step_that_cannot_be_read(void **state)
{
    stage *s = *state;
    hs_backend backend = hs_script_backend(s->script);
    hs_backend_ops ops = *backend.ops;
    ops.global_step = no_step;
    hs_hook hook = hs_stop_at_step(.last_step = 3);
    assert_fails(stage_try(s, (hs_backend){&ops, backend.self}, &hook, 1), HS_UNAVAILABLE, &s->err,
                 "hook 'stop_at_step', after_create_session: the worker is gone");
}

static hs_code train_to_the_end(test_env *t, void *user)
{
    hs_error err = {0};
    (void)user;
    hs_script *script = hs_script_new(&t->env);
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    hs_hook hook = hs_stop_at_step(.last_step = 2);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    while (!hs_session_should_stop(session) && !hs_session_run(session, "train", &err))
        continue;
    hs_session_close(session, &err);
    hs_script_free(script);
    return err.code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(train_to_the_end, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_noop(bh_006_both_last_step_and_num_steps),
        with_noop(bh_007_stops_at_last_step),
        with_noop(bh_009_stops_when_the_step_jumps),
        with_noop(watched_it_stops_at_the_same_step),
        with_noop(num_steps_counts_from_the_sessions_step),
        with_noop(it_makes_exactly_num_steps),
        with_noop(bh_074s_neither_last_step_nor_num_steps),
        with_noop(bh_074s_a_target_that_is_reached_runs_nothing),
        with_noop(bh_074s_a_target_that_is_just_reached_runs_nothing),
        with_noop(bh_075s_the_target_of_the_first_session_stays),
        with_noop(bh_076s_a_graph_without_a_global_step),
        with_noop(steps_are_positive),
        with_noop(a_step_that_cannot_be_read),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
