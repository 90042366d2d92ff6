/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/bare.h"

static hs_code read_step(bare *b, int64_t *step)
{
    return b->ops->global_step(b->session, step, &b->err);
}

static int64_t step_of(bare *b)
{
    int64_t step = -1;
    assert_ok(read_step(b, &step), &b->err);
    return step;
}

/* Opens a session and runs the init op. */
static void open_initialized(bare *b)
{
    bare_open(b);
    bare_number(b, "init");
}

static void variables_and_values_are_read_after_all_ops(void **state)
{
    bare *b = *state;
    double w = 1, loss = 10;
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    hs_graph_value(b->graph, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_graph_op(b->graph, .name = "up_w", .run = bare_bump, .writes = HS_NAMES("w"));
    hs_graph_op(b->graph, .name = "up_loss", .run = bare_bump, .writes = HS_NAMES("loss"));
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("loss", "w", "up_w", "up_loss"), NULL, NULL), &b->err);
    assert_true(hs_tensor_number(&b->values[0], 0) == 11);
    assert_true(hs_tensor_number(&b->values[1], 0) == 2);
    assert_null(b->values[2].data);
}

static void a_successful_run_advances_the_step(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "train", .advances_step = true);
    bare_op(b, .name = "look");
    open_initialized(b);
    assert_int_equal(step_of(b), 0);
    bare_number(b, "train");
    bare_number(b, "look");
    assert_int_equal(step_of(b), 1);
    assert_ok(bare_run(b, HS_NAMES("global_step", "train"), NULL, NULL), &b->err);
    assert_true(hs_tensor_number(&b->values[0], 0) == 2);
}

static void a_group_may_advance_the_step(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "optimize");
    hs_graph_op(b->graph, .name = "train", .control_inputs = HS_NAMES("optimize"), .advances_step = true);
    open_initialized(b);
    bare_number(b, "train");
    assert_int_equal(step_of(b), 1);
}

static void a_failing_op_ends_the_run(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "train", .advances_step = true);
    hs_graph_op(b->graph, .name = "bad", .run = bare_fail);
    bare_op(b, .name = "late");
    open_initialized(b);
    assert_fails(bare_run(b, HS_NAMES("late", "bad", "train"), NULL, NULL), HS_ABORTED, &b->err, "op 'bad': no luck");
    assert_string_equal(b->trace, "train");
    assert_int_equal(step_of(b), 1); /* its op has run */
}

static void an_op_that_was_not_reached_does_not_advance_the_step(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "bad", .run = bare_fail);
    bare_op(b, .name = "train", .advances_step = true);
    open_initialized(b);
    assert_int_equal(bare_run(b, HS_NAMES("train", "bad"), NULL, NULL), HS_ABORTED);
    assert_int_equal(step_of(b), 0);
}

static hs_code fail_wordlessly(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op, (void)err;
    return HS_USER + 1;
}

static void an_op_that_fails_without_a_message_is_named(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "bad", .run = fail_wordlessly);
    bare_open(b);
    assert_fails(bare_run(b, HS_NAMES("bad"), NULL, NULL), HS_USER + 1, &b->err, "op 'bad': its function failed with USER");
}

/* The function's `err` is NULL. */
static void an_op_may_fail_in_a_run_without_err(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "bad", .run = bare_fail);
    bare_open(b);
    hs_node node;
    assert_ok(b->ops->find(b->graph, "bad", &node, &b->err), &b->err);
    hs_backend_call call = {.size = sizeof call, .fetches = &node, .n_fetches = 1, .values = b->values};
    assert_int_equal(b->ops->run(b->session, &call, NULL), HS_ABORTED);
}

static hs_code forget_output(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op, (void)err;
    return HS_OK;
}

static void an_output_that_was_not_set_fails_the_run(void **state)
{
    bare *b = *state;
    const hs_output_def kinds[] = {{HS_DOUBLE, 0, HS_ANY_SHAPE, NULL, NULL},
                                   {HS_DOUBLE, 0, HS_SHAPE(-1), NULL, NULL},
                                   {HS_STRING, 0, HS_SCALAR, NULL, NULL},
                                   {HS_STRING, 0, HS_SHAPE(-1, 2), NULL, NULL}};
    char name[16];
    bare_op(b, .name = "train", .advances_step = true);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "lazy%d", i);
        hs_graph_op(b->graph, .name = name, .run = forget_output, .outputs = (hs_output_def[]){kinds[i], {HS_DTYPE_NONE}});
    }
    open_initialized(b);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "lazy%d", i);
        assert_fails(bare_run(b, HS_NAMES("train", name), NULL, NULL), HS_INTERNAL, &b->err, "did not set its output 0");
        assert_contains(b->err.message, name);
    }
}

static hs_code set_once(void *self, hs_op *op, hs_error *err)
{
    static const double values[2] = {1, 2};
    bool *done = self;
    hs_tensor view = hs_tensor_of(HS_DOUBLE, HS_SHAPE(2), values);
    if (*done)
        return HS_OK;
    *done = true;
    return hs_op_set_output(op, 0, &view, err);
}

