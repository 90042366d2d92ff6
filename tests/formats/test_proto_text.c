/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the text format, and parsing it. */
#include "formats/messages.h"

#include "formats/proto_text.h"

#include "bundle.pb-c.h"
#include "checkpoint_state.pb-c.h"
#include "event.pb-c.h"
#include "graph.pb-c.h"
#include "run_metadata.pb-c.h"

#include <locale.h>
#include <math.h>

static void assert_text(const ProtobufCMessage *message, const char *expected)
{
    char *text = message_text(message);
    assert_string_equal(text, expected);
    free(text);
    assert_goes_round(message);
}

static void a_message_without_fields_is_an_empty_text(void **state)
{
    (void)state;
    Hs__Pb__CheckpointState message = HS__PB__CHECKPOINT_STATE__INIT;
    assert_text(&message.base, "");
}

static void a_checkpoint_state_is_as_tensorflow_writes_it(void **state)
{
    (void)state;
    Hs__Pb__CheckpointState message = HS__PB__CHECKPOINT_STATE__INIT;
    char *paths[] = {hs__proto_string("model.ckpt-5"), hs__proto_string("model.ckpt-10")};
    double times[] = {1.5, 1700000000.25};
    message.model_checkpoint_path = paths[1];
    message.all_model_checkpoint_paths = paths;
    message.n_all_model_checkpoint_paths = 2;
    message.all_model_checkpoint_timestamps = times;
    message.n_all_model_checkpoint_timestamps = 2;
    message.last_preserved_timestamp = times[0];
    assert_text(&message.base, "model_checkpoint_path: \"model.ckpt-10\"\n"
                               "all_model_checkpoint_paths: \"model.ckpt-5\"\n"
                               "all_model_checkpoint_paths: \"model.ckpt-10\"\n"
                               "all_model_checkpoint_timestamps: 1.5\n"
                               "all_model_checkpoint_timestamps: 1700000000.25\n"
                               "last_preserved_timestamp: 1.5\n");
}

static void nested_messages_are_indented(void **state)
{
    (void)state;
    ProtobufCMessage *message = message_of(&hs__pb__meta_graph_def__descriptor, meta_graph_text);
    assert_text(message, meta_graph_text);
    message_free(message);
}

static void defaults_are_omitted_except_in_a_oneof(void **state)
{
    (void)state;
    Hs__Pb__AttrValue value = HS__PB__ATTR_VALUE__INIT;
    Hs__Pb__SaverDef saver = HS__PB__SAVER_DEF__INIT;
    assert_text(&saver.base, "");
    value.value_case = HS__PB__ATTR_VALUE__VALUE_I;
    assert_text(&value.base, "i: 0\n");
    value.value_case = HS__PB__ATTR_VALUE__VALUE_B;
    assert_text(&value.base, "b: false\n");
    value.value_case = HS__PB__ATTR_VALUE__VALUE_TYPE;
    assert_text(&value.base, "type: DT_INVALID\n");
    value.value_case = HS__PB__ATTR_VALUE__VALUE_S;
    assert_text(&value.base, "s: \"\"\n");
}

static void defaults_in_lists_are_written(void **state)
{
    (void)state;
    Hs__Pb__AttrValue__ListValue list = HS__PB__ATTR_VALUE__LIST_VALUE__INIT;
    int64_t integers[2] = {0, 0};
    protobuf_c_boolean no = 0;
    list.n_i = 2;
    list.i = integers;
    list.n_b = 1;
    list.b = &no;
    assert_text(&list.base, "i: 0\ni: 0\nb: false\n");
}

static void empty_messages_are_written(void **state)
{
    (void)state;
    Hs__Pb__GraphDef graph = HS__PB__GRAPH_DEF__INIT;
    Hs__Pb__NodeDef node = HS__PB__NODE_DEF__INIT, *nodes[] = {&node, &node};
    Hs__Pb__VersionDef versions = HS__PB__VERSION_DEF__INIT;
    graph.n_node = 2;
    graph.node = nodes;
    graph.versions = &versions;
    assert_text(&graph.base, "node {\n}\nnode {\n}\nversions {\n}\n");
}

