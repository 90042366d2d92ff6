/* SPDX-License-Identifier: Apache-2.0 */
/* Precision-recall curves: the tensors are copied to the host and checked, the predictions between each two thresholds are
 * counted, and each row of the curve is computed from the counts. */
#include <hooksess/summary_values.h>

#include "summary/numbers.h"
#include "summary/value.h"

#include <math.h>
#include <string.h>

enum { TRUE_POSITIVES, FALSE_POSITIVES, TRUE_NEGATIVES, FALSE_NEGATIVES, PRECISION, RECALL, ROWS };

enum { THRESHOLDS = 201, MOST_THRESHOLDS = 1 << 20 };

/* Avoids a division by 0. */
static const double LEAST_COUNT = 1e-7;

typedef struct {
    hs_tensor labels, predictions, weights;
    hs_host_copy copies[2]; /* the third tensor uses the summary's own copy */
    size_t elements, thresholds;
    double *positives, *negatives; /* sum of the weights of predictions between each threshold and the next */
} curve;

/* The last threshold not above the prediction. Computed in float, as in TensorBoard, or in double for doubles. */
static size_t threshold_of(const curve *c, double prediction)
{
    double last = (double)(c->thresholds - 1), at = prediction < 0 ? 0 : prediction > 1 ? 1 : prediction;
    return (size_t)(c->predictions.dtype == HS_DOUBLE ? at * last : (double)((float)at * (float)last));
}

static hs_code count(curve *c, const char *tag, hs_error *err)
{
    double labels[HS__NUMBERS], predictions[HS__NUMBERS], weights[HS__NUMBERS], one = 1;
    bool each = c->weights.data && c->weights.rank;
    if (!each && c->weights.data && c->elements)
        hs__numbers(&c->weights, 0, 1, &one);
    for (size_t first = 0; first < c->elements; first += HS__NUMBERS) {
        size_t n = c->elements - first < HS__NUMBERS ? c->elements - first : HS__NUMBERS;
        hs__numbers(&c->labels, first, n, labels);
        hs__numbers(&c->predictions, first, n, predictions);
        if (each)
            hs__numbers(&c->weights, first, n, weights);
        for (size_t i = 0; i < n; i++) {
            double weight = each ? weights[i] : one;
            if (isnan(predictions[i]) || !isfinite(weight) || !(labels[i] == 0 || labels[i] == 1))
                return hs_error_set(err, HS_INVALID_ARGUMENT,
                                    "summary '%s': element %zu has label %g, prediction %g and weight %g; labels must be 0 "
                                    "or 1, the others must be numbers",
                                    tag, first + i, labels[i], predictions[i], weight);
            (labels[i] != 0 ? c->positives : c->negatives)[threshold_of(c, predictions[i])] += weight;
        }
    }
    for (size_t i = c->thresholds - 1; i-- > 0;) { /* a threshold also counts predictions above the next one */
        c->positives[i] += c->positives[i + 1];
        c->negatives[i] += c->negatives[i + 1];
    }
    return HS_OK;
}

static double quotient(double part, double whole)
{
    return part / (whole > LEAST_COUNT ? whole : LEAST_COUNT);
}

static double number_at(const curve *c, int row, size_t i)
{
    double tp = c->positives[i], fp = c->negatives[i], fn = c->positives[0] - tp;
    switch (row) {
    case TRUE_POSITIVES:
        return tp;
    case FALSE_POSITIVES:
        return fp;
    case TRUE_NEGATIVES:
        return c->negatives[0] - fp;
    case FALSE_NEGATIVES:
        return fn;
    case PRECISION:
        return quotient(tp, tp + fp);
    default:
        return quotient(tp, tp + fn);
    }
}

static hs_code put(hs_summary *summary, const char *tag, const curve *c, const hs_pr_curve *options, hs_error *err)
{
    unsigned char content[11] = {2 << 3}; /* a PrCurvePluginData: num_thresholds */
    size_t bytes = 1 + hs__put_varint(content + 1, c->thresholds);
    const hs_shape shape = {.rank = 2, .dims = {ROWS, (int64_t)c->thresholds}};
    const hs__metadata metadata = {
        .plugin = "pr_curves",
        .display_name = options->display_name ? options->display_name : tag,
        .description = options->description,
        .content = {(const char *)content, bytes},
    };
    hs__value value = hs__begin_value(summary, tag, "/pr_curves");
    size_t tensor = hs__begin_tensor(value.out, HS_FLOAT, &shape);
    size_t rows = hs__begin_field(value.out, HS__TENSOR_CONTENT);
    for (int row = 0; row < ROWS; row++)
        for (size_t i = 0; i < c->thresholds; i++) {
            float number = (float)number_at(c, row, i);
            uint32_t bits;
            memcpy(&bits, &number, sizeof bits);
            hs__buffer_fixed32(value.out, bits);
        }
    hs__end_field(value.out, rows);
    hs__end_field(value.out, tensor);
    hs__put_metadata(value.out, &metadata);
    return hs__end_value(&value, HS_OK, err);
}

