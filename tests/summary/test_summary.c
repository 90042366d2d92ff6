/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "event.pb-c.h"

#include <math.h>

static Hs__Pb__Summary *parse(const hs_summary *summary)
{
    hs_string bytes = hs_summary_serialized(summary);
    Hs__Pb__Summary *parsed = hs__pb__summary__unpack(NULL, bytes.bytes, (const uint8_t *)bytes.data);
    assert_non_null(parsed);
    return parsed;
}

static void a_scalar(void **state)
{
    (void)state;
    hs_error err;
    hs_summary *summary = hs_summary_new(NULL);
    assert_ok(hs_summary_scalar(summary, "loss", 0.5, &err), &err);
    Hs__Pb__Summary *parsed = parse(summary);
    assert_int_equal(parsed->n_value, 1);
    assert_string_equal(parsed->value[0]->tag, "loss");
    assert_int_equal(parsed->value[0]->value_case, HS__PB__SUMMARY__VALUE__VALUE_SIMPLE_VALUE);
    assert_true(parsed->value[0]->simple_value == 0.5f);
    hs__pb__summary__free_unpacked(parsed, NULL);
    hs_summary_free(summary);
}

static void several_scalars_in_order(void **state)
{
    (void)state;
    hs_summary *summary = hs_summary_new(NULL);
    hs_summary_scalar(summary, "b", -1, NULL);
    hs_summary_scalar(summary, "a", 2, NULL);
    hs_summary_scalar(summary, "b", 3, NULL);
    Hs__Pb__Summary *parsed = parse(summary);
    assert_int_equal(parsed->n_value, 3);
    assert_string_equal(parsed->value[0]->tag, "b");
    assert_string_equal(parsed->value[1]->tag, "a");
    assert_true(parsed->value[2]->simple_value == 3);
    hs__pb__summary__free_unpacked(parsed, NULL);
    hs_summary_free(summary);
}

static void values_that_are_not_finite(void **state)
{
    (void)state;
    hs_summary *summary = hs_summary_new(NULL);
    hs_summary_scalar(summary, "nan", (double)NAN, NULL);
    hs_summary_scalar(summary, "infinity", -(double)INFINITY, NULL);
    hs_summary_scalar(summary, "too large for a float", 1e300, NULL);
    Hs__Pb__Summary *parsed = parse(summary);
    assert_true(isnan(parsed->value[0]->simple_value));
    assert_true(isinf(parsed->value[1]->simple_value) && parsed->value[1]->simple_value < 0);
    assert_true(isinf(parsed->value[2]->simple_value));
    hs__pb__summary__free_unpacked(parsed, NULL);
    hs_summary_free(summary);
}

/* Lengths of one and of two bytes. */
static void tags_of_every_length(void **state)
{
    (void)state;
    char tag[300];
    hs_summary *summary = hs_summary_new(NULL);
    for (size_t length = 1; length < sizeof tag; length++) {
        memset(tag, 'x', length);
        tag[length] = '\0';
        hs_summary_clear(summary);
        assert_int_equal(hs_summary_scalar(summary, tag, 1, NULL), HS_OK);
        Hs__Pb__Summary *parsed = parse(summary);
        assert_int_equal(parsed->n_value, 1);
        assert_string_equal(parsed->value[0]->tag, tag);
        hs__pb__summary__free_unpacked(parsed, NULL);
    }
    hs_summary_free(summary);
}

static void clearing_keeps_the_memory(void **state)
{
    (void)state;
    static test_env t;
    test_env_init(&t);
    hs_summary *summary = hs_summary_new(&t.env);
    assert_int_equal(hs_summary_serialized(summary).bytes, 0);
    hs_summary_scalar(summary, "loss", 1, NULL);
    size_t before = t.allocations;
    for (int i = 0; i < 100; i++) {
        hs_summary_clear(summary);
        assert_int_equal(hs_summary_serialized(summary).bytes, 0);
        hs_summary_scalar(summary, "loss", i, NULL);
    }
    assert_int_equal(t.allocations, before);
    hs_summary_free(summary);
    assert_int_equal(t.live, 0);
}

static void a_tag_is_needed(void **state)
{
    (void)state;
    hs_error err;
    hs_summary *summary = hs_summary_new(NULL);
    assert_fails(hs_summary_scalar(summary, "", 1, &err), HS_INVALID_ARGUMENT, &err, "tag");
    assert_fails(hs_summary_scalar(summary, NULL, 1, &err), HS_INVALID_ARGUMENT, &err, "tag");
    assert_int_equal(hs_summary_serialized(summary).bytes, 0);
    hs_summary_free(summary);
    hs_summary_free(NULL);
}

static hs_code fill(test_env *t, void *user)
{
    hs_error err = {0};
    hs_code code = HS_OK;
    (void)user;
    hs_summary *summary = hs_summary_new(&t->env);
    if (!summary)
        return HS_RESOURCE_EXHAUSTED;
    for (int i = 0; i < 20 && !code; i++)
        code = hs_summary_scalar(summary, "a tag of some length", i, &err);
    if (code) /* earlier values are whole, and more can be added */
        assert_ok(hs_summary_scalar(summary, "another", 1, &err), &err);
    hs__pb__summary__free_unpacked(parse(summary), NULL);
    hs_summary_free(summary);
    return code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(fill, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scalar),
        cmocka_unit_test(several_scalars_in_order),
        cmocka_unit_test(values_that_are_not_finite),
        cmocka_unit_test(tags_of_every_length),
        cmocka_unit_test(clearing_keeps_the_memory),
        cmocka_unit_test(a_tag_is_needed),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
