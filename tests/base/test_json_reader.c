/* SPDX-License-Identifier: Apache-2.0 */
#include "support/json.h"

#include <locale.h>

static hs__json_value root_of(const char *text)
{
    return json_root(text, strlen(text));
}

/* Checking. The text is in memory of its exact size, so that a sanitizer finds each read behind its end. */

static bool is_json(const char *text, size_t bytes, hs__json_fault *fault)
{
    hs__json_value root;
    char *exact = malloc(bytes ? bytes : 1);
    assert_non_null(exact);
    memcpy(exact, text, bytes);
    bool good = hs__json_check(exact, bytes, &root, fault);
    if (good)
        assert_true(root.bytes && root.text >= exact && root.text + root.bytes <= exact + bytes);
    free(exact);
    return good;
}

static void json_is_accepted(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "[]",
        " \t\r\n{ } \n",
        "\"\"",
        "0",
        "-0",
        "true",
        "false",
        "null",
        "[1,[],{},[{}],\"\"]",
        "{\"a\":1,\"a\":2}",
        "[ 1 , 2 ]",
        "{ \"a\" : [ true , false , null ] , \"b\" : { \"c\" : \"d\" } }",
        "-1234567890123456789012345678901234567890.5e-9999999999",
        "[0,-0,1.5,0.25,1e9,1E+9,1e-9,0e0]",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00\"",
        "\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hs__json_fault fault = {"", 0};
        if (!is_json(texts[i], strlen(texts[i]), &fault))
            fail_msg("%s: %s at %zu", texts[i], fault.what, fault.at);
    }
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t at;
        const char *what;
    } rows[] = {
        {"", 0, "the text ends too early"},
        {" ", 1, "the text ends too early"},
        {"{", 1, "the text ends too early"},
        {"{\"a\"", 4, "the text ends too early"},
        {"{\"a\":", 5, "the text ends too early"},
        {"{\"a\":1", 6, "the text ends too early"},
        {"{\"a\":1,", 7, "the text ends too early"},
        {"[", 1, "the text ends too early"},
        {"[1,", 3, "the text ends too early"},
        {"\"a", 2, "the text ends too early"},
        {"\"a\\", 3, "the text ends too early"},
        {"\"a\\u12", 3, "invalid escape"},
        {"-", 1, "the text ends too early"},
        {"1.", 2, "the text ends too early"},
        {"1e", 2, "the text ends too early"},
        {"1e+", 3, "the text ends too early"},
        {"tru", 0, "expected a value"},
        {"TRUE", 0, "expected a value"},
        {"NaN", 0, "expected a value"},
        {"-Infinity", 1, "invalid number"},
        {"+1", 0, "expected a value"},
        {".5", 0, "expected a value"},
        {"01", 1, "more text after the end"},
        {"-01", 2, "more text after the end"},
        {"1.e3", 2, "invalid number"},
        {"1ex", 2, "invalid number"},
        {"0x1", 1, "more text after the end"},
        {"1,5", 1, "more text after the end"},
        {"1 2", 2, "more text after the end"},
        {"{} {}", 3, "more text after the end"},
        {"{}}", 2, "more text after the end"},
        {"]", 0, "expected a value"},
        {"[1,]", 3, "expected a value"},
        {"[,1]", 1, "expected a value"},
        {"[1,,2]", 3, "expected a value"},
        {"[1 2]", 3, "expected ',' or ']'"},
        {"[1}", 2, "expected ',' or ']'"},
        {"{\"a\":1 \"b\":2}", 7, "expected ',' or '}'"},
        {"{\"a\":1]", 6, "expected ',' or '}'"},
        {"{\"a\" 1}", 5, "expected ':'"},
        {"{\"a\",1}", 4, "expected ':'"},
        {"{\"a\":}", 5, "expected a value"},
        {"{\"a\":1,}", 7, "expected the name of a member"},
        {"{a:1}", 1, "expected the name of a member"},
        {"{'a':1}", 1, "expected the name of a member"},
        {"{1:1}", 1, "expected the name of a member"},
        {"{[]:1}", 1, "expected the name of a member"},
        {"/**/{}", 0, "expected a value"},
        {"\xef\xbb\xbf{}", 0, "expected a value"},
        {"\v{}", 0, "expected a value"},
        {"\"a\nb\"", 2, "a control character in a string"},
        {"\"a\x1f\"", 2, "a control character in a string"},
        {"\"\\x\"", 2, "invalid escape"},
        {"\"\\u12g4\"", 2, "invalid escape"},
        {"\"\\U0041\"", 2, "invalid escape"},
        {"\"a\\u0000b\"", 3, "\\u0000 in a string, which is not supported"},
        {"\"\\ud800\"", 7, "half of a surrogate pair"},
        {"\"\\ud800\\u0041\"", 7, "half of a surrogate pair"},
        {"\"\\ude00\"", 7, "half of a surrogate pair"},
        {"\"\\udc00\\udc00\"", 7, "half of a surrogate pair"},
        {"{\"\\x\":1}", 3, "invalid escape"},
        {"\"\x80\"", 1, "a string is not UTF-8"},
        {"\"\xc0\x80\"", 1, "a string is not UTF-8"},
        {"\"\xc1\xbf\"", 1, "a string is not UTF-8"},
        {"\"\xc3\"", 1, "a string is not UTF-8"},
        {"\"\xe0\x9f\xbf\"", 1, "a string is not UTF-8"},
        {"\"\xed\xa0\x80\"", 1, "a string is not UTF-8"},
        {"\"\xf0\x8f\xbf\xbf\"", 1, "a string is not UTF-8"},
        {"\"\xf4\x90\x80\x80\"", 1, "a string is not UTF-8"},
        {"\"\xff\"", 1, "a string is not UTF-8"},
        {"\"\xe2\x82", 1, "a string is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hs__json_fault fault = {"accepted", 0};
        if (is_json(rows[i].text, strlen(rows[i].text), &fault) || fault.at != rows[i].at ||
            strcmp(fault.what, rows[i].what) != 0)
            fail_msg("%s: %s at %zu, not %s at %zu", rows[i].text, fault.what, fault.at, rows[i].what, rows[i].at);
    }
}

