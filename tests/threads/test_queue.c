/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"
#include "support/waits.h"

#include <hooksess/queue.h>

#include <pthread.h>
#include <stdatomic.h>

static hs_error err;

static hs_queue *make_queue(int64_t capacity)
{
    hs_queue *queue = hs_queue_new(HS_QUEUE_OPTIONS(.name = "q", .capacity = capacity), &err);
    if (!queue)
        fail_msg("%s", err.message);
    return queue;
}

/* Elements are numbers. */
static void *element(uintptr_t number)
{
    return (void *)number;
}

static void push(hs_queue *queue, uintptr_t number)
{
    assert_ok(hs_queue_push(queue, element(number), &err), &err);
}

static uintptr_t pop(hs_queue *queue)
{
    void *popped = NULL;
    assert_ok(hs_queue_pop(queue, &popped, &err), &err);
    return (uintptr_t)popped;
}

static void elements_are_popped_in_the_order_of_their_pushes(void **state)
{
    (void)state;
    hs_queue *queue = make_queue(3);
    uintptr_t next = 2;
    for (uintptr_t i = 1; i <= 10; i++) { /* around the ring */
        push(queue, 2 * i);
        push(queue, 2 * i + 1);
        assert_int_equal(hs_queue_size(queue), 2);
        assert_int_equal(pop(queue), next++);
        assert_int_equal(pop(queue), next++);
    }
    hs_queue_free(queue);
}

static void the_defaults(void **state)
{
    (void)state;
    hs_queue *queue = hs_queue_new(NULL, &err);
    assert_int_equal(hs_queue_capacity(queue), 32);
    assert_int_equal(hs_queue_size(queue), 0);
    assert_string_equal(hs_queue_name(queue), "queue");
    assert_false(hs_queue_closed(queue));
    hs_queue_free(queue);
    hs_queue_free(NULL);
}

static void trying_never_waits(void **state)
{
    (void)state;
    void *popped = NULL;
    hs_queue *queue = make_queue(1);
    assert_fails(hs_queue_try_pop(queue, &popped, &err), HS_UNAVAILABLE, &err, "queue 'q' is empty");
    assert_ok(hs_queue_try_push(queue, element(7), &err), &err);
    assert_fails(hs_queue_try_push(queue, element(8), &err), HS_UNAVAILABLE, &err, "queue 'q' is full");
    assert_ok(hs_queue_try_pop(queue, &popped, &err), &err);
    assert_ptr_equal(popped, element(7));
    hs_queue_free(queue);
}

static void a_closed_queue_is_drained_and_then_at_its_end(void **state)
{
    (void)state;
    void *popped = NULL;
    hs_queue *queue = make_queue(4);
    push(queue, 1);
    push(queue, 2);
    hs_queue_close(queue, false, NULL);
    assert_true(hs_queue_closed(queue));
    assert_fails(hs_queue_push(queue, element(3), &err), HS_CANCELLED, &err, "queue 'q': it is closed");
    assert_fails(hs_queue_try_push(queue, element(3), &err), HS_CANCELLED, &err, "closed");
    assert_int_equal(pop(queue), 1);
    assert_int_equal(pop(queue), 2);
    assert_fails(hs_queue_pop(queue, &popped, &err), HS_OUT_OF_RANGE, &err, "queue 'q' is closed and empty");
    assert_fails(hs_queue_try_pop(queue, &popped, &err), HS_OUT_OF_RANGE, &err, "closed");
    hs_queue_free(queue);
}

static void the_first_error_that_it_is_closed_with_is_kept(void **state)
{
    (void)state;
    void *popped = NULL;
    hs_queue *queue = make_queue(4);
    push(queue, 1);
    hs_queue_close(queue, false, NULL);
    hs_queue_close(queue, true, &(hs_error){.code = HS_DATA_LOSS, .message = "torn"});
    hs_queue_close(queue, true, &(hs_error){.code = HS_ABORTED, .message = "late"});
    assert_int_equal(pop(queue), 1);
    assert_fails(hs_queue_pop(queue, &popped, &err), HS_DATA_LOSS, &err, "torn");
    hs_queue_free(queue);
}

static void count_released(void *user, void *released)
{
    *(uintptr_t *)user += (uintptr_t)released;
}

