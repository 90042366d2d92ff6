/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/stage.h"

#include <math.h>

/* Other processes train while the hook sleeps: the n-th sleep sets the step to the n-th number. The last number remains. */
typedef struct {
    stage *s;
    const int64_t *steps;
    size_t n, sleeps;
    size_t stop_at; /* the sleep in which a stop is requested. 0: none */
    double slept;
} others;

static others training;

static void sleep_while_others_train(void *user, int64_t ns)
{
    test_env_advance(user, (double)ns / 1e9);
    training.slept += (double)ns / 1e9;
    training.sleeps++;
    assert_true(training.sleeps < 100000);
    if (training.n)
        hs_script_set_step(training.s->script,
                           training.steps[training.sleeps < training.n ? training.sleeps - 1 : training.n - 1]);
    if (training.sleeps == training.stop_at)
        hs_session_interrupt(training.s->session);
}

static int setup(void **state)
{
    stage_setup(state);
    stage *s = *state;
    training = (others){.s = s};
    s->t.env.clock.sleep_ns = sleep_while_others_train;
    hs_script_free(s->script);
    s->script = hs_script_new(&s->t.env);
    return s->script ? 0 : -1;
}
#define with_others(test) cmocka_unit_test_setup_teardown(test, setup, stage_teardown)

static void bh_055_step_zero_is_not_waited_for(void **state)
{
    stage *s = *state;
    counted c;
    hs_hook hook = hs_global_step_waiter(.wait_until_step = 0);
    assert_ok(stage_try(s, count_calls(&c, hs_script_backend(s->script)), &hook, 1), &s->err);
    c.step_reads = 0;
    stage_run(s, "train", 1, 0);
    assert_int_equal(c.step_reads, 0);
    assert_int_equal(training.sleeps, 0);
    stage_close(s); /* before the backend is freed */
}

static void bh_056_it_waits_for_the_step(void **state)
{
    static const int64_t steps[] = {500, 1100};
    training.steps = steps;
    training.n = 2;
    stage_open(*state, hs_global_step_waiter(.wait_until_step = 1000));
    stage_run(*state, "train", 1, 0);
    assert_int_equal(training.sleeps, 2);
}

static void bh_106s_every_half_second_by_default(void **state)
{
    static const int64_t steps[] = {0, 10};
    training.steps = steps;
    training.n = 2;
    stage_open(*state, hs_global_step_waiter(.wait_until_step = 10));
    stage_run(*state, "train", 1, 0);
    assert_true(fabs(training.slept - 1) < 1e-6);
}

/* 300 sleeps of half a second. */
static void bh_106s_it_logs_at_most_once_a_minute(void **state)
{
    static int64_t steps[300];
    stage *s = *state;
    for (size_t i = 0; i < 300; i++)
        steps[i] = (int64_t)(i + 1) * 1000;
    training.steps = steps;
    training.n = 300;
    stage_open(s, hs_global_step_waiter(.wait_until_step = 300000));
    stage_run(s, "train", 1, 0);
    assert_string_equal(s->t.log, "INFO: waiting for global step 300000 before training begins\n"
                                  "INFO: still waiting for global step 300000; the current step is 120000\n"
                                  "INFO: still waiting for global step 300000; the current step is 240000\n");
}

static void bh_106s_once_released_it_never_waits_again(void **state)
{
    static const int64_t steps[] = {10};
    stage *s = *state;
    training.steps = steps;
    training.n = 1;
    stage_open(s, hs_global_step_waiter(.wait_until_step = 10));
    stage_run(s, "train", 1, 0);
    hs_script_set_step(s->script, 0);
    stage_run(s, "train", 1, 0);
    assert_int_equal(training.sleeps, 1);
}

static void a_stop_ends_the_waiting(void **state)
{
    stage *s = *state;
    training.stop_at = 3;
    stage_open(s, hs_global_step_waiter(.wait_until_step = 10));
    stage_run(s, "train", 1, 0);
    assert_int_equal(training.sleeps, 3);
    assert_true(hs_session_should_stop(s->session));
    stage_close(s);
}

static hs_code lost_step(void *session, int64_t *step, hs_error *err)
{
    (void)session, (void)step;
    return hs_error_set(err, HS_UNAVAILABLE, "the server is gone");
}

static void a_step_that_cannot_be_read_is_an_error(void **state)
{
    stage *s = *state;
    counted c;
    hs_hook hook = hs_global_step_waiter(.wait_until_step = 10);
    hs_backend backend = count_calls(&c, hs_script_backend(s->script));
    assert_ok(stage_try(s, backend, &hook, 1), &s->err);
    s->outcome = hs_session_close(s->session, &s->err);
    hook = hs_global_step_waiter(.wait_until_step = 10);
    c.ops.global_step = lost_step;
    assert_ok(stage_try(s, backend, &hook, 1), &s->err);
    assert_fails(stage_run_once(s, "train"), HS_UNAVAILABLE, &s->err, "the server is gone");
    assert_int_equal(training.sleeps, 0);
}

static void a_graph_without_a_global_step(void **state)
{
    stage *s = *state;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_hook hook = hs_global_step_waiter(.wait_until_step = 10);
    hs_code code = stage_try(s, hs_graph_backend(graph), &hook, 1);
    hs_graph_free(graph);
    assert_fails(code, HS_FAILED_PRECONDITION, &s->err, "the graph has no global step");
}

static void invalid_options_are_refused(void **state)
{
    stage_refuses(*state, hs_global_step_waiter(.wait_until_step = -1), HS_INVALID_ARGUMENT, "wait_until_step is -1");
    stage_refuses(*state, hs_global_step_waiter_hook(NULL), HS_INVALID_ARGUMENT, "hs_global_step_waiter_options is NULL");
}

static hs_code wait_once(test_env *t, void *user)
{
    hs_error err = {0};
    (void)user;
    hs_script *script = hs_script_new(&t->env);
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    hs_script_set_step(script, 10);
    hs_hook hook = hs_global_step_waiter(.wait_until_step = 10);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    if (session)
        hs_session_run(session, "train", &err);
    hs_session_close(session, &err);
    hs_script_free(script);
    return err.code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(wait_once, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_others(bh_055_step_zero_is_not_waited_for),
        with_others(bh_056_it_waits_for_the_step),
        with_others(bh_106s_every_half_second_by_default),
        with_others(bh_106s_it_logs_at_most_once_a_minute),
        with_others(bh_106s_once_released_it_never_waits_again),
        with_others(a_stop_ends_the_waiting),
        with_others(a_step_that_cannot_be_read_is_an_error),
        with_others(a_graph_without_a_global_step),
        with_others(invalid_options_are_refused),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
