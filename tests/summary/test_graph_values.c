/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of summary ops: each has the same output as the function for such values. */
#include "backends/bare.h"

#include <hooksess/summary_values.h>

/* Asserts that the op's output has the bytes of `expected`, and frees `expected`. */
static void assert_gives(bare *b, const char *name, hs_summary *expected)
{
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES(name), NULL, NULL), &b->err);
    const hs_string *given = b->values[0].data;
    hs_string wanted = hs_summary_serialized(expected);
    assert_int_equal(given->bytes, wanted.bytes);
    assert_memory_equal(given->data, wanted.data, wanted.bytes);
    hs_summary_free(expected);
}

static hs_tensor add_value(bare *b, hs_dtype dtype, hs_shape shape, void *data)
{
    hs_graph_value(b->graph, "value", dtype, shape, data);
    return hs_tensor_of(dtype, shape, data);
}

static void a_histogram(void **state)
{
    bare *b = *state;
    float data[4] = {1, -2, 3.5F, 0};
    hs_summary *expected = hs_summary_new(NULL);
    hs_tensor value = add_value(b, HS_FLOAT, HS_SHAPE(2, 2), data);
    hs_graph_summary(b->graph, HS_SUMMARY_HISTOGRAM, .name = "weights", .tensor = "value");
    assert_ok(hs_summary_histogram(expected, "weights", &value, &b->err), &b->err);
    assert_gives(b, "summary/weights", expected);
}

static void an_image(void **state)
{
    bare *b = *state;
    uint8_t data[5 * 2 * 2] = {0, 50, 100, 150, 200, 250};
    hs_summary *expected = hs_summary_new(NULL);
    hs_tensor value = add_value(b, HS_UINT8, HS_SHAPE(5, 2, 2, 1), data);
    hs_graph_summary(b->graph, HS_SUMMARY_IMAGE, .name = "input", .tensor = "value", .max_outputs = 2);
    const hs_image_options options = HS_INIT(hs_image_options, .max_outputs = 2);
    assert_ok(hs_summary_image(expected, "input", &value, &options, &b->err), &b->err);
    assert_gives(b, "summary/input", expected);
}

static void sound(void **state)
{
    bare *b = *state;
    float data[3 * 8] = {0, 0.5F, -0.5F};
    hs_summary *expected = hs_summary_new(NULL);
    hs_tensor value = add_value(b, HS_FLOAT, HS_SHAPE(3, 8, 1), data);
    hs_graph_summary(b->graph, HS_SUMMARY_AUDIO, .name = "voice", .tensor = "value", .max_outputs = 1, .sample_rate = 8000);
    const hs_audio_options options = HS_INIT(hs_audio_options, .max_outputs = 1, .sample_rate = 8000);
    assert_ok(hs_summary_audio(expected, "voice", &value, &options, &b->err), &b->err);
    assert_gives(b, "summary/voice", expected);
}

static void text(void **state)
{
    bare *b = *state;
    hs_string words[2] = {{"one", 3}, {"two", 3}};
    hs_summary *expected = hs_summary_new(NULL);
    hs_tensor value = add_value(b, HS_STRING, HS_SHAPE(2), words);
    hs_graph_summary(b->graph, HS_SUMMARY_TEXT, .name = "words", .tensor = "value");
    assert_ok(hs_summary_text_tensor(expected, "words", &value, &b->err), &b->err);
    assert_gives(b, "summary/words", expected);
}

static void a_tensor(void **state)
{
    bare *b = *state;
    int64_t data[3] = {1, 2, 3};
    hs_summary *expected = hs_summary_new(NULL);
    hs_tensor value = add_value(b, HS_INT64, HS_SHAPE(3), data);
    hs_graph_summary(b->graph, HS_SUMMARY_TENSOR, .name = "numbers", .tensor = "value");
    assert_ok(hs_summary_tensor(expected, "numbers", &value, NULL, &b->err), &b->err);
    assert_gives(b, "summary/numbers", expected);
}

static void an_invalid_tensor_is_reported_with_the_ops_name(void **state)
{
    bare *b = *state;
    static double number;
    add_value(b, HS_DOUBLE, HS_SCALAR, &number);
    hs_graph_summary(b->graph, HS_SUMMARY_IMAGE, .name = "input", .tensor = "value");
    bare_open(b);
    assert_fails(bare_run(b, HS_NAMES("summary/input"), NULL, NULL), HS_INVALID_ARGUMENT, &b->err, "op 'summary/input'");
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_histogram), test(an_image), test(sound),
        test(text),        test(a_tensor), test(an_invalid_tensor_is_reported_with_the_ops_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
