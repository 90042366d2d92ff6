/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_STATISTICS_H
#define TOOL_STATISTICS_H

#include <hooksess/tensor.h>

/* The elements of tensors, and their statistics. Sums are long doubles, which on most machines lose fewer digits in a
 * billion additions. */

/* Element `index` of a host tensor of real numbers. 64-bit integers are exact if long double has 64 bits of precision. */
long double number_at(const hs_tensor *tensor, size_t index);

/* The index of element `flat` in each dimension. */
hs_shape index_in(const hs_shape *shape, uint64_t flat);

bool is_complex(hs_dtype dtype);
bool is_whole(hs_dtype dtype);
/* A complex tensor as a tensor of twice as many reals: real part, imaginary part, ... */
hs_tensor parts_of(const hs_tensor *tensor);

/* The statistics of one or more tensors. Initialize with {0}. */
typedef struct statistics {
    uint64_t elements, nan, positive_infinity, negative_infinity, zeros;
    uint64_t ordered; /* number of finite reals, which min, max and sum include */
    long double min, max, sum;
    uint64_t finite;
    long double squares; /* sum of the squared magnitudes of the finite numbers */
} statistics;

void statistics_add(statistics *to, const hs_tensor *tensor);
void statistics_merge(statistics *to, const statistics *other);
/* NaN if there are no numbers. */
long double statistics_mean(const statistics *of);
long double statistics_norm(const statistics *of);

#endif
