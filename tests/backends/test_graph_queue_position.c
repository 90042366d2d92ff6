/* SPDX-License-Identifier: Apache-2.0 */
/* The saved position of a producer is that of the last dequeued element. */
#include "backends/queued.h"

#include "backends/graph/queue.h"
#include "base/state.h"

#include <sched.h>

static const hs_state_provider *provider(bare *b)
{
    const hs_state_provider *state = b->ops->state(b->graph, 0);
    assert_string_equal(state->name, "reader");
    return state;
}

static hs_code try_save(bare *b, int64_t *at)
{
    hs__buffer bytes;
    hs__buffer_init(&bytes, hs_env_default());
    hs_state_writer writer = hs__state_writer_to(&bytes);
    hs_code code = provider(b)->save(provider(b)->self, &writer, &b->err);
    if (!code) {
        assert_int_equal(bytes.size, sizeof *at);
        memcpy(at, bytes.data, sizeof *at);
    }
    hs__buffer_free(&bytes);
    return code;
}

static int64_t save(bare *b)
{
    int64_t at = -1;
    assert_ok(try_save(b, &at), &b->err);
    return at;
}

static hs_code try_load(bare *b, int64_t at, int64_t version)
{
    hs_state_reader reader = {.at = (const unsigned char *)&at, .left = sizeof at, .version = version};
    return provider(b)->load(provider(b)->self, &reader, &b->err);
}

static void load(bare *b, int64_t at)
{
    assert_ok(try_load(b, at, 0), &b->err);
}

static void the_first_position_is_where_the_producer_began(void **state)
{
    bare *b = *state;
    counter c = {.at = 5, .last = 99};
    queued_add_position(b, &c, 4);
    bare_open(b);
    assert_int_equal(save(b), 5);
    queued_enqueue(b, 3);
    assert_int_equal(save(b), 5);
}

static void the_first_position_is_known_after_the_producer_has_begun(void **state)
{
    bare *b = *state;
    counter c = {.at = 5, .last = 99};
    queued_add_position(b, &c, 4);
    bare_open(b);
    queued_enqueue(b, 3);
    assert_int_equal(save(b), 5);
}

static void the_position_is_that_of_the_last_dequeued_element(void **state)
{
    bare *b = *state;
    counter c = COUNTER(99);
    queued_add_position(b, &c, 4);
    bare_open(b);
    queued_enqueue(b, 4);
    for (int64_t i = 1; i <= 4; i++) {
        assert_int_equal(queued_dequeue(b), i);
        assert_int_equal(save(b), i);
    }
    assert_int_equal(c.at, 4);
}

/* The session that saved had ready elements. The next session begins with the first of them. */
static void elements_that_were_not_dequeued_are_produced_again(void **state)
{
    bare *b = *state;
    counter c = COUNTER(99), fresh = COUNTER(99);
    queued_add_position(b, &c, 4);
    bare_open(b);
    queued_enqueue(b, 4);
    assert_int_equal(queued_dequeue(b), 1);
    assert_int_equal(queued_dequeue(b), 2);
    int64_t at = save(b);
    bare_close(b);
    hs_graph_free(b->graph);

    b->graph = hs_graph_new(&b->t.env);
    queued_add_position(b, &fresh, 4);
    bare_open(b);
    load(b, at);
    assert_int_equal(save(b), 2);
    queued_enqueue(b, 2);
    assert_int_equal(save(b), 2);
    assert_int_equal(queued_dequeue(b), 3);
}

static void a_restore_drops_ready_elements(void **state)
{
    bare *b = *state;
    counter c = COUNTER(99);
    queued_add_position(b, &c, 4);
    bare_open(b);
    queued_enqueue(b, 4);
    assert_int_equal(queued_dequeue(b), 1);
    load(b, 50);
    assert_int_equal(queued_size(b), 0);
    assert_int_equal(save(b), 50);
    queued_enqueue(b, 4); /* the queue has room */
    assert_int_equal(queued_dequeue(b), 51);
    assert_int_equal(save(b), 51);
}

