/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_STATISTICS_H
#define TOOL_STATISTICS_H

#include <hooksess/tensor.h>

/* Sums are long doubles: on most machines the tails that a double would lose in a billion additions. */

/* Element `index` of a host tensor of real numbers; 64-bit integers are exact where long double has 64 bits. */
long double number_at(const hs_tensor *tensor, size_t index);

bool is_complex(hs_dtype dtype);
bool is_whole(hs_dtype dtype);
/* A complex tensor as one of twice as many reals, real and imaginary part in turn. */
hs_tensor parts_of(const hs_tensor *tensor);

/* What the numbers of a tensor, or of many, are like. Begins as {0}. */
typedef struct statistics {
    uint64_t elements, nan, positive_infinity, negative_infinity, zeros;
    uint64_t ordered; /* finite and real: those that min, max and sum are of */
    long double min, max, sum;
    uint64_t finite;
    long double squares; /* of the finite ones */
} statistics;

void statistics_add(statistics *to, const hs_tensor *tensor);
void statistics_merge(statistics *to, const statistics *other);
/* NaN where there are no numbers to take it of. */
long double statistics_mean(const statistics *of);
long double statistics_norm(const statistics *of);

#endif
