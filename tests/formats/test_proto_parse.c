/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing the text format: accepted text, refused text, and the reported line. */
#include "formats/messages.h"

#include "formats/proto_text.h"

#include "checkpoint_state.pb-c.h"
#include "event.pb-c.h"
#include "graph.pb-c.h"

#include <math.h>

#define CHECKPOINT (&hs__pb__checkpoint_state__descriptor)
#define ATTR       (&hs__pb__attr_value__descriptor)
#define LIST       (&hs__pb__attr_value__list_value__descriptor)
#define GRAPH      (&hs__pb__graph_def__descriptor)
#define LOG        (&hs__pb__session_log__descriptor)
#define SAVER      (&hs__pb__saver_def__descriptor)
#define META       (&hs__pb__meta_graph_def__descriptor)

/* A text, and the same message in the form that is written. */
typedef struct {
    const ProtobufCMessageDescriptor *of;
    const char *text, *written;
} form;

static void assert_forms(const form *forms, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ProtobufCMessage *message = message_of(forms[i].of, forms[i].text);
        char *written = message_text(message);
        assert_string_equal(written, forms[i].written);
        free(written);
        message_free(message);
    }
}
#define ASSERT_FORMS(forms) assert_forms(forms, sizeof forms / sizeof *forms)

static void blanks_and_comments_are_skipped(void **state)
{
    (void)state;
    static const form forms[] = {
        {CHECKPOINT, "", ""},
        {CHECKPOINT, " \t\r\n", ""},
        {CHECKPOINT, "# only a comment", ""},
        {CHECKPOINT, "# \"{[ \nmodel_checkpoint_path # here\n:# there\n\"a\"#", "model_checkpoint_path: \"a\"\n"},
        {CHECKPOINT, "model_checkpoint_path:\"a\"", "model_checkpoint_path: \"a\"\n"},
        {CHECKPOINT, "model_checkpoint_path : \"a # b\"\r\n", "model_checkpoint_path: \"a # b\"\n"},
        {GRAPH, "node{name:\"a\"op:\"b\"}node{}", "node {\n  name: \"a\"\n  op: \"b\"\n}\nnode {\n}\n"},
    };
    ASSERT_FORMS(forms);
}

static void messages_have_several_brackets_and_separators(void **state)
{
    (void)state;
    static const form forms[] = {
        {GRAPH, "versions: { producer: 1 }", "versions {\n  producer: 1\n}\n"},
        {GRAPH, "versions < producer: 1 >", "versions {\n  producer: 1\n}\n"},
        {GRAPH, "versions: <producer: 1, min_consumer: 2;>;", "versions {\n  producer: 1\n  min_consumer: 2\n}\n"},
        {LOG, "status: START, msg: \"m\"; checkpoint_path: \"p\",", "status: START\ncheckpoint_path: \"p\"\nmsg: \"m\"\n"},
    };
    ASSERT_FORMS(forms);
}

static void lists_may_be_short(void **state)
{
    (void)state;
    static const form forms[] = {
        {LIST, "i: [1, -2,3 ]", "i: 1\ni: -2\ni: 3\n"},
        {LIST, "i: [] i: 4 i: [5]", "i: 4\ni: 5\n"},
        {LIST, "s: [\"a\" \"b\", 'c']", "s: \"ab\"\ns: \"c\"\n"},
        {LIST, "type: [DT_FLOAT, 9] b: [true, f]", "b: true\nb: false\ntype: DT_FLOAT\ntype: DT_INT64\n"},
        {GRAPH, "node [{name: 'a'}, <name: 'b'>]", "node {\n  name: \"a\"\n}\nnode {\n  name: \"b\"\n}\n"},
        {GRAPH, "node: []", ""},
    };
    ASSERT_FORMS(forms);
}

static void strings_have_two_quotes_and_may_be_continued(void **state)
{
    (void)state;
    static const form forms[] = {
        {LOG, "msg: 'it is \"so\"'", "msg: \"it is \\\"so\\\"\"\n"},
        {LOG, "msg: \"it's\"", "msg: \"it\\'s\"\n"},
        {LOG, "msg: \"a\" 'b'\n  # and\n  \"c\"'d'", "msg: \"abcd\"\n"},
        {LOG, "msg: ''", ""},
    };
    ASSERT_FORMS(forms);
}

static void escapes_are_understood(void **state)
{
    (void)state;
    ProtobufCMessage *message = message_of(ATTR, "s: '\\a\\b\\f\\n\\r\\t\\v\\\\\\'\\\"\\?"
                                                 "\\7\\101\\0001\\377\\x41\\X4a\\x99\\x7g\\xfF0'");
    static const char expected[] = "\a\b\f\n\r\t\v\\'\"?\7A\0001\377AJ\x99\7g\xff"
                                   "0";
    const Hs__Pb__AttrValue *value = (const Hs__Pb__AttrValue *)message;
    assert_int_equal(value->s.len, sizeof expected - 1);
    assert_memory_equal(value->s.data, expected, sizeof expected - 1);
    message_free(message);
}

