/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/queued.h"
#include "support/waits.h"

#include <sched.h>

static void elements_are_dequeued_in_the_order_of_enqueues(void **state)
{
    bare *b = *state;
    counter c = COUNTER(9);
    queued_add(b, &c, 4);
    bare_open(b);
    queued_enqueue(b, 3);
    assert_int_equal(queued_size(b), 3);
    for (int64_t i = 1; i <= 3; i++)
        assert_int_equal(queued_dequeue(b), i);
    assert_int_equal(queued_size(b), 0);
}

static void a_full_queue_blocks_enqueues(void **state)
{
    bare *b = *state;
    counter c = COUNTER(9);
    filler f;
    queued_add(b, &c, 2);
    bare_open(b);
    filler_start(&f, b);
    await_waiting(1);
    assert_int_equal(queued_size(b), 2);
    bare_close(b);
    assert_int_equal(filler_join(&f), HS_CANCELLED);
}

/* All readers of a run get the same element. */
static void a_run_dequeues_once(void **state)
{
    bare *b = *state;
    counter c = COUNTER(9);
    queued_add(b, &c, 4);
    for (const char *const *name = HS_NAMES("one", "two"); *name; name++)
        hs_graph_op(b->graph, .name = *name, .run = bare_add_one, .inputs = HS_NAMES("q/dequeue"), .outputs = BARE_SCALAR);
    bare_open(b);
    queued_enqueue(b, 2);
    assert_ok(bare_run(b, HS_NAMES("one", "two", "q/dequeue"), NULL, NULL), &b->err);
    assert_true(hs_tensor_number(&b->values[0], 0) == 2 && hs_tensor_number(&b->values[1], 0) == 2);
    assert_int_equal(queued_size(b), 1);
}

static void a_queue_adds_its_runner(void **state)
{
    bare *b = *state;
    counter c = COUNTER(1);
    const void *item = NULL;
    queued_add(b, &c, 1); /* without a runner: threads is HS_NEVER */
    assert_false(b->ops->collection_item(b->graph, HS_QUEUE_RUNNERS, 0, &item));
    assert_ok(hs_graph_queue(b->graph, .name = "input/batch", .components = QUEUED_NUMBER, .produce = counter_produce,
                             .user = &c, .threads = 3),
              test_graph_error(b->graph));
    assert_true(b->ops->collection_item(b->graph, HS_QUEUE_RUNNERS, 0, &item));
    assert_string_equal(hs_queue_runner_name(item), "input/batch");
    assert_false(b->ops->collection_item(b->graph, HS_QUEUE_RUNNERS, 1, &item));
}

static void a_closed_queue_is_drained_and_then_ends(void **state)
{
    bare *b = *state;
    counter c = COUNTER(9);
    queued_add(b, &c, 4);
    bare_open(b);
    queued_enqueue(b, 2);
    queued_close(b);
    assert_fails(bare_run(b, HS_NAMES("q/enqueue"), NULL, NULL), HS_CANCELLED, &b->err, "queue 'q': it is closed");
    assert_int_equal(queued_dequeue(b), 1);
    assert_int_equal(queued_dequeue(b), 2);
    assert_fails(queued_failing_dequeue(b), HS_OUT_OF_RANGE, &b->err, "queue 'q' is closed and empty");
}

static void the_end_of_the_producer_is_not_an_error(void **state)
{
    bare *b = *state;
    counter c = COUNTER(1);
    queued_add(b, &c, 4);
    bare_open(b);
    queued_enqueue(b, 1);
    assert_fails(bare_run(b, HS_NAMES("q/enqueue"), NULL, NULL), HS_OUT_OF_RANGE, &b->err, "no more numbers");
    queued_close(b);
    assert_int_equal(queued_dequeue(b), 1);
    assert_fails(queued_failing_dequeue(b), HS_OUT_OF_RANGE, &b->err, "'q' is closed");
}

static void a_producers_error_follows_its_elements(void **state)
{
    bare *b = *state;
    counter c = {.last = 9, .fails_at = 2};
    queued_add(b, &c, 4);
    bare_open(b);
    queued_enqueue(b, 1);
    assert_fails(bare_run(b, HS_NAMES("q/enqueue"), NULL, NULL), HS_ABORTED, &b->err, "op 'q/enqueue': no luck");
    queued_close(b);
    assert_int_equal(queued_dequeue(b), 1);
    assert_fails(queued_failing_dequeue(b), HS_ABORTED, &b->err, "cannot fill queue 'q': op 'q/enqueue': no luck");
}