/* Bytes of an older version are not saved again: after the load, the producer saves its position. */
static void an_older_position_is_saved_in_the_current_version(void **state)
{
    bare *b = *state;
    counter c = COUNTER(99);
    hs_state_provider position = HS_INIT(hs_state_provider, .name = "reader", .save = counter_save, .load = counter_load,
                                         .self = &c, .version = 3, .identity = "digits", .bytes = 8);
    hs_graph_queue(b->graph, .name = "q", .components = QUEUED_NUMBER, .produce = counter_produce, .user = &c,
                   .threads = HS_NEVER, .position = &position);
    assert_int_equal(provider(b)->version, 3);
    assert_string_equal(provider(b)->identity, "digits");
    assert_int_equal(provider(b)->bytes, 8);
    bare_open(b);
    assert_ok(try_load(b, 7, 2), &b->err);
    c.at = 8; /* what another version would contain */
    assert_int_equal(save(b), 8);
    queued_enqueue(b, 1);
    assert_int_equal(save(b), 8);
}

static void after_the_end_a_restore_waits_for_a_producer(void **state)
{
    bare *b = *state;
    counter c = COUNTER(2);
    queued_add_position(b, &c, 4);
    bare_open(b);
    queued_enqueue(b, 2);
    assert_int_equal(bare_run(b, HS_NAMES("q/enqueue"), NULL, NULL), HS_OUT_OF_RANGE);
    queued_close(b);
    load(b, 1);
    assert_fails(queued_failing_dequeue(b), HS_FAILED_PRECONDITION, &b->err, "its threads no longer fill it");
    queued_enqueue(b, 1);
    assert_int_equal(queued_dequeue(b), 2);
}

/* The runner closes the queue shortly after the producer's end. The restore may come in between. */
static void a_restore_before_the_close_waits_for_a_producer(void **state)
{
    bare *b = *state;
    counter c = COUNTER(1);
    queued_add_position(b, &c, 4);
    bare_open(b);
    queued_enqueue(b, 1);
    assert_int_equal(bare_run(b, HS_NAMES("q/enqueue"), NULL, NULL), HS_OUT_OF_RANGE);
    load(b, 0);
    queued_close(b);
    assert_int_equal(queued_failing_dequeue(b), HS_FAILED_PRECONDITION);
}

/* An error must not become the end of the input. */
static void after_a_failure_a_restore_waits_for_a_producer(void **state)
{
    bare *b = *state;
    counter c = {.last = 9, .fails_at = 1};
    queued_add_position(b, &c, 4);
    bare_open(b);
    assert_int_equal(bare_run(b, HS_NAMES("q/enqueue"), NULL, NULL), HS_ABORTED);
    load(b, 3);
    queued_close(b);
    assert_int_equal(queued_failing_dequeue(b), HS_FAILED_PRECONDITION);
}

static void a_restore_clears_the_error(void **state)
{
    bare *b = *state;
    counter c = {.last = 9, .fails_at = 1};
    queued_add_position(b, &c, 4);
    bare_open(b);
    assert_int_equal(bare_run(b, HS_NAMES("q/enqueue"), NULL, NULL), HS_ABORTED);
    load(b, 3);
    queued_enqueue(b, 1);
    queued_close(b);
    assert_int_equal(queued_dequeue(b), 4);
    assert_int_equal(queued_failing_dequeue(b), HS_OUT_OF_RANGE);
}

static hs_code fail_save(void *self, hs_state_writer *out, hs_error *err)
{
    (void)self, (void)out;
    return hs_error_set(err, HS_ABORTED, "no luck");
}

static hs_code fail_load(void *self, hs_state_reader *in, hs_error *err)
{
    (void)self, (void)in;
    return hs_error_set(err, HS_ABORTED, "no luck");
}

static void failures_of_the_position_are_reported(void **state)
{
    bare *b = *state;
    counter c = COUNTER(9);
    int64_t at;
    hs_state_provider position = HS_INIT(hs_state_provider, .name = "reader", .save = fail_save, .load = fail_load);
    hs_graph_queue(b->graph, .name = "q", .components = QUEUED_NUMBER, .produce = counter_produce, .user = &c,
                   .threads = HS_NEVER, .position = &position);
    bare_open(b);
    assert_fails(try_save(b, &at), HS_ABORTED, &b->err, "no luck");
    assert_fails(try_load(b, 1, 0), HS_ABORTED, &b->err, "no luck");
    assert_fails(bare_run(b, HS_NAMES("q/enqueue"), NULL, NULL), HS_ABORTED, &b->err, "op 'q/enqueue': no luck");
    assert_int_equal(queued_size(b), 0);
}

