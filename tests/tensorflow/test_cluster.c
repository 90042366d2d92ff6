/* SPDX-License-Identifier: Apache-2.0 */
/* A chief, two workers and a parameter server in separate processes, one of which is killed. */
#include "tensorflow/tasks.h"

#include <signal.h>

enum { STEPS = 40 };

/* Lets all workers make the remaining steps. Each ends at the last step, or at a later one, if others make steps at the
 * same time. */
static void all_end(cluster *c)
{
    for (int k = 0; k < PARAMETERS; k++)
        task_finish(c, k);
    for (int k = 0; k < PARAMETERS; k++) {
        int64_t step = task_says(c, k, "end");
        assert_true(step >= STEPS && step < STEPS + PARAMETERS);
        assert_int_equal(task_wait(c, k), 0);
    }
    hs_error err = {0};
    char *newest = hs_checkpoint_latest(hs_env_default(), c->directory, NULL, &err);
    assert_non_null(newest);
    assert_true(strtoll(strrchr(newest, '-') + 1, NULL, 10) >= STEPS);
    hs_env_free(hs_env_default(), newest);
}

/* All workers count the same global step. */
static void steps_are_shared(cluster *c)
{
    for (int64_t step = 1; step <= 9; step++)
        assert_int_equal(task_step(c, (int)(step % PARAMETERS)), step);
}

static void a_killed_worker(const char *graph)
{
    cluster c;
    cluster_start(&c, graph, STEPS);
    steps_are_shared(&c);
    task_kill(&c, WORKER);
    assert_int_equal(task_step(&c, CHIEF), 10); /* the others continue */
    assert_int_equal(task_step(&c, OTHER_WORKER), 11);
    task_start(&c, WORKER);
    assert_int_equal(task_says(&c, WORKER, "open"), 11);
    assert_int_equal(task_step(&c, WORKER), 12);
    all_end(&c);
    kill(c.tasks[PARAMETERS].pid, SIGTERM);
    assert_int_equal(task_says(&c, PARAMETERS, "end"), HS_OK);
    assert_int_equal(task_wait(&c, PARAMETERS), 0);
    cluster_end(&c);
}

static void a_killed_worker_joins_again(void **state)
{
    (void)state;
    a_killed_worker("cluster_resource.meta");
    a_killed_worker("cluster_ref.meta");
}

typedef enum { DOWN, IN_FLIGHT, RESTARTED } moment;

/* Its variables are lost: the chief restores the checkpoint of step 9 or an earlier one, and the workers wait for that. The
 * next steps are requested while it is down, before it is killed, or after its restart. */
static void a_killed_parameter_server(const char *graph, moment when)
{
    cluster c;
    cluster_start(&c, graph, STEPS);
    steps_are_shared(&c);
    if (when != IN_FLIGHT)
        task_kill(&c, PARAMETERS);
    if (when == RESTARTED)
        task_start(&c, PARAMETERS);
    for (int k = 0; k < PARAMETERS; k++)
        task_request_step(&c, k);
    if (when == IN_FLIGHT)
        task_kill(&c, PARAMETERS);
    for (int k = 0; when == DOWN && k < PARAMETERS; k++)
        task_says(&c, k, "lost");
    if (when != RESTARTED)
        task_start(&c, PARAMETERS);
    for (int k = 0; k < PARAMETERS; k++) {
        int64_t step = task_says(&c, k, "step");
        assert_true(step > 5 && step <= 12);
    }
    all_end(&c);
    task_finish(&c, PARAMETERS);
    assert_int_equal(task_says(&c, PARAMETERS, "end"), HS_OK);
    assert_int_equal(task_wait(&c, PARAMETERS), 0);
    cluster_end(&c);
}

static void a_killed_parameter_server_is_recovered_from(void **state)
{
    (void)state;
    a_killed_parameter_server("cluster_resource.meta", DOWN);
    a_killed_parameter_server("cluster_ref.meta", DOWN);
}

static void steps_in_flight_are_recovered_from(void **state)
{
    (void)state;
    a_killed_parameter_server("cluster_resource.meta", IN_FLIGHT);
}

static void a_parameter_server_that_is_back_already_is_recovered_from(void **state)
{
    (void)state;
    a_killed_parameter_server("cluster_resource.meta", RESTARTED);
    a_killed_parameter_server("cluster_ref.meta", RESTARTED);
}

/* The others wait for it. */
static void the_parameter_server_may_come_last(void **state)
{
    (void)state;
    cluster c;
    cluster_plan(&c, "cluster_ref.meta", STEPS);
    for (int k = 0; k < PARAMETERS; k++)
        task_start(&c, k);
    task_says(&c, CHIEF, "waits");
    task_start(&c, PARAMETERS);
    for (int k = 0; k < PARAMETERS; k++)
        assert_int_equal(task_says(&c, k, "open"), 0);
    steps_are_shared(&c);
    all_end(&c);
    cluster_end(&c);
}

/* The variables still exist: the chief restores its checkpoint over them. */
static void a_killed_chief_resumes(void **state)
{
    (void)state;
    cluster c;
    cluster_start(&c, "cluster_resource.meta", STEPS);
    steps_are_shared(&c);
    task_kill(&c, CHIEF);
    assert_int_equal(task_step(&c, WORKER), 10);
    task_start(&c, CHIEF);
    int64_t step = task_says(&c, CHIEF, "open");
    assert_true(step >= 5 && step <= 9);
    assert_int_equal(task_step(&c, OTHER_WORKER), step + 1);
    all_end(&c);
    cluster_end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_worker_joins_again),
        cmocka_unit_test(a_killed_parameter_server_is_recovered_from),
        cmocka_unit_test(steps_in_flight_are_recovered_from),
        cmocka_unit_test(a_parameter_server_that_is_back_already_is_recovered_from),
        cmocka_unit_test(the_parameter_server_may_come_last),
        cmocka_unit_test(a_killed_chief_resumes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
