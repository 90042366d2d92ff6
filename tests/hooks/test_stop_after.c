/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/model.h"
#include "hooks/stage.h"

#include "base/state.h"

#include <math.h>

/* Trains until a stop, at most `most` steps, with `secs` between them. Returns the number of steps. */
static int train(stage *s, double secs, int most)
{
    int made = 0;
    for (; made < most && !hs_session_should_stop(s->session); made++) {
        test_env_advance(&s->t, secs);
        assert_ok(stage_run_once(s, "train"), &s->err);
    }
    return made;
}

static void invalid_options_are_refused(void **state)
{
    stage *s = *state;
    stage_refuses(s, hs_stop_after(.margin_secs = 1), HS_INVALID_ARGUMENT,
                  "none of total_secs, this_run_secs and deadline_unix_secs");
    stage_refuses(s, hs_stop_after(.total_secs = -2), HS_INVALID_ARGUMENT, "total_secs is -2");
    stage_refuses(s, hs_stop_after(.this_run_secs = (double)NAN), HS_INVALID_ARGUMENT, "this_run_secs is ");
    stage_refuses(s, hs_stop_after(.deadline_unix_secs = HS_NEVER), HS_INVALID_ARGUMENT, "none of");
    stage_refuses(s, hs_stop_after(.deadline_unix_secs = 5, .margin_secs = -1), HS_INVALID_ARGUMENT, "margin_secs is -1");
    stage_refuses(s, hs_stop_after_hook(&(hs_stop_after_options){.deadline_unix_secs = 3}), HS_INVALID_ARGUMENT,
                  "HS_INIT(hs_stop_after_options");
}

/* After the fourth step 2 s remain, which is just enough for another one. */
static void it_stops_while_a_step_still_fits(void **state)
{
    stage *s = *state;
    stage_open(s, hs_stop_after(.this_run_secs = 10));
    assert_int_equal(train(s, 2, 99), 5);
    stage_close(s);
    assert_int_equal(s->outcome.reason, HS_REASON_STOPPED);
    assert_true(s->outcome.interrupted);
    assert_string_equal(s->outcome.hook, "stop_after");
}

static void it_leaves_time_to_save(void **state)
{
    stage *s = *state;
    hs_hook hooks[] = {hs_stop_after(.this_run_secs = 24), stage_slow_saver(s, 4)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err); /* saves once */
    assert_int_equal(train(s, 2, 99), 7);
    assert_contains(s->t.log, "INFO: step 7: stopping: 6 s remain of this_run_secs 24; a step may take 2 s, a save 4 s, "
                              "margin_secs is 0");
}

static void it_leaves_a_margin(void **state)
{
    stage *s = *state;
    stage_open(s, hs_stop_after(.this_run_secs = 20, .margin_secs = 9));
    assert_int_equal(train(s, 2, 99), 5);
}

static void it_goes_by_the_longest_step(void **state)
{
    stage *s = *state;
    stage_open(s, hs_stop_after(.this_run_secs = 30));
    assert_int_equal(train(s, 1, 1), 1);
    assert_int_equal(train(s, 9, 1), 1);
    assert_int_equal(train(s, 1, 99), 12);
}

/* Time between runs is part of the step. */
static void the_programs_own_work_counts(void **state)
{
    stage *s = *state;
    stage_open(s, hs_stop_after(.this_run_secs = 10));
    stage_run(s, "train", 3, 3);
    assert_false(hs_session_should_stop(s->session));
    test_env_advance(&s->t, 3);
    stage_run(s, "train", 1, 0);
    assert_true(hs_session_should_stop(s->session));
}

static void a_deadline_is_a_time_of_day(void **state)
{
    stage *s = *state;
    double now = (double)hs_env_realtime_ns(&s->t.env) / 1e9;
    stage_open(s, hs_stop_after(.deadline_unix_secs = now + 100, .this_run_secs = 1e300));
    assert_int_equal(train(s, 10, 99), 10);
    assert_contains(s->t.log, "s remain of deadline_unix_secs 17000");
}

