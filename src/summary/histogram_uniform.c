/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms in buckets of equal width. */
#include <hooksess/summary_values.h>

#include "summary/numbers.h"
#include "summary/value.h"

#include <math.h>
#include <string.h>

enum { BUCKETS = 30, MOST_BUCKETS = 1 << 20, ROW = 3 };

typedef struct {
    const hs_tensor *tensor;
    size_t elements, buckets;
    double *rows; /* a row per bucket: left edge, right edge, count */
} uniform;

/* Reads the next elements, and keeps the finite ones. */
static size_t read_part(const uniform *u, size_t first, double *values)
{
    uint64_t nan = 0, infinity = 0;
    size_t n = u->elements - first < HS__NUMBERS ? u->elements - first : HS__NUMBERS;
    hs__numbers(u->tensor, first, n, values);
    return hs__keep_finite_doubles(values, n, &nan, &infinity);
}

/* Finds the range of the finite elements, and counts those in each bucket. */
static hs_code make_rows(hs_summary *summary, uniform *u, hs_error *err)
{
    double values[HS__NUMBERS], min = (double)INFINITY, max = -(double)INFINITY;
    size_t last = u->buckets - 1, bytes = u->buckets * ROW * sizeof(double), finite = 0;
    hs__buffer_clear(&summary->scratch);
    u->rows = (double *)(void *)hs__buffer_room(&summary->scratch, bytes);
    if (!u->rows)
        return hs__no_memory(err, bytes, "a histogram");
    memset(u->rows, 0, bytes);

    for (size_t first = 0; first < u->elements; first += HS__NUMBERS) {
        size_t n = read_part(u, first, values);
        finite += n;
        for (size_t i = 0; i < n; i++) {
            min = values[i] < min ? values[i] : min;
            max = values[i] > max ? values[i] : max;
        }
    }
    if (!finite)
        return HS_OK;

    double scale = isfinite(max - min) ? 1 : 0.5; /* the range may overflow */
    double width = (max * scale - min * scale) / (double)u->buckets;
    for (size_t i = 0; i <= u->buckets; i++) {
        double edge = i < u->buckets ? (min * scale + width * (double)i) / scale : max;
        if (i < u->buckets)
            u->rows[i * ROW] = edge;
        if (i)
            u->rows[(i - 1) * ROW + 1] = edge;
    }

    for (size_t first = 0; first < u->elements; first += HS__NUMBERS) {
        size_t n = read_part(u, first, values);
        for (size_t i = 0; i < n; i++) {
            double at = (values[i] * scale - min * scale) / width;
            u->rows[(at < (double)last ? (size_t)at : last) * ROW + 2]++; /* if the width is 0, the last */
        }
    }
    return HS_OK;
}

static hs_code check(const char *tag, const hs_uniform_histogram_options *o, hs_error *err)
{
    if (o->buckets < 0 || o->buckets > MOST_BUCKETS)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': hs_uniform_histogram_options.buckets is %lld; it must be from 0 to 2^20", tag,
                            (long long)o->buckets);
    return hs__check_text(o->description, "hs_uniform_histogram_options.description", err);
}

static hs_code put(hs_summary *summary, const char *tag, const uniform *u, const char *description, hs_error *err)
{
    const hs_shape shape = {.rank = 2, .dims = {(int64_t)u->buckets, ROW}};
    hs__value value = hs__begin_value(summary, tag, "");
    size_t tensor = hs__begin_tensor(value.out, HS_DOUBLE, &shape),
           content = hs__begin_field(value.out, HS__TENSOR_CONTENT);
    hs__put_doubles(value.out, u->rows, u->buckets * ROW);
    hs__end_field(value.out, content);
    hs__end_field(value.out, tensor);
    hs__put_metadata(value.out, &(hs__metadata){.plugin = "histograms", .description = description});
    return hs__end_value(&value, HS_OK, err);
}

hs_code hs_summary_histogram_uniform(hs_summary *summary, const char *tag, const hs_tensor *values,
                                     const hs_uniform_histogram_options *given, hs_error *err)
{
    hs_uniform_histogram_options options = HS_INIT(hs_uniform_histogram_options);
    hs_tensor host;
    hs_code code = hs__check_value(summary, tag, err);
    if (code || (given && (code = HS_STRUCT_TAKE(hs_uniform_histogram_options, description, &options, given, err))) ||
        (code = check(tag, &options, err)))
        return code;
    if (values && !hs__is_real(values->dtype))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': cannot make a histogram of type %s; the elements must be real numbers", tag,
                            hs_dtype_name(values->dtype));
    if ((code = hs__value_tensor(summary, tag, values, &host, err)))
        return code;
    uniform u = {.tensor = &host, .elements = host.bytes / hs_dtype_size(host.dtype)};
    u.buckets = options.buckets ? (size_t)options.buckets : BUCKETS;
    code = make_rows(summary, &u, err);
    return code ? code : put(summary, tag, &u, options.description, err);
}
