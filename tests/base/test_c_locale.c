/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the library under a locale with a decimal comma. */
#include "base/c_locale.h"

#include "base/buffer.h"
#include "base/text.h"

#include "support/test.h"

#include <errno.h>

static int set_up(void **state)
{
    static test_env t;
    test_env_init(&t);
    *state = &t;
    return 0;
}

static int tear_down(void **state)
{
    setlocale(LC_ALL, "C");
    return ((test_env *)*state)->live ? -1 : 0;
}

static void use_comma(void)
{
    if (!test_use_comma())
        test_skip("localedef is missing");
}

static void errors_have_a_decimal_point(void **state)
{
    (void)state;
    use_comma();
    hs_error err = {0};
    hs_error_set(&err, HS_UNKNOWN, "%g of %.3f", 0.5, 1234567.0);
    assert_string_equal(err.message, "0.5 of 1234567.000");
    hs_error_prefix(&err, "%.1e", 0.25);
    assert_string_equal(err.message, "2.5e-01: 0.5 of 1234567.000");
    hs_error_set_errno(&err, ENOENT, "%g", 0.5);
    assert_string_equal(err.message, "0.5: No such file or directory");
}

static void log_lines_have_a_decimal_point(void **state)
{
    test_env *t = *state;
    use_comma();
    static char filling[5000];
    memset(filling, 'x', sizeof filling - 1);
    hs_log(&t->env, HS_LOG_INFO, "loss = %g", 0.5);
    assert_string_equal(t->log, "INFO: loss = 0.5\n");
    hs_log(&t->env, HS_LOG_INFO, "%s %g", filling, 0.5);
    assert_contains(t->log, "x 0.5\n");
}

static void other_texts_have_a_decimal_point(void **state)
{
    test_env *t = *state;
    use_comma();
    char text[HS__NUMBER_TEXT];
    hs__buffer buffer;
    assert_string_equal(hs__secs_text(text, 0.18), "0.18 s");
    assert_string_equal(hs__bytes_text(text, 1234567), "1.2 MiB");
    assert_string_equal(hs__rate_text(text, 85.25), "85.25");
    assert_string_equal(hs__rate_text(text, 1234567), "1234567");
    assert_string_equal(hs__real_text(text, 0.1, false), "0.1");
    assert_string_equal(hs__real_text(text, (double)0.1F, true), "0.1");
    assert_string_equal(hs__real_text(text, 1.0 / 3, false), "0.3333333333333333");
    hs__snprintf(text, sizeof text, "%g", 0.5);
    assert_string_equal(text, "0.5");
    hs__buffer_init(&buffer, &t->env);
    hs__buffer_text(&buffer, "%g", 0.5);
    assert_string_equal((const char *)buffer.data, "0.5");
    hs__buffer_free(&buffer);
    char *made = hs__format(&t->env, "%g", 0.5);
    assert_string_equal(made, "0.5");
    hs__free(&t->env, made);
}

static void the_program_keeps_its_locale(void **state)
{
    (void)state;
    use_comma();
    char text[16];
    hs_error err = {0};
    hs_error_set(&err, HS_UNKNOWN, "%g", 0.5);
    snprintf(text, sizeof text, "%g", 0.5);
    assert_string_equal(text, "0,5");
    assert_string_equal(localeconv()->decimal_point, ",");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(errors_have_a_decimal_point),
        TEST(log_lines_have_a_decimal_point),
        TEST(other_texts_have_a_decimal_point),
        TEST(the_program_keeps_its_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
