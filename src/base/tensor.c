/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about dtypes and shapes; views of tensors, their check, and their elements as numbers; and the search for NaN and
 * infinity. */
#include "base/tensor.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [HS_FLOAT] = {"float", 4},
    [HS_DOUBLE] = {"double", 8},
    [HS_INT32] = {"int32", 4},
    [HS_UINT8] = {"uint8", 1},
    [HS_INT16] = {"int16", 2},
    [HS_INT8] = {"int8", 1},
    [HS_STRING] = {"string", sizeof(hs_string)},
    [HS_COMPLEX64] = {"complex64", 8},
    [HS_INT64] = {"int64", 8},
    [HS_BOOL] = {"bool", 1},
    [HS_QINT8] = {"qint8", 1},
    [HS_QUINT8] = {"quint8", 1},
    [HS_QINT32] = {"qint32", 4},
    [HS_BFLOAT16] = {"bfloat16", 2},
    [HS_QINT16] = {"qint16", 2},
    [HS_QUINT16] = {"quint16", 2},
    [HS_UINT16] = {"uint16", 2},
    [HS_COMPLEX128] = {"complex128", 16},
    [HS_HALF] = {"half", 2},
    [HS_UINT32] = {"uint32", 4},
    [HS_UINT64] = {"uint64", 8},
};

bool hs__dtype_valid(int64_t dtype)
{
    return dtype > 0 && dtype < (int64_t)(sizeof dtypes / sizeof *dtypes) && dtypes[dtype].size;
}

bool hs__is_dtype_name(const char *text)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].name && strcmp(dtypes[i].name, text) == 0)
            return true;
    return false;
}

size_t hs_dtype_size(hs_dtype dtype)
{
    return hs__dtype_valid((int64_t)dtype) ? dtypes[dtype].size : 0;
}

const char *hs_dtype_name(hs_dtype dtype)
{
    return hs__dtype_valid((int64_t)dtype) ? dtypes[dtype].name : "invalid";
}

hs_shape hs_shape_of(int32_t rank, const int64_t *dims)
{
    hs_shape shape = {.rank = dims || rank <= 0 ? rank : HS_MAX_RANK + 1}; /* an invalid shape if `dims` is NULL */
    for (int32_t i = 0; dims && i < rank && i < HS_MAX_RANK; i++)
        shape.dims[i] = dims[i];
    return shape;
}

hs_shape hs_tensor_shape(const hs_tensor *tensor)
{
    return tensor ? hs_shape_of(tensor->rank, tensor->dims) : HS_ANY_SHAPE;
}

int64_t hs_shape_elements(const hs_shape *shape)
{
    if (!shape || shape->rank < 0 || shape->rank > HS_MAX_RANK)
        return -1;
    int64_t n = 1;
    bool zero = false; /* [0, huge, huge] has no elements and does not overflow */
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0)
            return -1;
        zero |= shape->dims[i] == 0;
    }
    for (int32_t i = 0; !zero && i < shape->rank; i++) {
        if (n > INT64_MAX / shape->dims[i])
            return -1;
        n *= shape->dims[i];
    }
    return zero ? 0 : n;
}

bool hs_shape_equal(const hs_shape *a, const hs_shape *b)
{
    return a && b && a->rank == b->rank && a->rank >= 0 && a->rank <= HS_MAX_RANK &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

bool hs__shape_fits(const hs_shape *open, const hs_shape *shape)
{
    if (open->rank < 0)
        return true;
    if (open->rank != shape->rank)
        return false;
    for (int32_t i = 0; i < open->rank; i++)
        if (open->dims[i] >= 0 && open->dims[i] != shape->dims[i])
            return false;
    return true;
}

const char *hs_shape_text(const hs_shape *shape, char *text, size_t bytes)
{
    if (!text)
        return NULL;
    if (!shape || shape->rank < 0 || shape->rank > HS_MAX_RANK) {
        snprintf(text, bytes, "?");
        return text;
    }
    snprintf(text, bytes, "[");
    for (int32_t i = 0; i < shape->rank; i++)
        hs__append(text, bytes, i ? ",%lld" : "%lld", (long long)shape->dims[i]);
    hs__append(text, bytes, "]");
    return text;
}

hs_code hs__shape_check(const hs_shape *shape, bool open, const char *of, hs_error *err)
{
    if (shape->rank > HS_MAX_RANK || shape->rank < (open ? -1 : 0))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: rank is %d; it must be from 0 to %d", of, (int)shape->rank,
                            HS_MAX_RANK);
    for (int32_t i = 0; i < shape->rank; i++)
        if (shape->dims[i] < (open ? -1 : 0))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: dimension %d is %lld", of, (int)i,
                                (long long)shape->dims[i]);
    return HS_OK;
}

