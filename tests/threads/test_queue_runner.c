/* SPDX-License-Identifier: Apache-2.0 */
#include "threads/source.h"

#include <errno.h>
#include <pthread.h>

static const double LONG = 100;

/* The enqueue op of most tests. It ends after 3 runs. */
static const source_op three = {.name = "count", .limit = 3, .code = HS_OUT_OF_RANGE};
static const source_op endless = {.name = "count", .limit = 1 << 30};
static const source_op blocked = {.name = "count", .limit = 3, .blocks = true};
static const source_op broken = {.name = "count", .code = HS_DATA_LOSS, .message = "the file is torn"};

static hs_queue_runner *make(source *s, const char *const *enqueue_ops)
{
    hs_queue_runner_options options =
        HS_INIT(hs_queue_runner_options, .queue = "q", .enqueue_ops = enqueue_ops, .env = s->env);
    hs_queue_runner *runner = hs_queue_runner_new(&options, &s->err);
    if (!runner)
        fail_msg("%s", s->err.message);
    return runner;
}

static hs_queue_runner *make_one(source *s, source_op op)
{
    source_add(s, op);
    return make(s, HS_NAMES(op.name));
}

static hs_coordinator *coordinate(source *s)
{
    hs_coordinator *made = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = s->env), &s->err);
    assert_non_null(made);
    return made;
}

static hs_threads create(source *s, hs_queue_runner *runner, hs_coordinator *coordinator, bool start)
{
    hs_threads threads = {0};
    assert_ok(hs_queue_runner_create_threads(runner, &s->raw, coordinator, start, &threads, &s->err), &s->err);
    return threads;
}

static void fill(source *s, hs_queue_runner *runner)
{
    hs_threads threads = create(s, runner, NULL, true);
    source_wait_threads(&threads);
}

/* Fills the queue with a coordinator until it stops. Returns the result of the join. */
static hs_code fill_coordinated(source *s, hs_queue_runner *runner)
{
    hs_coordinator *coordinator = coordinate(s);
    assert_ok(hs_queue_runner_create_threads(runner, &s->raw, coordinator, true, NULL, &s->err), &s->err);
    hs_code code = hs_coordinator_join(coordinator, NULL, &s->err);
    hs_coordinator_free(coordinator);
    return code;
}

/* Without a coordinator. */

static void qr_001_an_op_runs_until_its_end(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, three);
    hs_threads threads = create(s, runner, NULL, false);
    assert_int_equal(source_count_threads(&threads), 1);
    assert_string_equal(hs_thread_name(source_thread(&threads, 0)), "QueueRunnerThread-q-count");
    assert_ok(hs_thread_start(source_thread(&threads, 0), &s->err), &s->err);
    source_wait_threads(&threads);
    assert_false(hs_queue_runner_error(runner, 0, NULL));
    assert_int_equal(source_calls(s, "count"), 3);
    hs_queue_runner_free(runner);
}

static void qr_002_two_ops_have_two_threads(void **state)
{
    source *s = *state;
    source_add(s, three);
    source_add(s, (source_op){.name = "more", .limit = 30, .code = HS_OUT_OF_RANGE});
    hs_queue_runner *runner = make(s, HS_NAMES("count", "more"));
    hs_threads threads = create(s, runner, NULL, true);
    assert_int_equal(source_count_threads(&threads), 2);
    assert_string_equal(hs_thread_name(source_thread(&threads, 0)), "QueueRunnerThread-q-count");
    assert_string_equal(hs_thread_name(source_thread(&threads, 1)), "QueueRunnerThread-q-more");
    source_wait_threads(&threads);
    assert_int_equal(source_calls(s, "count"), 3);
    assert_int_equal(source_calls(s, "more"), 30);
    assert_false(hs_queue_runner_error(runner, 0, NULL));
    hs_queue_runner_free(runner);
}

static void qr_003_errors_are_kept(void **state)
{
    source *s = *state;
    hs_error error;
    source_add(s, broken);
    hs_queue_runner *runner = make(s, HS_NAMES("count", "count"));
    fill(s, runner);
    for (size_t i = 0; i < 2; i++) {
        assert_true(hs_queue_runner_error(runner, i, &error));
        assert_says(&error, HS_DATA_LOSS, "the file is torn");
    }
    assert_false(hs_queue_runner_error(runner, 2, &error));
    assert_false(hs_queue_runner_error(NULL, 0, &error));
    hs_queue_runner_free(runner);
}

