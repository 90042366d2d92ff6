/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/backoff.h"

static void the_wait_doubles_with_each_failure(void **state)
{
    (void)state;
    assert_true(hs__backoff_secs(0.5, 60, 1) == 0.5);
    assert_true(hs__backoff_secs(0.5, 60, 2) == 1);
    assert_true(hs__backoff_secs(0.5, 60, 3) == 2);
    assert_true(hs__backoff_secs(0.5, 60, 7) == 32);
}

static void the_wait_has_an_upper_limit(void **state)
{
    (void)state;
    assert_true(hs__backoff_secs(0.5, 60, 8) == 60);
    assert_true(hs__backoff_secs(0.5, 60, INT64_MAX) == 60);
    assert_true(hs__backoff_secs(90, 60, 1) == 60);
}

static void nanoseconds_go_from_1_to_64_seconds(void **state)
{
    (void)state;
    const int64_t second = 1000000000;
    for (int failures = 1; failures <= 7; failures++)
        assert_int_equal(hs__backoff_ns(failures), second << (failures - 1));
    assert_int_equal(hs__backoff_ns(8), 64 * second);
    assert_int_equal(hs__backoff_ns(INT64_MAX), 64 * second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wait_doubles_with_each_failure),
        cmocka_unit_test(the_wait_has_an_upper_limit),
        cmocka_unit_test(nanoseconds_go_from_1_to_64_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