static void integers_have_three_bases(void **state)
{
    (void)state;
    static const form forms[] = {
        {LIST, "i: 0x1f i: -0xA i: 017 i: -017 i: 0 i: -0", "i: 31\ni: -10\ni: 15\ni: -15\ni: 0\ni: 0\n"},
        {SAVER, "version: 0x2", "version: V2\n"},
    };
    ASSERT_FORMS(forms);
}

static void integers_must_fit_their_type(void **state)
{
    (void)state;
    static const char *const large[] = {"i32: 2147483648",
                                        "s32: -2147483649",
                                        "sf32: 9999999999",
                                        "i64: 9223372036854775808",
                                        "s64: -9223372036854775809",
                                        "sf64: 0xffffffffffffffff",
                                        "u32: 4294967296",
                                        "f32: 4294967296",
                                        "u64: 18446744073709551616",
                                        "u32: -1",
                                        "f64: -1",
                                        "u64: 99999999999999999999999"};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        assert_refused(&numbers_descriptor, large[i], "line 1: number out of range: ");
}

static double real_of(const char *text)
{
    char whole[100];
    snprintf(whole, sizeof whole, "last_preserved_timestamp: %s", text);
    ProtobufCMessage *message = message_of(CHECKPOINT, whole);
    double value = ((const Hs__Pb__CheckpointState *)message)->last_preserved_timestamp;
    message_free(message);
    return value;
}

static void reals_have_many_forms(void **state)
{
    (void)state;
    assert_true(real_of("1.5") == 1.5);
    assert_true(real_of("-.5") == -0.5);
    assert_true(real_of("5.") == 5);
    assert_true(real_of("7") == 7);
    assert_true(real_of("1.5f") == 1.5);
    assert_true(real_of("1e3") == 1000);
    assert_true(real_of("2.5E-1") == 0.25);
    assert_true(real_of("1e999") == (double)INFINITY);
    assert_true(real_of("inf") == (double)INFINITY);
    assert_true(real_of("-Infinity") == -(double)INFINITY);
    assert_true(isnan(real_of("nan")));
    assert_true(isnan(real_of("-nan")));
}

/* Parsed as a double first, such a float would be rounded twice. */
static void floats_are_rounded_once(void **state)
{
    (void)state;
    ProtobufCMessage *message = message_of(ATTR, "f: 1.00000017881393432617187499");
    assert_true(((const Hs__Pb__AttrValue *)message)->f == 1.00000011920928955078125f);
    message_free(message);
}

static void bools_have_many_forms(void **state)
{
    (void)state;
    static const form forms[] = {
        {LIST, "b: [true, True, t, 1]", "b: true\nb: true\nb: true\nb: true\n"},
        {LIST, "b: [false, False, f, 0]", "b: false\nb: false\nb: false\nb: false\n"},
        {ATTR, "b: false", "b: false\n"},
    };
    ASSERT_FORMS(forms);
}

/* Invalid text, and the reported line. */

static void assert_all_refused(const form *forms, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_refused(forms[i].of, forms[i].text, forms[i].written);
}
#define ASSERT_ALL_REFUSED(forms) assert_all_refused(forms, sizeof forms / sizeof *forms)

static void invalid_fields_are_refused(void **state)
{
    (void)state;
    static const form forms[] = {
        {LOG, "msg: 'a'\nnone: 3", "line 2: not a field of its message: none"},
        {LOG, "Msg: 'a'", "line 1: not a field of its message: Msg"},
        {LOG, "\n\n}", "line 3: "},
        {LOG, "msg", "line 1: missing ':' after msg"},
        {LOG, "msg 'a'", "line 1: missing ':' after msg"},
        {LOG, ": 'a'", "line 1: "},
        {LOG, "msg: 'a'\nmsg: 'b'", "line 2: field given twice: msg"},
        {GRAPH, "versions {}\nversions {}", "line 2: field given twice: versions"},
        {ATTR, "i: 1\ns: 'a'", "line 2: another field of the same oneof"},
        {ATTR, "i: 1\n\ni: 2", "line 3: "},
        {LOG, "msg: 'a',, status: START", "line 1: "},
        {LOG, "\001", "line 1: "},
    };
    ASSERT_ALL_REFUSED(forms);
}

