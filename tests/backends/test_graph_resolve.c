/* SPDX-License-Identifier: Apache-2.0 */
/* Resolving names, and which ops run. */
#include "backends/bare.h"

/* Runs the names and returns the executed ops. */
static const char *executed(bare *b, const char *const *names)
{
    b->trace[0] = '\0';
    assert_ok(bare_run(b, names, NULL, NULL), &b->err);
    return b->trace;
}

/* A traced op that sets its output to 1. */
static hs_code traced_one(void *self, hs_op *op, hs_error *err)
{
    *(double *)hs_op_output(op, 0)->data = 1;
    return bare_traced(self, op, err);
}

#define value_op(b, ...) hs_graph_op((b)->graph, .run = traced_one, .user = (b), .outputs = BARE_SCALAR, __VA_ARGS__)

static void independent_ops_run_in_the_order_of_their_addition(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "c");
    bare_op(b, .name = "a");
    bare_op(b, .name = "b");
    bare_open(b);
    assert_string_equal(executed(b, HS_NAMES("b", "a", "c")), "c a b");
}

static void inputs_and_control_inputs_run_first(void **state)
{
    bare *b = *state;
    value_op(b, .name = "loss", .inputs = HS_NAMES("logits"), .control_inputs = HS_NAMES("check"));
    value_op(b, .name = "logits", .inputs = HS_NAMES("batch:0"));
    bare_op(b, .name = "check", .control_inputs = HS_NAMES("logits"));
    value_op(b, .name = "batch");
    bare_open(b);
    assert_string_equal(executed(b, HS_NAMES("loss")), "batch logits check loss");
}

static void unneeded_ops_are_not_executed(void **state)
{
    bare *b = *state;
    value_op(b, .name = "batch");
    value_op(b, .name = "loss", .inputs = HS_NAMES("batch"));
    value_op(b, .name = "accuracy", .inputs = HS_NAMES("batch"));
    bare_op(b, .name = "train", .inputs = HS_NAMES("loss"));
    bare_open(b);
    assert_string_equal(executed(b, HS_NAMES("train")), "batch loss train");
    assert_string_equal(executed(b, HS_NAMES("accuracy")), "batch accuracy");
    assert_string_equal(executed(b, NULL), "");
}

static void each_op_is_executed_once_a_run(void **state)
{
    bare *b = *state;
    value_op(b, .name = "batch");
    value_op(b, .name = "left", .inputs = HS_NAMES("batch", "batch"));
    value_op(b, .name = "right", .inputs = HS_NAMES("batch"));
    value_op(b, .name = "both", .inputs = HS_NAMES("left", "right"), .control_inputs = HS_NAMES("left"));
    bare_open(b);
    assert_string_equal(executed(b, HS_NAMES("both", "batch", "left")), "batch left right both");
}

static void a_group_executes_its_inputs(void **state)
{
    bare *b = *state;
    value_op(b, .name = "a");
    bare_op(b, .name = "b");
    hs_graph_op(b->graph, .name = "group", .inputs = HS_NAMES("a"), .control_inputs = HS_NAMES("b"));
    hs_graph_op(b->graph, .name = "groups", .control_inputs = HS_NAMES("group"));
    bare_open(b);
    assert_string_equal(executed(b, HS_NAMES("groups")), "a b");
    assert_null(b->values[0].data);
}

static void variables_and_values_need_no_op(void **state)
{
    bare *b = *state;
    double v = 1, w = 2;
    hs_graph_value(b->graph, "v", HS_DOUBLE, HS_SCALAR, &v);
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    bare_op(b, .name = "write_v", .writes = HS_NAMES("v"));
    bare_open(b);
    assert_string_equal(executed(b, HS_NAMES("v", "w")), "");
    assert_true(hs_tensor_number(&b->values[1], 0) == 2);
}