static void qr_017s_without_a_coordinator_they_are_logged_and_the_threads(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, broken);
    hs_threads threads = create(s, runner, NULL, true);
    assert_true(hs_thread_wait(source_thread(&threads, 0), LONG));
    assert_fails(hs_thread_error(source_thread(&threads, 0), &s->err), HS_DATA_LOSS, &s->err, "the file is torn");
    assert_contains(s->t.log, "ERROR: queue runner 'q': the file is torn");
    hs_threads_free(&threads);
    hs_queue_runner_free(runner);
}

static void qr_017s_the_queue_is_closed_after_an_error_too(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, broken);
    fill(s, runner);
    assert_int_equal(source_calls(s, "q/close"), 1);
    hs_queue_runner_free(runner);
}

static void errors_are_forgotten_at_the_next_start(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, broken);
    fill(s, runner);
    fill(s, runner);
    assert_true(hs_queue_runner_error(runner, 0, NULL));
    assert_false(hs_queue_runner_error(runner, 1, NULL));
    hs_queue_runner_free(runner);
}

static void the_last_thread_closes_the_queue(void **state)
{
    source *s = *state;
    source_add(s, three);
    hs_queue_runner *runner = make(s, HS_NAMES("count", "count", "count"));
    fill(s, runner);
    assert_int_equal(source_calls(s, "q/close"), 1);
    hs_queue_runner_free(runner);
}

/* With one. */

static void qr_005_after_a_stop_the_op_is_not_run(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, endless);
    hs_coordinator *coordinator = coordinate(s);
    hs_coordinator_request_stop(coordinator, NULL);
    hs_threads threads = create(s, runner, coordinator, true);
    assert_int_equal(source_count_threads(&threads), 2);
    assert_string_equal(hs_thread_name(source_thread(&threads, 1)), "QueueRunnerThread-q-close_on_stop");
    assert_ok(hs_coordinator_join(coordinator, NULL, &s->err), &s->err);
    assert_false(hs_queue_runner_error(runner, 0, NULL));
    assert_int_equal(source_calls(s, "count"), 0);
    hs_threads_free(&threads);
    hs_coordinator_free(coordinator);
    hs_queue_runner_free(runner);
}

static void qr_006_an_error_is_what_join_gives(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, broken);
    assert_fails(fill_coordinated(s, runner), HS_DATA_LOSS, &s->err, "the file is torn");
    hs_queue_runner_free(runner);
}

static void qr_017s_with_a_coordinator_errors_are_not_kept(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, broken);
    assert_int_equal(fill_coordinated(s, runner), HS_DATA_LOSS);
    assert_false(hs_queue_runner_error(runner, 0, NULL));
    hs_queue_runner_free(runner);
}

static void qr_014s_the_end_of_the_input_is_not_a_stop(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, three);
    hs_coordinator *coordinator = coordinate(s);
    hs_threads threads = create(s, runner, coordinator, true);
    assert_true(hs_thread_wait(source_thread(&threads, 0), LONG));
    assert_false(hs_coordinator_should_stop(coordinator));
    assert_true(hs_thread_alive(source_thread(&threads, 1))); /* close_on_stop */
    assert_int_equal(source_calls(s, "q/close"), 1);
    assert_int_equal(source_calls(s, "q/cancel"), 0);
    hs_coordinator_request_stop(coordinator, NULL);
    assert_ok(hs_coordinator_join(coordinator, NULL, &s->err), &s->err);
    assert_int_equal(source_calls(s, "q/cancel"), 1);
    hs_threads_free(&threads);
    hs_coordinator_free(coordinator);
    hs_queue_runner_free(runner);
}

