/* SPDX-License-Identifier: Apache-2.0 */
#include "values.h"

#include <string.h>

static uint32_t seed_of(const char *name, unsigned generation)
{
    uint32_t seed = generation;
    for (; *name; name++)
        seed = seed * 31 + (unsigned char)*name;
    return seed;
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Exact for the few numbers in use, which need no rounding and are in range. */
static uint16_t half_bits(float value)
{
    uint32_t bits = float_bits(value);
    return value == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff));
}

static void put_integer(hs_dtype dtype, int whole, void *at)
{
    size_t bytes = hs_dtype_size(dtype);
    bool is_unsigned = dtype == HS_UINT8 || dtype == HS_UINT16 || dtype == HS_UINT32 || dtype == HS_UINT64 ||
                       dtype == HS_QUINT8 || dtype == HS_QUINT16;
    uint64_t scale = bytes == 1 ? 2 : bytes == 2 ? 600 : bytes == 4 ? 40000000 : 100000000000000000;
    uint64_t value = scale * (uint64_t)(int64_t)(is_unsigned ? whole : whole - 50);
    memcpy(at, &value, bytes); /* the low bytes come first: only for little-endian machines */
}

/* `whole`: 0 to 100. */
static void put(hs_dtype dtype, int whole, void *at)
{
    float narrow[] = {(float)(whole - 50) / 4, (float)whole};
    double wide[] = {whole - 50 + 0x1p-40, whole};
    uint16_t half = half_bits(*narrow), brain = (uint16_t)(float_bits(*narrow) >> 16);
    bool truth = whole % 2;
    switch (dtype) {
    case HS_FLOAT:
    case HS_COMPLEX64:
        memcpy(at, narrow, hs_dtype_size(dtype));
        break;
    case HS_DOUBLE:
    case HS_COMPLEX128:
        memcpy(at, wide, hs_dtype_size(dtype));
        break;
    case HS_HALF:
        memcpy(at, &half, sizeof half);
        break;
    case HS_BFLOAT16:
        memcpy(at, &brain, sizeof brain);
        break;
    case HS_BOOL:
        memcpy(at, &truth, sizeof truth);
        break;
    default:
        put_integer(dtype, whole, at);
    }
}

void values_fill(const char *name, hs_dtype dtype, unsigned generation, void *data, size_t n)
{
    uint32_t seed = seed_of(name, generation) % 101;
    for (size_t i = 0; i < n; i++)
        put(dtype, (int)((seed + i % 101 * 37) % 101), (char *)data + i * hs_dtype_size(dtype));
}