static void a_long_chain_is_ordered_without_recursion(void **state)
{
    bare *b = *state;
    enum { N = 20000 };
    char name[16], before[16];
    double x = 0;
    hs_graph_value(b->graph, "op0", HS_DOUBLE, HS_SCALAR, &x);
    for (int i = N; i > 0; i--) { /* each refers to the next one */
        snprintf(name, sizeof name, "op%d", i);
        snprintf(before, sizeof before, "op%d", i - 1);
        hs_graph_op(b->graph, .name = name, .run = bare_add_one, .inputs = HS_NAMES(before), .outputs = BARE_SCALAR);
    }
    bare_open(b);
    assert_true(bare_number(b, "op20000") == N);
}

static void a_cycle_is_named(void **state)
{
    bare *b = *state;
    value_op(b, .name = "a", .inputs = HS_NAMES("b"));
    value_op(b, .name = "b", .inputs = HS_NAMES("c"));
    value_op(b, .name = "c", .control_inputs = HS_NAMES("a"));
    assert_fails(bare_try_open(b), HS_INVALID_ARGUMENT, &b->err, "op 'c' depends on itself through 'b'");
    assert_null(hs_session_open(hs_graph_backend(b->graph), NULL, &b->err));
    assert_says(&b->err, HS_INVALID_ARGUMENT, "depends on itself");
}

/* The search begins outside of the cycle, and must end. */
static void a_cycle_reached_from_other_ops_is_named(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "train", .control_inputs = HS_NAMES("a"));
    bare_op(b, .name = "a", .control_inputs = HS_NAMES("b"));
    bare_op(b, .name = "b", .control_inputs = HS_NAMES("a"));
    assert_fails(bare_try_open(b), HS_INVALID_ARGUMENT, &b->err, "op 'b' depends on itself through 'a'");
}

static void opening_checks_a_graph_that_is_not_finalized(void **state)
{
    bare *b = *state;
    value_op(b, .name = "a", .inputs = HS_NAMES("a"));
    assert_fails(b->ops->open(b->graph, NULL, (hs_bytes){NULL, 0}, &b->session, &b->err), HS_INVALID_ARGUMENT, &b->err,
                 "op 'a' depends on itself");
    assert_null(b->session);
}

static void an_op_that_depends_on_itself_is_named(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "fine");
    bare_op(b, .name = "selfish", .control_inputs = HS_NAMES("selfish"));
    assert_fails(bare_try_open(b), HS_INVALID_ARGUMENT, &b->err, "op 'selfish' depends on itself");
}

static void an_op_may_read_a_variable_that_it_writes(void **state)
{
    bare *b = *state;
    double w = 5;
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    hs_graph_op(b->graph, .name = "bump", .run = bare_bump, .inputs = HS_NAMES("w"), .writes = HS_NAMES("w"));
    bare_open(b);
    bare_number(b, "bump");
    assert_true(w == 6);
}