static void qr_019s_cancelling_a_blocked_op_is_not_an_error(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, blocked);
    hs_coordinator *coordinator = coordinate(s);
    hs_threads threads = create(s, runner, coordinator, true);
    source_wait_tried(s, 4); /* the waiting run */
    hs_coordinator_request_stop(coordinator, NULL);
    assert_ok(hs_coordinator_join(coordinator, NULL, &s->err), &s->err);
    assert_int_equal(source_calls(s, "count"), 3);
    assert_ok(hs_thread_error(source_thread(&threads, 0), &s->err), &s->err);
    hs_threads_free(&threads);
    hs_coordinator_free(coordinator);
    hs_queue_runner_free(runner);
}

static void any_other_failure_after_the_stop_is_the_threads_error(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, (source_op){.name = "count", .code = HS_DATA_LOSS, .blocks = true});
    hs_coordinator *coordinator = coordinate(s);
    hs_threads threads = create(s, runner, coordinator, true);
    source_wait_tried(s, 1);
    hs_coordinator_request_stop(coordinator, NULL);
    hs_coordinator_join(coordinator, NULL, NULL);
    assert_fails(hs_thread_error(source_thread(&threads, 0), &s->err), HS_DATA_LOSS, &s->err, "count has ended");
    hs_threads_free(&threads);
    hs_coordinator_free(coordinator);
    hs_queue_runner_free(runner);
}

static void an_op_that_is_cancelled_without_a_stop_has_failed(void **state)
{
    source *s = *state;
    hs_error error;
    hs_queue_runner *runner = make_one(s, (source_op){.name = "count", .code = HS_CANCELLED});
    fill(s, runner);
    assert_true(hs_queue_runner_error(runner, 0, &error));
    assert_says(&error, HS_CANCELLED, "count has ended");
    hs_queue_runner_free(runner);
}

/* Whatever the threads are doing. */
static void a_stop_may_come_at_any_time(void **state)
{
    source *s = *state;
    source_add(s, endless);
    hs_queue_runner *runner = make(s, HS_NAMES("count", "count", "count"));
    for (int i = 0; i < 50; i++) {
        hs_coordinator *coordinator = coordinate(s);
        assert_ok(hs_queue_runner_create_threads(runner, &s->raw, coordinator, true, NULL, &s->err), &s->err);
        if (i % 3)
            source_wait_tried(s, i * 7);
        hs_coordinator_request_stop(coordinator, NULL);
        assert_ok(hs_coordinator_join(coordinator, NULL, &s->err), &s->err);
        hs_coordinator_free(coordinator);
        assert_int_equal(source_calls(s, "q/cancel"), i + 1);
    }
    hs_queue_runner_free(runner);
}

static void qr_020s_threads_are_registered_before_they_start(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, three);
    hs_coordinator *coordinator = coordinate(s), *other = coordinate(s);
    hs_threads threads = create(s, runner, coordinator, false);
    assert_int_equal(source_count_threads(&threads), 2);
    for (size_t i = 0; source_thread(&threads, i); i++) {
        assert_false(hs_thread_alive(source_thread(&threads, i)));
        assert_int_equal(hs_coordinator_register(other, source_thread(&threads, i), NULL), HS_FAILED_PRECONDITION);
    }
    hs_threads_free(&threads);
    hs_coordinator_free(coordinator);
    hs_coordinator_free(other);
    hs_queue_runner_free(runner);
}

static void qr_016s_errors_of_closing_are_ignored(void **state)
{
    source *s = *state;
    s->ops[0].limit = s->ops[1].limit = 0;
    s->ops[0].code = s->ops[1].code = HS_INTERNAL;
    hs_queue_runner *runner = make_one(s, three);
    fill(s, runner);
    assert_false(hs_queue_runner_error(runner, 0, NULL));
    hs_coordinator *coordinator = coordinate(s);
    hs_coordinator_request_stop(coordinator, NULL);
    hs_threads threads = create(s, runner, coordinator, true);
    assert_ok(hs_coordinator_join(coordinator, NULL, &s->err), &s->err);
    assert_int_equal(s->tried, 6); /* three runs, the end, "q/close" and "q/cancel" */
    hs_threads_free(&threads);
    hs_coordinator_free(coordinator);
    hs_queue_runner_free(runner);
}

/* Sessions. */