static void every_type_of_number_is_written_at_its_limits(void **state)
{
    (void)state;
    numbers_message low = {.base = PROTOBUF_C_MESSAGE_INIT(&numbers_descriptor)}, high = low;
    low.i32 = low.s32 = low.sf32 = INT32_MIN;
    low.i64 = low.s64 = low.sf64 = INT64_MIN;
    high.i32 = high.s32 = high.sf32 = INT32_MAX;
    high.i64 = high.s64 = high.sf64 = INT64_MAX;
    high.u32 = high.f32 = UINT32_MAX;
    high.u64 = high.f64 = UINT64_MAX;
    assert_text(&low.base, "i32: -2147483648\ns32: -2147483648\nsf32: -2147483648\n"
                           "i64: -9223372036854775808\ns64: -9223372036854775808\nsf64: -9223372036854775808\n");
    assert_text(&high.base, "i32: 2147483647\ns32: 2147483647\nsf32: 2147483647\n"
                            "i64: 9223372036854775807\ns64: 9223372036854775807\nsf64: 9223372036854775807\n"
                            "u32: 4294967295\nf32: 4294967295\n"
                            "u64: 18446744073709551615\nf64: 18446744073709551615\n");
}

static void enums_without_a_name_are_numbers(void **state)
{
    (void)state;
    Hs__Pb__SaverDef saver = HS__PB__SAVER_DEF__INIT;
    saver.version = HS__PB__SAVER_DEF__CHECKPOINT_FORMAT_VERSION__V1;
    assert_text(&saver.base, "version: V1\n");
    saver.version = (Hs__Pb__SaverDef__CheckpointFormatVersion)77;
    assert_text(&saver.base, "version: 77\n");
}

/* Real numbers. */

static void assert_float(float value, const char *text)
{
    Hs__Pb__SaverDef saver = HS__PB__SAVER_DEF__INIT;
    char expected[100];
    saver.keep_checkpoint_every_n_hours = value;
    snprintf(expected, sizeof expected, "keep_checkpoint_every_n_hours: %s\n", text);
    assert_text(&saver.base, expected);
}

static void floats_are_short(void **state)
{
    (void)state;
    assert_float(0.1f, "0.1");
    assert_float(-2.5f, "-2.5");
    assert_float(16777216.0f, "16777216");
    assert_float(1e10f, "1e+10");
    assert_float(-0.0f, "-0");
    assert_float(3.14159274f, "3.1415927");
    assert_float(INFINITY, "inf");
    assert_float(-INFINITY, "-inf");
    assert_float(NAN, "nan");
}

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static void every_double_comes_back(void **state)
{
    (void)state;
    enum { N = 2000 };
    static double times[N];
    uint64_t x = 42;
    for (size_t i = 0; i < N; i++) {
        do {
            uint64_t bits = next_random(&x);
            memcpy(&times[i], &bits, sizeof bits);
        } while (isnan(times[i])); /* the text does not keep the payload of a NaN */
    }
    times[0] = 5e-324;
    times[1] = -1.7976931348623157e308;
    times[2] = -0.0;
    Hs__Pb__CheckpointState message = HS__PB__CHECKPOINT_STATE__INIT;
    message.n_all_model_checkpoint_timestamps = N;
    message.all_model_checkpoint_timestamps = times;
    assert_goes_round(&message.base);
}

static void every_float_comes_back(void **state)
{
    (void)state;
    enum { N = 2000 };
    static float values[N];
    uint64_t x = 7;
    for (size_t i = 0; i < N; i++) {
        do {
            uint32_t bits = (uint32_t)next_random(&x);
            memcpy(&values[i], &bits, sizeof bits);
        } while (isnan(values[i]));
    }
    values[0] = 1e-45f;
    values[1] = -3.40282347e38f;
    Hs__Pb__AttrValue__ListValue list = HS__PB__ATTR_VALUE__LIST_VALUE__INIT;
    list.n_f = N;
    list.f = values;
    assert_goes_round(&list.base);
}