static void invalid_messages_are_refused(void **state)
{
    (void)state;
    static const form forms[] = {
        {GRAPH, "versions 3", "line 1: missing '{' after versions"},
        {GRAPH, "versions: 3", "line 1: missing '{' after versions"},
        {GRAPH, "versions", "line 1: missing '{' after versions"},
        {GRAPH, "node {\n  name: 'a'\n", "line 3: "},
        {GRAPH, "node {\n  name: 'a'\n>", "line 3: "},
        {GRAPH, "node <\n}", "line 2: "},
        {GRAPH, "node [{}", "line 1: missing ']' after node"},
        {GRAPH, "node [{} {}]", "line 1: missing ']' after node"},
        {GRAPH, "node [{},\n]", "line 2: "},
        {GRAPH, "versions: [{}]", "line 1: missing '{' after versions"},
        {ATTR, "list {\n i: 1\n shape { dim { size: x } }\n}", "line 3: not a number: x"},
    };
    ASSERT_ALL_REFUSED(forms);
}

static void invalid_strings_are_refused(void **state)
{
    (void)state;
    static const form forms[] = {
        {LOG, "msg: 3", "line 1: missing string"},
        {LOG, "msg: ", "line 1: missing string"},
        {LOG, "msg: \"a", "line 1: unterminated string"},
        {LOG, "\nmsg: \"a\n\"", "line 2: unterminated string"},
        {LOG, "msg: \"a'", "line 1: unterminated string"},
        {LOG, "msg: \"a\\", "line 1: unterminated string"},
        {LOG, "msg: \"\\q\"", "line 1: unknown escape"},
        {LOG, "msg: \"\\x\"", "line 1: invalid number in an escape"},
        {LOG, "msg: \"\\400\"", "line 1: invalid number in an escape"},
        {LOG, "msg: \"a\\000b\"", "line 1: zero byte in a string"},
        {LOG, "msg: \"a\" 3", "line 1: not a field of its message: 3"},
    };
    ASSERT_ALL_REFUSED(forms);
}

static void invalid_values_are_refused(void **state)
{
    (void)state;
    static const form forms[] = {
        {ATTR, "i: ", "line 1: missing word"},
        {ATTR, "i: 'a'", "line 1: missing word"},
        {ATTR, "i: {}", "line 1: missing word"},
        {ATTR, "i: 1.5", "line 1: not a number: 1.5"},
        {ATTR, "i: 0x", "line 1: not a number: 0x"},
        {ATTR, "i: 08", "line 1: not a number: 08"},
        {ATTR, "i: -", "line 1: not a number: -"},
        {ATTR, "i: 1-2", "line 1: not a number: 1-2"},
        {ATTR, "f: one", "line 1: not a number: one"},
        {ATTR, "f: 1.5ff", "line 1: not a number: 1.5ff"},
        {ATTR, "f: f", "line 1: not a number: f"},
        {ATTR, "b: maybe", "line 1: not a boolean: maybe"},
        {ATTR, "b: 2", "line 1: not a boolean: 2"},
        {ATTR, "type: DT_NONE", "line 1: not a value of its enum: DT_NONE"},
        {ATTR, "type: 9999999999", "line 1: not a value of its enum: 9999999999"},
        {ATTR, "i: [1]", "line 1: missing word"},
        {LIST, "i: [1 2]", "line 1: missing ']' after i"},
        {LIST, "i: [1,]", "line 1: missing word"},
        {LIST, "i: [1, 2", "line 1: missing ']' after i"},
    };
    ASSERT_ALL_REFUSED(forms);
}

static void words_have_a_limit(void **state)
{
    (void)state;
    char text[200];
    snprintf(text, sizeof text, "i: %063d", 1);
    message_free(message_of(ATTR, text));
    snprintf(text, sizeof text, "i: %064d", 1);
    assert_refused(ATTR, text, "line 1: word too long");
    memset(text, 'a', 150);
    assert_refused(LOG, text, "line 1: word too long");
}

static void zero_bytes_are_refused(void **state)
{
    (void)state;
    static const char text[] = "status: START\n\0\nmsg: 'a'";
    hs_error err = {0};
    ProtobufCMessage *message = NULL;
    ProtobufCAllocator allocator = hs__proto_allocator(hs_env_default());
    assert_fails(hs__proto_parse_text(LOG, text, sizeof text - 1, &allocator, &message, &err), HS_INVALID_ARGUMENT, &err,
                 "line 2: ");
}

static void nothing_is_read_beyond_the_text(void **state)
{
    (void)state;
    static const char text[] = "i: 12";
    hs_error err = {0};
    ProtobufCMessage *message = NULL;
    ProtobufCAllocator allocator = hs__proto_allocator(hs_env_default());
    assert_ok(hs__proto_parse_text(ATTR, text, sizeof text - 2, &allocator, &message, &err), &err);
    assert_int_equal(((Hs__Pb__AttrValue *)message)->i, 1);
    protobuf_c_message_free_unpacked(message, &allocator);
}