static void qr_008_each_session_has_its_threads(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, three);
    hs_threads first = create(s, runner, NULL, false), second = {0};
    assert_ok(hs_queue_runner_create_threads(runner, &s->other, NULL, true, &second, &s->err), &s->err);
    assert_int_equal(source_count_threads(&first), 1);
    assert_int_equal(source_count_threads(&second), 1);
    source_wait_threads(&second);
    hs_threads_free(&first);
    hs_queue_runner_free(runner);
}

static void qr_009_a_second_start_makes_none(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, three);
    hs_threads first = create(s, runner, NULL, false);
    hs_threads second = create(s, runner, NULL, true);
    assert_int_equal(source_count_threads(&second), 0);
    assert_int_equal(source_calls(s, "count"), 0);
    hs_threads_free(&second);
    hs_threads_free(&first);
    first = create(s, runner, NULL, false); /* the others can no longer be started */
    assert_int_equal(source_count_threads(&first), 1);
    hs_threads_free(&first);
    hs_queue_runner_free(runner);
}

static void qr_009_a_session_that_is_opened_again_is_another(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, three);
    hs_threads first = create(s, runner, NULL, false);
    s->raw.opened++;
    hs_threads second = create(s, runner, NULL, false);
    assert_int_equal(source_count_threads(&second), 1);
    hs_threads_free(&second);
    hs_threads_free(&first);
    hs_queue_runner_free(runner);
}

static uint64_t open_and_close(hs_graph *graph)
{
    hs_error err = {0};
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &err);
    uint64_t opened = session ? hs_session_raw(session)->opened : 0;
    hs_session_close(session, &err);
    assert_ok(err.code, &err);
    return opened;
}

/* The new session may have the address of an earlier one whose threads still run. It still gets its own threads. */
static void qr_008_a_session_is_distinguished_from_earlier_ones(void **state)
{
    (void)state;
    hs_graph *graph = hs_graph_new(NULL);
    uint64_t first = open_and_close(graph), second = open_and_close(graph);
    assert_int_not_equal(first, second);
    hs_graph_free(graph);
}

/* It touches no freed memory. */
static void a_thread_may_outlive_runner_session_and_coordinator(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, blocked);
    hs_coordinator *coordinator = coordinate(s);
    hs_join_options soon = HS_INIT(hs_join_options, .stop_grace_secs = 1e-10);
    hs_threads threads = create(s, runner, coordinator, false);
    assert_ok(hs_thread_start(source_thread(&threads, 0), &s->err), &s->err); /* but not close_on_stop */
    source_wait_tried(s, 4);
    hs_coordinator_request_stop(coordinator, NULL);
    assert_int_equal(hs_coordinator_join(coordinator, &soon, &s->err), HS_FAILED_PRECONDITION);
    hs_coordinator_free(coordinator);
    s->raw.ops.close(s->raw.handle, NULL);
    s->raw.handle = NULL;
    hs_queue_runner_free(runner);
    pthread_mutex_lock(&s->lock);
    s->cancelled = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    assert_true(hs_thread_wait(source_thread(&threads, 0), LONG));
    hs_threads_free(&threads);
}

/* Options. */

static void qr_011_its_name_is_its_queues(void **state)
{
    source *s = *state;
    hs_queue_runner_options options =
        HS_INIT(hs_queue_runner_options, .queue = "scope/queue", .enqueue_ops = HS_NAMES("count"), .env = s->env);
    hs_queue_runner *runner = hs_queue_runner_new(&options, &s->err);
    assert_string_equal(hs_queue_runner_name(runner), "scope/queue");
    const void *found = NULL;
    s->runners[0] = runner;
    assert_true(hs_backend_collection_item(s->raw.backend, HS_QUEUE_RUNNERS, 0, &found));
    assert_string_equal(hs_queue_runner_name(found), "scope/queue");
    hs_queue_runner_free(runner);
}

static void refused(source *s, hs_queue_runner_options options, const char *text)
{
    options.size = sizeof options;
    assert_null(hs_queue_runner_new(&options, &s->err));
    assert_says(&s->err, HS_INVALID_ARGUMENT, text);
}