static void zero_bytes_are_refused(void **state)
{
    (void)state;
    hs__json_fault fault;
    assert_false(is_json("{}\0", 3, &fault));
    assert_string_equal(fault.what, "more text after the end");
    assert_false(is_json("\"a\0b\"", 5, &fault));
    assert_string_equal(fault.what, "a control character in a string");
    assert_false(is_json("{\0}", 3, &fault));
    assert_false(is_json("1\0", 2, &fault));
}

/* Without recursion: a text of any depth is refused with the same small stack. */
static void the_depth_is_limited(void **state)
{
    (void)state;
    enum { DEEP = 10000000 };
    char *text = malloc(2 * DEEP);
    hs__json_fault fault;
    assert_non_null(text);
    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    assert_true(is_json(text + DEEP - HS__JSON_DEPTH, 2 * HS__JSON_DEPTH, &fault));
    assert_false(is_json(text + DEEP - HS__JSON_DEPTH - 1, 2 * HS__JSON_DEPTH + 2, &fault));
    assert_string_equal(fault.what, "nested too deep");
    assert_int_equal(fault.at, HS__JSON_DEPTH);
    assert_false(is_json(text, (size_t)2 * DEEP, &fault));
    assert_int_equal(fault.at, HS__JSON_DEPTH);
    free(text);
}

static void every_cut_text_is_refused(void **state)
{
    (void)state;
    static const char text[] = "{\"a\\u00e9\xc3\xa9\": [1.5e-3, true, {\"b\": null}], \"\\ud83d\\ude00\": \"\\\\\"}";
    hs__json_fault fault;
    for (size_t bytes = 0; bytes < sizeof text - 1; bytes++)
        assert_false(is_json(text, bytes, &fault));
    assert_true(is_json(text, sizeof text - 1, &fault));
}

/* Finding values. */