static void remaining_elements_are_released(void **state)
{
    (void)state;
    uintptr_t sum = 0;
    hs_queue *queue = hs_queue_new(HS_QUEUE_OPTIONS(.release = count_released, .user = &sum), &err);
    push(queue, 1);
    push(queue, 10);
    push(queue, 100);
    assert_int_equal(pop(queue), 1);
    hs_queue_free(queue);
    assert_int_equal(sum, 110);
}

static void invalid_options_are_refused(void **state)
{
    (void)state;
    void *popped;
    const int64_t capacities[] = {-1, INT64_MIN, INT64_MAX, ((int64_t)1 << 24) + 1};
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        assert_null(hs_queue_new(HS_QUEUE_OPTIONS(.capacity = capacities[i]), &err));
        assert_says(&err, HS_INVALID_ARGUMENT, "capacity is");
    }
    assert_null(hs_queue_new(&(hs_queue_options){.capacity = 1}, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "HS_INIT(hs_queue_options");
    assert_int_equal(hs_queue_push(NULL, NULL, &err), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_queue_pop(NULL, &popped, &err), HS_INVALID_ARGUMENT);
    hs_queue_close(NULL, true, NULL);
    assert_true(hs_queue_closed(NULL));
    assert_int_equal(hs_queue_size(NULL), 0);
    assert_int_equal(hs_queue_capacity(NULL), 0);
    assert_null(hs_queue_name(NULL));
}

static hs_code make_and_use(test_env *t, void *user)
{
    (void)user;
    hs_error error;
    hs_queue *queue = hs_queue_new(HS_QUEUE_OPTIONS(.name = "q", .env = &t->env), &error);
    if (!queue)
        return error.code;
    push(queue, 1);
    hs_queue_free(queue);
    return HS_OK;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(make_and_use, NULL);
}

/* Threads. */

enum { WORKERS = 4, EACH = 5000 };

typedef struct {
    hs_queue *queue;
    uintptr_t from, to; /* pushed by a producer */
    uint64_t sum, n;    /* of the elements that a consumer has popped */
    bool in_order;      /* of each producer's */
    hs_code code;       /* how it ended */
    atomic_bool started;
    pthread_t thread;
} worker;

static void *produce(void *user)
{
    worker *w = user;
    atomic_store(&w->started, true);
    for (uintptr_t i = w->from; !w->code && i < w->to; i++)
        w->code = hs_queue_push(w->queue, element(i), NULL);
    return NULL;
}

static void *consume(void *user)
{
    worker *w = user;
    uintptr_t last[WORKERS] = {0};
    void *popped;
    atomic_store(&w->started, true);
    w->in_order = true;
    while (!(w->code = hs_queue_pop(w->queue, &popped, NULL))) {
        uintptr_t number = (uintptr_t)popped, *before = &last[number / EACH % WORKERS];
        w->in_order &= *before == 0 || number > *before;
        *before = number;
        w->sum += number;
        w->n++;
    }
    return NULL;
}

static void start(worker *w, hs_queue *queue, void *(*body)(void *))
{
    w->queue = queue;
    assert_int_equal(pthread_create(&w->thread, NULL, body, w), 0);
}

static void join(worker *w)
{
    pthread_join(w->thread, NULL);
}

/* At any capacity no element is lost, duplicated or out of its producer's order, and no thread waits forever. */
static void many_push_and_many_pop(void **state)
{
    (void)state;
    const int64_t depths[] = {1, 2, 32};
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
        hs_queue *queue = make_queue(depths[d]);
        worker producers[WORKERS] = {{.queue = NULL}}, consumers[WORKERS] = {{.queue = NULL}};
        uint64_t n = 0, sum = 0, total = (uint64_t)WORKERS * EACH;
        for (uintptr_t i = 0; i < WORKERS; i++) {
            producers[i].from = i * EACH;
            producers[i].to = (i + 1) * EACH;
            start(&consumers[i], queue, consume);
            start(&producers[i], queue, produce);
        }
        for (size_t i = 0; i < WORKERS; i++)
            join(&producers[i]);
        hs_queue_close(queue, false, NULL);
        for (size_t i = 0; i < WORKERS; i++) {
            join(&consumers[i]);
            assert_int_equal(producers[i].code, HS_OK);
            assert_int_equal(consumers[i].code, HS_OUT_OF_RANGE);
            assert_true(consumers[i].in_order);
            n += consumers[i].n;
            sum += consumers[i].sum;
        }
        assert_int_equal(n, total);
        assert_int_equal(sum, total * (total - 1) / 2);
        hs_queue_free(queue);
    }
}

