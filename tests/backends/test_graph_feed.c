/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/bare.h"

static hs_tensor scalar(const double *value)
{
    return hs_tensor_of(HS_DOUBLE, HS_SCALAR, value);
}

static const double fifty_one = 51, two = 2;

/* Adds the placeholder "x" and the op "more", which returns x + 1. */
static void add_placeholder(bare *b)
{
    hs_graph_placeholder(b->graph, "x", HS_DOUBLE, HS_SCALAR);
    hs_graph_op(b->graph, .name = "more", .run = bare_add_one, .inputs = HS_NAMES("x"), .outputs = BARE_SCALAR);
}

static void a_fed_value_is_fetched_and_read(void **state)
{
    bare *b = *state;
    add_placeholder(b);
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("x", "more"), HS_FEEDS({"x", scalar(&fifty_one)}), NULL), &b->err);
    assert_ptr_equal(b->values[0].data, &fifty_one);
    assert_true(hs_tensor_number(&b->values[1], 0) == 52);
}

static void a_feed_is_valid_for_one_run(void **state)
{
    bare *b = *state;
    add_placeholder(b);
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("more"), HS_FEEDS({"x", scalar(&two)}), NULL), &b->err);
    assert_fails(bare_run(b, HS_NAMES("more"), NULL, NULL), HS_INVALID_ARGUMENT, &b->err,
                 "placeholder 'x' must be fed; op 'more' needs it");
    assert_fails(bare_run(b, HS_NAMES("x"), NULL, NULL), HS_INVALID_ARGUMENT, &b->err, "it is fetched");
}

static void an_unneeded_placeholder_need_not_be_fed(void **state)
{
    bare *b = *state;
    add_placeholder(b);
    bare_op(b, .name = "other");
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("other"), NULL, NULL), &b->err);
}

/* Dtype, rank and dimensions must be those of the placeholder. */
static void a_feed_that_does_not_fit_is_refused(void **state)
{
    bare *b = *state;
    double numbers[6] = {0};
    hs_graph_placeholder(b->graph, "x", HS_DOUBLE, HS_SHAPE(-1, 3));
    bare_open(b);
    const struct {
        hs_tensor value;
        const char *says;
    } cases[] = {
        {hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), numbers), "'x' is double [-1,3], but was fed with float [2,3]"},
        {hs_tensor_of(HS_DOUBLE, HS_SHAPE(2, 2), numbers), "was fed with double [2,2]"},
        {hs_tensor_of(HS_DOUBLE, HS_SHAPE(6), numbers), "was fed with double [6]"},
        {hs_tensor_of(HS_DOUBLE, HS_SHAPE(2, 3), NULL), "cannot feed 'x': the tensor of shape [2,3] has no data"},
        {{.data = numbers, .bytes = 8, .dtype = HS_DOUBLE, .rank = 2, .dims = {2, 3}}, "has 48 bytes, but bytes is 8"},
        {{.data = numbers, .bytes = 8, .dtype = (hs_dtype)77}, "dtype is 77"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(bare_run(b, HS_NAMES("x"), HS_FEEDS({"x", cases[i].value}), NULL), HS_INVALID_ARGUMENT, &b->err,
                     cases[i].says);
    assert_ok(bare_run(b, HS_NAMES("x"), HS_FEEDS({"x", hs_tensor_of(HS_DOUBLE, HS_SHAPE(2, 3), numbers)}), NULL), &b->err);
}

static void a_placeholder_of_unknown_shape_accepts_any_shape(void **state)
{
    bare *b = *state;
    double numbers[6] = {0};
    hs_graph_placeholder(b->graph, "x", HS_DOUBLE, HS_ANY_SHAPE);
    bare_open(b);
    const hs_shape shapes[] = {HS_SCALAR, HS_SHAPE(6), HS_SHAPE(2, 3), HS_SHAPE(0)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        hs_tensor value = hs_tensor_of(HS_DOUBLE, shapes[i], numbers);
        assert_ok(bare_run(b, HS_NAMES("x"), HS_FEEDS({"x", value}), NULL), &b->err);
        assert_int_equal(b->values[0].rank, shapes[i].rank);
    }
}

