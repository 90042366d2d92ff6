/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/c_locale.h"

#include "hooks/metrics_row.h"
#include "hooks/scalar_rows.h"

#include <math.h>

typedef struct {
    char text[512], scratch[512];
    hs__metrics_row row;
} own_row;

static const char *const two[] = {"step", "x", NULL};

static const char *written(own_row *o, bool json, hs_dtype dtype, const void *value)
{
    hs_tensor tensor = hs_tensor_of(dtype, HS_SCALAR, value);
    hs_scalar scalar = {.name = "x"};
    assert_true(hs__scalar_read(&scalar, &tensor));
    o->row = (hs__metrics_row){.json = json, .names = two, .text = o->text, .scratch = o->scratch};
    hs__metrics_row_begin(&o->row);
    hs__metrics_row_integer(&o->row, 1);
    hs__metrics_row_scalar(&o->row, &scalar);
    return o->text + (json ? strlen("{\"step\":1,\"x\":") : strlen("1,"));
}

static void numbers_read_back_the_same(void **state)
{
    static const double doubles[] = {0.1, 1.0 / 3, 1e308, 5e-324, -0.0, 123456789012345680.0, 2.2250738585072014e-308};
    static const float floats[] = {0.1F, 1.0F / 3, 3.4028235e38F, 1.4e-45F, 16777216, 8.5e-9F};
    own_row o;
    hs__c_locale locale = hs__c_locale_begin();
    (void)state;
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        double back = strtod(written(&o, false, HS_DOUBLE, &doubles[i]), NULL);
        assert_memory_equal(&back, &doubles[i], sizeof back);
    }
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        float back = strtof(written(&o, false, HS_FLOAT, &floats[i]), NULL);
        assert_memory_equal(&back, &floats[i], sizeof back);
    }
    hs__c_locale_end(locale);
    assert_string_equal(written(&o, false, HS_FLOAT, &floats[0]), "0.1");
}

static void integers_have_all_their_digits(void **state)
{
    own_row o;
    (void)state;
    assert_string_equal(written(&o, false, HS_INT64, &(int64_t){INT64_MIN}), "-9223372036854775808");
    assert_string_equal(written(&o, false, HS_UINT64, &(uint64_t){UINT64_MAX}), "18446744073709551615");
    assert_string_equal(written(&o, false, HS_INT32, &(int32_t){100000000}), "100000000");
    assert_string_equal(written(&o, false, HS_BOOL, &(unsigned char){1}), "1");
}

static void values_that_are_not_finite_can_be_parsed(void **state)
{
    static const float values[] = {(float)NAN, (float)INFINITY, -(float)INFINITY};
    static const char *const csv[] = {"nan", "inf", "-inf"}, *const json[] = {"\"NaN\"", "\"Infinity\"", "\"-Infinity\""};
    own_row o;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(written(&o, false, HS_FLOAT, &values[i]), csv[i]);
        assert_string_equal(written(&o, true, HS_FLOAT, &values[i]), json[i]);
    }
}

static void a_time_is_never_before_1970(void **state)
{
    static const char *const names[] = {"step", NULL};
    static const struct {
        int64_t ns;
        const char *text;
    } times[] = {{1700000000125999999, "1700000000.125"}, {-500000000, "0.000"}, {INT64_MIN, "0.000"}};
    own_row o;
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        o.row = (hs__metrics_row){.names = names, .text = o.text, .scratch = o.scratch};
        hs__metrics_row_begin(&o.row);
        hs__metrics_row_time(&o.row, times[i].ns);
        assert_string_equal(o.text, times[i].text);
    }
}

static void names_are_quoted(void **state)
{
    static const char *const names[] = {"step",   "a,b",   "say \"x\"", "plain", "tab\there",
                                        " first", "last ", "mid dle",   NULL};
    char *text = calloc(2, hs__metrics_row_longest(names));
    hs__metrics_row row = {.names = names, .text = text, .scratch = text + hs__metrics_row_longest(names)};
    (void)state;
    hs__metrics_row_head(&row);
    assert_string_equal(text, "step,\"a,b\",\"say \"\"x\"\"\",plain,tab\there,\" first\",\"last \",mid dle\n");
    assert_true(hs__metrics_row_fits(&row, text, row.used - 1));
    row.json = true;
    hs__metrics_row_begin(&row);
    for (int i = 0; i < 8; i++)
        hs__metrics_row_scalar(&row, &(hs_scalar){.known = false});
    hs__metrics_row_end(&row);
    assert_string_equal(text, "{\"step\":null,\"a,b\":null,\"say \\\"x\\\"\":null,\"plain\":null,\"tab\\there\":null,"
                              "\" first\":null,\"last \":null,\"mid dle\":null}\n");
    assert_true(hs__metrics_row_fits(&row, text, row.used - 1));
    assert_false(hs__metrics_row_fits(&row, text, row.used - 2));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_read_back_the_same),
        cmocka_unit_test(integers_have_all_their_digits),
        cmocka_unit_test(values_that_are_not_finite_can_be_parsed),
        cmocka_unit_test(a_time_is_never_before_1970),
        cmocka_unit_test(names_are_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