/* The graph has one producer with one position. */
static void one_session_at_a_time(void **state)
{
    bare *b = *state;
    counter c = COUNTER(9);
    void *other = NULL;
    int64_t at;
    queued_add_position(b, &c, 4);
    assert_int_equal(try_save(b, &at), HS_FAILED_PRECONDITION);
    bare_open(b);
    assert_fails(b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &other, &b->err), HS_FAILED_PRECONDITION, &b->err,
                 "a queue with a position");
    bare_close(b);
    assert_fails(try_load(b, 1, 0), HS_FAILED_PRECONDITION, &b->err, "has no position: the graph has no open session");
    bare_open(b);
}

static hs_code save_and_load(test_env *t, void *user)
{
    (void)user;
    bare b = {.graph = hs_graph_new(&t->env)};
    counter c = COUNTER(9);
    int64_t at = 0;
    if (!b.graph)
        return HS_RESOURCE_EXHAUSTED;
    b.ops = hs_graph_backend(b.graph).ops;
    queued_add_position(&b, &c, 4);
    hs_code code = bare_try_open(&b);
    if (!code && !(code = try_save(&b, &at)) && !(code = try_load(&b, at, 0)))
        code = queued_run(&b, b.session, "q/enqueue", NULL, &b.err);
    bare_close(&b);
    hs_graph_free(b.graph);
    return code;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(save_and_load, NULL);
}

/* A saved position is always that of the last dequeued element. After a restore, the next element follows it. */
static void saves_and_restores_run_concurrently_with_a_filling_thread(void **state)
{
    bare *b = *state;
    counter c = COUNTER(INT64_MAX);
    filler f;
    int64_t next = 1;
    queued_add_position(b, &c, 4);
    bare_open(b);
    filler_start(&f, b);
    for (int i = 0; i < 2000; i++, next++) {
        assert_int_equal(queued_dequeue(b), next);
        assert_int_equal(save(b), next);
        if (i % 7 == 0)
            load(b, next = i);
    }
    bare_close(b);
    assert_int_equal(filler_join(&f), HS_CANCELLED);
    assert_false(atomic_load(&c.met)); /* no call of `produce` during a save or load */
}

/* Returns the number of enqueues that have begun and not ended. */
static size_t pending(const bare *b)
{
    hs__queue *queue = ((hs__graph_session *)b->session)->queues[0];
    pthread_mutex_lock(&queue->lock);
    size_t n = queue->n_pending;
    pthread_mutex_unlock(&queue->lock);
    return n;
}

/* Threads of a former session still run, one in `produce`. They do not change the new session's position. */
static void threads_of_a_former_session_do_not_change_the_position(void **state)
{
    bare *b = *state;
    gate g = {.c = COUNTER(99)};
    filler first, second;
    hs_state_provider position =
        HS_INIT(hs_state_provider, .name = "reader", .save = counter_save, .load = counter_load, .self = &g.c);
    hs_graph_queue(b->graph, .name = "q", .components = QUEUED_NUMBER, .produce = gate_produce, .user = &g,
                   .position = &position);
    bare_open(b);
    filler_start(&first, b);
    filler_start(&second, b);
    gate_await(&g);
    while (pending(b) < 2)
        sched_yield();
    bare_close(b);
    bare_open(b);
    atomic_store(&g.may_leave, true);
    load(b, 20);
    assert_int_equal(filler_join(&first), HS_CANCELLED);
    assert_int_equal(filler_join(&second), HS_CANCELLED);
    assert_int_equal(atomic_load(&g.c.n), 1);
    queued_enqueue(b, 1);
    assert_int_equal(queued_dequeue(b), 21);
    assert_false(atomic_load(&g.c.met));
}

#define test(name)     cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)
#define threaded(name) cmocka_unit_test_setup_teardown(name, queued_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(the_first_position_is_where_the_producer_began),
        test(the_first_position_is_known_after_the_producer_has_begun),
        test(the_position_is_that_of_the_last_dequeued_element),
        test(elements_that_were_not_dequeued_are_produced_again),
        test(a_restore_drops_ready_elements),
        test(an_older_position_is_saved_in_the_current_version),
        test(after_the_end_a_restore_waits_for_a_producer),
        test(a_restore_before_the_close_waits_for_a_producer),
        test(after_a_failure_a_restore_waits_for_a_producer),
        test(a_restore_clears_the_error),
        test(failures_of_the_position_are_reported),
        test(one_session_at_a_time),
        cmocka_unit_test(every_allocation_may_fail),
        threaded(saves_and_restores_run_concurrently_with_a_filling_thread),
        threaded(threads_of_a_former_session_do_not_change_the_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