static void closing_wakes_all_that_wait_for_an_element(void **state)
{
    (void)state;
    hs_queue *queue = make_queue(2);
    worker consumers[WORKERS] = {{.queue = NULL}};
    for (size_t i = 0; i < WORKERS; i++)
        start(&consumers[i], queue, consume);
    hs_queue_close(queue, false, &(hs_error){.code = HS_ABORTED, .message = "gone"});
    for (size_t i = 0; i < WORKERS; i++) {
        join(&consumers[i]);
        assert_int_equal(consumers[i].code, HS_ABORTED);
    }
    hs_queue_free(queue);
}

static int free_queue(void *queue)
{
    hs_queue_free(queue);
    return 0;
}

/* A thread of the parent waits for an element. In the child it neither waits nor ends. */
static void a_forked_child_does_not_free_a_queue(void **state)
{
    (void)state;
    hs_queue *queue = make_queue(2);
    worker consumer = {.queue = NULL};
    start(&consumer, queue, consume);
    await_waiting(1);
    assert_int_equal(test_in_child(free_queue, queue), 0);
    push(queue, 1);
    hs_queue_close(queue, false, NULL);
    join(&consumer);
    assert_int_equal(consumer.n, 1);
    hs_queue_free(queue);
}

static void cancelling_ends_all_that_wait_for_room(void **state)
{
    (void)state;
    hs_queue *queue = make_queue(1);
    push(queue, 77);
    worker producers[WORKERS] = {{.queue = NULL}};
    for (size_t i = 0; i < WORKERS; i++) {
        producers[i].to = 1;
        start(&producers[i], queue, produce);
    }
    hs_queue_close(queue, false, NULL);
    hs_queue_close(queue, true, NULL);
    for (size_t i = 0; i < WORKERS; i++) {
        join(&producers[i]);
        assert_int_equal(producers[i].code, HS_CANCELLED);
    }
    assert_int_equal(pop(queue), 77);
    hs_queue_free(queue);
}

/* Several threads push, and all but one must wait. Then the queue is closed, and several threads pop. */
static void close_during_pushes(void)
{
    hs_queue *queue = make_queue(1);
    worker producers[WORKERS] = {{.queue = NULL}}, consumers[WORKERS] = {{.queue = NULL}};
    size_t popped = 0;
    for (size_t i = 0; i < WORKERS; i++) {
        producers[i].to = 1;
        start(&producers[i], queue, produce);
    }
    await_waiting(WORKERS - 1);
    hs_queue_close(queue, false, NULL);
    for (size_t i = 0; i < WORKERS; i++)
        start(&consumers[i], queue, consume);
    for (size_t i = 0; i < WORKERS; i++) {
        join(&producers[i]);
        join(&consumers[i]);
        popped += consumers[i].n;
        assert_int_equal(producers[i].code, HS_OK);
        assert_int_equal(consumers[i].code, HS_OUT_OF_RANGE);
    }
    hs_queue_free(queue);
    assert_int_equal(popped, WORKERS);
}

static void pushes_that_wait_when_the_queue_is_closed_are_made(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++)
        close_during_pushes();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_popped_in_the_order_of_their_pushes),
        cmocka_unit_test(the_defaults),
        cmocka_unit_test(trying_never_waits),
        cmocka_unit_test(a_closed_queue_is_drained_and_then_at_its_end),
        cmocka_unit_test(the_first_error_that_it_is_closed_with_is_kept),
        cmocka_unit_test(a_forked_child_does_not_free_a_queue),
        cmocka_unit_test(remaining_elements_are_released),
        cmocka_unit_test(invalid_options_are_refused),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(many_push_and_many_pop),
        cmocka_unit_test(closing_wakes_all_that_wait_for_an_element),
        cmocka_unit_test(cancelling_ends_all_that_wait_for_room),
        cmocka_unit_test(pushes_that_wait_when_the_queue_is_closed_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
