/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_open.h"
#include "command.h"
#include "json_output.h"
#include "output.h"
#include "statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Comparing two tensors. */

/* The differences between two host tensors of the same dtype and shape. */
typedef struct {
    uint64_t elements, differing; /* bit by bit */
    uint64_t first;               /* flat index of the first that differs */
    long double absolute;         /* the largest |a - b| */
    long double relative;         /* the largest |a - b| / max(|a|, |b|). Both are 0 for strings */
} difference;

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

/* Compares two elements whose bits differ. */
static void compare_numbers(difference *d, const hs_tensor *a, const hs_tensor *b, uint64_t index)
{
    long double x = magnitude(a, index), y = magnitude(b, index), apart = distance(a, b, index);
    if (isnan(x) && isnan(y))
        note(d, index, 0, 0); /* two NaNs count as equal */
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

static difference difference_of(const hs_tensor *a, const hs_tensor *b)
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

/* The index of element `flat` in each dimension. */
static hs_shape index_in(const hs_shape *shape, uint64_t flat)
{
    hs_shape index = {.rank = shape->rank};
    for (int32_t i = shape->rank; i-- > 0;) {
        index.dims[i] = (int64_t)(flat % (uint64_t)shape->dims[i]);
        flat /= (uint64_t)shape->dims[i];
    }
    return index;
}

/* Comparing two checkpoints. */

typedef struct {
    checkpoint a, b;
    bool json;
    uint64_t equal, different, only_a, only_b;
    bool trouble;
} comparison;

/* "float [2,3]" */
static void put_type(const hs_tensor *info)
{
    char text[HS_SHAPE_TEXT_SIZE];
    hs_shape shape = hs_tensor_shape(info);
    printf("%s %s", hs_dtype_name(info->dtype), hs_shape_text(&shape, text, sizeof text));
}

static json_t *js_type(const hs_tensor *info)
{
    hs_shape shape = hs_tensor_shape(info);
    json_t *object = json_object();
    js_set(object, "dtype", js_text(hs_dtype_name(info->dtype)));
    js_set(object, "shape", js_dims(&shape));
    return object;
}

static void report_single(const comparison *c, const checkpoint *in, const char *name, const hs_tensor *info)
{
    if (c->json) {
        json_t *object = js_tensor(name, info);
        js_set(object, "difference", js_text(in == &c->a ? "only_in_a" : "only_in_b"));
        js_list_add(object);
        return;
    }
    fputs("only in ", stdout);
    put_name(in->prefix);
    fputs(": ", stdout);
    put_name(name);
    fputs(": ", stdout);
    put_type(info);
    puts("");
}

static void report_type(const comparison *c, const char *name, const hs_tensor *a, const hs_tensor *b)
{
    if (c->json) {
        json_t *object = json_object();
        js_set(object, "name", js_text(name));
        js_set(object, "difference", js_text(a->dtype != b->dtype ? "dtype" : "shape"));
        js_set(object, "a", js_type(a));
        js_set(object, "b", js_type(b));
        js_list_add(object);
        return;
    }
    put_name(name);
    fputs(": ", stdout);
    put_type(a);
    fputs(" against ", stdout);
    put_type(b);
    puts("");
}

static json_t *js_values(const char *name, const hs_tensor *info, const difference *d, const hs_shape *first)
{
    json_t *object = js_tensor(name, info);
    js_set(object, "difference", js_text("values"));
    js_set(object, "elements", js_number((long double)d->elements, true));
    js_set(object, "differing", js_number((long double)d->differing, true));
    js_set(object, "first_index", js_dims(first));
    if (info->dtype != HS_STRING) {
        js_set(object, "largest_absolute", js_number(d->absolute, false));
        js_set(object, "largest_relative", js_number(d->relative, false));
    }
    return object;
}

static void report_values(const comparison *c, const char *name, const hs_tensor *info, const difference *d)
{
    char text[HS_SHAPE_TEXT_SIZE];
    hs_shape shape = hs_tensor_shape(info), first = index_in(&shape, d->first);
    if (c->json) {
        js_list_add(js_values(name, info, d, &first));
        return;
    }
    put_name(name);
    fputs(": ", stdout);
    put_type(info);
    printf(": %llu of %llu elements differ, the first at %s", (unsigned long long)d->differing,
           (unsigned long long)d->elements, hs_shape_text(&first, text, sizeof text));
    if (info->dtype != HS_STRING)
        printf(", by at most %.6Lg, relative %.6Lg", d->absolute, d->relative);
    puts("");
}

static void compare_values(comparison *c, const char *name, hs_tensor *a, hs_tensor *b)
{
    if (!read_tensor(&c->a, name, a) || !read_tensor(&c->b, name, b)) {
        c->trouble = true;
        return;
    }
    difference d = difference_of(a, b);
    if (d.differing) {
        c->different++;
        report_values(c, name, a, &d);
    } else {
        c->equal++;
    }
}

static void compare(comparison *c, const char *name, hs_tensor *a, hs_tensor *b)
{
    hs_shape of_a = hs_tensor_shape(a), of_b = hs_tensor_shape(b);
    if (a->dtype != b->dtype || (!hs_shape_equal(&of_a, &of_b) && (of_a.rank >= 0 || of_b.rank >= 0))) {
        c->different++;
        report_type(c, name, a, b);
        return;
    }
    compare_values(c, name, a, b);
    free(a->data);
    free(b->data);
}

/* Merges the two lists, which are sorted by name. */
static void compare_all(comparison *c)
{
    const char *name_a, *name_b;
    hs_tensor a, b;
    size_t i = 0, k = 0;
    while (output_works()) {
        bool has_a = hs_checkpoint_tensor(c->a.reader, i, &name_a, &a);
        bool has_b = hs_checkpoint_tensor(c->b.reader, k, &name_b, &b);
        if (!has_a && !has_b)
            return;
        int order = !has_b ? -1 : !has_a ? 1 : strcmp(name_a, name_b);
        if (order < 0) {
            c->only_a++;
            report_single(c, &c->a, name_a, &a);
        } else if (order > 0) {
            c->only_b++;
            report_single(c, &c->b, name_b, &b);
        } else {
            compare(c, name_a, &a, &b);
        }
        i += order <= 0;
        k += order >= 0;
    }
}

static int conclude(const comparison *c)
{
    if (!c->json)
        printf("%llu tensors equal, %llu different, %llu only in the first, %llu only in the second\n",
               (unsigned long long)c->equal, (unsigned long long)c->different, (unsigned long long)c->only_a,
               (unsigned long long)c->only_b);
    if (c->trouble || !js_works())
        return TROUBLE;
    return c->different || c->only_a || c->only_b ? FOUND : FINE;
}

int checkpoint_diff(const struct call *call)
{
    comparison c = {.json = call->given[OPTION_JSON] != NULL};
    if (!open_checkpoint(&c.a, call->operands[0]))
        return TROUBLE;
    int status = TROUBLE;
    if (open_checkpoint(&c.b, call->operands[1])) {
        if (c.json)
            js_list_begin();
        compare_all(&c);
        if (c.json) {
            js_list_end();
            puts("");
        }
        status = conclude(&c);
        close_checkpoint(&c.b);
    }
    close_checkpoint(&c.a);
    return status;
}