static void references_to_missing_nodes_are_named(void **state)
{
    bare *b = *state;
    const struct {
        hs_op_def def;
        hs_code code;
        const char *says;
    } cases[] = {
        {HS_INIT(hs_op_def, .name = "op", .inputs = HS_NAMES("lost")), HS_NOT_FOUND, "op 'op': input 'lost' is not"},
        {HS_INIT(hs_op_def, .name = "op", .inputs = HS_NAMES("one:1")), HS_INVALID_ARGUMENT,
         "input 'one:1' does not exist: 'one' has 1 outputs"},
        {HS_INIT(hs_op_def, .name = "op", .inputs = HS_NAMES("one:x")), HS_INVALID_ARGUMENT, "'one:x'"},
        {HS_INIT(hs_op_def, .name = "op", .inputs = HS_NAMES("one:")), HS_INVALID_ARGUMENT, "'one:'"},
        {HS_INIT(hs_op_def, .name = "op", .inputs = HS_NAMES("one: 0")), HS_INVALID_ARGUMENT, "'one: 0'"},
        {HS_INIT(hs_op_def, .name = "op", .inputs = HS_NAMES("one:+0")), HS_INVALID_ARGUMENT, "'one:+0'"},
        {HS_INIT(hs_op_def, .name = "op", .inputs = HS_NAMES("one:-0")), HS_INVALID_ARGUMENT, "'one:-0'"},
        {HS_INIT(hs_op_def, .name = "op", .inputs = HS_NAMES("one:0 ")), HS_INVALID_ARGUMENT, "'one:0 '"},
        {HS_INIT(hs_op_def, .name = "op", .inputs = HS_NAMES("none")), HS_INVALID_ARGUMENT, "'none' has 0 outputs"},
        {HS_INIT(hs_op_def, .name = "op", .inputs = HS_NAMES("v:1")), HS_INVALID_ARGUMENT, "'v:1'"},
        {HS_INIT(hs_op_def, .name = "op", .control_inputs = HS_NAMES("lost")), HS_NOT_FOUND, "control input 'lost'"},
        {HS_INIT(hs_op_def, .name = "op", .control_inputs = HS_NAMES("v")), HS_NOT_FOUND, "'v' is not an op"},
        {HS_INIT(hs_op_def, .name = "op", .writes = HS_NAMES("lost")), HS_NOT_FOUND, "writes 'lost'"},
        {HS_INIT(hs_op_def, .name = "op", .writes = HS_NAMES("one")), HS_NOT_FOUND, "is not a variable or value"},
    };
    double v;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_graph *graph = hs_graph_new(&b->t.env);
        hs_graph_value(graph, "v", HS_DOUBLE, HS_SCALAR, &v);
        hs_graph_op(graph, .name = "one", .run = traced_one, .user = b, .outputs = BARE_SCALAR);
        hs_graph_op(graph, .name = "none", .run = bare_traced, .user = b);
        assert_int_equal(hs_graph_add_op(graph, &cases[i].def), HS_OK); /* the name may still be added */
        assert_null(hs_session_open(hs_graph_backend(graph), NULL, &b->err));
        assert_says(&b->err, cases[i].code, cases[i].says);
        hs_graph_free(graph);
    }
}

/* After the failed open, the missing node can be added. */
static void a_missing_name_may_be_added_after_a_failed_opening(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "train", .control_inputs = HS_NAMES("later"));
    assert_int_equal(bare_try_open(b), HS_NOT_FOUND);
    assert_int_equal(bare_op(b, .name = "later"), HS_OK);
    bare_open(b);
    assert_string_equal(executed(b, HS_NAMES("train")), "later train");
}

static void names_resolve_to_ops_and_outputs(void **state)
{
    bare *b = *state;
    hs_backend backend = hs_graph_backend(b->graph);
    hs_node bare_name, output, second;
    value_op(b, .name = "one");
    hs_graph_op(b->graph, .name = "two", .run = traced_one, .user = b,
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}, {.dtype = HS_INT64}));
    assert_ok(hs_backend_find(backend, "one", &bare_name, &b->err), &b->err);
    assert_ok(hs_backend_find(backend, "one:0", &output, &b->err), &b->err);
    assert_true(bare_name.op == output.op && bare_name.output == 0 && output.output == 0 && output.n_outputs == 1);
    assert_ok(hs_backend_find(backend, "two", &bare_name, &b->err), &b->err);
    assert_ok(hs_backend_find(backend, "two:1", &second, &b->err), &b->err);
    assert_true(bare_name.op == second.op && bare_name.output == -1 && second.output == 1 && second.n_outputs == 2);
}

static void a_tensor_is_checked_by_name(void **state)
{
    bare *b = *state;
    hs_backend backend = hs_graph_backend(b->graph);
    value_op(b, .name = "one");
    hs_graph_op(b->graph, .name = "two", .run = traced_one, .user = b,
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}, {.dtype = HS_INT64}));
    bare_op(b, .name = "none");
    assert_ok(hs_backend_check_tensor(backend, "one", &b->err), &b->err);
    assert_ok(hs_backend_check_tensor(backend, "two:1", &b->err), &b->err);
    assert_fails(hs_backend_check_tensor(backend, "two", &b->err), HS_INVALID_ARGUMENT, &b->err, "'two' has 2 outputs");
    assert_fails(hs_backend_check_tensor(backend, "none", &b->err), HS_INVALID_ARGUMENT, &b->err, "'none' is an op");
    assert_fails(hs_backend_check_tensor(backend, "lost", &b->err), HS_NOT_FOUND, &b->err, "lost");
}

