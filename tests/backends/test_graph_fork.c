/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/queued.h"

static const double two = 2;

static void a_fork_has_private_outputs(void **state)
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

static void a_fork_allocates_only_outputs_that_it_needs(void **state)
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

/* An access to a variable would be a race with the training thread. */
static void a_fork_cannot_access_variables(void **state)
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

static void closing_a_fork_leaves_the_session_open(void **state)
{
    bare *b = *state;
    double w = 1;
    void *other = NULL;
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    bare_open(b);
    b->ops->close(queued_fork(b), NULL);
    assert_int_equal(b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &other, &b->err), HS_FAILED_PRECONDITION);
}

static void a_fork_has_no_global_step(void **state)
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

static void a_graph_cannot_change_while_a_fork_is_open(void **state)
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

/* The first session adds the ops that every graph has. Finalizing later adds none. */
static void a_graph_cannot_change_while_a_session_is_open(void **state)
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

/* A fork holds references to the graph and its queues. */
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

/* Closes session and graph while threads use the queue. The threads then end. */
static void close_all(bare *b)
{
    bare_close(b);
    hs_graph_free(b->graph);
    b->graph = hs_graph_new(NULL);
}

static void closing_the_session_ends_threads_that_wait_for_room(void **state)
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

static void closing_the_session_ends_threads_that_wait_for_an_element(void **state)
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

/* `produce` is running when session and graph are closed. Its element stays valid. */
static void a_producing_thread_may_outlive_session_and_graph(void **state)
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

/* The session runs while a fork fills the queue. */
static void a_fork_runs_concurrently_with_the_session(void **state)
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
        test(a_fork_has_private_outputs),
        test(a_fork_allocates_only_outputs_that_it_needs),
        test(a_fork_cannot_access_variables),
        test(closing_a_fork_leaves_the_session_open),
        test(a_fork_has_no_global_step),
        test(a_graph_cannot_change_while_a_fork_is_open),
        test(a_graph_cannot_change_while_a_session_is_open),
        test(a_fork_outlives_session_and_graph),
        threaded(closing_the_session_ends_threads_that_wait_for_room),
        threaded(closing_the_session_ends_threads_that_wait_for_an_element),
        threaded(a_producing_thread_may_outlive_session_and_graph),
        threaded(a_fork_runs_concurrently_with_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
