/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: the published values of Philox2x64-10, independent streams, and a state that is plain bytes. */
#include "support/test.h"

#include <hooksess/replicas.h>

/* The known answers of Random123, the authors' library: the first word of each. */
static void the_numbers_are_those_of_philox(void **state)
{
    hs_rng zeros = {0, 0, 0}, ones = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    hs_rng pi = {UINT64_C(0xa4093822299f31d0), UINT64_C(0x13198a2e03707344), UINT64_C(0x243f6a8885a308d3)};
    (void)state;
    assert_true(hs_rng_next(&zeros) == UINT64_C(0xca00a0459843d731));
    assert_true(hs_rng_next(&ones) == UINT64_C(0x65b021d60cd8310f));
    assert_true(hs_rng_next(&pi) == UINT64_C(0x0a5e742c2997341c));
}

static void a_stream_begins_at_position_0(void **state)
{
    hs_rng rng = hs_rng_stream(7, 3), same = {7, 3, 0};
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_true(hs_rng_next(&rng) == hs_rng_next(&same));
    assert_true(rng.position == 100);
}

static void a_copy_continues_the_stream(void **state)
{
    hs_rng rng = hs_rng_stream(7, 3), restored;
    unsigned char saved[sizeof rng];
    uint64_t numbers[3];
    (void)state;
    hs_rng_next(&rng);
    memcpy(saved, &rng, sizeof rng);
    for (int i = 0; i < 3; i++)
        numbers[i] = hs_rng_next(&rng);
    memcpy(&restored, saved, sizeof restored);
    for (int i = 0; i < 3; i++)
        assert_true(hs_rng_next(&restored) == numbers[i]);
    restored.position = 2;
    assert_true(hs_rng_next(&restored) == numbers[1]);
}

static void streams_and_seeds_have_no_numbers_in_common(void **state)
{
    enum { N = 200 };
    uint64_t numbers[4][N];
    hs_rng rngs[4] = {hs_rng_stream(1, 0), hs_rng_stream(1, 1), hs_rng_stream(2, 0), hs_rng_stream(2, 1)};
    (void)state;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < N; i++) {
            numbers[k][i] = hs_rng_next(&rngs[k]);
            for (int l = 0; l <= k; l++)
                for (int j = 0; j < (l < k ? N : i); j++)
                    assert_true(numbers[k][i] != numbers[l][j]);
        }
}

/* Each of 256 intervals gets as many numbers as the others, and neighboring streams do not correlate. */
static void uniform_numbers_are_uniform_and_independent(void **state)
{
    enum { N = 256, N_EACH = 400 };
    int counts[N] = {0};
    double chi_square = 0, product = 0;
    hs_rng rng = hs_rng_stream(5, 0), neighbor = hs_rng_stream(5, 1);
    (void)state;
    for (int i = 0; i < N * N_EACH; i++) {
        double number = hs_rng_uniform(&rng);
        assert_true(number >= 0 && number < 1);
        counts[(int)(number * N)]++;
        product += (number - 0.5) * (hs_rng_uniform(&neighbor) - 0.5);
    }
    for (int i = 0; i < N; i++)
        chi_square += (double)(counts[i] - N_EACH) * (counts[i] - N_EACH) / N_EACH;
    assert_true(chi_square > 150 && chi_square < 370); /* expected: 255, with a standard deviation of 23 */
    assert_true(product > -134 && product < 134);      /* expected: 0, with a standard deviation of 27 */
}

static void null_has_no_numbers(void **state)
{
    (void)state;
    assert_true(hs_rng_next(NULL) == 0);
    assert_true(hs_rng_uniform(NULL) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_are_those_of_philox),
        cmocka_unit_test(a_stream_begins_at_position_0),
        cmocka_unit_test(a_copy_continues_the_stream),
        cmocka_unit_test(streams_and_seeds_have_no_numbers_in_common),
        cmocka_unit_test(uniform_numbers_are_uniform_and_independent),
        cmocka_unit_test(null_has_no_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