/* closed_codes of the runner names another code for the end. */
static void an_end_code_of_the_producer_is_an_end_for_the_consumer(void **state)
{
    bare *b = *state;
    counter c = {.last = 9, .fails_at = 2};
    hs_threads threads = {0};
    hs_error err = {0};
    queued_add(b, &c, 4);
    hs_session *session = hs_session_open(hs_graph_backend(b->graph), NULL, &err);
    hs_queue_runner *runner = hs_queue_runner_new(
        HS_QUEUE_RUNNER_OPTIONS(.queue = "q", .enqueue_ops = HS_NAMES("q/enqueue"), .closed_codes = HS_CODES(HS_ABORTED)),
        &err);
    assert_ok(hs_queue_runner_create_threads(runner, hs_session_raw(session), NULL, true, &threads, &err), &err);
    assert_true(hs_thread_wait(threads.items[0], 100));
    hs_threads_free(&threads);
    assert_ok(hs_session_run(session, "q/dequeue", &err), &err);
    assert_fails(hs_session_run(session, "q/dequeue", &err), HS_OUT_OF_RANGE, &err, "queue 'q' is closed and empty");
    hs_session_close(session, &err);
    hs_queue_runner_free(runner);
}

static void the_error_of_an_op_before_the_enqueue_follows_the_elements(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "read", .run = bare_fail, .outputs = BARE_SCALAR);
    hs_graph_queue(b->graph, .name = "q", .components = BARE_SCALAR, .inputs = HS_NAMES("read"));
    hs_graph_queue(b->graph, .name = "other", .components = BARE_SCALAR, .inputs = HS_NAMES("read"));
    bare_open(b);
    void *fork = queued_fork(b);
    assert_int_equal(queued_run(b, fork, "q/enqueue", NULL, &b->err), HS_ABORTED);
    b->ops->close(fork, NULL);
    queued_close(b);
    assert_fails(queued_failing_dequeue(b), HS_ABORTED, &b->err, "cannot fill queue 'q': op 'read': no luck");
    bare_number(b, "other/close");
    assert_int_equal(bare_run(b, HS_NAMES("other/dequeue"), NULL, NULL), HS_OUT_OF_RANGE);
}

/* Elements are copies of fed values. Each has its own shape. */
static void elements_are_copied_from_inputs(void **state)
{
    bare *b = *state;
    double numbers[3] = {1, 2, 3};
    hs_graph_placeholder(b->graph, "x", HS_DOUBLE, HS_SHAPE(-1));
    hs_graph_queue(b->graph, .name = "q", .components = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_SHAPE(-1)}),
                   .inputs = HS_NAMES("x"), .threads = HS_NEVER);
    bare_open(b);
    for (int64_t n = 3; n >= 0; n--)
        assert_ok(bare_run(b, HS_NAMES("q/enqueue"), HS_FEEDS({"x", hs_tensor_of(HS_DOUBLE, HS_SHAPE(n), numbers)}), NULL),
                  &b->err);
    numbers[1] = 77;
    for (int64_t n = 3; n >= 0; n--) {
        assert_ok(bare_run(b, HS_NAMES("q/dequeue"), NULL, NULL), &b->err);
        assert_int_equal(b->values[0].dims[0], n);
        assert_true(n < 2 || hs_tensor_number(&b->values[0], 1) == 2);
    }
}

/* Sets views of memory that it reuses. */
static hs_code produce_words(void *self, hs_op *op, hs_error *err)
{
    static char text[16];
    static hs_string words[2];
    int *n = self;
    ++*n;
    snprintf(text, sizeof text, "w%d", *n);
    words[0] = (hs_string){text, 2};
    words[1] = (hs_string){NULL, 0};
    hs_tensor list = hs_tensor_of(HS_STRING, HS_SHAPE(*n % 2 + 1), words);
    hs_tensor scalar = hs_tensor_of(HS_STRING, HS_SCALAR, words);
    hs_code code = hs_op_set_output(op, 0, &list, err);
    return code ? code : hs_op_set_output(op, 1, &scalar, err);
}

