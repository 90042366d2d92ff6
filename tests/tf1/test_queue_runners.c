/* SPDX-License-Identifier: Apache-2.0 */
#include "threads/source.h"

#include <hooksess/tf1/queue_runners.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>

/* A runner of one op, which ends after `limit` runs. */
static hs_queue_runner *make(source *s, const char *op, int limit)
{
    source_add(s, (source_op){.name = op, .limit = limit, .code = HS_OUT_OF_RANGE});
    hs_queue_runner *runner =
        hs_queue_runner_new(HS_QUEUE_RUNNER_OPTIONS(.queue = "q", .enqueue_ops = HS_NAMES(op), .env = s->env), &s->err);
    assert_non_null(runner);
    return runner;
}

static void qr_012_all_runners_are_started(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make(s, "count", 3);
    hs_queue_runner *more = make(s, "more", 30);
    hs_threads threads = {0};
    s->runners[0] = runner;
    s->runners[1] = more;
    assert_ok(hs_queue_runners_start(&s->raw, NULL, true, &threads, &s->err), &s->err);
    assert_int_equal(source_count_threads(&threads), 2);
    source_wait_threads(&threads);
    assert_int_equal(source_calls(s, "count"), 3);
    assert_int_equal(source_calls(s, "more"), 30);
    assert_false(hs_queue_runner_error(runner, 0, NULL));
    hs_queue_runner_free(runner);
    hs_queue_runner_free(more);
}

static void qr_013_a_session_that_has_started_them_starts_none(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make(s, "count", 3);
    hs_threads threads = {0};
    s->runners[0] = runner;
    s->raw.runs_queues = true;
    assert_ok(hs_queue_runners_start(&s->raw, NULL, true, &threads, &s->err), &s->err);
    assert_int_equal(source_count_threads(&threads), 0);
    assert_int_equal(source_calls(s, "count"), 0);
    hs_threads_free(&threads);
    hs_queue_runner_free(runner);
}

static void qr_023s_a_graph_without_runners_logs_a_warning(void **state)
{
    source *s = *state;
    hs_threads threads = {0};
    assert_ok(hs_queue_runners_start(&s->raw, NULL, true, &threads, &s->err), &s->err);
    assert_int_equal(source_count_threads(&threads), 0);
    assert_contains(s->t.log, "WARNING: hs_queue_runners_start: the graph has no queue runners");
    hs_threads_free(&threads);
    assert_fails(hs_queue_runners_start(NULL, NULL, true, &threads, &s->err), HS_INVALID_ARGUMENT, &s->err,
                 "session is NULL");
}

static int open_handles(source *s)
{
    pthread_mutex_lock(&s->lock);
    int open = s->open;
    pthread_mutex_unlock(&s->lock);
    return open;
}

/* No thread of another runner is started. */
static void a_runner_that_cannot_be_started_stops_the_coordinator(void **state)
{
    source *s = *state;
    hs_threads threads = {0};
    hs_queue_runner *runner = make(s, "count", 1 << 30), *without = make(s, "lost", 1);
    hs_coordinator *coordinator = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = s->env), &s->err);
    s->runners[0] = runner;
    s->runners[1] = without;
    s->ops[3].name = "elsewhere";
    assert_fails(hs_queue_runners_start(&s->raw, coordinator, true, &threads, &s->err), HS_NOT_FOUND, &s->err, "lost");
    assert_int_equal(source_count_threads(&threads), 0);
    assert_int_equal(source_calls(s, "count"), 0);
    assert_int_equal(open_handles(s), 2); /* the sessions: the coordinator retains no handle */
    assert_fails(hs_coordinator_join(coordinator, NULL, &s->err), HS_NOT_FOUND, &s->err, "lost");
    hs_coordinator_free(coordinator);
    hs_queue_runner_free(without);
    hs_queue_runner_free(runner);
}

static int threads_left = -1; /* threads that the system starts. -1: any number */

int __wrap_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user);
int __real_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user);

int __wrap_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user)
{
    if (threads_left == 0)
        return EAGAIN;
    threads_left -= threads_left > 0;
    return __real_hs__thread_start(thread, body, user);
}

static void a_thread_that_does_not_start_ends_those_of_other_runners(void **state)
{
    source *s = *state;
    hs_threads threads = {0};
    source_add(s, (source_op){.name = "count", .limit = 1 << 30});
    source_add(s, (source_op){.name = "r/cancel", .limit = 100});
    /* not s->env: the threads themselves are not waited for */
    hs_queue_runner *one =
        hs_queue_runner_new(HS_QUEUE_RUNNER_OPTIONS(.queue = "q", .enqueue_ops = HS_NAMES("count")), &s->err);
    hs_queue_runner *other = hs_queue_runner_new(
        HS_QUEUE_RUNNER_OPTIONS(.queue = "r", .enqueue_ops = HS_NAMES("count"), .close_op = "q/close"), &s->err);
    s->runners[0] = one;
    s->runners[1] = other;
    threads_left = 1;
    assert_fails(hs_queue_runners_start(&s->raw, NULL, true, &threads, &s->err), HS_RESOURCE_EXHAUSTED, &s->err,
                 "cannot start thread");
    threads_left = -1;
    assert_null(threads.items);
    while (open_handles(s) > 2) /* until the started thread has ended */
        sched_yield();
    assert_int_equal(source_calls(s, "q/cancel"), 1);
    assert_int_equal(source_calls(s, "r/cancel"), 1);
    hs_queue_runner_free(one);
    hs_queue_runner_free(other);
}

static void the_threads_are_added_to_the_list(void **state)
{
    source *s = *state;
    hs_threads threads = {0};
    hs_queue_runner *own = make(s, "count", 3), *of_graph = make(s, "more", 30), *without = make(s, "lost", 1);
    s->ops[4].name = "elsewhere";
    assert_ok(hs_queue_runner_create_threads(own, &s->raw, NULL, false, &threads, &s->err), &s->err);
    s->runners[0] = without;
    assert_int_equal(hs_queue_runners_start(&s->raw, NULL, true, &threads, &s->err), HS_NOT_FOUND);
    assert_int_equal(source_count_threads(&threads), 1);
    s->runners[0] = of_graph;
    assert_ok(hs_queue_runners_start(&s->raw, NULL, true, &threads, &s->err), &s->err);
    assert_int_equal(source_count_threads(&threads), 2);
    source_wait_threads(&threads);
    assert_int_equal(source_calls(s, "count"), 3);
    assert_int_equal(source_calls(s, "more"), 30);
    hs_queue_runner_free(without);
    hs_queue_runner_free(of_graph);
    hs_queue_runner_free(own);
}

#define test(name) cmocka_unit_test_setup_teardown(name, source_setup, source_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(qr_012_all_runners_are_started),
        test(qr_013_a_session_that_has_started_them_starts_none),
        test(qr_023s_a_graph_without_runners_logs_a_warning),
        test(a_runner_that_cannot_be_started_stops_the_coordinator),
        test(a_thread_that_does_not_start_ends_those_of_other_runners),
        test(the_threads_are_added_to_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