static int64_t ahead_ns;
static int64_t realtime(void *user)
{
    return ((test_env *)user)->now_ns + ahead_ns;
}

static void a_clock_that_is_set_is_noticed(void **state)
{
    stage *s = *state;
    hs_env env = s->t.env;
    env.clock.realtime_ns = realtime;
    ahead_ns = 0;
    hs_script_free(s->script);
    assert_non_null(s->script = hs_script_new(&env));
    stage_open(s, hs_stop_after(.deadline_unix_secs = (double)hs_env_realtime_ns(&env) / 1e9 + 1000));
    assert_int_equal(train(s, 1, 5), 5);
    ahead_ns = (int64_t)990 * 1000000000;
    assert_int_equal(train(s, 1, 99), 5);
}

static void a_deadline_that_has_passed_makes_no_step(void **state)
{
    stage *s = *state;
    stage_open(s, hs_stop_after(.deadline_unix_secs = 1000));
    assert_true(hs_session_should_stop(s->session));
    stage_close(s);
    assert_int_equal(s->outcome.reason, HS_REASON_STOPPED);
    assert_true(s->outcome.interrupted);
    assert_int_equal(hs_script_runs(s->script), 0);
}

static void a_completed_training_counts_more_than_a_time_limit(void **state)
{
    stage *s = *state;
    hs_hook hooks[] = {hs_stop_after(.this_run_secs = 3), hs_stop_at_step(.last_step = 3)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    assert_int_equal(train(s, 1, 99), 3);
    stage_close(s);
    assert_false(s->outcome.interrupted);
}

static void it_is_logged_once(void **state)
{
    stage *s = *state;
    stage_open(s, hs_stop_after(.this_run_secs = 1));
    for (int i = 0; i < 3; i++) {
        test_env_advance(&s->t, 1);
        hs_session_run(s->session, "train", NULL);
    }
    assert_int_equal(count_of(s->t.log, ": stopping: "), 1);
}

static void it_needs_no_global_step(void **state)
{
    stage *s = *state;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_hook hook = hs_stop_after(.deadline_unix_secs = 1);
    assert_ok(stage_try(s, hs_graph_backend(graph), &hook, 1), &s->err);
    assert_true(hs_session_should_stop(s->session));
    stage_close(s);
    hs_graph_free(graph);
    assert_contains(s->t.log, "INFO: step -1: ");
}

/* Over several runs. */

/* Another process, whose steps take `secs`. Returns the number of steps. */
static int resume(stage *s, hs_hook hook, double secs, int most)
{
    model m;
    int made = 0;
    model_set(&m, 0);
    model_build(&m, &s->t.env);
    hs_hook hooks[] = {hook, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1000), {.ops = NULL}};
    hs_session_options options = HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = s->directory);
    assert_non_null(m.session = hs_session_open(hs_graph_backend(m.graph), &options, &m.err));
    for (; made < most && !hs_session_should_stop(m.session); made++) {
        test_env_advance(&s->t, secs);
        assert_ok(model_train(&m, 1), &m.err);
    }
    s->outcome = model_close(&m);
    return made;
}

static void time_counts_over_all_runs(void **state)
{
    stage *s = *state;
    assert_int_equal(resume(s, hs_stop_after(.total_secs = 100), 10, 4), 4);
    test_env_advance(&s->t, 5000); /* between the runs */
    assert_int_equal(resume(s, hs_stop_after(.total_secs = 100), 10, 99), 6);
    assert_true(s->outcome.interrupted);
    assert_int_equal(hs_outcome_exit_code(&s->outcome), 75);
}

static void time_that_is_used_up_leaves_nothing_to_do(void **state)
{
    stage *s = *state;
    resume(s, hs_stop_after(.total_secs = 100), 10, 99);
    assert_int_equal(resume(s, hs_stop_after(.total_secs = 100), 10, 99), 0);
    assert_int_equal(s->outcome.reason, HS_REASON_ALREADY_DONE);
    assert_string_equal(s->outcome.hook, "stop_after");
    assert_int_equal(hs_outcome_exit_code(&s->outcome), 0);
    assert_contains(s->t.log, "INFO: training is already done: 100 s of total_secs 100 are used");
}

