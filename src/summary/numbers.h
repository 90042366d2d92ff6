/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_NUMBERS_H
#define HS_SUMMARY_NUMBERS_H

#include <hooksess/tensor.h>

/* So many elements at a time stay in the nearest cache. */
enum { HS__NUMBERS = 1024 };

/* Is it float, double, half or bfloat16? */
bool hs__is_floating(hs_dtype dtype);
/* Has it numbers that hs__numbers reads: floating ones, integers, bool? */
bool hs__is_real(hs_dtype dtype);

/* Elements [first, first + n) of a checked tensor in host memory, as doubles. */
void hs__numbers(const hs_tensor *tensor, size_t first, size_t n, double *to);

/* The same as floats, of a type whose values all are floats. */
bool hs__fits_float(hs_dtype dtype);
void hs__floats(const hs_tensor *tensor, size_t first, size_t n, float *to);

/* Moves what is finite to the front, in its order; how many that are. What is left out is added to the counts. */
size_t hs__keep_finite_doubles(double *values, size_t n, uint64_t *nan, uint64_t *infinity);
size_t hs__keep_finite_floats(float *values, size_t n, uint64_t *nan, uint64_t *infinity);

#endif
