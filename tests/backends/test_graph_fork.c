/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/queued.h"

static const double two = 2;

static void a_fork_has_outputs_of_its_own(void **state)
{
    bare *b = *state;
    hs_tensor value;
    hs_graph_placeholder(b->graph, "x", HS_DOUBLE, HS_SCALAR);
    hs_graph_op(b->graph, .name = "more", .run = bare_add_one, .inputs = HS_NAMES("x"), .outputs = BARE_SCALAR);
    hs_graph_op(b->graph, .name = "sum", .run = bare_sum, .outputs = BARE_SCALAR);
    bare_open(b);
    void *fork = queued_fork(b);
    assert_ok(bare_run(b, HS_NAMES("more", "sum"), HS_FEEDS({"x", hs_tensor_of(HS_DOUBLE, HS_SCALAR, &two)}), NULL),
              &b->err);
    assert_ok(queued_run(b, fork, "sum", &value, &b->err), &b->err);
    assert_ptr_not_equal(value.data, b->values[1].data);
    assert_true(hs_tensor_number(&b->values[0], 0) == 3);
    b->ops->close(fork, NULL);
}

static void a_fork_has_the_memory_that_it_needs_alone(void **state)
{
    bare *b = *state;
    enum { LARGE = 1 << 20 };
    hs_graph_op(b->graph, .name = "train", .run = bare_sum, .outputs = HS_OUTPUTS({HS_DOUBLE, 0, HS_SHAPE(LARGE), 0, 0}));
    hs_graph_op(b->graph, .name = "sum", .run = bare_sum, .outputs = BARE_SCALAR);
    bare_open(b);
    void *fork = queued_fork(b);
    size_t before = b->t.live;
    assert_ok(queued_run(b, fork, "sum", NULL, &b->err), &b->err);
    assert_int_equal(b->t.live, before + 1);
    b->ops->close(fork, NULL);
}

/* Whatever would race with the thread that trains is refused. */
static void a_fork_touches_no_variable(void **state)
{
    bare *b = *state;
    double w = 1;
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    hs_graph_op(b->graph, .name = "writes", .run = bare_bump, .writes = HS_NAMES("w"));
    hs_graph_op(b->graph, .name = "reads", .run = bare_add_one, .inputs = HS_NAMES("w"), .outputs = BARE_SCALAR);
    bare_op(b, .name = "train", .advances_step = true);
    bare_op(b, .name = "after", .control_inputs = HS_NAMES("train"));
    bare_open(b);
    const struct {
        const char *name, *says;
    } cases[] = {
        {"writes", "op 'writes' reads or writes variable 'w'"},
        {"reads", "op 'reads' reads or writes variable 'w'"},
        {"train", "variable 'global_step'"},
        {"after", "op 'train' reads or writes"},
        {"w", "variable 'w' is fetched"},
        {"init", "op 'init' reads or writes all variables"},
        {"report_uninitialized_variables", "all variables"},
    };
    void *fork = queued_fork(b);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(queued_run(b, fork, cases[i].name, NULL, &b->err), HS_FAILED_PRECONDITION, &b->err, cases[i].says);
    assert_string_equal(b->trace, "");
    assert_true(w == 1);
    b->ops->close(fork, NULL);
}

static hs_code keep_step(void *self, hs_op *op, hs_error *err)
{
    *(int64_t *)self = hs_op_global_step(op, err);
    assert_says(err, HS_FAILED_PRECONDITION, "threads that fill a queue have no global step");
    hs_error_clear(err);
    return HS_OK;
}

static void closing_a_fork_closes_no_session(void **state)
{
    bare *b = *state;
    double w = 1;
    void *other = NULL;
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    bare_open(b);
    b->ops->close(queued_fork(b), NULL);
    assert_int_equal(b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &other, &b->err), HS_FAILED_PRECONDITION);
}

static void a_fork_does_not_know_the_step(void **state)
{
    bare *b = *state;
    int64_t seen = 0;
    hs_graph_global_step(b->graph, NULL, NULL);
    hs_graph_op(b->graph, .name = "look", .run = keep_step, .user = &seen);
    bare_open(b);
    void *fork = queued_fork(b);
    assert_ok(queued_run(b, fork, "look", NULL, &b->err), &b->err);
    assert_int_equal(seen, -1);
    b->ops->close(fork, NULL);
}

static void a_graph_stays_as_it_is_while_a_fork_lives(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "look");
    bare_open(b);
    void *fork = queued_fork(b);
    bare_close(b);
    assert_int_equal(bare_op(b, .name = "late"), HS_FAILED_PRECONDITION);
    b->ops->close(fork, NULL);
    assert_int_equal(bare_op(b, .name = "late"), HS_OK);
}

/* The ops that every graph has are there from its first session on, whoever finalizes it later. */
static void a_graph_stays_as_it_is_while_a_session_is_open(void **state)
{
    bare *b = *state;
    void *session = NULL;
    bare_op(b, .name = "look");
    assert_ok(b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &session, &b->err), &b->err);
    assert_ok(b->ops->finalize(b->graph, true, &b->err), &b->err);
    assert_ok(queued_run(b, session, "look", NULL, &b->err), &b->err);
    assert_ok(queued_run(b, session, "report_uninitialized_variables", NULL, &b->err), &b->err);
    b->ops->close(session, NULL);
}

