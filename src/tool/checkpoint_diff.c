/* SPDX-License-Identifier: Apache-2.0 */
/* `checkpoint diff`: difference_of compares two tensors, compare_all merges the two lists of tensors, report_* prints. */
#include "checkpoint_open.h"
#include "columns.h"
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
    bool has_distances; /* of numbers, and not of strings, states and unknown dtypes */
    uint64_t elements, differing;
    uint64_t first;       /* flat index of the first that differs */
    long double absolute; /* the largest |a - b| */
    long double relative; /* the largest |a - b| / max(|a|, |b|) */
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

/* Compares two elements whose bits differ. `tolerance` NaN: they differ. */
static void compare_numbers(difference *d, const hs_tensor *a, const hs_tensor *b, uint64_t index, long double tolerance)
{
    long double x = magnitude(a, index), y = magnitude(b, index), absolute = distance(a, b, index), relative;
    if (isnan(x) && isnan(y))
        absolute = relative = 0; /* two NaNs count as equal */
    else if (!isfinite(x) || !isfinite(y))
        absolute = relative = (long double)INFINITY;
    else
        relative = absolute > 0 ? absolute / (x > y ? x : y) : 0;
    if (!(absolute <= tolerance || relative <= tolerance))
        note(d, index, absolute, relative);
}

/* If the dtype is unknown, each byte counts as an element. */
static difference difference_of(const char *name, const hs_tensor *a, const hs_tensor *b, long double tolerance)
{
    hs_shape shape = hs_tensor_shape(a);
    size_t known = hs_dtype_size(a->dtype), size = known ? known : 1;
    difference d = {.has_distances = known && a->dtype != HS_STRING && !is_state(name),
                    .elements = a->dtype == HS_STRING ? (uint64_t)hs_shape_elements(&shape) : a->bytes / size};
    if (a->dtype == HS_STRING) {
        const hs_string *p = a->data, *q = b->data;
        for (uint64_t i = 0; i < d.elements; i++)
            if (p[i].bytes != q[i].bytes || memcmp(p[i].data, q[i].data, p[i].bytes) != 0)
                note(&d, i, 0, 0);
    } else if (a->bytes && memcmp(a->data, b->data, a->bytes) != 0) {
        const char *p = a->data, *q = b->data;
        for (uint64_t i = 0; i < d.elements; i++) {
            if (memcmp(p + i * size, q + i * size, size) == 0)
                continue;
            if (d.has_distances)
                compare_numbers(&d, a, b, i, is_whole(a->dtype) ? (long double)NAN : tolerance);
            else
                note(&d, i, 0, 0);
        }
    }
    return d;
}

/* Comparing two checkpoints. */

typedef struct {
    checkpoint a, b;
    long double tolerance; /* NaN: none */
    columns table;
    bool json;
    hs__json_writer out; /* with `json`: in the array of the differences */
    uint64_t equal, different, only_a, only_b;
    bool trouble;
} comparison;

/* "float [2,3]", in `text`. */
enum { TYPE_TEXT = HS_SHAPE_TEXT_SIZE + 64 };
static const char *type_text(const checkpoint *in, const char *name, const hs_tensor *info, char text[TYPE_TEXT])
{
    char of_shape[HS_SHAPE_TEXT_SIZE];
    hs_shape shape = hs_tensor_shape(info);
    snprintf(text, TYPE_TEXT, "%.60s %s", hs_checkpoint_dtype_name(in->reader, name),
             hs_shape_text(&shape, of_shape, sizeof of_shape));
    return text;
}

static void js_type(hs__json_writer *out, const char *side, const checkpoint *in, const char *name, const hs_tensor *info)
{
    hs_shape shape = hs_tensor_shape(info);
    hs__json_open(out, side, '{');
    hs__json_put_text(out, "dtype", hs_checkpoint_dtype_name(in->reader, name));
    js_dims(out, "shape", &shape);
    hs__json_close(out, '}');
}

static void report_single(comparison *c, const checkpoint *in, const char *name, const hs_tensor *info)
{
    char type[TYPE_TEXT];
    const bool in_a = in == &c->a;
    if (c->json) {
        hs__json_open(&c->out, NULL, '{');
        js_tensor(&c->out, name, hs_checkpoint_dtype_name(in->reader, name), info);
        hs__json_put_text(&c->out, "difference", in_a ? "only_in_a" : "only_in_b");
        hs__json_close(&c->out, '}');
        return;
    }
    columns_row(&c->table, in_a ? STYLE_BAD : STYLE_GOOD);
    columns_put(&c->table, "%c %s", in_a ? '-' : '+', name);
    columns_rest(&c->table, "%s", type_text(in, name, info, type));
}

