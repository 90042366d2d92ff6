/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms with TensorFlow's buckets, and histograms that the caller has counted. */
#include "summary/histogram.h"

#include <hooksess/summary_values.h>

#include "base/device.h"
#include "summary/numbers.h"
#include "summary/value.h"

#include <math.h>
#include <string.h>

/* A HistogramProto's fields. */
enum { MIN = 1, MAX, NUM, SUM, SUM_SQUARES, LIMITS, COUNTS };

/* More than the size of a histogram with all buckets, without its tag. */
enum { MOST_BYTES = 2 * 8 * HS__EDGES + 128 };

/* The values that are counted. */
typedef struct {
    hs__histogram *histogram;
    hs_dtype dtype;
} counting;

/* hs__put_fn. Counts values as floats, which is faster, if all values of the dtype are floats. */
static hs_code count(void *user, const void *data, size_t bytes, hs_error *err)
{
    const counting *of = user;
    hs__histogram *h = of->histogram;
    const size_t elements = bytes / hs_dtype_size(of->dtype);
    const hs_tensor values = hs_tensor_of(of->dtype, (hs_shape){.rank = 1, .dims = {(int64_t)elements}}, data);
    const bool narrow = hs__fits_float(of->dtype);
    union {
        float floats[HS__NUMBERS];
        double doubles[HS__NUMBERS];
    } part;
    (void)err;
    for (size_t first = 0; first < elements; first += HS__NUMBERS) {
        size_t n = elements - first < HS__NUMBERS ? elements - first : HS__NUMBERS;
        if (narrow) {
            hs__floats(&values, first, n, part.floats);
            hs__histogram_add_floats(h, part.floats, n);
        } else {
            hs__numbers(&values, first, n, part.doubles);
            hs__histogram_add_doubles(h, part.doubles, n);
        }
    }
    return HS_OK;
}

static void put_buckets(hs__buffer *out, uint32_t field, const double *values, size_t n)
{
    size_t begun = hs__begin_field(out, field);
    hs__put_doubles(out, values, n);
    hs__end_field(out, begun);
}

static hs_code put_histogram(hs_summary *summary, const char *tag, const hs_histogram_counts *counts, hs_error *err)
{
    hs__value value = hs__begin_value(summary, tag, "");
    hs__buffer *out = value.out;
    size_t histogram = hs__begin_field(out, HS__VALUE_HISTOGRAM);
    hs__put_double(out, MIN, counts->min);
    hs__put_double(out, MAX, counts->max);
    hs__put_double(out, NUM, counts->num);
    hs__put_double(out, SUM, counts->sum);
    hs__put_double(out, SUM_SQUARES, counts->sum_squares);
    put_buckets(out, LIMITS, counts->limits, counts->buckets);
    put_buckets(out, COUNTS, counts->counts, counts->buckets);
    hs__end_field(out, histogram);
    return hs__end_value(&value, HS_OK, err);
}

static hs_code put_count(hs_summary *summary, const char *tag, const char *suffix, uint64_t n, hs_error *err)
{
    if (!n)
        return HS_OK;
    hs__value value = hs__begin_value(summary, tag, suffix);
    hs__put_float(value.out, HS__VALUE_SIMPLE, (float)n);
    return hs__end_value(&value, HS_OK, err);
}

static hs_code put_counted(hs_summary *summary, const char *tag, const hs__histogram *h, hs_error *err)
{
    double limits[HS__EDGES], counts[HS__EDGES];
    size_t n = 0;
    for (size_t i = 0; i < HS__EDGES; i++) { /* keeps the last of each run of empty buckets */
        if (n && counts[n - 1] <= 0 && h->buckets[i] <= 0)
            n--;
        limits[n] = h->tables->edges[i];
        counts[n++] = h->buckets[i];
    }
    hs_histogram_counts counted = HS_INIT(hs_histogram_counts, h->min, h->max, h->num, h->sum, h->sum_squares);
    counted.buckets = n;
    counted.limits = limits;
    counted.counts = counts;
    /* Reserves room for the largest histogram, so that later ones fit as well. */
    hs__buffer_room(&summary->serialized, strlen(tag) * 3 + MOST_BYTES);
    size_t before = summary->serialized.size;
    hs_code code = put_histogram(summary, tag, &counted, err);
    if (!code && !(code = put_count(summary, tag, "/nan", h->nan, err)))
        code = put_count(summary, tag, "/infinity", h->infinity, err);
    if (code)
        summary->serialized.size = before;
    return code;
}

hs_code hs_summary_histogram(hs_summary *summary, const char *tag, const hs_tensor *values, hs_error *err)
{
    hs_error cause;
    hs_code code = hs__check_value(summary, tag, err);
    if (code)
        return code;
    if (values && !hs__is_real(values->dtype))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': cannot make a histogram of type %s; the elements must be real numbers", tag,
                            hs_dtype_name(values->dtype));
    if (!summary->histogram && !(summary->histogram = hs__histogram_new(&summary->env)))
        return hs__no_memory(err, sizeof *summary->histogram, "a histogram");
    hs__histogram_clear(summary->histogram);
    counting of = {summary->histogram, values ? values->dtype : HS_DTYPE_NONE};
    if ((code = hs__tensor_read(values, &summary->env, count, &of, &cause)))
        return hs_error_set(err, code, "summary '%s': %s", tag, cause.message);
    hs__histogram_count(summary->histogram);
    return put_counted(summary, tag, summary->histogram, err);
}

/* Histograms that the caller has counted. */

static hs_code check_counts(const char *tag, const hs_histogram_counts *c, hs_error *err)
{
    if (!c->buckets || !c->limits || !c->counts || c->buckets > SIZE_MAX / 64)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': a histogram needs at least one bucket, with limits and counts", tag);
    for (size_t i = 0; i < c->buckets; i++) {
        if (isnan(c->limits[i]) || (i && c->limits[i] <= c->limits[i - 1]))
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "summary '%s': limit %zu of the histogram is %g; limits must ascend", tag, i, c->limits[i]);
        if (!(c->counts[i] >= 0))
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "summary '%s': count %zu of the histogram is %g; counts must be at least 0", tag, i,
                                c->counts[i]);
    }
    return HS_OK;
}

hs_code hs_summary_histogram_counted(hs_summary *summary, const char *tag, const hs_histogram_counts *given, hs_error *err)
{
    hs_histogram_counts counts = HS_INIT(hs_histogram_counts);
    hs_code code = hs__check_value(summary, tag, err);
    if (code || (code = HS_STRUCT_TAKE(hs_histogram_counts, counts, &counts, given, err)) ||
        (code = check_counts(tag, &counts, err)))
        return code;
    return put_histogram(summary, tag, &counts, err);
}