static void strings_and_open_shapes_are_copied(void **state)
{
    bare *b = *state;
    int n = 0;
    hs_graph_queue(b->graph, .name = "q", .produce = produce_words, .user = &n, .threads = HS_NEVER,
                   .components = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_ANY_SHAPE}, {.dtype = HS_STRING}));
    bare_open(b);
    queued_enqueue(b, 3);
    for (int i = 1; i <= 3; i++) {
        assert_ok(bare_run(b, HS_NAMES("q/dequeue:0", "q/dequeue:1"), NULL, NULL), &b->err);
        const hs_string *words = b->values[0].data, *word = b->values[1].data;
        assert_int_equal(b->values[0].dims[0], i % 2 + 1);
        assert_int_equal(words[0].data[1], '0' + i);
        assert_int_equal(word->bytes, 2);
        assert_int_equal(word->data[1], '0' + i);
    }
}

static hs_code set_nothing(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op, (void)err;
    return HS_OK;
}

static void an_unset_component_is_an_error(void **state)
{
    bare *b = *state;
    hs_graph_queue(b->graph, .name = "q", .produce = set_nothing, .threads = HS_NEVER,
                   .components = HS_OUTPUTS({.dtype = HS_FLOAT, .shape = HS_SHAPE(-1)}));
    bare_open(b);
    assert_fails(bare_run(b, HS_NAMES("q/enqueue"), NULL, NULL), HS_INTERNAL, &b->err,
                 "component 0 of queue 'q' was not set");
    assert_int_equal(queued_size(b), 0);
}

static void a_component_that_does_not_fit_is_refused(void **state)
{
    bare *b = *state;
    double number = 1;
    hs_graph_placeholder(b->graph, "x", HS_DOUBLE, HS_ANY_SHAPE);
    hs_graph_queue(b->graph, .name = "q", .components = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_SHAPE(2)}),
                   .inputs = HS_NAMES("x"), .threads = HS_NEVER);
    bare_open(b);
    assert_fails(bare_run(b, HS_NAMES("q/enqueue"), HS_FEEDS({"x", hs_tensor_of(HS_DOUBLE, HS_SCALAR, &number)}), NULL),
                 HS_INVALID_ARGUMENT, &b->err, "component 0 of queue 'q' is double [2], but its value is double []");
}

static void a_dequeued_element_is_valid_until_the_next_dequeue(void **state)
{
    bare *b = *state;
    counter c = COUNTER(99);
    queued_add(b, &c, 1);
    bare_open(b);
    queued_enqueue(b, 1);
    assert_int_equal(queued_dequeue(b), 1);
    const int64_t *given = b->values[0].data;
    queued_enqueue(b, 1);
    assert_int_equal(*given, 1);
    assert_int_equal(queued_dequeue(b), 2);
    queued_enqueue(b, 1); /* reuses the memory of the first element */
    assert_int_equal(*given, 3);
}

static hs_code halt(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op;
    return hs_error_set(err, HS_STOP, "halt");
}

static void the_element_of_a_stopped_run_is_dequeued_again(void **state)
{
    bare *b = *state;
    counter c = COUNTER(9);
    queued_add(b, &c, 4);
    hs_graph_op(b->graph, .name = "halt", .run = halt, .control_inputs = HS_NAMES("q/dequeue"));
    bare_open(b);
    queued_enqueue(b, 2);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(bare_run(b, HS_NAMES("halt"), NULL, NULL), HS_STOP);
        assert_int_equal(queued_size(b), 3 - i);
        assert_int_equal(queued_dequeue(b), i);
    }
    queued_enqueue(b, 1);
    assert_int_equal(queued_dequeue(b), 3);
}

static void each_session_has_a_private_queue(void **state)
{
    bare *b = *state;
    counter c = COUNTER(99);
    void *other = NULL;
    queued_add(b, &c, 4);
    bare_open(b);
    assert_ok(b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &other, &b->err), &b->err);
    queued_enqueue(b, 2);
    assert_ok(queued_run(b, other, "q/cancel", NULL, &b->err), &b->err);
    assert_int_equal(queued_size(b), 2);
    assert_int_equal(queued_run(b, other, "q/dequeue", NULL, &b->err), HS_OUT_OF_RANGE);
    b->ops->close(other, NULL);
}

static bool has_text(hs_bytes bytes, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i + n <= bytes.size; i++)
        if (memcmp((const char *)bytes.data + i, text, n) == 0)
            return true;
    return false;
}