static void items_come_in_order(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"a\":1,\"b\":[\"]\",{\"}\":\"\\\"\"}],\"c\":{},\"d\":\"x\",\"e\":null}",
        " { \"a\" : 1 , \"b\" : [\"]\",{\"}\":\"\\\"\"}] , \"c\" : {} , \"d\" : \"x\" , \"e\" : null } "};
    static const char *const values[] = {"1", "[\"]\",{\"}\":\"\\\"\"}]", "{}", "\"x\"", "null"};
    for (size_t i = 0; i < 2; i++) {
        hs__json_value root = root_of(texts[i]);
        hs__json_item item = {.value = {NULL, 0}};
        for (size_t k = 0; k < 5; k++) {
            assert_true(hs__json_next(root, &item));
            assert_true(hs__json_equals(item.name, (char[]){(char)('a' + k), '\0'}));
            assert_int_equal(item.value.bytes, strlen(values[k]));
            assert_memory_equal(item.value.text, values[k], item.value.bytes);
        }
        assert_false(hs__json_next(root, &item));
    }
    assert_int_equal(json_size(root_of("[]")), 0);
    assert_int_equal(json_size(root_of("[1 , [2,3] , \"4\"]")), 3);
    assert_int_equal(json_size(root_of("\"[1]\"")), 0);
    assert_int_equal(json_size(root_of("1")), 0);
    assert_int_equal(json_size((hs__json_value){NULL, 0}), 0);
}

static void the_first_member_of_a_name_is_found(void **state)
{
    (void)state;
    static const char *const found[] = {
        "{\"n\": 5}",
        "{\"n\":5,\"m\":6}",
        " { \"a\" : 1 , \"n\" : 5 }\n",
        "{\"a\": {\"n\": 1}, \"b\": [{\"n\": 2}], \"n\": 5}",
        "{\"a\": \"n\", \"n\": 5}",
        "{\"a\": \"\\\"n\\\": 1, \", \"n\": 5}",
        "{\"a\": \"\\\\\", \"n\": 5}",
        "{\"nn\": 1, \"\": 2, \"n\": 5, \"n\": 6}",
        "{\"\\u006e\": 5}",
    };
    static const char *const missing[] = {"{}", "{\"a\": {\"n\": 5}}", "[\"n\", 5]", "{\"m\": 5}", "{\"N\": 5}", "\"n\"",
                                          "5"};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        hs__json_value root, value;
        hs__json_fault fault;
        assert_true(hs__json_check(found[i], strlen(found[i]), &root, &fault));
        value = hs__json_member(root, "n");
        if (value.bytes != 1 || *value.text != '5')
            fail_msg("%s: %.*s", found[i], (int)value.bytes, value.text ? value.text : "");
    }
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        assert_null(hs__json_member(root_of(missing[i]), "n").text);
    assert_null(hs__json_member((hs__json_value){NULL, 0}, "n").text);
}

/* Strings. */

