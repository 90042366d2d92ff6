/* SPDX-License-Identifier: Apache-2.0 */
/* Invalid definitions, and exhausted memory. */
#include "backends/queued.h"

static const hs_state_provider reader =
    HS_INIT(hs_state_provider, .name = "reader", .save = counter_save, .load = counter_load);
static const hs_state_provider nameless = HS_INIT(hs_state_provider, .save = counter_save, .load = counter_load);
static const hs_state_provider misnamed =
    HS_INIT(hs_state_provider, .name = "a b", .save = counter_save, .load = counter_load);
static const hs_state_provider halved = HS_INIT(hs_state_provider, .name = "half", .save = counter_save);

#define NUMBER                                                                                                             \
    .components = (const hs_output_def[])                                                                                  \
    {                                                                                                                      \
        {.dtype = HS_INT64},                                                                                               \
        {                                                                                                                  \
            .dtype = HS_DTYPE_NONE                                                                                         \
        }                                                                                                                  \
    }
#define PRODUCED   NUMBER, .produce = counter_produce
#define QUEUE(...) HS_INIT(hs_queue_def, .name = "q", __VA_ARGS__)

/* Each is refused with a reason, and no session opens on the graph. */
static void invalid_definitions_are_refused(void **state)
{
    (void)state;
    static double memory;
    const struct {
        hs_queue_def def;
        const char *says;
    } cases[] = {
        {HS_INIT(hs_queue_def, PRODUCED), "the name of a new queue is NULL"},
        {HS_INIT(hs_queue_def, .name = "q:0", PRODUCED), "queue 'q:0': the name is invalid"},
        {HS_INIT(hs_queue_def, .name = "hooksess/q", PRODUCED), "reserved"},
        {{.name = "q", PRODUCED}, "HS_INIT(hs_queue_def"},
        {QUEUE(.produce = counter_produce), "queue 'q' has no components"},
        {QUEUE(.produce = counter_produce, .components = (const hs_output_def[]){{.dtype = HS_DTYPE_NONE}}),
         "no components"},
        {QUEUE(.produce = counter_produce, .components = HS_OUTPUTS({.dtype = (hs_dtype)77})), "dtype 77 does not exist"},
        {QUEUE(.produce = counter_produce, .components = HS_OUTPUTS({.dtype = HS_DOUBLE, .data = &memory})),
         "component 0 sets data or memory"},
        {QUEUE(PRODUCED, .capacity = -1), "capacity is -1"},
        {QUEUE(PRODUCED, .capacity = INT64_MAX), "capacity is 9223372036854775807"},
        {QUEUE(PRODUCED, .threads = -2), "threads is -2"},
        {QUEUE(PRODUCED, .threads = INT64_MAX), "threads is 9223372036854775807"},
        {QUEUE(NUMBER), "neither produce nor inputs"},
        {QUEUE(PRODUCED, .inputs = HS_NAMES("x")), "both produce and inputs"},
        {QUEUE(NUMBER, .inputs = HS_NAMES("x", "x")), "2 inputs for 1 components"},
        {QUEUE(NUMBER, .inputs = HS_NAMES("x"), .position = &reader), "a position needs produce"},
        {QUEUE(PRODUCED, .threads = 2, .position = &reader), "threads is 2"},
        {QUEUE(PRODUCED, .position = &nameless), "no name"},
        {QUEUE(PRODUCED, .position = &misnamed), "state 'a b': the name is invalid"},
        {QUEUE(PRODUCED, .position = &halved), "save or load is NULL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_graph *graph = hs_graph_new(NULL);
        assert_fails(hs_graph_add_queue(graph, &cases[i].def), HS_INVALID_ARGUMENT, test_graph_error(graph), cases[i].says);
        hs_graph_free(graph);
    }
    assert_int_equal(hs_graph_add_queue(NULL, &cases[0].def), HS_INVALID_ARGUMENT);
    hs_graph *graph = hs_graph_new(NULL);
    assert_fails(hs_graph_add_queue(graph, NULL), HS_INVALID_ARGUMENT, test_graph_error(graph), "def is NULL");
    hs_graph_free(graph);
}

static void names_of_queues_and_positions_are_unique(void **state)
{
    bare *b = *state;
    counter c = COUNTER(1);
    queued_add_position(b, &c, 1);
    assert_fails(hs_graph_state(b->graph, "reader", counter_save, counter_load, &c), HS_ALREADY_EXISTS,
                 test_graph_error(b->graph), "state 'reader'");
    assert_int_equal(hs_graph_queue(b->graph, .name = "q", PRODUCED), HS_ALREADY_EXISTS);
}

static void no_queue_is_added_while_a_session_is_open(void **state)
{
    bare *b = *state;
    bare_open(b);
    assert_int_equal(hs_graph_queue(b->graph, .name = "q", PRODUCED), HS_FAILED_PRECONDITION);
    assert_false(test_graph_has(b->graph, "q/enqueue"));
}

static void runners_are_not_collected_by_name(void **state)
{
    bare *b = *state;
    assert_fails(hs_graph_collect(b->graph, HS_QUEUE_RUNNERS, "q"), HS_INVALID_ARGUMENT, test_graph_error(b->graph),
                 "it holds queue runners, not names such as");
}

/* No memory is allocated for elements that are never produced. */
static void a_deep_queue_allocates_only_its_elements(void **state)
{
    bare *b = *state;
    counter c = COUNTER(9);
    queued_add(b, &c, INT32_MAX);
    bare_open(b);
    size_t before = b->t.allocations;
    queued_enqueue(b, 1);
    assert_true(b->t.allocations - before < 16);
}

static hs_code produce_words(void *self, hs_op *op, hs_error *err)
{
    static const hs_string words[] = {{"some", 4}, {"words", 5}};
    hs_tensor list = hs_tensor_of(HS_STRING, HS_SHAPE(2), words);
    (void)self;
    return hs_op_set_output(op, 0, &list, err);
}

/* Adds two queues and opens a session and a fork. The fork fills, the session dequeues. */
static hs_code go_through_all(bare *b)
{
    counter c = COUNTER(9);
    const char *const names[] = {"q/enqueue", "words/enqueue", "q/dequeue", "words/dequeue"};
    void *fork = NULL;
    hs_graph_queue(b->graph, .name = "words", .produce = produce_words,
                   .components = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
    queued_add_position(b, &c, 4);
    hs_code code = bare_try_open(b);
    if (!code)
        code = b->ops->fork(b->session, &fork, &b->err);
    for (size_t i = 0; !code && i < 2; i++)
        code = queued_run(b, fork, names[i], NULL, &b->err);
    for (size_t i = 2; !code && i < 4; i++)
        code = queued_run(b, b->session, names[i], NULL, &b->err);
    if (fork)
        b->ops->close(fork, NULL);
    return code;
}

static hs_code scenario(test_env *t, void *user)
{
    (void)user;
    bare b = {.graph = hs_graph_new(&t->env)};
    if (!b.graph)
        return HS_RESOURCE_EXHAUSTED;
    b.ops = hs_graph_backend(b.graph).ops;
    hs_code code = go_through_all(&b);
    bare_close(&b);
    hs_graph_free(b.graph);
    return code;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(scenario, NULL);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_definitions_are_refused), test(names_of_queues_and_positions_are_unique),
        test(no_queue_is_added_while_a_session_is_open),   test(runners_are_not_collected_by_name),
        test(a_deep_queue_allocates_only_its_elements),    cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