static void the_graph_def_names_the_ops(void **state)
{
    bare *b = *state;
    counter c = COUNTER(1);
    hs_bytes def;
    queued_add(b, &c, 4);
    bare_open(b);
    assert_ok(hs_backend_graph_def(hs_graph_backend(b->graph), &def, &b->err), &b->err);
    assert_true(has_text(def, "q/dequeue"));
}

/* Threads. */

static void a_thread_fills_what_the_session_consumes(void **state)
{
    bare *b = *state;
    enum { ALL = 2000, CAPACITY = 2 };
    counter c = COUNTER(ALL);
    filler f;
    queued_add(b, &c, CAPACITY);
    bare_open(b);
    filler_start(&f, b);
    for (int64_t i = 1; i <= ALL; i++) {
        assert_int_equal(queued_dequeue(b), i);
        assert_true(atomic_load(&c.n) <= i + CAPACITY); /* at most CAPACITY elements are ready */
    }
    assert_int_equal(queued_failing_dequeue(b), HS_OUT_OF_RANGE);
    assert_int_equal(filler_join(&f), HS_OUT_OF_RANGE);
}

static hs_code count_atomically(void *self, hs_op *op, hs_error *err)
{
    int64_t number = atomic_fetch_add((atomic_int_fast64_t *)self, 1) + 1;
    *(int64_t *)hs_op_output(op, 0)->data = number;
    return number <= 4000 ? HS_OK : hs_error_set(err, HS_OUT_OF_RANGE, "no more");
}

enum { FILLERS = 4 };

/* Each thread closes the queue at its end, as the last thread of a runner does. Unfinished enqueues of others still count.
 */
static void many_threads_fill_a_queue(void **state)
{
    bare *b = *state;
    filler fillers[FILLERS];
    atomic_int_fast64_t last = 0;
    int64_t n = 0, sum = 0;
    hs_graph_queue(b->graph, .name = "q", .capacity = 3, .components = QUEUED_NUMBER, .produce = count_atomically,
                   .user = &last, .threads = FILLERS);
    bare_open(b);
    for (size_t i = 0; i < FILLERS; i++)
        filler_start(&fillers[i], b);
    for (; !bare_run(b, HS_NAMES("q/dequeue"), NULL, NULL); n++)
        sum += *(int64_t *)b->values[0].data;
    assert_int_equal(b->err.code, HS_OUT_OF_RANGE);
    for (size_t i = 0; i < FILLERS; i++)
        filler_join(&fillers[i]);
    assert_int_equal(n, 4000);
    assert_int_equal(sum, 4000 * 4001 / 2);
}

static hs_code open_gate(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    atomic_store(&((gate *)self)->may_leave, true);
    return HS_OK;
}

/* The queue is closed during a call of `produce`. The gate opens just before the dequeue. */
/* The first producer waits until may_leave is set or a second producer enters. */
typedef struct {
    atomic_int inside;
    atomic_bool entered, met, may_leave;
} room;

static hs_code produce_alone(void *self, hs_op *op, hs_error *err)
{
    room *r = self;
    (void)err;
    if (atomic_fetch_add(&r->inside, 1))
        atomic_store(&r->met, true);
    atomic_store(&r->entered, true);
    while (!atomic_load(&r->may_leave) && !atomic_load(&r->met))
        sched_yield();
    *(int64_t *)hs_op_output(op, 0)->data = 1;
    atomic_fetch_sub(&r->inside, 1);
    return HS_OK;
}

static void one_thread_produces_at_a_time_even_with_one_of_a_former_session(void **state)
{
    bare *b = *state;
    room r = {.inside = 0};
    filler former, present;
    hs_graph_queue(b->graph, .name = "q", .capacity = 2, .components = QUEUED_NUMBER, .produce = produce_alone, .user = &r);
    bare_open(b);
    filler_start(&former, b);
    while (!atomic_load(&r.entered))
        sched_yield();
    bare_close(b);
    bare_open(b);
    filler_start(&present, b);
    while (!threads_waiting() && !atomic_load(&r.met))
        sched_yield();
    atomic_store(&r.may_leave, true);
    assert_int_equal(filler_join(&former), HS_CANCELLED);
    assert_int_equal(queued_dequeue(b), 1);
    bare_close(b);
    assert_int_equal(filler_join(&present), HS_CANCELLED);
    assert_false(atomic_load(&r.met));
}