/* The data of a view may be freed after the run. */
static void a_view_is_valid_for_one_run(void **state)
{
    bare *b = *state;
    bool done = false;
    hs_graph_op(b->graph, .name = "lazy", .run = set_once, .user = &done,
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_SHAPE(-1)}));
    bare_op(b, .name = "reader", .inputs = HS_NAMES("lazy"));
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("reader", "lazy"), NULL, NULL), &b->err);
    assert_fails(bare_run(b, HS_NAMES("lazy"), NULL, NULL), HS_INTERNAL, &b->err, "op 'lazy' did not set its output 0");
    assert_fails(bare_run(b, HS_NAMES("reader"), NULL, NULL), HS_INTERNAL, &b->err, "which op 'reader' reads");
}

static hs_code set_output(void *self, hs_op *op, hs_error *err)
{
    return hs_op_set_output(op, 0, self, err);
}

static void an_output_without_elements_need_not_be_set(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "empty", .run = forget_output,
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_SHAPE(3, 0)}));
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("empty"), NULL, NULL), &b->err);
    assert_int_equal(b->values[0].rank, 2);
    assert_int_equal(b->values[0].bytes, 0);
}

static void an_open_output_is_a_view_set_each_time(void **state)
{
    bare *b = *state;
    double numbers[] = {1, 2, 3};
    hs_tensor view = hs_tensor_of(HS_DOUBLE, HS_SHAPE(2), numbers);
    hs_graph_op(b->graph, .name = "batch", .run = set_output, .user = &view,
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_SHAPE(-1)}));
    bare_open(b);
    bare_number(b, "batch");
    assert_ptr_equal(b->values[0].data, numbers);
    assert_int_equal(b->values[0].dims[0], 2);
    view = hs_tensor_of(HS_DOUBLE, HS_SHAPE(1), numbers + 2);
    assert_true(bare_number(b, "batch") == 3);
}

static void a_view_that_does_not_fit_is_refused(void **state)
{
    bare *b = *state;
    double numbers[4] = {0};
    hs_tensor view;
    hs_graph_op(b->graph, .name = "batch", .run = set_output, .user = &view,
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_SHAPE(-1, 2)}));
    bare_open(b);
    const hs_tensor bad[] = {
        hs_tensor_of(HS_INT64, HS_SHAPE(2, 2), numbers),
        hs_tensor_of(HS_DOUBLE, HS_SHAPE(4), numbers),
        hs_tensor_of(HS_DOUBLE, HS_SHAPE(1, 3), numbers),
        hs_tensor_of(HS_DOUBLE, HS_SHAPE(2, 2), NULL),
        {.data = numbers, .bytes = 8, .dtype = HS_DOUBLE, .rank = 2, .dims = {2, 2}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        view = bad[i];
        assert_fails(bare_run(b, HS_NAMES("batch"), NULL, NULL), HS_INVALID_ARGUMENT, &b->err, "op 'batch'");
    }
    view = hs_tensor_of(HS_DOUBLE, HS_SHAPE(2, 2), numbers);
    assert_ok(bare_run(b, HS_NAMES("batch"), NULL, NULL), &b->err);
}

static void an_output_with_memory_cannot_be_set(void **state)
{
    bare *b = *state;
    double own = 7, other = 8;
    hs_tensor view = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &other);
    hs_graph_op(b->graph, .name = "loss", .run = set_output, .user = &view,
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .data = &own}));
    bare_open(b);
    assert_fails(bare_run(b, HS_NAMES("loss"), NULL, NULL), HS_INVALID_ARGUMENT, &b->err, "has its own memory");
}

static void an_output_in_the_programs_memory_is_fetched_there(void **state)
{
    bare *b = *state;
    double loss = 0, x = 4;
    hs_graph_value(b->graph, "x", HS_DOUBLE, HS_SCALAR, &x);
    hs_graph_op(b->graph, .name = "loss", .run = bare_add_one, .inputs = HS_NAMES("x"),
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .data = &loss}));
    bare_open(b);
    assert_true(bare_number(b, "loss") == 5 && loss == 5);
    assert_ptr_equal(b->values[0].data, &loss);
}

static hs_code look_around(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    bare *b = self;
    assert_int_equal(hs_op_global_step(op, NULL), 1);
    assert_string_equal(hs_op_name(op), "look");
    assert_true(hs_tensor_number(hs_op_input(op, 0), 0) == 3);
    assert_null(hs_op_input(op, 1));
    assert_int_equal(hs_op_output(op, 1)->dtype, HS_INT64);
    assert_int_equal(hs_op_output(op, 1)->bytes, 16);
    assert_null(hs_op_output(op, 2));
    assert_int_equal(hs_op_written(op, 0)->bytes, 8);
    assert_null(hs_op_written(op, 1));
    assert_int_equal(hs_op_set_output(op, 2, hs_op_input(op, 0), &b->err), HS_INVALID_ARGUMENT);
    return HS_OK;
}

