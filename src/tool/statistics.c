/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers in tensors, and their statistics. */
#include "statistics.h"

#include <math.h>
#include <string.h>

/* Element `index` of TYPE, which need not be aligned. */
#define ELEMENT(TYPE)                                                                                                      \
    do {                                                                                                                   \
        TYPE value;                                                                                                        \
        memcpy(&value, (const char *)tensor->data + index * sizeof value, sizeof value);                                   \
        return (long double)value;                                                                                         \
    } while (0)

long double number_at(const hs_tensor *tensor, size_t index)
{
    switch (tensor->dtype) {
    case HS_FLOAT:
        ELEMENT(float);
    case HS_DOUBLE:
        ELEMENT(double);
    case HS_INT64:
        ELEMENT(int64_t);
    case HS_UINT64:
        ELEMENT(uint64_t);
    default:
        return (long double)hs_tensor_number(tensor, index);
    }
}

hs_shape index_in(const hs_shape *shape, uint64_t flat)
{
    hs_shape index = {.rank = shape->rank};
    for (int32_t i = shape->rank; i-- > 0;) {
        index.dims[i] = (int64_t)(flat % (uint64_t)shape->dims[i]);
        flat /= (uint64_t)shape->dims[i];
    }
    return index;
}

bool is_complex(hs_dtype dtype)
{
    return dtype == HS_COMPLEX64 || dtype == HS_COMPLEX128;
}

bool is_whole(hs_dtype dtype)
{
    return dtype != HS_FLOAT && dtype != HS_DOUBLE && dtype != HS_HALF && dtype != HS_BFLOAT16 && !is_complex(dtype);
}

hs_tensor parts_of(const hs_tensor *tensor)
{
    hs_dtype dtype = tensor->dtype == HS_COMPLEX64 ? HS_FLOAT : HS_DOUBLE;
    return hs_tensor_of(dtype, HS_SHAPE((int64_t)(tensor->bytes / hs_dtype_size(dtype))), tensor->data);
}

/* True if the number is finite. Otherwise counts it as NaN or infinity. */
static bool counts(statistics *to, long double value)
{
    if (isfinite(value))
        return true;
    if (isnan(value))
        to->nan++;
    else if (value > 0)
        to->positive_infinity++;
    else
        to->negative_infinity++;
    return false;
}

static void add_real(statistics *to, long double value)
{
    if (!counts(to, value))
        return;
    if (to->ordered == 0 || value < to->min)
        to->min = value;
    if (to->ordered == 0 || value > to->max)
        to->max = value;
    to->ordered++;
    to->finite++;
    to->zeros += value == 0;
    to->sum += value;
    to->squares += value * value;
}

/* NaN if a part is NaN, otherwise infinite if a part is infinite. */
static void add_complex(statistics *to, long double real, long double imaginary)
{
    bool by_the_second = isnan(imaginary) || (isfinite(real) && !isfinite(imaginary));
    if (!counts(to, by_the_second ? imaginary : real))
        return;
    to->finite++;
    to->zeros += real == 0 && imaginary == 0;
    to->squares += real * real + imaginary * imaginary;
}

void statistics_add(statistics *to, const hs_tensor *tensor)
{
    statistics s = *to; /* a local copy, so that the compiler keeps it in registers */
    size_t n = tensor->bytes / hs_dtype_size(tensor->dtype);
    s.elements += n;
    if (is_complex(tensor->dtype)) {
        hs_tensor parts = parts_of(tensor);
        for (size_t i = 0; i < n; i++)
            add_complex(&s, number_at(&parts, 2 * i), number_at(&parts, 2 * i + 1));
    } else {
        for (size_t i = 0; i < n; i++)
            add_real(&s, number_at(tensor, i));
    }
    *to = s;
}

void statistics_merge(statistics *to, const statistics *other)
{
    if (other->ordered && (to->ordered == 0 || other->min < to->min))
        to->min = other->min;
    if (other->ordered && (to->ordered == 0 || other->max > to->max))
        to->max = other->max;
    to->elements += other->elements;
    to->nan += other->nan;
    to->positive_infinity += other->positive_infinity;
    to->negative_infinity += other->negative_infinity;
    to->zeros += other->zeros;
    to->ordered += other->ordered;
    to->finite += other->finite;
    to->sum += other->sum;
    to->squares += other->squares;
}

long double statistics_mean(const statistics *of)
{
    return of->ordered ? of->sum / (long double)of->ordered : (long double)NAN;
}

long double statistics_norm(const statistics *of)
{
    return of->finite ? sqrtl(of->squares) : (long double)NAN;
}