static void qr_021s_missing_options_are_named(void **state)
{
    source *s = *state;
    refused(s, (hs_queue_runner_options){.enqueue_ops = HS_NAMES("count")}, "queue is missing");
    refused(s, (hs_queue_runner_options){.queue = "q"}, "enqueue_ops is missing");
    refused(s, (hs_queue_runner_options){.queue = "q", .enqueue_ops = (const char *const[]){NULL}},
            "enqueue_ops is missing");
    refused(s, (hs_queue_runner_options){.queue = "q", .enqueue_ops = HS_NAMES("count"), .closed_codes = HS_CODES(HS_OK)},
            "closed_codes is empty");
}

static void qr_021s_closed_codes_replace_the_default(void **state)
{
    source *s = *state;
    hs_queue_runner_options options =
        HS_INIT(hs_queue_runner_options, .queue = "q", .enqueue_ops = HS_NAMES("count", "gone"),
                .closed_codes = HS_CODES(HS_DATA_LOSS), .env = s->env);
    hs_error error;
    source_add(s, three);
    source_add(s, (source_op){.name = "gone", .code = HS_DATA_LOSS});
    hs_queue_runner *runner = hs_queue_runner_new(&options, &s->err);
    fill(s, runner);
    assert_true(hs_queue_runner_error(runner, 0, &error));
    assert_says(&error, HS_OUT_OF_RANGE, "count has ended");
    hs_queue_runner_free(runner);
}

static void qr_022s_its_ops_may_be_others(void **state)
{
    source *s = *state;
    hs_queue_runner_options options = HS_INIT(hs_queue_runner_options, .queue = "other", .enqueue_ops = HS_NAMES("count"),
                                              .close_op = "q/close", .cancel_op = "q/cancel", .env = s->env);
    source_add(s, three);
    hs_queue_runner *runner = hs_queue_runner_new(&options, &s->err);
    fill(s, runner);
    assert_int_equal(source_calls(s, "q/close"), 1); /* the default QUEUE/close is in all other tests */
    assert_int_equal(source_calls(s, "q/cancel"), 0);
    hs_queue_runner_free(runner);
}

/* Failures. */

static void missing_ops_are_an_error_immediately(void **state)
{
    source *s = *state;
    hs_threads threads = {0};
    hs_queue_runner *runner = make(s, HS_NAMES("nothing"));
    assert_fails(hs_queue_runner_create_threads(runner, &s->raw, NULL, true, &threads, &s->err), HS_NOT_FOUND, &s->err,
                 "queue runner 'q': there is no 'nothing'");
    assert_fails(hs_queue_runner_create_threads(runner, NULL, NULL, true, &threads, &s->err), HS_INVALID_ARGUMENT, &s->err,
                 "session is NULL");
    assert_fails(hs_queue_runner_create_threads(NULL, &s->raw, NULL, true, &threads, &s->err), HS_INVALID_ARGUMENT, &s->err,
                 "runner is NULL");
    s->raw.ops.fork = NULL;
    assert_fails(hs_queue_runner_create_threads(runner, &s->raw, NULL, true, &threads, &s->err), HS_UNIMPLEMENTED, &s->err,
                 "'source' cannot run ops concurrently");
    hs_queue_runner_free(runner);
}

/* Otherwise its registered threads would count as running. */
static void after_a_failure_it_can_be_tried_again(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, three);
    hs_coordinator *coordinator = coordinate(s);
    hs_threads threads = {0};
    const char *cancel = s->ops[1].name;
    s->ops[1].name = "elsewhere";
    assert_fails(hs_queue_runner_create_threads(runner, &s->raw, coordinator, true, &threads, &s->err), HS_NOT_FOUND,
                 &s->err, "q/cancel");
    assert_int_equal(s->open, 2);
    s->ops[1].name = cancel;
    threads = create(s, runner, coordinator, false);
    assert_int_equal(source_count_threads(&threads), 2);
    hs_threads_free(&threads);
    hs_coordinator_free(coordinator);
    hs_queue_runner_free(runner);
}

static int threads_left = -1; /* threads that the system starts. -1: any number */
static source *waiting;       /* an op of this source must wait before a start is refused. NULL: none */

int __wrap_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user);
int __real_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user);

int __wrap_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user)
{
    if (threads_left == 0) {
        if (waiting)
            source_wait_tried(waiting, 4);
        return EAGAIN;
    }
    threads_left -= threads_left > 0;
    return __real_hs__thread_start(thread, body, user);
}

