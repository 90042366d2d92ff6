/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BENCH_BENCH_H
#define HS_TESTS_BENCH_BENCH_H

/* Shared by the benchmarks: a clock, medians of interleaved rounds, and JSON lines. No benchmark fails because it is slow.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BENCH_ROUNDS = 25 };

static inline double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double bench_median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, bench_compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static inline void bench_print(const char *name, double value, const char *unit)
{
    printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", name, value, unit);
    fflush(stdout);
}

#endif