static void the_op_of_a_fed_output_is_not_executed(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "bad", .run = bare_fail, .outputs = BARE_SCALAR);
    hs_graph_op(b->graph, .name = "more", .run = bare_add_one, .inputs = HS_NAMES("bad"), .outputs = BARE_SCALAR);
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("bad", "more"), HS_FEEDS({"bad", scalar(&two)}), NULL), &b->err);
    assert_true(hs_tensor_number(&b->values[0], 0) == 2);
    assert_true(hs_tensor_number(&b->values[1], 0) == 3);
}

static hs_code two_outputs(void *self, hs_op *op, hs_error *err)
{
    *(double *)hs_op_output(op, 0)->data = 10;
    *(double *)hs_op_output(op, 1)->data = 20;
    return bare_traced(self, op, err);
}

/* One output is fed, the op computes the other: the feed is not overwritten. */
static void a_feed_replaces_the_output_of_an_executed_op(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "pair", .run = two_outputs, .user = b,
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}, {.dtype = HS_DOUBLE}));
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("pair:0", "pair:1"), HS_FEEDS({"pair:0", scalar(&two)}), NULL), &b->err);
    assert_string_equal(b->trace, "pair");
    assert_true(hs_tensor_number(&b->values[0], 0) == 2);
    assert_true(hs_tensor_number(&b->values[1], 0) == 20);
}

static void a_fed_output_is_checked_against_its_definition(void **state)
{
    bare *b = *state;
    int64_t one = 1;
    hs_graph_op(b->graph, .name = "bad", .run = bare_fail, .outputs = BARE_SCALAR);
    bare_op(b, .name = "train");
    bare_open(b);
    hs_tensor wrong = hs_tensor_of(HS_INT64, HS_SCALAR, &one);
    assert_fails(bare_run(b, HS_NAMES("bad"), HS_FEEDS({"bad", wrong}), NULL), HS_INVALID_ARGUMENT, &b->err, "is double");
    assert_fails(bare_run(b, HS_NAMES("bad"), HS_FEEDS({"train", wrong}), NULL), HS_INVALID_ARGUMENT, &b->err,
                 "cannot feed op 'train'");
}

/* A run reads the feed instead of the variable, which does not change. */
static void a_fed_variable_hides_its_memory(void **state)
{
    bare *b = *state;
    double w = 5;
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    hs_graph_op(b->graph, .name = "more", .run = bare_add_one, .inputs = HS_NAMES("w"), .outputs = BARE_SCALAR);
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("w", "more"), HS_FEEDS({"w", scalar(&two)}), NULL), &b->err);
    assert_true(hs_tensor_number(&b->values[0], 0) == 2 && hs_tensor_number(&b->values[1], 0) == 3);
    assert_true(bare_number(b, "w") == 5);
}

static void strings_are_fed(void **state)
{
    bare *b = *state;
    const hs_string words[] = {{"one", 3}, {"", 0}};
    hs_graph_placeholder(b->graph, "words", HS_STRING, HS_SHAPE(-1));
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("words"), HS_FEEDS({"words", hs_tensor_of(HS_STRING, HS_SHAPE(2), words)}), NULL),
              &b->err);
    const hs_string *got = b->values[0].data;
    assert_int_equal(b->values[0].dims[0], 2);
    assert_memory_equal(got[0].data, "one", 3);
}

static void several_feeds_are_read(void **state)
{
    bare *b = *state;
    const double a = 5, c = 20, d = 10;
    for (const char *const *name = HS_NAMES("a", "b", "c"); *name; name++)
        hs_graph_placeholder(b->graph, *name, HS_DOUBLE, HS_SCALAR);
    hs_graph_op(b->graph, .name = "sum", .run = bare_sum, .inputs = HS_NAMES("a", "b", "c"), .outputs = BARE_SCALAR);
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("sum"), HS_FEEDS({"a", scalar(&a)}, {"c", scalar(&c)}, {"b", scalar(&d)}), NULL),
              &b->err);
    assert_true(hs_tensor_number(&b->values[0], 0) == 35);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_fed_value_is_fetched_and_read),
        test(a_feed_is_valid_for_one_run),
        test(an_unneeded_placeholder_need_not_be_fed),
        test(a_feed_that_does_not_fit_is_refused),
        test(a_placeholder_of_unknown_shape_accepts_any_shape),
        test(the_op_of_a_fed_output_is_not_executed),
        test(a_feed_replaces_the_output_of_an_executed_op),
        test(a_fed_output_is_checked_against_its_definition),
        test(a_fed_variable_hides_its_memory),
        test(strings_are_fed),
        test(several_feeds_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
