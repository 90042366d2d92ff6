/* SPDX-License-Identifier: Apache-2.0 */
/* Many ranks end together. HOOKSESS_MANY_RANKS: how many. Default: 1024, with sanitizers 256. */
#include "support/test.h"

#include "replicas/many_ranks.h"

static void many_ranks_stop_after_the_same_step(void **state)
{
    const char *given = getenv("HOOKSESS_MANY_RANKS");
    int n = given && *given ? atoi(given) : 1024 / HOOKSESS_TEST_SHARE;
    hs_error err = {0};
    (void)state;
    int n_equal = many_ranks_run(n, MANY_STEPS, &err);
    assert_string_equal(err.message, "");
    assert_int_equal(n_equal, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_ranks_stop_after_the_same_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