static void an_op_sees_its_inputs_outputs_and_the_step_before(void **state)
{
    bare *b = *state;
    double x = 3;
    hs_graph_value(b->graph, "x", HS_DOUBLE, HS_SCALAR, &x);
    hs_graph_op(b->graph, .name = "look", .run = look_around, .user = b, .inputs = HS_NAMES("x"), .writes = HS_NAMES("x"),
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}, {.dtype = HS_INT64, .shape = HS_SHAPE(2)}),
                .advances_step = true);
    bare_op(b, .name = "train", .advances_step = true);
    open_initialized(b);
    bare_number(b, "train");
    bare_number(b, "look:1");
    assert_int_equal(step_of(b), 2);
}

static hs_code wait(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    test_env_advance(self, 0.5);
    return HS_OK;
}

static void a_run_that_takes_too_long_fails(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "slow", .run = wait, .user = &b->t);
    hs_graph_op(b->graph, .name = "slower", .run = wait, .user = &b->t, .advances_step = true,
                .control_inputs = HS_NAMES("slow"));
    bare_op(b, .name = "late", .control_inputs = HS_NAMES("slower"));
    open_initialized(b);
    hs_run_options options = HS_INIT(hs_run_options, .timeout_secs = 0.999);
    assert_fails(bare_run(b, HS_NAMES("late"), NULL, &options), HS_DEADLINE_EXCEEDED, &b->err, "timeout_secs (0.999 s)");
    assert_contains(b->err.message, "'slower'");
    assert_int_equal(step_of(b), 1);
    assert_string_equal(b->trace, "");
    options.timeout_secs = 1;
    assert_ok(bare_run(b, HS_NAMES("late"), NULL, &options), &b->err);
    assert_int_equal(step_of(b), 2);
}

static void a_timeout_of_zero_or_infinity_does_not_end_a_run(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "slow", .run = wait, .user = &b->t);
    bare_open(b);
    const double none[] = {0, HS_NEVER, 1e300};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        hs_run_options options = HS_INIT(hs_run_options, .timeout_secs = none[i]);
        assert_ok(bare_run(b, HS_NAMES("slow"), NULL, &options), &b->err);
    }
}

static void a_finalized_graph_refuses_additions(void **state)
{
    bare *b = *state;
    double x;
    bare_open(b);
    assert_true(hs_backend_finalized(hs_graph_backend(b->graph)));
    assert_int_equal(bare_op(b, .name = "op"), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_graph_value(b->graph, "value", HS_DOUBLE, HS_SCALAR, &x), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_graph_variable(b->graph, "variable", HS_DOUBLE, HS_SCALAR, &x), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_graph_placeholder(b->graph, "x", HS_DOUBLE, HS_SCALAR), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_graph_global_step(b->graph, NULL, NULL), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_graph_collect(b->graph, HS_SUMMARY_OP, "x"), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_graph_state(b->graph, "x", NULL, NULL, NULL), HS_FAILED_PRECONDITION);
    assert_false(test_graph_has(b->graph, "op"));
    assert_int_equal(hs_graph_error(b->graph, NULL), HS_OK); /* the graph has no error */
    assert_contains(
        b->t.log,
        "cannot add op 'op': the graph is finalized, it has an open session, or a thread of a session still runs");
}

/* More ops than bits in one word of hs__graph_session.needed. */
static void many_ops_run_in_one_graph(void **state)
{
    bare *b = *state;
    double total = 0;
    char name[16];
    hs_graph_value(b->graph, "total", HS_DOUBLE, HS_SCALAR, &total);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "op%d", i);
        hs_graph_op(b->graph, .name = name, .run = bare_bump, .writes = HS_NAMES("total"));
    }
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("op0", "op63", "op64", "op127", "op128", "op199"), NULL, NULL), &b->err);
    assert_true(total == 6);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(variables_and_values_are_read_after_all_ops),
        test(a_successful_run_advances_the_step),
        test(a_group_may_advance_the_step),
        test(a_failing_op_ends_the_run),
        test(an_op_that_was_not_reached_does_not_advance_the_step),
        test(an_op_that_fails_without_a_message_is_named),
        test(an_op_may_fail_in_a_run_without_err),
        test(an_output_that_was_not_set_fails_the_run),
        test(a_view_is_valid_for_one_run),
        test(an_output_without_elements_need_not_be_set),
        test(an_open_output_is_a_view_set_each_time),
        test(a_view_that_does_not_fit_is_refused),
        test(an_output_with_memory_cannot_be_set),
        test(an_output_in_the_programs_memory_is_fetched_there),
        test(an_op_sees_its_inputs_outputs_and_the_step_before),
        test(a_run_that_takes_too_long_fails),
        test(a_timeout_of_zero_or_infinity_does_not_end_a_run),
        test(a_finalized_graph_refuses_additions),
        test(many_ops_run_in_one_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