hs_tensor hs_tensor_of(hs_dtype dtype, hs_shape shape, const void *data)
{
    hs_tensor tensor = {.dtype = dtype, .rank = shape.rank};
    memcpy(&tensor.data, &data, sizeof data); /* a view drops const; readers of tensors do not write */
    memcpy(tensor.dims, shape.dims, sizeof tensor.dims);
    int64_t n = hs_shape_elements(&shape);
    size_t size = hs_dtype_size(dtype);
    if (n > 0 && size && (uint64_t)n <= SIZE_MAX / size)
        tensor.bytes = (size_t)n * size;
    return tensor;
}

hs_code hs_tensor_check(const hs_tensor *tensor, hs_error *err)
{
    hs__clear(err);
    if (!tensor)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "tensor is NULL");
    if (!hs__dtype_valid((int64_t)tensor->dtype))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the tensor's dtype is %d, which does not exist", (int)tensor->dtype);
    hs_shape shape = hs_tensor_shape(tensor);
    hs_code code = hs__shape_check(&shape, false, "the tensor", err);
    if (code)
        return code;
    char text[HS_SHAPE_TEXT_SIZE];
    int64_t n = hs_shape_elements(&shape);
    size_t size = hs_dtype_size(tensor->dtype);
    if (n < 0 || (uint64_t)n > SIZE_MAX / size)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the tensor of shape %s is too large",
                            hs_shape_text(&shape, text, sizeof text));
    if (tensor->bytes != (size_t)n * size)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "a tensor of type %s and shape %s has %zu bytes, but bytes is %zu",
                            hs_dtype_name(tensor->dtype), hs_shape_text(&shape, text, sizeof text), (size_t)n * size,
                            tensor->bytes);
    if (tensor->bytes && !tensor->data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the tensor of shape %s has no data",
                            hs_shape_text(&shape, text, sizeof text));
    return HS_OK;
}

static float from_bfloat16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static double from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value;
    if (exponent == 31)
        value = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, -24);
    else
        value = ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 ? -value : value;
}

/* Returns element `index` of an array of TYPE, which may lie at any address, as a double: CONVERT(element). */
#define ELEMENT(TYPE, CONVERT)                                                                                             \
    do {                                                                                                                   \
        TYPE value;                                                                                                        \
        if (index >= tensor->bytes / sizeof value)                                                                         \
            return (double)NAN;                                                                                            \
        memcpy(&value, (const char *)tensor->data + index * sizeof value, sizeof value);                                   \
        return (double)CONVERT(value);                                                                                     \
    } while (0)

double hs_tensor_number(const hs_tensor *tensor, size_t index)
{
    if (!tensor || !tensor->data || tensor->memory)
        return (double)NAN;
    switch (tensor->dtype) {
    case HS_FLOAT:
        ELEMENT(float, (double));
    case HS_DOUBLE:
        ELEMENT(double, (double));
    case HS_INT8:
    case HS_QINT8:
        ELEMENT(int8_t, (double));
    case HS_UINT8:
    case HS_QUINT8:
    case HS_BOOL:
        ELEMENT(uint8_t, (double));
    case HS_INT16:
    case HS_QINT16:
        ELEMENT(int16_t, (double));
    case HS_UINT16:
    case HS_QUINT16:
        ELEMENT(uint16_t, (double));
    case HS_INT32:
    case HS_QINT32:
        ELEMENT(int32_t, (double));
    case HS_UINT32:
        ELEMENT(uint32_t, (double));
    case HS_INT64:
        ELEMENT(int64_t, (double));
    case HS_UINT64:
        ELEMENT(uint64_t, (double));
    case HS_HALF:
        ELEMENT(uint16_t, from_half);
    case HS_BFLOAT16:
        ELEMENT(uint16_t, from_bfloat16);
    default:
        return (double)NAN;
    }
}

/* An element is not finite if all bits of its exponent are set. Blocks are tested without branches, so that the compiler
 * vectorizes the test. Only the elements of a block that fails it are tested one by one. */
