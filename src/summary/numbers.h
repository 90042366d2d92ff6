/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_NUMBERS_H
#define HS_SUMMARY_NUMBERS_H

#include <hooksess/tensor.h>

/* Elements per piece: a piece fits in the first-level cache. */
enum { HS__NUMBERS = 1024 };

/* True for float, double, half and bfloat16. */
bool hs__is_floating(hs_dtype dtype);
/* True for dtypes that hs__numbers reads: floating-point, integers and bool. */
bool hs__is_real(hs_dtype dtype);

/* Converts elements [first, first + n) of a checked tensor in host memory to doubles. */
void hs__numbers(const hs_tensor *tensor, size_t first, size_t n, double *to);

/* True for dtypes whose values all fit in a float. */
bool hs__fits_float(hs_dtype dtype);
/* As hs__numbers, but to floats. Only for dtypes for which hs__fits_float is true. */
void hs__floats(const hs_tensor *tensor, size_t first, size_t n, float *to);

/* Moves the finite values to the front, in order. Returns how many they are. The others are added to the counts. */
size_t hs__keep_finite_doubles(double *values, size_t n, uint64_t *nan, uint64_t *infinity);
size_t hs__keep_finite_floats(float *values, size_t n, uint64_t *nan, uint64_t *infinity);

#endif