/* A run that stops immediately neither uses up time nor forgets the used time. */
static void with_more_time_training_continues(void **state)
{
    stage *s = *state;
    resume(s, hs_stop_after(.total_secs = 100), 10, 99);
    resume(s, hs_stop_after(.total_secs = 100), 10, 99);
    assert_int_equal(resume(s, hs_stop_after(.total_secs = 150), 10, 99), 5);
}

static void this_run_secs_starts_again_in_each_run(void **state)
{
    stage *s = *state;
    assert_int_equal(resume(s, hs_stop_after(.this_run_secs = 50), 10, 99), 5);
    assert_int_equal(resume(s, hs_stop_after(.this_run_secs = 50), 10, 99), 5);
}

/* After a rollback, the time since the checkpoint still counts. */
static void a_rollback_gives_no_time_back(void **state)
{
    stage *s = *state;
    model m;
    hs_state_copy *copy = NULL;
    model_set(&m, 0);
    model_build(&m, &s->t.env);
    hs_hook hook = hs_stop_after(.total_secs = 100);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    assert_non_null(m.session = hs_session_open(hs_graph_backend(m.graph), &options, &m.err));
    assert_ok(hs_raw_session_copy_state(model_raw(&m), &copy, &m.err), &m.err);
    test_env_advance(&s->t, 60);
    assert_ok(hs_raw_session_restore_copy(model_raw(&m), copy, &m.err), &m.err);
    hs_state_copy_free(copy);
    test_env_advance(&s->t, 41);
    assert_ok(model_train(&m, 1), &m.err);
    assert_true(hs_session_should_stop(m.session));
    model_close(&m);
}

static void a_damaged_state_is_refused(void **state)
{
    stage *s = *state;
    struct {
        int64_t used_ns, longest_ns;
        double save_secs;
    } damaged[] = {{-1, 0, 0}, {INT64_MAX, 0, 0}, {0, -1, 0}, {0, 0, -1}, {0, 0, (double)NAN}, {0, 0, (double)INFINITY}};
    hs_hook hook = hs_stop_after(.total_secs = 1);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        hs_state_reader in = {.at = (const unsigned char *)&damaged[i], .left = sizeof damaged[i]};
        assert_int_equal(hook.ops->load_state(hook.self, &in, &s->err), HS_DATA_LOSS);
    }
    hs_hook_free(hook);
}

static hs_code each_scenario(test_env *t, void *user)
{
    hs_error err = {0};
    (void)user;
    hs_script *script = hs_script_new(&t->env);
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    hs_hook hook = hs_stop_after(.this_run_secs = 2);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    while (!hs_session_should_stop(session) && !hs_session_run(session, "train", &err))
        test_env_advance(t, 1);
    hs_session_close(session, &err);
    hs_script_free(script);
    return err.code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(each_scenario, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(invalid_options_are_refused),
        with_stage(it_stops_while_a_step_still_fits),
        with_stage(it_leaves_time_to_save),
        with_stage(it_leaves_a_margin),
        with_stage(it_goes_by_the_longest_step),
        with_stage(the_programs_own_work_counts),
        with_stage(a_deadline_is_a_time_of_day),
        with_stage(a_clock_that_is_set_is_noticed),
        with_stage(a_deadline_that_has_passed_makes_no_step),
        with_stage(a_completed_training_counts_more_than_a_time_limit),
        with_stage(it_is_logged_once),
        with_stage(it_needs_no_global_step),
        with_stage(time_counts_over_all_runs),
        with_stage(time_that_is_used_up_leaves_nothing_to_do),
        with_stage(with_more_time_training_continues),
        with_stage(this_run_secs_starts_again_in_each_run),
        with_stage(a_rollback_gives_no_time_back),
        with_stage(a_damaged_state_is_refused),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