static void fail_to_start(source *s, hs_queue_runner *runner, hs_coordinator *coordinator)
{
    hs_threads threads = {0};
    threads_left = 1;
    assert_fails(hs_queue_runner_create_threads(runner, &s->raw, coordinator, true, &threads, &s->err),
                 HS_RESOURCE_EXHAUSTED, &s->err, "cannot start thread");
    threads_left = -1;
    assert_int_equal(source_count_threads(&threads), 0);
}

static void a_thread_that_does_not_start_ends_the_others(void **state)
{
    source *s = *state;
    hs_threads again;
    source_add(s, blocked);
    hs_queue_runner_options options =
        HS_INIT(hs_queue_runner_options, .queue = "q", .enqueue_ops = HS_NAMES("count", "count"));
    hs_queue_runner *runner = hs_queue_runner_new(&options, &s->err); /* not s->env: the thread itself is not waited for */
    fail_to_start(s, runner, NULL);
    do
        again = create(s, runner, NULL, false);
    while (!source_thread(&again, 0)); /* until the other thread has ended */
    assert_int_equal(source_calls(s, "q/cancel"), 1);
    hs_threads_free(&again);
    hs_queue_runner_free(runner);
}

static void a_thread_that_does_not_start_stops_the_coordinator(void **state)
{
    source *s = *state;
    source_add(s, endless);
    hs_queue_runner *runner = make(s, HS_NAMES("count", "count"));
    hs_coordinator *coordinator = coordinate(s);
    fail_to_start(s, runner, coordinator);
    assert_fails(hs_coordinator_join(coordinator, NULL, &s->err), HS_RESOURCE_EXHAUSTED, &s->err, "cannot start thread");
    hs_coordinator_free(coordinator);
    hs_queue_runner_free(runner);
}

/* The thread that does not start may be close_on_stop. */
static void a_thread_that_does_not_start_ends_the_waiting_ones(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, blocked);
    hs_coordinator *coordinator = coordinate(s);
    hs_join_options options = HS_INIT(hs_join_options, .stop_grace_secs = LONG);
    waiting = s;
    fail_to_start(s, runner, coordinator);
    waiting = NULL;
    assert_fails(hs_coordinator_join(coordinator, &options, &s->err), HS_RESOURCE_EXHAUSTED, &s->err,
                 "cannot start thread");
    assert_int_equal(source_calls(s, "q/cancel"), 1);
    hs_coordinator_free(coordinator);
    hs_queue_runner_free(runner);
}

static hs_code fill_somehow(test_env *t, void *user)
{
    static source s;
    hs_error err = {0};
    source_init(&s, &t->env);
    source_add(&s, three);
    source_add(&s, broken)->name = "broken";
    hs_queue_runner_options options =
        HS_INIT(hs_queue_runner_options, .queue = "q", .enqueue_ops = HS_NAMES("count", "broken"), .env = &t->env);
    hs_queue_runner *runner = s.raw.handle && s.other.handle ? hs_queue_runner_new(&options, &err) : NULL;
    hs_coordinator_options of_coordinator = HS_INIT(hs_coordinator_options, .env = &t->env);
    hs_coordinator *coordinator = runner && user ? hs_coordinator_new(&of_coordinator, &err) : NULL;
    hs_threads threads = {0};
    if (runner && !err.code)
        hs_queue_runner_create_threads(runner, &s.raw, coordinator, true, &threads, &err);
    if (coordinator)
        hs_coordinator_request_stop(coordinator, NULL), hs_coordinator_join(coordinator, NULL, NULL);
    source_wait_threads(&threads);
    hs_coordinator_free(coordinator);
    hs_queue_runner_free(runner);
    source_end(&s);
    return runner ? err.code : HS_RESOURCE_EXHAUSTED;
}

static void each_allocation_may_fail(void **state)
{
    test_each_allocation(fill_somehow, NULL);
    test_each_allocation(fill_somehow, state); /* with a coordinator */
}

static void threads_that_are_freed_before_their_start_close_their_handles(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, three);
    hs_coordinator *coordinator = coordinate(s);
    hs_threads threads = create(s, runner, coordinator, false);
    assert_int_equal(s->open, 4);
    hs_threads_free(&threads);
    assert_int_equal(s->open, 2); /* the sessions, although the coordinator retains the threads */
    hs_coordinator_free(coordinator);
    hs_queue_runner_free(runner);
}

