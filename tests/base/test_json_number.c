/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/json_number.h"

#include <locale.h>

static void numbers_are_parsed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double number;
    } rows[] = {{"0", 0},         {"-0", 0},
                {"7", 7},         {" 12\t\r\n", 12},
                {"-3.25", -3.25}, {"0.5", 0.5},
                {"1e3", 1000},    {"1E+2", 100},
                {"25e-2", 0.25},  {"-1.5e1", -15},
                {"0e5", 0},       {"1e-400", 0},
                {"1e308", 1e308}, {"9007199254740993", 9007199254740992}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double number = 99;
        if (!hs__json_number(rows[i].text, &number) || number != rows[i].number)
            fail_msg("'%s': %g", rows[i].text, number);
    }
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",    " ",    "-",   "+1",   ".5",    "5.",     "1e",  "1e+",  "01",    "-012",
                                        "0x1", "1,5",  "nan", "NaN",  "inf",   "-inf",   "1 2", "true", "\"1\"", "[1]",
                                        "1x",  "1e9x", "--1", "1.e3", "1e999", "-1e999", "1\v", "\f1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double number = 99;
        if (hs__json_number(texts[i], &number) || number != 99)
            fail_msg("'%s' is accepted", texts[i]);
    }
}

static void members_are_found(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"n\": 5}",
        "{\"n\":5,\"m\":6}",
        " { \"a\" : 1 , \"n\" : 5 }\n",
        "{\"a\": {\"n\": 1}, \"b\": [{\"n\": 2}], \"n\": 5}",
        "{\"a\": \"n\", \"n\": 5}",
        "{\"a\": \"\\\"n\\\": 1, \", \"n\": 5}",
        "{\"a\": \"\\\\\", \"n\": 5}",
        "{\"nn\": 1, \"\": 2, \"n\": 5, \"n\": 6}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double number = 99;
        if (!hs__json_member_number(texts[i], "n", &number) || number != 5)
            fail_msg("'%s': %g", texts[i], number);
    }
}

static void missing_members_are_not_found(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "n",
                                        "\"n",
                                        "\"n\": 5",
                                        "{\"n",
                                        "{\"n\"",
                                        "{\"n\":",
                                        "{\"n\": 5",
                                        "{\"n\\",
                                        "{\"n\": \"5\"}",
                                        "{\"n\": 5 6}",
                                        "{\"n\": nan}",
                                        "{\"a\": {\"n\": 5}}",
                                        "[\"n\", 5]",
                                        "{\"m\": 5}",
                                        "{\"n\": 1e999}",
                                        "}{\"n\": 5}",
                                        "{\"N\": 5}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double number = 99;
        if (hs__json_member_number(texts[i], "n", &number) || number != 99)
            fail_msg("'%s': %g", texts[i], number);
    }
}

static void the_locale_does_not_matter(void **state)
{
    (void)state;
    double number = 0;
    if (!test_use_comma())
        test_skip("localedef is missing");
    assert_true(hs__json_number("0.25", &number));
    assert_true(number == 0.25);
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_parsed),         cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(members_are_found),          cmocka_unit_test(missing_members_are_not_found),
        cmocka_unit_test(the_locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
