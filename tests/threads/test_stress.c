/* SPDX-License-Identifier: Apache-2.0 */
/* Repeated starts and stops leave no thread, no descriptor and no memory. */
#include "support/test.h"

#include <dirent.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { CYCLES = 1000 / HOOKSESS_TEST_SHARE, THREADS = 64, SESSION_THREADS = 8 };

static size_t entries(const char *directory)
{
    size_t n = 0;
    DIR *opened = opendir(directory);
    assert_non_null(opened);
    while (readdir(opened))
        n++;
    closedir(opened);
    return n;
}

/* The resources of a process. */
typedef struct {
    size_t threads, descriptors, blocks;
} holdings;

static holdings look(test_env *t)
{
    return (holdings){entries("/proc/self/task"), entries("/proc/self/fd"), test_env_live(t)};
}

/* The system removes a thread shortly after its end, so this waits. */
static void assert_nothing_left(test_env *t, holdings before)
{
    while (entries("/proc/self/task") > before.threads)
        sched_yield();
    holdings after = look(t);
    assert_int_equal(after.descriptors, before.descriptors);
    assert_int_equal(after.blocks, before.blocks);
}

typedef struct {
    sem_t turns;
    atomic_size_t begun, passed, woken;
} crowd;

static hs_code pass_until_stopped(void *user, hs_coordinator *coordinator, hs_error *err)
{
    crowd *all = user;
    (void)err;
    atomic_fetch_add(&all->begun, 1);
    while (!hs_coordinator_should_stop(coordinator)) {
        sem_wait(&all->turns);
        atomic_fetch_add(&all->passed, 1);
    }
    return HS_OK;
}

static void wake(void *user)
{
    crowd *all = user;
    atomic_fetch_add(&all->woken, 1);
    sem_post(&all->turns);
}

/* There are too few turns for all threads: they are stopped while most of them wait. */
static void cycle_of_threads(test_env *t)
{
    crowd all = {.begun = 0};
    hs_error err = {0};
    int left = 0;
    assert_int_equal(sem_init(&all.turns, 0, THREADS / 4), 0);
    hs_coordinator *coordinator = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = &t->env), &err);
    for (int i = 0; i < THREADS; i++)
        assert_ok(hs_coordinator_start(coordinator, &err, .name = "passer", .run = pass_until_stopped, .user = &all,
                                       .wake = wake),
                  &err);
    while (atomic_load(&all.passed) < THREADS / 4)
        sched_yield();
    hs_coordinator_request_stop(coordinator, NULL);
    assert_ok(hs_coordinator_join(coordinator, NULL, &err), &err);
    sem_getvalue(&all.turns, &left);
    assert_int_equal(atomic_load(&all.begun), THREADS);
    assert_int_equal(atomic_load(&all.passed) + (size_t)left, THREADS / 4 + atomic_load(&all.woken));
    hs_coordinator_free(coordinator);
    sem_destroy(&all.turns);
}

static void sixty_four_threads_again_and_again(void **state)
{
    test_env t;
    (void)state;
    test_env_init(&t);
    cycle_of_threads(&t); /* the system allocates some resources only once */
    holdings before = look(&t);
    for (int i = 0; i < CYCLES; i++)
        cycle_of_threads(&t);
    assert_nothing_left(&t, before);
}

/* Sessions with a queue. */

static hs_code produce(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    *(int64_t *)hs_op_output(op, 0)->data = (int64_t)atomic_fetch_add((atomic_size_t *)self, 1);
    return HS_OK;
}

static hs_code consume(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    *(int64_t *)self += *(const int64_t *)hs_op_input(op, 0)->data;
    return HS_OK;
}

static hs_code lose_it(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)run, (void)args;
    return ++*(int *)self == 3 ? hs_error_set(err, HS_UNAVAILABLE, "gone") : HS_OK;
}

/* A session is opened, run, lost, recovered, run and closed. Its producers are stopped at work twice. */
static void cycle_of_a_session(hs_graph *graph)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "loser", .before_run = lose_it);
    const hs_recovery recovery = HS_INIT(hs_recovery);
    int runs = 0;
    hs_error err = {0};
    hs_hook hook = {.ops = &ops, .self = &runs};
    hs_session *session =
        hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook), .recovery = &recovery), &err);
    for (int i = 0; i < 4; i++)
        assert_ok(hs_session_run(session, "train", &err), &err);
    hs_outcome outcome = hs_session_close(session, &err);
    assert_ok(outcome.error.code, &outcome.error);
}

static void sessions_with_queues_again_and_again(void **state)
{
    test_env t;
    atomic_size_t produced = 0;
    int64_t sum = 0;
    (void)state;
    test_env_init(&t);
    hs_graph *graph = hs_graph_new(&t.env);
    hs_graph_queue(graph, .name = "input", .capacity = 4, .components = HS_OUTPUTS({.dtype = HS_INT64}), .produce = produce,
                   .user = &produced, .threads = SESSION_THREADS);
    hs_graph_op(graph, .name = "train", .run = consume, .user = &sum, .inputs = HS_NAMES("input/dequeue"),
                .advances_step = true);
    cycle_of_a_session(graph);
    holdings before = look(&t);
    for (int i = 0; i < CYCLES; i++) {
        test_env_clear_log(&t);
        cycle_of_a_session(graph);
    }
    assert_nothing_left(&t, before);
    hs_graph_free(graph);
    assert_int_equal(test_env_live(&t), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixty_four_threads_again_and_again),
        cmocka_unit_test(sessions_with_queues_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
