/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of any dtype as doubles or floats, by a table of conversions. */
#include "summary/numbers.h"

#include <math.h>
#include <string.h>

bool hs__is_floating(hs_dtype dtype)
{
    return dtype == HS_FLOAT || dtype == HS_DOUBLE || dtype == HS_HALF || dtype == HS_BFLOAT16;
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_bfloat16(uint16_t bits)
{
    return from_bits((uint32_t)bits << 16);
}

/* Moves the bits of a half to their places in a float. As the biases of the exponents are 15 and 127, the result is 2^112
 * times too small, also for subnormal numbers. */
static float from_half(uint16_t bits)
{
    uint32_t magnitude = (uint32_t)(bits & 0x7fff) << 13, sign = (uint32_t)(bits & 0x8000) << 16;
    float scaled = from_bits(magnitude) * 0x1p112f;
    float infinite = from_bits(magnitude | 0x7f800000);
    float value = magnitude >= 0x0f800000 ? infinite : scaled;
    return sign ? -value : value;
}

/* The elements need not be aligned. */
#define CONVERT(NAME, TYPE, FROM, TO)                                                                                      \
    static void NAME(const char *at, size_t n, TO *to)                                                                     \
    {                                                                                                                      \
        for (size_t i = 0; i < n; i++) {                                                                                   \
            TYPE element;                                                                                                  \
            memcpy(&element, at + i * sizeof element, sizeof element);                                                     \
            to[i] = (TO)FROM(element);                                                                                     \
        }                                                                                                                  \
    }

CONVERT(float_to_double, float, , double)
CONVERT(half_to_double, uint16_t, from_half, double)
CONVERT(bfloat16_to_double, uint16_t, from_bfloat16, double)
CONVERT(int8_to_double, int8_t, , double)
CONVERT(uint8_to_double, uint8_t, , double)
CONVERT(int16_to_double, int16_t, , double)
CONVERT(uint16_to_double, uint16_t, , double)
CONVERT(int32_to_double, int32_t, , double)
CONVERT(uint32_to_double, uint32_t, , double)
CONVERT(int64_to_double, int64_t, , double)
CONVERT(uint64_to_double, uint64_t, , double)
CONVERT(half_to_float, uint16_t, from_half, float)
CONVERT(bfloat16_to_float, uint16_t, from_bfloat16, float)
CONVERT(int8_to_float, int8_t, , float)
CONVERT(uint8_to_float, uint8_t, , float)
CONVERT(int16_to_float, int16_t, , float)
CONVERT(uint16_to_float, uint16_t, , float)

static void double_to_double(const char *at, size_t n, double *to)
{
    memcpy(to, at, n * sizeof *to);
}

static void float_to_float(const char *at, size_t n, float *to)
{
    memcpy(to, at, n * sizeof *to);
}

static const struct {
    void (*to_double)(const char *at, size_t n, double *to);
    void (*to_float)(const char *at, size_t n, float *to); /* NULL: the conversion would lose digits */
} convert[] = {
    [HS_FLOAT] = {float_to_double, float_to_float},
    [HS_DOUBLE] = {double_to_double, NULL},
    [HS_HALF] = {half_to_double, half_to_float},
    [HS_BFLOAT16] = {bfloat16_to_double, bfloat16_to_float},
    [HS_BOOL] = {uint8_to_double, uint8_to_float},
    [HS_INT8] = {int8_to_double, int8_to_float},
    [HS_UINT8] = {uint8_to_double, uint8_to_float},
    [HS_INT16] = {int16_to_double, int16_to_float},
    [HS_UINT16] = {uint16_to_double, uint16_to_float},
    [HS_INT32] = {int32_to_double, NULL},
    [HS_UINT32] = {uint32_to_double, NULL},
    [HS_INT64] = {int64_to_double, NULL},
    [HS_UINT64] = {uint64_to_double, NULL},
};

bool hs__is_real(hs_dtype dtype)
{
    return hs_dtype_size(dtype) && (size_t)dtype < sizeof convert / sizeof *convert && convert[dtype].to_double;
}

bool hs__fits_float(hs_dtype dtype)
{
    return hs__is_real(dtype) && convert[dtype].to_float;
}

static const char *element(const hs_tensor *tensor, size_t index)
{
    return (const char *)tensor->data + index * hs_dtype_size(tensor->dtype);
}

void hs__numbers(const hs_tensor *tensor, size_t first, size_t n, double *to)
{
    if (n)
        convert[tensor->dtype].to_double(element(tensor, first), n, to);
}

void hs__floats(const hs_tensor *tensor, size_t first, size_t n, float *to)
{
    if (n)
        convert[tensor->dtype].to_float(element(tensor, first), n, to);
}

/* If all bits of the exponent are set, adding one carries into the sign bit. The loop has no branches. */
#define KEEP_FINITE(NAME, TYPE, BITS, EXPONENT, FRACTION)                                                                  \
    static bool NAME##_all(const TYPE *values, size_t n)                                                                   \
    {                                                                                                                      \
        BITS any = 0;                                                                                                      \
        for (size_t i = 0; i < n; i++) {                                                                                   \
            BITS bits;                                                                                                     \
            memcpy(&bits, &values[i], sizeof bits);                                                                        \
            any |= (bits & (EXPONENT)) + ((FRACTION) + 1);                                                                 \
        }                                                                                                                  \
        return !(any >> (8 * sizeof any - 1));                                                                             \
    }                                                                                                                      \
    size_t NAME(TYPE *values, size_t n, uint64_t *nan, uint64_t *infinity)                                                 \
    {                                                                                                                      \
        size_t kept = 0;                                                                                                   \
        if (NAME##_all(values, n))                                                                                         \
            return n;                                                                                                      \
        for (size_t i = 0; i < n; i++) {                                                                                   \
            *nan += isnan(values[i]) != 0;                                                                                 \
            *infinity += isinf(values[i]) != 0;                                                                            \
            if (isfinite(values[i]))                                                                                       \
                values[kept++] = values[i];                                                                                \
        }                                                                                                                  \
        return kept;                                                                                                       \
    }

KEEP_FINITE(hs__keep_finite_doubles, double, uint64_t, UINT64_C(0x7ff0000000000000), UINT64_C(0x000fffffffffffff))
KEEP_FINITE(hs__keep_finite_floats, float, uint32_t, UINT32_C(0x7f800000), UINT32_C(0x007fffff))