enum { BLOCK = 1024, LANES = 16 };

/* If the exponent is all ones, adding one carries into the sign bit. */
#define FIND_NONFINITE(NAME, TYPE, EXPONENT, FRACTION)                                                                     \
    static TYPE NAME##_at(const char *at, size_t i)                                                                        \
    {                                                                                                                      \
        TYPE bits;                                                                                                         \
        memcpy(&bits, at + i * sizeof bits, sizeof bits);                                                                  \
        return bits;                                                                                                       \
    }                                                                                                                      \
    static bool NAME##_is_fine(const char *at)                                                                             \
    {                                                                                                                      \
        TYPE carried[LANES] = {0}, any = 0;                                                                                \
        for (size_t i = 0; i < BLOCK; i += LANES)                                                                          \
            for (size_t k = 0; k < LANES; k++)                                                                             \
                carried[k] |= (TYPE)((NAME##_at(at, i + k) & (TYPE)(EXPONENT)) + (TYPE)((FRACTION) + 1));                  \
        for (size_t k = 0; k < LANES; k++)                                                                                 \
            any |= carried[k];                                                                                             \
        return !(any >> (8 * sizeof any - 1));                                                                             \
    }                                                                                                                      \
    static void NAME(const char *at, size_t n, hs_nonfinite *found)                                                        \
    {                                                                                                                      \
        for (size_t i = 0; i < n; i++) {                                                                                   \
            while (n - i >= BLOCK && i % BLOCK == 0 && NAME##_is_fine(at + i * sizeof(TYPE)))                              \
                i += BLOCK;                                                                                                \
            TYPE bits = i < n ? NAME##_at(at, i) : 0;                                                                      \
            if ((TYPE)(bits & (EXPONENT)) != (EXPONENT))                                                                   \
                continue;                                                                                                  \
            if (found->first_index < 0)                                                                                    \
                found->first_index = (int64_t)i;                                                                           \
            if (bits & (FRACTION))                                                                                         \
                found->nan++;                                                                                              \
            else if (bits >> (8 * sizeof bits - 1))                                                                        \
                found->negative_infinity++;                                                                                \
            else                                                                                                           \
                found->positive_infinity++;                                                                                \
        }                                                                                                                  \
    }

FIND_NONFINITE(nonfinite_half, uint16_t, 0x7c00u, 0x03ffu)
FIND_NONFINITE(nonfinite_bfloat16, uint16_t, 0x7f80u, 0x007fu)
FIND_NONFINITE(nonfinite_float, uint32_t, 0x7f800000u, 0x007fffffu)
FIND_NONFINITE(nonfinite_double, uint64_t, 0x7ff0000000000000u, 0x000fffffffffffffu)

hs_nonfinite hs_tensor_nonfinite(const hs_tensor *tensor)
{
    hs_nonfinite found = {.first_index = -1};
    if (!tensor || !tensor->data || tensor->memory)
        return found;
    switch (tensor->dtype) {
    case HS_HALF:
        nonfinite_half(tensor->data, tensor->bytes / 2, &found);
        break;
    case HS_BFLOAT16:
        nonfinite_bfloat16(tensor->data, tensor->bytes / 2, &found);
        break;
    case HS_FLOAT:
    case HS_COMPLEX64:
        nonfinite_float(tensor->data, tensor->bytes / 4, &found);
        break;
    case HS_DOUBLE:
    case HS_COMPLEX128:
        nonfinite_double(tensor->data, tensor->bytes / 8, &found);
        break;
    default:
        return found;
    }
    if (found.first_index >= 0 && (tensor->dtype == HS_COMPLEX64 || tensor->dtype == HS_COMPLEX128))
        found.first_index /= 2;
    return found;
}

void hs__add_nonfinite(hs_nonfinite *all, hs_dtype dtype, const void *data, uint64_t at, size_t bytes)
{
    const size_t size = hs_dtype_size(dtype);
    const hs_tensor piece = hs_tensor_of(dtype, (hs_shape){.rank = 1, .dims = {(int64_t)(bytes / size)}}, data);
    const hs_nonfinite found = hs_tensor_nonfinite(&piece);
    if (all->first_index < 0 && found.first_index >= 0)
        all->first_index = found.first_index + (int64_t)(at / size);
    all->nan += found.nan;
    all->positive_infinity += found.positive_infinity;
    all->negative_infinity += found.negative_infinity;
}