/* Copies one of the three tensors to the host. */
static hs_code copy_to_host(const char *tag, const char *what, const hs_tensor *tensor, hs_host_copy *copy, hs_tensor *host,
                            hs_error *err)
{
    hs_error cause;
    if (hs_tensor_check(tensor, &cause) || hs_tensor_host(tensor, copy, host, &cause))
        return hs_error_set(err, cause.code, "summary '%s': %s: %s", tag, what, cause.message);
    if (!hs__is_real(host->dtype))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': %s has type %s; the elements must be real numbers",
                            tag, what, hs_dtype_name(host->dtype));
    return HS_OK;
}

static hs_code copy_all_to_host(hs_summary *summary, const char *tag, const hs_pr_curve *o, curve *c, hs_error *err)
{
    hs_code code;
    if ((code = copy_to_host(tag, "hs_pr_curve.labels", o->labels, &summary->copy, &c->labels, err)) ||
        (code = copy_to_host(tag, "hs_pr_curve.predictions", o->predictions, &c->copies[0], &c->predictions, err)) ||
        (o->weights && (code = copy_to_host(tag, "hs_pr_curve.weights", o->weights, &c->copies[1], &c->weights, err))))
        return code;
    const hs_shape labels = hs_tensor_shape(&c->labels), predictions = hs_tensor_shape(&c->predictions),
                   weights = hs_tensor_shape(&c->weights);
    if (!hs_shape_equal(&labels, &predictions) || (o->weights && weights.rank && !hs_shape_equal(&labels, &weights)))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': labels, predictions and weights have different shapes",
                            tag);
    if (!hs__is_floating(c->predictions.dtype))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': hs_pr_curve.predictions has type %s; it must be float, double, half or bfloat16",
                            tag, hs_dtype_name(c->predictions.dtype));
    c->elements = c->labels.bytes / hs_dtype_size(c->labels.dtype);
    return HS_OK;
}

static hs_code check(const char *tag, const hs_pr_curve *o, hs_error *err)
{
    if (o->thresholds != 0 && (o->thresholds < 2 || o->thresholds > MOST_THRESHOLDS))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': hs_pr_curve.thresholds is %lld; it must be from 2 to %d, or 0 for the default",
                            tag, (long long)o->thresholds, (int)MOST_THRESHOLDS);
    hs_code code = hs__check_text(o->display_name, "hs_pr_curve.display_name", err);
    return code ? code : hs__check_text(o->description, "hs_pr_curve.description", err);
}

static hs_code make(hs_summary *summary, const char *tag, const hs_pr_curve *o, curve *c, hs_error *err)
{
    hs_code code = copy_all_to_host(summary, tag, o, c, err);
    if (code)
        return code;
    c->thresholds = o->thresholds ? (size_t)o->thresholds : THRESHOLDS;
    size_t bytes = 2 * c->thresholds * sizeof(double);
    hs__buffer_clear(&summary->scratch);
    c->positives = (double *)(void *)hs__buffer_room(&summary->scratch, bytes);
    if (!c->positives)
        return hs__no_memory(err, bytes, "a precision-recall curve");
    memset(c->positives, 0, bytes);
    c->negatives = c->positives + c->thresholds;
    code = count(c, tag, err);
    return code ? code : put(summary, tag, c, o, err);
}

hs_code hs_summary_pr_curve(hs_summary *summary, const char *tag, const hs_pr_curve *given, hs_error *err)
{
    hs_pr_curve options = HS_INIT(hs_pr_curve);
    hs_code code = hs__check_value(summary, tag, err);
    if (code || (code = HS_STRUCT_TAKE(hs_pr_curve, description, &options, given, err)) ||
        (code = check(tag, &options, err)))
        return code;
    curve c = {.copies = {{.env = &summary->env}, {.env = &summary->env}}};
    code = make(summary, tag, &options, &c, err);
    hs_host_copy_free(&c.copies[0]);
    hs_host_copy_free(&c.copies[1]);
    return code;
}
