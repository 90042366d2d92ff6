/* SPDX-License-Identifier: Apache-2.0 */
#include "threads/source.h"

#include <hooksess/tf1/queue_runners.h>

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
    hs_threads threads;
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
    hs_threads threads;
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
    hs_threads threads;
    assert_ok(hs_queue_runners_start(&s->raw, NULL, true, &threads, &s->err), &s->err);
    assert_int_equal(source_count_threads(&threads), 0);
    assert_contains(s->t.log, "WARNING: hs_queue_runners_start: the graph has no queue runners");
    hs_threads_free(&threads);
    assert_fails(hs_queue_runners_start(NULL, NULL, true, &threads, &s->err), HS_INVALID_ARGUMENT, &s->err,
                 "session is NULL");
}

/* No thread of another runner continues. */
static void a_runner_that_cannot_be_started_stops_the_coordinator(void **state)
{
    source *s = *state;
    hs_threads threads;
    hs_queue_runner *runner = make(s, "count", 1 << 30), *without = make(s, "lost", 1);
    hs_coordinator *coordinator = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = s->env), &s->err);
    s->runners[0] = runner;
    s->runners[1] = without;
    s->ops[3].name = "elsewhere";
    assert_fails(hs_queue_runners_start(&s->raw, coordinator, true, &threads, &s->err), HS_NOT_FOUND, &s->err, "lost");
    assert_int_equal(source_count_threads(&threads), 0);
    assert_fails(hs_coordinator_join(coordinator, NULL, &s->err), HS_NOT_FOUND, &s->err, "lost");
    hs_coordinator_free(coordinator);
    hs_queue_runner_free(without);
    hs_queue_runner_free(runner);
}

#define test(name) cmocka_unit_test_setup_teardown(name, source_setup, source_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(qr_012_all_runners_are_started),
        test(qr_013_a_session_that_has_started_them_starts_none),
        test(qr_023s_a_graph_without_runners_logs_a_warning),
        test(a_runner_that_cannot_be_started_stops_the_coordinator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
