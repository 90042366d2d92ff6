/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that ops request during a run (hs_op_memory), and memory of the graph. */
#include "backends/bare.h"

/* An op that returns `n` numbers. The first counts executions. */
typedef struct {
    int64_t n;
    void *last;
    bool forgets;
} giver;

static hs_code give(void *self, hs_op *op, hs_error *err)
{
    giver *g = self;
    int64_t *memory = hs_op_memory(op, 0, (size_t)g->n * sizeof *memory, err);
    if (!memory)
        return HS_RESOURCE_EXHAUSTED;
    g->last = memory;
    memory[0]++;
    memory[g->n - 1] += g->n == 1 ? 0 : 1;
    const hs_tensor value = hs_tensor_of(HS_INT64, (hs_shape){.rank = 1, .dims = {g->n}}, memory);
    return g->forgets ? HS_OK : hs_op_set_output(op, 0, &value, err);
}

static void add_giver(bare *b, giver *g)
{
    hs_graph_op(b->graph, .name = "give", .run = give, .user = g,
                .outputs = HS_OUTPUTS({.dtype = HS_INT64, .shape = HS_SHAPE(-1)}));
}

static void memory_is_kept_between_executions(void **state)
{
    bare *b = *state;
    giver g = {.n = 1};
    add_giver(b, &g);
    bare_open(b);
    assert_int_equal(bare_number(b, "give"), 1); /* zeroed at first */
    const void *first = g.last;
    size_t before = b->t.allocations;
    assert_int_equal(bare_number(b, "give"), 2);
    assert_ptr_equal(g.last, first);
    assert_int_equal(b->t.allocations, before);
    assert_int_equal((uintptr_t)first % _Alignof(max_align_t), 0);
}

static void memory_grows_and_keeps_its_contents(void **state)
{
    bare *b = *state;
    giver g = {.n = 1};
    add_giver(b, &g);
    bare_open(b);
    bare_number(b, "give");
    for (g.n = 2; g.n < 1000; g.n *= 3)
        bare_number(b, "give");
    assert_int_equal(((int64_t *)g.last)[0], 7);
    g.n = 5;
    bare_number(b, "give");
    assert_int_equal(b->values[0].dims[0], 5);
}

static void each_session_has_private_memory(void **state)
{
    bare *b = *state;
    giver g = {.n = 1};
    add_giver(b, &g);
    bare_open(b);
    bare_number(b, "give");
    const void *first = g.last;
    void *session = b->session;
    assert_ok(b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &b->session, &b->err), &b->err);
    assert_int_equal(bare_number(b, "give"), 1);
    assert_ptr_not_equal(g.last, first);
    b->ops->close(b->session, NULL);
    b->session = session;
}

static void an_output_is_unset_before_each_execution(void **state)
{
    bare *b = *state;
    giver g = {.n = 1};
    add_giver(b, &g);
    bare_open(b);
    bare_number(b, "give");
    g.forgets = true;
    assert_fails(bare_run(b, HS_NAMES("give"), NULL, NULL), HS_INTERNAL, &b->err, "did not set");
}

static hs_code ask(void *self, hs_op *op, hs_error *err)
{
    size_t *index = self;
    return hs_op_memory(op, index[0], index[1], err) ? HS_OK : err->code;
}

static void refuses(bare *b, const hs_output_def *outputs, size_t index, size_t bytes, hs_code code, const char *message)
{
    size_t asked[2] = {index, bytes};
    hs_graph_op(b->graph, .name = "ask", .run = ask, .user = asked, .outputs = outputs);
    bare_open(b);
    assert_fails(bare_run(b, HS_NAMES("ask"), NULL, NULL), code, &b->err, message);
}

static void a_missing_output_is_refused(void **state)
{
    refuses(*state, HS_OUTPUTS({.dtype = HS_STRING}), 1, 8, HS_INVALID_ARGUMENT,
            "has 1 outputs, so output 1 does not exist");
}

static void an_output_of_known_shape_is_refused(void **state)
{
    refuses(*state, HS_OUTPUTS({.dtype = HS_INT64}), 0, 8, HS_INVALID_ARGUMENT, "already has memory");
}

static void an_output_in_the_programs_memory_is_refused(void **state)
{
    static hs_string text;
    refuses(*state, HS_OUTPUTS({.dtype = HS_STRING, .data = &text}), 0, 8, HS_INVALID_ARGUMENT, "already has memory");
}

static void too_many_bytes_are_refused(void **state)
{
    refuses(*state, HS_OUTPUTS({.dtype = HS_STRING}), 0, SIZE_MAX, HS_RESOURCE_EXHAUSTED, "output");
}

static void a_null_op_is_refused(void **state)
{
    hs_error err = {0};
    (void)state;
    assert_null(hs_op_memory(NULL, 0, 8, &err));
    assert_int_equal(err.code, HS_INVALID_ARGUMENT);
    assert_null(hs_op_memory(NULL, 0, 8, NULL));
}

/* Memory of the graph. */

static void a_name_has_memory_until_the_graph_is_freed(void **state)
{
    bare *b = *state;
    unsigned char *memory = hs_graph_memory(b->graph, "a name, any", 1000, &b->err);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(memory[i], 0);
    memset(memory, 7, 1000);
    assert_clears(&b->err, assert_ptr_not_equal(hs_graph_memory(b->graph, "another", 1000, &b->err), memory));
    hs_graph_global_step(b->graph, NULL, NULL);
    bare_open(b);
    assert_clears(&b->err, assert_ptr_equal(hs_graph_memory(b->graph, "a name, any", 1000, &b->err), memory));
    assert_int_equal(memory[999], 7);
    assert_non_null(hs_graph_memory(b->graph, "a third", 1, NULL)); /* while a session is open */
}

static void invalid_memory_of_the_graph_is_refused(void **state)
{
    bare *b = *state;
    assert_non_null(hs_graph_memory(b->graph, "x", 8, &b->err));
    const struct {
        hs_graph *graph;
        const char *name;
        size_t bytes;
        hs_code code;
        const char *message;
    } cases[] = {
        {NULL, "x", 8, HS_INVALID_ARGUMENT, "graph is NULL"},
        {b->graph, NULL, 8, HS_INVALID_ARGUMENT, "name is NULL"},
        {b->graph, "x", 0, HS_INVALID_ARGUMENT, "hs_graph_memory: bytes is 0"},
        {b->graph, "x", 9, HS_INVALID_ARGUMENT, "'x' has 8 bytes, not 9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(hs_graph_memory(cases[i].graph, cases[i].name, cases[i].bytes, &b->err));
        assert_says(&b->err, cases[i].code, cases[i].message);
    }
    for (size_t k = 1; k <= 3; k++) {
        b->t.fail_alloc_at = b->t.allocations + k;
        assert_null(hs_graph_memory(b->graph, "z", 8, &b->err));
        assert_int_equal(b->err.code, HS_RESOURCE_EXHAUSTED);
    }
    b->t.fail_alloc_at = 0;
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(memory_is_kept_between_executions),
        test(memory_grows_and_keeps_its_contents),
        test(each_session_has_private_memory),
        test(an_output_is_unset_before_each_execution),
        test(a_name_has_memory_until_the_graph_is_freed),
        test(invalid_memory_of_the_graph_is_refused),
        test(a_missing_output_is_refused),
        test(an_output_of_known_shape_is_refused),
        test(an_output_in_the_programs_memory_is_refused),
        test(too_many_bytes_are_refused),
        cmocka_unit_test(a_null_op_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