/* They are appended to the list. */
static void a_list_collects_the_threads_of_several_runners(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, three);
    hs_queue_runner *more = make_one(s, (source_op){.name = "more", .limit = 30, .code = HS_OUT_OF_RANGE});
    hs_queue_runner *without = make(s, HS_NAMES("nothing"));
    hs_threads threads = create(s, runner, NULL, true);
    assert_ok(hs_queue_runner_create_threads(more, &s->raw, NULL, true, &threads, &s->err), &s->err);
    assert_int_equal(hs_queue_runner_create_threads(without, &s->raw, NULL, true, &threads, &s->err), HS_NOT_FOUND);
    assert_int_equal(source_count_threads(&threads), 2);
    assert_string_equal(hs_thread_name(source_thread(&threads, 1)), "QueueRunnerThread-q-more");
    source_wait_threads(&threads);
    assert_int_equal(source_calls(s, "count"), 3);
    assert_int_equal(source_calls(s, "more"), 30);
    hs_queue_runner_free(without);
    hs_queue_runner_free(more);
    hs_queue_runner_free(runner);
}

static void a_runner_that_the_session_has_started_gets_no_more_threads(void **state)
{
    source *s = *state;
    hs_queue_runner *runner = make_one(s, three), *own = make(s, HS_NAMES("count"));
    s->runners[0] = runner;
    s->raw.runs_queues = true;
    hs_threads threads = create(s, runner, NULL, true);
    assert_int_equal(source_count_threads(&threads), 0);
    assert_ok(hs_queue_runner_create_threads(own, &s->raw, NULL, true, &threads, &s->err), &s->err);
    assert_int_equal(source_count_threads(&threads), 1); /* of the program's own runner */
    source_wait_threads(&threads);
    hs_queue_runner_free(own);
    hs_queue_runner_free(runner);
}

#define test(name) cmocka_unit_test_setup_teardown(name, source_setup, source_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(qr_001_an_op_runs_until_its_end),
        test(qr_002_two_ops_have_two_threads),
        test(qr_003_errors_are_kept),
        test(qr_017s_without_a_coordinator_they_are_logged_and_the_threads),
        test(qr_017s_the_queue_is_closed_after_an_error_too),
        test(errors_are_forgotten_at_the_next_start),
        test(the_last_thread_closes_the_queue),
        test(qr_005_after_a_stop_the_op_is_not_run),
        test(qr_006_an_error_is_what_join_gives),
        test(qr_017s_with_a_coordinator_errors_are_not_kept),
        test(qr_014s_the_end_of_the_input_is_not_a_stop),
        test(qr_019s_cancelling_a_blocked_op_is_not_an_error),
        test(any_other_failure_after_the_stop_is_the_threads_error),
        test(an_op_that_is_cancelled_without_a_stop_has_failed),
        test(a_stop_may_come_at_any_time),
        test(qr_020s_threads_are_registered_before_they_start),
        test(qr_016s_errors_of_closing_are_ignored),
        test(qr_008_each_session_has_its_threads),
        test(qr_009_a_second_start_makes_none),
        test(qr_009_a_session_that_is_opened_again_is_another),
        cmocka_unit_test(qr_008_a_session_is_distinguished_from_earlier_ones),
        test(a_thread_may_outlive_runner_session_and_coordinator),
        test(qr_011_its_name_is_its_queues),
        test(qr_021s_missing_options_are_named),
        test(qr_021s_closed_codes_replace_the_default),
        test(qr_022s_its_ops_may_be_others),
        test(missing_ops_are_an_error_immediately),
        test(after_a_failure_it_can_be_tried_again),
        test(a_thread_that_does_not_start_ends_the_others),
        test(a_thread_that_does_not_start_stops_the_coordinator),
        test(a_thread_that_does_not_start_ends_the_waiting_ones),
        cmocka_unit_test(each_allocation_may_fail),
        test(threads_that_are_freed_before_their_start_close_their_handles),
        test(a_list_collects_the_threads_of_several_runners),
        test(a_runner_that_the_session_has_started_gets_no_more_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