/* What a run in the fork needs of graph and queues is there until the fork is closed, too. */
static void a_fork_outlives_session_and_graph(void **state)
{
    bare *b = *state;
    counter c = COUNTER(9);
    hs_node size, dequeue;
    queued_add(b, &c, 4);
    bare_open(b);
    void *fork = queued_fork(b);
    assert_ok(b->ops->find(b->graph, "q/size", &size, &b->err), &b->err);
    assert_ok(b->ops->find(b->graph, "q/dequeue", &dequeue, &b->err), &b->err);
    queued_enqueue(b, 2);
    bare_close(b);
    hs_graph_free(b->graph);
    b->graph = hs_graph_new(&b->t.env); /* for the teardown */
    hs_node both[] = {size, dequeue};
    hs_tensor values[2];
    hs_backend_call call = {.size = sizeof call, .fetches = both, .n_fetches = 2, .values = values};
    assert_ok(b->ops->run(fork, &call, &b->err), &b->err);
    assert_int_equal(*(int64_t *)values[1].data, 1);
    b->ops->close(fork, NULL);
}

/* Threads. */

/* Closes session and graph under the threads, which then end by themselves. */
static void close_all(bare *b)
{
    bare_close(b);
    hs_graph_free(b->graph);
    b->graph = hs_graph_new(NULL);
}

static void threads_that_wait_for_room_end_with_the_session(void **state)
{
    bare *b = *state;
    counter c = COUNTER(INT64_MAX);
    filler f;
    queued_add(b, &c, 2);
    bare_open(b);
    filler_start(&f, b);
    assert_int_equal(queued_dequeue(b), 1);
    close_all(b);
    assert_int_equal(filler_join(&f), HS_CANCELLED);
}

static void threads_that_wait_for_an_element_end_with_the_session(void **state)
{
    bare *b = *state;
    counter c = COUNTER(9);
    filler f;
    hs_graph_queue(b->graph, .name = "first", .components = QUEUED_NUMBER, .produce = counter_produce, .user = &c);
    hs_graph_queue(b->graph, .name = "q", .components = QUEUED_NUMBER, .inputs = HS_NAMES("first/dequeue"));
    bare_open(b);
    filler_start(&f, b);
    close_all(b);
    assert_int_not_equal(filler_join(&f), HS_OK);
}

/* It is in the program's own function when all is closed: what it writes into is still there. */
static void a_thread_that_produces_may_outlive_session_and_graph(void **state)
{
    bare *b = *state;
    gate g = {.c = COUNTER(9)};
    filler f;
    hs_graph_queue(b->graph, .name = "q", .components = QUEUED_NUMBER, .produce = gate_produce, .user = &g);
    bare_open(b);
    filler_start(&f, b);
    gate_await(&g);
    close_all(b);
    atomic_store(&g.may_leave, true);
    assert_int_equal(filler_join(&f), HS_CANCELLED);
}

/* The session trains while a fork fills: nothing is shared but the queue. */
static void a_fork_runs_beside_the_session(void **state)
{
    bare *b = *state;
    enum { STEPS = 1000 };
    counter c = COUNTER(STEPS);
    filler f;
    double w = 0;
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    queued_add(b, &c, 8);
    hs_graph_op(b->graph, .name = "sum", .run = bare_sum, .inputs = HS_NAMES("q/dequeue", "w"), .outputs = BARE_SCALAR);
    hs_graph_op(b->graph, .name = "train", .run = bare_bump, .control_inputs = HS_NAMES("sum"), .writes = HS_NAMES("w"),
                .advances_step = true);
    bare_open(b);
    bare_number(b, "init");
    filler_start(&f, b);
    while (!bare_run(b, HS_NAMES("train"), NULL, NULL))
        ;
    assert_int_equal(b->err.code, HS_OUT_OF_RANGE);
    assert_int_equal(filler_join(&f), HS_OUT_OF_RANGE);
    assert_true(w == STEPS);
}

#define test(name)     cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)
#define threaded(name) cmocka_unit_test_setup_teardown(name, queued_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_fork_has_outputs_of_its_own),
        test(a_fork_has_the_memory_that_it_needs_alone),
        test(a_fork_touches_no_variable),
        test(closing_a_fork_closes_no_session),
        test(a_fork_does_not_know_the_step),
        test(a_graph_stays_as_it_is_while_a_fork_lives),
        test(a_graph_stays_as_it_is_while_a_session_is_open),
        test(a_fork_outlives_session_and_graph),
        threaded(threads_that_wait_for_room_end_with_the_session),
        threaded(threads_that_wait_for_an_element_end_with_the_session),
        threaded(a_thread_that_produces_may_outlive_session_and_graph),
        threaded(a_fork_runs_beside_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