static void strings_are_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
    } rows[] = {
        {"\"\"", ""},
        {"\"abc\"", "abc"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"\\u0001\\u007f\\u0080\\u07ff\\u0800\\uffff\"", "\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"},
        {"\"\\u00aA\\u00Ff\"", "\xc2\xaa\xc3\xbf"},
        {"\"\\ud7ff\\ue000\"", "\xed\x9f\xbf\xee\x80\x80"},
        {"\"\\ud800\\udc00\\uDBFF\\uDFFF\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
        {"\"\xc3\xa9\\u00e9\xe2\x82\xac\"", "\xc3\xa9\xc3\xa9\xe2\x82\xac"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hs__json_value value = root_of(rows[i].json);
        char *text = malloc(value.bytes); /* a sanitizer finds a longer text */
        assert_non_null(text);
        assert_int_equal(hs__json_copy(value, text), strlen(rows[i].text));
        assert_string_equal(text, rows[i].text);
        assert_true(hs__json_equals(value, rows[i].text));
        free(text);
    }
}

static void strings_are_compared_as_a_whole(void **state)
{
    (void)state;
    char text[8] = "before";
    hs__json_value value = root_of("\"a\\u00e9b\"");
    assert_true(hs__json_equals(value, "a\xc3\xa9"
                                       "b"));
    static const char *const others[] = {"",
                                         "a",
                                         "a\xc3",
                                         "a\xc3\xa9",
                                         "a\xc3\xa9"
                                         "bc",
                                         "a\xc3\xaa"
                                         "b",
                                         "\"a\xc3\xa9"
                                         "b\""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(hs__json_equals(value, others[i]));
    assert_false(hs__json_equals(root_of("1"), "1"));
    assert_false(hs__json_equals((hs__json_value){NULL, 0}, ""));
    assert_int_equal(hs__json_copy(root_of("[1]"), text), 0);
    assert_string_equal(text, "");
}

/* Numbers. */

static void integers_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t number;
    } rows[] = {{"0", 0},
                {"-0", 0},
                {"7", 7},
                {"-12", -12},
                {"9007199254740993", 9007199254740993},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    static const char *const others[] = {
        "9223372036854775808", "-9223372036854775809", "99999999999999999999", "1.0", "1e0", "\"1\"", "true", "[1]"};
    uint64_t wide = 5;
    int64_t number;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(hs__json_int64(root_of(rows[i].text), &number));
        assert_int_equal(number, rows[i].number);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        number = 5;
        assert_false(hs__json_int64(root_of(others[i]), &number));
        assert_int_equal(number, 5);
    }
    assert_false(hs__json_int64((hs__json_value){NULL, 0}, &number));
    assert_false(hs__json_uint64(root_of("-0"), &wide));
    assert_false(hs__json_uint64(root_of("18446744073709551616"), &wide));
    assert_true(wide == 5);
    assert_true(hs__json_uint64(root_of("18446744073709551615"), &wide));
    assert_true(wide == UINT64_MAX);
}

static void check_numbers(void)
{
    static const struct {
        const char *text;
        double number;
    } rows[] = {{"0", 0},
                {"-0", -0.0},
                {"7", 7},
                {"-3.25", -3.25},
                {"0.5", 0.5},
                {"1e3", 1000},
                {"1E+2", 100},
                {"25e-2", 0.25},
                {"-1.5e1", -15},
                {"0e5", 0},
                {"1e-400", 0},
                {"1e308", 1e308},
                {"0.1", 0.1},
                {"5e-324", 5e-324},
                {"1.7976931348623157e308", 1.7976931348623157e308},
                {"0.000000000000000000000000000000000000001e39", 1},
                {"0e99999999999999999999", 0},
                {"2.2250738585072011e-308", 2.2250738585072011e-308},
                {"9007199254740993", 9007199254740992}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double number = 99;
        if (!hs__json_number(root_of(rows[i].text), &number) || memcmp(&number, &rows[i].number, sizeof number) != 0)
            fail_msg("'%s': %g", rows[i].text, number);
    }
}

static void numbers_are_parsed(void **state)
{
    (void)state;
    static const char *const others[] = {"1e309", "-1e999", "1e99999999999999999999", "true", "null", "\"1\"", "[1]", "{}"};
    char longest[302];
    double number = 99;
    check_numbers();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (hs__json_number(root_of(others[i]), &number) || number != 99)
            fail_msg("'%s' is accepted", others[i]);
    assert_false(hs__json_number((hs__json_value){NULL, 0}, &number));
    memset(longest, '1', sizeof longest);
    assert_false(hs__json_number(json_root(longest, 301), &number));
    assert_true(hs__json_number(json_root(longest, 300), &number));
    assert_true(number > 1.11e299 && number < 1.12e299);
}

static void the_locale_does_not_matter(void **state)
{
    (void)state;
    if (!test_use_comma())
        test_skip("localedef is missing");
    check_numbers();
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_accepted),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(zero_bytes_are_refused),
        cmocka_unit_test(the_depth_is_limited),
        cmocka_unit_test(every_cut_text_is_refused),
        cmocka_unit_test(items_come_in_order),
        cmocka_unit_test(the_first_member_of_a_name_is_found),
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(strings_are_compared_as_a_whole),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(numbers_are_parsed),
        cmocka_unit_test(the_locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
