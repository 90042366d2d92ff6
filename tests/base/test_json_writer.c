/* SPDX-License-Identifier: Apache-2.0 */
#include "support/json.h"

#include "base/buffer.h"
#include "base/json_writer.h"
#include "base/text.h"

#include <float.h>
#include <locale.h>
#include <math.h>

static char written[2048];

static void put(void *to, const char *text, size_t bytes)
{
    size_t *used = to;
    assert_true(*used + bytes < sizeof written);
    memcpy(written + *used, text, bytes);
    *used += bytes;
    written[*used] = '\0';
}

static void write_sample(bool compact, int lines)
{
    size_t used = 0;
    hs__json_writer out = {.put = put, .to = &used, .compact = compact, .lines = lines};
    hs__json_open(&out, NULL, '{');
    hs__json_put_text(&out, "a \"name\"", "a\ttext");
    hs__json_put_int(&out, "int", INT64_MIN);
    hs__json_open(&out, "list", '[');
    hs__json_open(&out, NULL, '{');
    hs__json_put_bool(&out, "yes", true);
    hs__json_put_bool(&out, "no", false);
    hs__json_close(&out, '}');
    hs__json_put_null(&out, NULL);
    hs__json_close(&out, ']');
    hs__json_open(&out, "none", '{');
    hs__json_close(&out, '}');
    hs__json_put_json(&out, "given", "[1, 2]", 6);
    hs__json_put_number(&out, "half", 0.5);
    hs__json_put_number(&out, "nan", (double)NAN);
    hs__json_put_thousandths(&out, "ms", 12034);
    hs__json_close(&out, '}');
    json_root(written, strlen(written));
}

static void values_are_separated(void **state)
{
    (void)state;
    write_sample(false, 0);
    assert_string_equal(written, "{\"a \\\"name\\\"\": \"a\\ttext\", \"int\": -9223372036854775808, \"list\": "
                                 "[{\"yes\": true, \"no\": false}, null], \"none\": {}, \"given\": [1, 2], \"half\": 0.5, "
                                 "\"nan\": null, \"ms\": 12.034}");
    write_sample(true, 0);
    assert_string_equal(written, "{\"a \\\"name\\\"\":\"a\\ttext\",\"int\":-9223372036854775808,\"list\":"
                                 "[{\"yes\":true,\"no\":false},null],\"none\":{},\"given\":[1, 2],\"half\":0.5,"
                                 "\"nan\":null,\"ms\":12.034}");
}

static void outer_values_begin_lines(void **state)
{
    (void)state;
    write_sample(false, 2);
    assert_string_equal(written, "{\n \"a \\\"name\\\"\": \"a\\ttext\",\n \"int\": -9223372036854775808,\n \"list\": [\n"
                                 "  {\"yes\": true, \"no\": false},\n  null\n ],\n \"none\": {},\n \"given\": [1, 2],\n"
                                 " \"half\": 0.5,\n \"nan\": null,\n \"ms\": 12.034\n}");
}

static void any_text_becomes_a_string(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json;
    } rows[] = {
        {"", "\"\""},
        {"plain", "\"plain\""},
        {"\"\\/\b\f\n\r\t", "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
        {"\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\xc2\x80\xc2\x9b\xc2\xa0", "\"\\u0080\\u009b\xc2\xa0\""},
        {"\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa", "\"\xe2\x80\xa7\\u2028\\u2029\xe2\x80\xaa\""},
        {"a\xff\xc3", "\"a\\ufffd\\ufffd\""},
        {"\xed\xa0\x80z", "\"\\ufffd\\ufffd\\ufffdz\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t used = 0;
        hs__json_quote(put, &used, rows[i].text);
        assert_string_equal(written, rows[i].json);
        assert_true(used <= 2 + strlen(rows[i].text) * HS__JSON_ESCAPED);
        json_root(written, used);
    }
}

static void check_numbers(void)
{
    static const double values[] = {0,       -0.0,    0.1, -2.5,           1e22,   1.0 / 3, 123456.789, 5e-324,
                                    DBL_MAX, DBL_MIN, 1e9, 1795741301.367, 1e-300, 4.35e17, 100000};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[HS__NUMBER_TEXT];
        double again = 99;
        hs__real_text(text, values[i], false);
        assert_true(hs__json_number(json_root(text, strlen(text)), &again));
        assert_memory_equal(&again, &values[i], sizeof again);
    }
}

static void numbers_read_back(void **state)
{
    char text[HS__NUMBER_TEXT];
    (void)state;
    check_numbers();
    assert_string_equal(hs__real_text(text, (double)0.1F, true), "0.1");
    assert_string_equal(hs__real_text(text, 5e-324, false), "4.94065645841247e-324"); /* no digit more than needed */
}

static void the_locale_does_not_matter(void **state)
{
    (void)state;
    if (!test_use_comma())
        test_skip("localedef is missing");
    check_numbers();
    setlocale(LC_ALL, "C");
}

static void thousandths_are_not_negative(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        const char *text;
    } rows[] = {{0, "0.000"}, {-5, "0.000"},   {1, "0.001"},
                {7, "0.007"}, {1000, "1.000"}, {INT64_MAX, "9223372036854775.807"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t used = 0;
        hs__json_writer out = {.put = put, .to = &used};
        hs__json_put_thousandths(&out, NULL, rows[i].value);
        assert_string_equal(written, rows[i].text);
    }
}

static hs_code write_to_buffer(test_env *failing, void *user)
{
    hs_error err = {0};
    hs__buffer text;
    (void)user;
    hs__buffer_init(&text, &failing->env);
    hs__json_writer out = {.put = hs__buffer_put, .to = &text};
    hs__json_open(&out, NULL, '[');
    for (int i = 0; i < 1000; i++)
        hs__json_put_text(&out, NULL, "element");
    hs__json_close(&out, ']');
    hs_code code = hs__buffer_check(&text, "JSON", &err);
    if (!code)
        assert_int_equal(json_size(json_root((const char *)text.data, text.size)), 1000);
    hs__buffer_free(&text);
    return code;
}

static void each_allocation_of_a_buffer(void **state)
{
    (void)state;
    test_each_allocation(write_to_buffer, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_separated),        cmocka_unit_test(outer_values_begin_lines),
        cmocka_unit_test(any_text_becomes_a_string),   cmocka_unit_test(numbers_read_back),
        cmocka_unit_test(the_locale_does_not_matter),  cmocka_unit_test(thousandths_are_not_negative),
        cmocka_unit_test(each_allocation_of_a_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