static void report_type(comparison *c, const char *name, const hs_tensor *a, const hs_tensor *b, bool same_dtype)
{
    char of_a[TYPE_TEXT], of_b[TYPE_TEXT];
    if (c->json) {
        hs__json_open(&c->out, NULL, '{');
        hs__json_put_text(&c->out, "name", name);
        hs__json_put_text(&c->out, "difference", same_dtype ? "shape" : "dtype");
        js_type(&c->out, "a", &c->a, name, a);
        js_type(&c->out, "b", &c->b, name, b);
        hs__json_close(&c->out, '}');
        return;
    }
    columns_row(&c->table, STYLE_WARNING);
    columns_put(&c->table, "~ %s", name);
    columns_rest(&c->table, "%s -> %s", type_text(&c->a, name, a, of_a), type_text(&c->b, name, b, of_b));
}

static void report_values(comparison *c, const char *name, const hs_tensor *info, const difference *d)
{
    const hs_shape shape = hs_tensor_shape(info);
    const bool is_known = hs_dtype_size(info->dtype);
    if (c->json) {
        hs__json_writer *out = &c->out;
        hs__json_open(out, NULL, '{');
        js_tensor(out, name, hs_checkpoint_dtype_name(c->a.reader, name), info);
        hs__json_put_text(out, "difference", "values");
        js_count(out, is_known ? "elements" : "bytes", d->elements);
        js_count(out, "differing", d->differing);
        if (is_known) {
            hs_shape first = index_in(&shape, d->first);
            js_dims(out, "first_index", &first);
        }
        if (d->has_distances) {
            js_number(out, "largest_absolute", d->absolute, false);
            js_number(out, "largest_relative", d->relative, false);
        }
        hs__json_close(out, '}');
        return;
    }
    columns_row(&c->table, STYLE_WARNING);
    columns_put(&c->table, "~ %s", name);
    columns_put(&c->table, "%llu", (unsigned long long)d->elements);
    columns_put(&c->table, "%llu", (unsigned long long)d->differing);
    if (is_known) {
        const hs_shape first = index_in(&shape, d->first);
        columns_put_shape(&c->table, &first);
    } else {
        columns_put(&c->table, "byte %llu", (unsigned long long)d->first);
    }
    if (d->has_distances) {
        columns_put(&c->table, "%.4Lg", d->absolute);
        columns_put(&c->table, "%.4Lg", d->relative);
    }
}

static void compare(comparison *c, const char *name, hs_tensor *a, hs_tensor *b)
{
    hs_shape of_a = hs_tensor_shape(a), of_b = hs_tensor_shape(b);
    bool same_name = strcmp(hs_checkpoint_dtype_name(c->a.reader, name), hs_checkpoint_dtype_name(c->b.reader, name)) == 0;
    bool same_dtype = a->dtype == b->dtype && (hs_dtype_size(a->dtype) || same_name); /* the library may not know it */
    bool same_shape = hs_shape_equal(&of_a, &of_b) || (of_a.rank < 0 && of_b.rank < 0);
    if (!same_dtype || !same_shape || (a->dtype != HS_STRING && a->bytes != b->bytes)) {
        c->different++;
        report_type(c, name, a, b, same_dtype);
        return;
    }
    if (read_tensor(&c->a, name, a) && read_tensor(&c->b, name, b)) {
        difference d = difference_of(name, a, b, c->tolerance);
        if (d.differing) {
            c->different++;
            report_values(c, name, a, &d);
        } else {
            c->equal++;
        }
    } else {
        c->trouble = true;
    }
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

static bool parse_tolerance(const char *text, long double *tolerance)
{
    char *end;
    *tolerance = (long double)NAN;
    if (!text)
        return true;
    *tolerance = strtold(text, &end);
    if (end > text && !*end && *tolerance >= 0)
        return true;
    say("--tolerance: '%s' is not a number from 0 on", text);
    return false;
}

int checkpoint_diff(const struct call *call)
{
    static const char *const header[] = {"  tensor", ">elements", ">differ", "first", ">absolute", ">relative", NULL};
    comparison c = {.json = call->given[OPTION_JSON] != NULL, .table = {.header = header}};
    if (!parse_tolerance(call->given[OPTION_TOLERANCE], &c.tolerance) || !open_checkpoint(&c.a, call->operands[0]))
        return TROUBLE;
    int status = TROUBLE;
    if (open_checkpoint(&c.b, call->operands[1])) {
        c.out = js_begin(1);
        if (c.json)
            hs__json_open(&c.out, NULL, '[');
        compare_all(&c);
        if (c.json) {
            hs__json_close(&c.out, ']');
            js_end();
        } else {
            columns_print(&c.table);
            printf("%llu tensor%s equal, %llu different, %llu only in A (-), %llu only in B (+)\n",
                   (unsigned long long)c.equal, plural(c.equal), (unsigned long long)c.different,
                   (unsigned long long)c.only_a, (unsigned long long)c.only_b);
        }
        status = c.trouble ? TROUBLE : c.different || c.only_a || c.only_b ? FOUND : FINE;
        close_checkpoint(&c.b);
    }
    close_checkpoint(&c.a);
    return status;
}
