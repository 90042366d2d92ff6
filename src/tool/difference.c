/* SPDX-License-Identifier: Apache-2.0 */
#include "difference.h"
#include "statistics.h"

#include <math.h>
#include <string.h>

static void note(difference *d, uint64_t index, long double absolute, long double relative)
{
    if (d->differing++ == 0)
        d->first = index;
    if (absolute > d->absolute)
        d->absolute = absolute;
    if (relative > d->relative)
        d->relative = relative;
}

static long double magnitude(const hs_tensor *tensor, uint64_t index)
{
    if (!is_complex(tensor->dtype))
        return fabsl(number_at(tensor, index));
    hs_tensor parts = parts_of(tensor);
    return hypotl(number_at(&parts, 2 * index), number_at(&parts, 2 * index + 1));
}

static long double distance(const hs_tensor *a, const hs_tensor *b, uint64_t index)
{
    if (!is_complex(a->dtype))
        return fabsl(number_at(a, index) - number_at(b, index));
    hs_tensor p = parts_of(a), q = parts_of(b);
    return hypotl(number_at(&p, 2 * index) - number_at(&q, 2 * index),
                  number_at(&p, 2 * index + 1) - number_at(&q, 2 * index + 1));
}

/* Two elements whose bits differ. */
static void compare_numbers(difference *d, const hs_tensor *a, const hs_tensor *b, uint64_t index)
{
    long double x = magnitude(a, index), y = magnitude(b, index), apart = distance(a, b, index);
    if (isnan(x) && isnan(y))
        note(d, index, 0, 0); /* the same to whoever computes with them */
    else if (!isfinite(x) || !isfinite(y))
        note(d, index, (long double)INFINITY, (long double)INFINITY);
    else
        note(d, index, apart, apart > 0 ? apart / (x > y ? x : y) : 0);
}

static void compare_strings(difference *d, const hs_string *a, const hs_string *b)
{
    for (uint64_t i = 0; i < d->elements; i++)
        if (a[i].bytes != b[i].bytes || memcmp(a[i].data, b[i].data, a[i].bytes) != 0)
            note(d, i, 0, 0);
}

difference difference_of(const hs_tensor *a, const hs_tensor *b)
{
    hs_shape shape = hs_tensor_shape(a);
    difference d = {.elements = (uint64_t)hs_shape_elements(&shape)};
    size_t size = hs_dtype_size(a->dtype);
    if (a->dtype == HS_STRING) {
        compare_strings(&d, a->data, b->data);
    } else if (a->bytes && memcmp(a->data, b->data, a->bytes) != 0) {
        const char *p = a->data, *q = b->data;
        for (uint64_t i = 0; i < d.elements; i++)
            if (memcmp(p + i * size, q + i * size, size) != 0)
                compare_numbers(&d, a, b, i);
    }
    return d;
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