static void a_closed_queue_waits_for_unfinished_enqueues(void **state)
{
    bare *b = *state;
    gate g = {.c = COUNTER(1)};
    hs_graph_op(b->graph, .name = "open", .run = open_gate, .user = &g);
    hs_graph_queue(b->graph, .name = "q", .components = QUEUED_NUMBER, .produce = gate_produce, .user = &g);
    for (int i = 0; i < 100; i++) {
        filler f;
        g = (gate){.c = COUNTER(1)};
        bare_open(b);
        filler_start(&f, b);
        gate_await(&g);
        queued_close(b);
        assert_ok(bare_run(b, HS_NAMES("open", "q/dequeue"), NULL, NULL), &b->err);
        filler_join(&f);
        bare_close(b);
    }
}

static void cancelling_drops_the_elements_of_unfinished_enqueues(void **state)
{
    bare *b = *state;
    gate g = {.c = COUNTER(9)};
    filler f;
    hs_graph_queue(b->graph, .name = "q", .components = QUEUED_NUMBER, .produce = gate_produce, .user = &g);
    bare_open(b);
    filler_start(&f, b);
    gate_await(&g);
    bare_number(b, "q/cancel");
    atomic_store(&g.may_leave, true);
    assert_int_equal(filler_join(&f), HS_CANCELLED);
    assert_int_equal(queued_size(b), 0);
}

static void cancelling_ends_waiting_enqueues(void **state)
{
    bare *b = *state;
    counter c = COUNTER(INT64_MAX);
    filler f;
    queued_add(b, &c, 2);
    bare_open(b);
    filler_start(&f, b);
    assert_int_equal(queued_dequeue(b), 1);
    bare_number(b, "q/cancel");
    assert_int_equal(filler_join(&f), HS_CANCELLED);
    while (!bare_run(b, HS_NAMES("q/dequeue"), NULL, NULL))
        ; /* the ready elements remain */
    assert_int_equal(b->err.code, HS_OUT_OF_RANGE);
}

static void a_queue_may_be_filled_from_another(void **state)
{
    bare *b = *state;
    counter c = COUNTER(500);
    filler f;
    hs_graph_queue(b->graph, .name = "first", .capacity = 2, .components = QUEUED_NUMBER, .produce = counter_produce,
                   .user = &c);
    hs_graph_queue(b->graph, .name = "q", .capacity = 2, .components = QUEUED_NUMBER, .inputs = HS_NAMES("first/dequeue"));
    bare_open(b);
    filler_start(&f, b);
    for (int64_t i = 1; i <= 500; i++) {
        bare_number(b, "first/enqueue");
        assert_int_equal(queued_dequeue(b), i);
    }
    bare_number(b, "first/close");
    assert_int_equal(queued_failing_dequeue(b), HS_OUT_OF_RANGE);
    assert_int_equal(filler_join(&f), HS_OUT_OF_RANGE);
}

#define test(name)     cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)
#define threaded(name) cmocka_unit_test_setup_teardown(name, queued_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(elements_are_dequeued_in_the_order_of_enqueues),
        test(a_full_queue_blocks_enqueues),
        test(a_run_dequeues_once),
        test(a_queue_adds_its_runner),
        test(a_closed_queue_is_drained_and_then_ends),
        test(the_end_of_the_producer_is_not_an_error),
        test(a_producers_error_follows_its_elements),
        threaded(an_end_code_of_the_producer_is_an_end_for_the_consumer),
        test(the_error_of_an_op_before_the_enqueue_follows_the_elements),
        test(elements_are_copied_from_inputs),
        test(strings_and_open_shapes_are_copied),
        test(an_unset_component_is_an_error),
        test(a_component_that_does_not_fit_is_refused),
        test(a_dequeued_element_is_valid_until_the_next_dequeue),
        test(the_element_of_a_stopped_run_is_dequeued_again),
        test(each_session_has_a_private_queue),
        test(the_graph_def_names_the_ops),
        threaded(a_thread_fills_what_the_session_consumes),
        threaded(many_threads_fill_a_queue),
        threaded(one_thread_produces_at_a_time_even_with_one_of_a_former_session),
        threaded(a_closed_queue_waits_for_unfinished_enqueues),
        threaded(cancelling_drops_the_elements_of_unfinished_enqueues),
        threaded(cancelling_ends_waiting_enqueues),
        threaded(a_queue_may_be_filled_from_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
