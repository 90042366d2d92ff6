/* SPDX-License-Identifier: Apache-2.0 */
/* A training session in a simulation: killed in each of its file calls, it resumes from its newest checkpoint. */
#include "support/test.h"

#include <hooksess/testing.h>

#define N_STEPS 6

typedef struct {
    const char *directory;
    bool background;
    int64_t first_step; /* at which the last rank began to train */
    int n_closed;       /* sessions that were closed by ranks that were not killed */
    hs_outcome outcome;
    double weight;
} training;

static hs_error err;

static hs_code train(void *user, hs_op *op, hs_error *error)
{
    training *t = user;
    (void)op, (void)error;
    t->weight = t->weight * 3 + 1;
    return HS_OK;
}

/* Trains to step N_STEPS, with a checkpoint after each second step. Each weight depends on all steps before it. */
static int run_training(void *user, const hs_group *group)
{
    training *t = user;
    hs_error error;
    t->weight = 0;
    hs_graph *graph = hs_graph_new(hs_simulation_env(group));
    hs_graph_variable(graph, "weight", HS_DOUBLE, HS_SCALAR, &t->weight);
    hs_graph_op(graph, .name = "train", .run = train, .user = t, .advances_step = true);
    hs_session *session = hs_training_session_open(
        hs_graph_backend(graph),
        HS_TRAINING_OPTIONS(.checkpoint_dir = t->directory, .save_checkpoint_steps = 2, .background = t->background,
                            .hooks = HS_HOOKS(hs_stop_at_step(.last_step = N_STEPS))),
        &error);
    if (session) {
        t->first_step = hs_session_global_step(session, NULL);
        while (!hs_session_should_stop(session) && hs_session_run(session, "train", &error) == HS_OK)
            continue;
        hs_outcome outcome = hs_session_close(session, &error);
        if (!hs_simulation_is_killed(group)) {
            t->n_closed++;
            t->outcome = outcome;
        }
    }
    hs_graph_free(graph);
    return session ? 0 : 1;
}

/* Runs the training and kills it in this file call. 0: does not kill it. Returns the number of file calls. */
static int64_t run_killed(training *t, int64_t at)
{
    hs_test_system *system = hs_test_system_new();
    hs_simulation *simulation = hs_simulation_new(
        HS_SIMULATION_OPTIONS(.rank_count = 1, .main = run_training, .user = t, .env = hs_test_system_env(system)), &err);
    if (at > 0)
        assert_ok(hs_simulation_kill_in_file_call(simulation, 0, at), &err);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    int64_t n_calls = hs_simulation_file_calls(simulation, 0);
    assert_int_equal(hs_simulation_result(simulation, 0, NULL), n_calls != at);
    hs_simulation_free(simulation);
    assert_int_equal(hs_test_system_open_files(system), 0);
    assert_int_equal(hs_test_system_live_blocks(system), 0);
    hs_test_system_free(system);
    return n_calls;
}

static void kill_in_each_file_call(bool background)
{
    char *directory = test_make_directory();
    training t = {.directory = directory, .background = background};
    int n_resumed = 0;
    int64_t n_calls = run_killed(&t, 0);
    assert_true(n_calls > 50);
    assert_int_equal(t.n_closed, 1);
    for (int64_t at = 1; at <= n_calls; at += (background ? 3 : 1) * HOOKSESS_TEST_SHARE) {
        test_empty_directory(directory);
        t = (training){.directory = directory, .background = background};
        run_killed(&t, at);
        if (!background)
            assert_int_equal(t.n_closed, 0);
        run_killed(&t, 0);
        n_resumed += t.first_step > 0;
        if (t.outcome.error.code)
            fail_msg("after a kill in file call %d: %s", (int)at, t.outcome.error.message);
        assert_true(t.weight == 364); /* (3^6 - 1) / 2 */
    }
    assert_true(n_resumed > (background ? 0 : 20));
    test_remove_directory(directory);
}

static void a_session_that_is_killed_in_any_file_call_resumes(void **state)
{
    (void)state;
    kill_in_each_file_call(false);
}

static void a_rank_that_saves_in_the_background_is_killed_too(void **state)
{
    (void)state;
    kill_in_each_file_call(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_that_is_killed_in_any_file_call_resumes),
        cmocka_unit_test(a_rank_that_saves_in_the_background_is_killed_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