/* "nest{nest{...}}" of this depth. */
static char *nested(size_t depth)
{
    char *text = malloc(6 * depth + 1), *at = text;
    assert_non_null(text);
    for (size_t i = 0; i < depth; i++)
        at = (char *)memcpy(at, "nest{", 5) + 5;
    memset(at, '}', depth);
    at[depth] = '\0';
    return text;
}

static void nesting_is_limited_to_a_hundred(void **state)
{
    (void)state;
    char *deep = nested(100), *deeper = nested(101), *endless = nested(1000000);
    message_free(message_of(&nest_descriptor, deep));
    assert_refused(&nest_descriptor, deeper, "line 1: messages nested too deeply");
    assert_refused(&nest_descriptor, endless, "line 1: messages nested too deeply");
    free(deep);
    free(deeper);
    free(endless);
}

/* Damaged text is an error or another message, and nothing leaks. */

/* Asserts that parsing returns an error, or a message that round-trips. */
static void try_text(const ProtobufCMessageDescriptor *of, const char *text, size_t bytes)
{
    static test_env t;
    test_env_init(&t);
    hs_error err = {0};
    ProtobufCMessage *message;
    ProtobufCAllocator allocator = hs__proto_allocator(&t.env);
    char *exact = malloc(bytes + 1); /* the sanitizer finds a read beyond the end */
    memcpy(exact, text, bytes);
    exact = realloc(exact, bytes ? bytes : 1);
    hs_code code = hs__proto_parse_text(of, exact, bytes, &allocator, &message, &err);
    if (code) {
        assert_says(&err, HS_INVALID_ARGUMENT, "line ");
    } else {
        assert_goes_round(message);
        protobuf_c_message_free_unpacked(message, &allocator);
    }
    assert_int_equal(t.live, 0);
    free(exact);
}

static void every_truncation_is_an_error_or_a_smaller_message(void **state)
{
    (void)state;
    static const char checkpoint[] = "model_checkpoint_path: 'a\\x41' \"b\\n\" # c\n"
                                     "all_model_checkpoint_timestamps: [1, 2.5e3, -inf]\nlast_preserved_timestamp: 0x1p3";
    for (size_t bytes = strlen(meta_graph_text) + 1; bytes-- > 0;)
        try_text(META, meta_graph_text, bytes);
    for (size_t bytes = 0; bytes < sizeof checkpoint; bytes++)
        try_text(CHECKPOINT, checkpoint, bytes);
}

static void every_wrong_byte_is_an_error_or_another_message(void **state)
{
    (void)state;
    static const char wrong[] = "{}[]<>:\"'\\#0x- \n\001\377";
    size_t bytes = strlen(meta_graph_text);
    char *text = malloc(bytes);
    for (size_t at = 0; at < bytes; at++) {
        memcpy(text, meta_graph_text, bytes);
        for (size_t i = 0; i < sizeof wrong; i++) { /* includes the zero byte */
            text[at] = wrong[i];
            try_text(META, text, bytes);
        }
    }
    free(text);
}

static hs_code parse_with(test_env *t, void *user)
{
    ProtobufCMessage *message;
    ProtobufCAllocator allocator = hs__proto_allocator(&t->env);
    hs_code code = hs__proto_parse_text(META, user, strlen(user), &allocator, &message, NULL);
    if (!code)
        protobuf_c_message_free_unpacked(message, &allocator);
    return code;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(parse_with, (void *)meta_graph_text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blanks_and_comments_are_skipped),
        cmocka_unit_test(messages_have_several_brackets_and_separators),
        cmocka_unit_test(lists_may_be_short),
        cmocka_unit_test(strings_have_two_quotes_and_may_be_continued),
        cmocka_unit_test(escapes_are_understood),
        cmocka_unit_test(integers_have_three_bases),
        cmocka_unit_test(integers_must_fit_their_type),
        cmocka_unit_test(reals_have_many_forms),
        cmocka_unit_test(floats_are_rounded_once),
        cmocka_unit_test(bools_have_many_forms),
        cmocka_unit_test(invalid_fields_are_refused),
        cmocka_unit_test(invalid_messages_are_refused),
        cmocka_unit_test(invalid_strings_are_refused),
        cmocka_unit_test(invalid_values_are_refused),
        cmocka_unit_test(words_have_a_limit),
        cmocka_unit_test(zero_bytes_are_refused),
        cmocka_unit_test(nothing_is_read_beyond_the_text),
        cmocka_unit_test(nesting_is_limited_to_a_hundred),
        cmocka_unit_test(every_truncation_is_an_error_or_a_smaller_message),
        cmocka_unit_test(every_wrong_byte_is_an_error_or_another_message),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
