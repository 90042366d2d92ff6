/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram of a million floats, and a memcpy of them, interleaved in one thread.
 *
 *     memcpy_gb_s                  how fast memcpy copies them
 *     histogram_gb_s               how fast hs_summary_histogram counts them, from clearing the summary on
 *     histogram_over_memcpy        the second over the first: the median of the rounds
 *     histogram_KIND_over_memcpy   the same for all zeros, for half zeros (as after a rectifier), and for small gradients
 */
#include "bench.h"

#include <hooksess/summary_values.h>

#include <math.h>

enum { ELEMENTS = 1000000 };

static float values[ELEMENTS], copy[ELEMENTS];

static void fill(double width, double most, double least)
{
    uint64_t state = 1;
    for (size_t i = 0; i < ELEMENTS; i++) {
        double sum = 0;
        for (int k = 0; k < 12; k++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            sum += (double)(state >> 11) / 9007199254740992.0;
        }
        values[i] = (float)fmax(least, fmin(most, (sum - 6) * width));
    }
}

static double copy_once(void)
{
    double begun = bench_now();
    memcpy(copy, values, sizeof values);
    __asm__ volatile("" : : "r"(copy) : "memory");
    return bench_now() - begun;
}

static double count_once(hs_summary *summary)
{
    const hs_tensor tensor = hs_tensor_of(HS_FLOAT, hs_shape_of(1, (const int64_t[]){ELEMENTS}), values);
    double begun = bench_now();
    hs_summary_clear(summary);
    if (hs_summary_histogram(summary, "weights", &tensor, NULL))
        abort();
    return bench_now() - begun;
}

static void compare(hs_summary *summary, const char *name, bool raw)
{
    double copying[BENCH_ROUNDS], counting[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
    copy_once();
    count_once(summary);
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        copying[i] = copy_once();
        counting[i] = count_once(summary);
        ratio[i] = copying[i] / counting[i];
    }
    if (raw) {
        bench_print("memcpy_gb_s", sizeof values / 1e9 / bench_median(copying, BENCH_ROUNDS), "GB/s");
        bench_print("histogram_gb_s", sizeof values / 1e9 / bench_median(counting, BENCH_ROUNDS), "GB/s");
    }
    bench_print(name, bench_median(ratio, BENCH_ROUNDS), "ratio");
}

int main(void)
{
    hs_summary *summary = hs_summary_new(NULL);
    fill(1, 1e9, -1e9);
    compare(summary, "histogram_over_memcpy", true);
    fill(1, 1e9, 0);
    compare(summary, "histogram_half_zeros_over_memcpy", false);
    fill(1e-5, 1e9, -1e9);
    compare(summary, "histogram_small_over_memcpy", false);
    fill(0, 1e9, -1e9);
    compare(summary, "histogram_zeros_over_memcpy", false);
    hs_summary_free(summary);
    return 0;
}
