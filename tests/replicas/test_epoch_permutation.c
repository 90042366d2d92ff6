/* SPDX-License-Identifier: Apache-2.0 */
/* The order of samples: a bijection for each number of samples, random, and the same with any number of ranks. */
#include "support/test.h"

#include <hooksess/replicas.h>

static void assert_bijection(uint64_t seed, int64_t epoch, int64_t n)
{
    bool *seen = calloc((size_t)n, sizeof *seen);
    for (int64_t position = 0; position < n; position++) {
        int64_t sample = hs_epoch_permutation(seed, epoch, n, position);
        if (sample < 0 || sample >= n || seen[sample])
            fail_msg("%lld samples: position %lld has sample %lld", (long long)n, (long long)position, (long long)sample);
        seen[sample] = true;
    }
    free(seen);
}

static void each_sample_has_one_position(void **state)
{
    static const int64_t large[] = {1023, 1024, 1025, 65535, 65537, 100003};
    (void)state;
    for (int64_t n = 1; n <= 300; n++)
        assert_bijection((uint64_t)n, n, n);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        assert_bijection(5, 1, large[i]);
}

/* The values are those of an independent program. */
static void the_order_never_changes(void **state)
{
    static const int64_t expected[2][10] = {{6, 4, 2, 8, 3, 1, 0, 5, 7, 9}, {0, 4, 3, 8, 1, 5, 9, 7, 2, 6}};
    (void)state;
    for (int epoch = 0; epoch < 2; epoch++)
        for (int position = 0; position < 10; position++)
            assert_int_equal(hs_epoch_permutation(1, epoch, 10, position), expected[epoch][position]);
    assert_true(hs_epoch_permutation(7, 3, 1000000000000, 0) == 285044010691);
    assert_true(hs_epoch_permutation(UINT64_MAX, -1, INT64_MAX, INT64_MAX - 1) == 4726095451019205225);
}

/* Each of the 120 orders of 5 samples is as frequent as the others. */
static void small_sets_have_all_orders(void **state)
{
    enum { N = 5, N_ORDERS = 120, N_EACH = 200 };
    int counts[N_ORDERS] = {0};
    double chi_square = 0;
    (void)state;
    for (int64_t epoch = 0; epoch < N_ORDERS * N_EACH; epoch++) {
        int64_t order[N];
        int index = 0;
        for (int i = 0; i < N; i++)
            order[i] = hs_epoch_permutation(3, epoch, N, i);
        for (int i = 0; i < N; i++) {
            int n_smaller = 0;
            for (int j = i + 1; j < N; j++)
                n_smaller += order[j] < order[i];
            index = index * (N - i) + n_smaller;
        }
        counts[index]++;
    }
    for (int i = 0; i < N_ORDERS; i++)
        chi_square += (double)(counts[i] - N_EACH) * (counts[i] - N_EACH) / N_EACH;
    assert_true(chi_square > 60 && chi_square < 200); /* expected: 119, with a standard deviation of 15 */
}

/* Neighbors are independent: each distance between the samples of two neighbors is as frequent as the others. */
static void neighbors_are_independent(void **state)
{
    enum { N = 101, N_EPOCHS = 2000 };
    int counts[N] = {0};
    double chi_square = 0;
    (void)state;
    for (int64_t epoch = 0; epoch < N_EPOCHS; epoch++)
        for (int i = 1; i < N; i++)
            counts[(hs_epoch_permutation(9, epoch, N, i) - hs_epoch_permutation(9, epoch, N, i - 1) + N) % N]++;
    assert_int_equal(counts[0], 0);
    for (int i = 1; i < N; i++)
        chi_square += (double)(counts[i] - N_EPOCHS) * (counts[i] - N_EPOCHS) / N_EPOCHS;
    assert_true(chi_square > 50 && chi_square < 170); /* expected: 99, with a standard deviation of 14 */
}

static void seeds_and_epochs_have_their_own_orders(void **state)
{
    int n_same_seed = 0, n_same_epoch = 0;
    (void)state;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t sample = hs_epoch_permutation(1, 0, 1000, i);
        n_same_seed += sample == hs_epoch_permutation(2, 0, 1000, i);
        n_same_epoch += sample == hs_epoch_permutation(1, 1, 1000, i);
    }
    assert_true(n_same_seed < 10 && n_same_epoch < 10); /* expected: 1 */
}

/* Trains for 3 epochs and changes the number of ranks after each step. */
static void no_sample_is_lost_or_read_twice_with_changing_rank_counts(void **state)
{
    enum { N = 97, N_EPOCHS = 3 };
    (void)state;
    for (int32_t seed = 1; seed <= 64; seed++) {
        int counts[N_EPOCHS][N] = {{0}};
        int64_t position = 0;
        for (int32_t step = 0; position < N * N_EPOCHS; step++) {
            int32_t rank_count = 1 + (step * seed + seed) % 64;
            for (int32_t rank = 0; rank < rank_count; rank++) {
                int64_t at = position + rank;
                if (at / N < N_EPOCHS)
                    counts[at / N][hs_epoch_permutation((uint64_t)seed, at / N, N, at % N)]++;
            }
            position += rank_count;
        }
        for (int epoch = 0; epoch < N_EPOCHS; epoch++)
            for (int sample = 0; sample < N; sample++)
                assert_int_equal(counts[epoch][sample], 1);
    }
}

static void invalid_positions_give_no_sample(void **state)
{
    (void)state;
    assert_int_equal(hs_epoch_permutation(1, 0, 0, 0), -1);
    assert_int_equal(hs_epoch_permutation(1, 0, -5, 0), -1);
    assert_int_equal(hs_epoch_permutation(1, 0, 5, -1), -1);
    assert_int_equal(hs_epoch_permutation(1, 0, 5, 5), -1);
    assert_int_equal(hs_epoch_permutation(1, 0, 1, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_has_one_position),
        cmocka_unit_test(the_order_never_changes),
        cmocka_unit_test(small_sets_have_all_orders),
        cmocka_unit_test(neighbors_are_independent),
        cmocka_unit_test(seeds_and_epochs_have_their_own_orders),
        cmocka_unit_test(no_sample_is_lost_or_read_twice_with_changing_rank_counts),
        cmocka_unit_test(invalid_positions_give_no_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