static void a_global_step_is_checked(void **state)
{
    bare *b = *state;
    hs_backend backend = hs_graph_backend(b->graph);
    assert_fails(hs_backend_check_global_step(backend, &b->err), HS_FAILED_PRECONDITION, &b->err, "no global step");
    hs_graph_global_step(b->graph, NULL, NULL);
    assert_ok(hs_backend_check_global_step(backend, &b->err), &b->err);
}

static void unknown_names_are_not_found(void **state)
{
    bare *b = *state;
    hs_backend backend = hs_graph_backend(b->graph);
    hs_node node;
    value_op(b, .name = "one");
    bare_op(b, .name = "none");
    const char *const names[] = {"lost",
                                 "",
                                 ":0",
                                 "one:1",
                                 "one:-1",
                                 "one:x",
                                 "one:0x",
                                 "one:",
                                 "none:0",
                                 "lost:0",
                                 "one: 0",
                                 "one:\t0",
                                 "one:+0",
                                 "one:-0",
                                 "one:0 ",
                                 "one:4294967296",
                                 "one:18446744073709551616",
                                 "v: 0",
                                 "v:+0",
                                 "v:"};
    double v = 0;
    hs_graph_value(b->graph, "v", HS_DOUBLE, HS_SCALAR, &v);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_fails(hs_backend_find(backend, names[i], &node, &b->err), HS_NOT_FOUND, &b->err,
                     strchr(names[i], '\t') ? "one:\\x090" : names[i]);
}

static void a_similar_name_is_suggested(void **state)
{
    bare *b = *state;
    hs_backend backend = hs_graph_backend(b->graph);
    hs_node node;
    double value = 0;
    hs_graph_value(b->graph, "loss", HS_DOUBLE, HS_SCALAR, &value);
    hs_graph_value(b->graph, "eval/accuracy", HS_DOUBLE, HS_SCALAR, &value);
    assert_fails(hs_backend_find(backend, "los:0", &node, &b->err), HS_NOT_FOUND, &b->err,
                 "'los:0' is not in the graph; did you mean 'loss'?");
    assert_fails(hs_backend_find(backend, "accurate", &node, &b->err), HS_NOT_FOUND, &b->err,
                 "did you mean 'eval/accuracy'?");
    assert_fails(hs_backend_find(backend, "gradients", &node, &b->err), HS_NOT_FOUND, &b->err, "");
    assert_null(strstr(b->err.message, "did you mean"));
    assert_int_equal(hs_backend_find(backend, "los", &node, NULL), HS_NOT_FOUND);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(independent_ops_run_in_the_order_of_their_addition),
        test(inputs_and_control_inputs_run_first),
        test(unneeded_ops_are_not_executed),
        test(each_op_is_executed_once_a_run),
        test(a_group_executes_its_inputs),
        test(variables_and_values_need_no_op),
        test(a_long_chain_is_ordered_without_recursion),
        test(a_cycle_is_named),
        test(a_cycle_reached_from_other_ops_is_named),
        test(opening_checks_a_graph_that_is_not_finalized),
        test(an_op_that_depends_on_itself_is_named),
        test(an_op_may_read_a_variable_that_it_writes),
        test(references_to_missing_nodes_are_named),
        test(a_missing_name_may_be_added_after_a_failed_opening),
        test(names_resolve_to_ops_and_outputs),
        test(a_tensor_is_checked_by_name),
        test(a_global_step_is_checked),
        test(unknown_names_are_not_found),
        test(a_similar_name_is_suggested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