/* The program may have set the locale of its user. */
static void numbers_have_a_point_in_every_locale(void **state)
{
    (void)state;
    if (!test_use_comma())
        test_skip("localedef is missing");
    Hs__Pb__CheckpointState message = HS__PB__CHECKPOINT_STATE__INIT;
    message.last_preserved_timestamp = 1700000000.25;
    char *text = message_text(&message.base);
    assert_string_equal(text, "last_preserved_timestamp: 1700000000.25\n");
    free(text);
    assert_goes_round(&message.base);
    assert_float(0.1f, "0.1");
    setlocale(LC_ALL, "C");
}

/* Strings. */

static void bytes_of_every_value_come_back(void **state)
{
    (void)state;
    unsigned char all[512];
    for (size_t i = 0; i < sizeof all; i++) /* all bytes twice, with different neighbors */
        all[i] = (unsigned char)(i < 256 ? i : 3 * i);
    Hs__Pb__AttrValue value = HS__PB__ATTR_VALUE__INIT;
    value.value_case = HS__PB__ATTR_VALUE__VALUE_S;
    value.s = (ProtobufCBinaryData){sizeof all, all};
    assert_goes_round(&value.base);
}

static void strings_of_every_value_come_back(void **state)
{
    (void)state;
    char all[256];
    for (size_t i = 0; i < 255; i++)
        all[i] = (char)(i + 1);
    all[255] = '\0';
    Hs__Pb__CheckpointState message = HS__PB__CHECKPOINT_STATE__INIT;
    message.model_checkpoint_path = all;
    assert_goes_round(&message.base);
}

static void strings_are_escaped(void **state)
{
    (void)state;
    Hs__Pb__SessionLog log = HS__PB__SESSION_LOG__INIT;
    log.msg = hs__proto_string("a\n\r\t\"'\\\x01\x7f\xc3\xa4 7");
    assert_text(&log.base, "msg: \"a\\n\\r\\t\\\"\\'\\\\\\001\\177\\303\\244 7\"\n");
    log.msg = hs__proto_string("\x01"
                               "1\xff"
                               "9"); /* a digit after an escape */
    assert_text(&log.base, "msg: \"\\0011\\3779\"\n");
}

/* Memory. */

static hs_code write_and_check(test_env *t, void *user)
{
    hs__buffer buffer;
    hs__buffer_init(&buffer, &t->env);
    hs__proto_text(user, &buffer);
    hs_code code = hs__buffer_check(&buffer, "text", NULL);
    hs__buffer_free(&buffer);
    assert_true(code || !t->fail_alloc_at || t->allocations < t->fail_alloc_at); /* no failure is lost */
    return code;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    ProtobufCMessage *message = message_of(&hs__pb__meta_graph_def__descriptor, meta_graph_text);
    test_each_allocation(write_and_check, message);
    message_free(message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_without_fields_is_an_empty_text),
        cmocka_unit_test(a_checkpoint_state_is_as_tensorflow_writes_it),
        cmocka_unit_test(nested_messages_are_indented),
        cmocka_unit_test(defaults_are_omitted_except_in_a_oneof),
        cmocka_unit_test(defaults_in_lists_are_written),
        cmocka_unit_test(empty_messages_are_written),
        cmocka_unit_test(every_type_of_number_is_written_at_its_limits),
        cmocka_unit_test(enums_without_a_name_are_numbers),
        cmocka_unit_test(floats_are_short),
        cmocka_unit_test(every_double_comes_back),
        cmocka_unit_test(every_float_comes_back),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
        cmocka_unit_test(bytes_of_every_value_come_back),
        cmocka_unit_test(strings_of_every_value_come_back),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
