/* SPDX-License-Identifier: Apache-2.0 */
/* How a summary op's tensor becomes a value, by kind. */
#include "summary/graph_ops.h"

#include <hooksess/summary_values.h>

static bool is_number(hs_dtype dtype)
{
    return dtype != HS_STRING && dtype != HS_COMPLEX64 && dtype != HS_COMPLEX128;
}

static hs_code put_scalar(hs__summary_op *op, const hs_tensor *value, hs_error *err)
{
    hs_tensor host;
    char text[HS_SHAPE_TEXT_SIZE];
    hs_shape shape = hs_tensor_shape(value);
    if (!is_number(value->dtype) || hs_shape_elements(&shape) != 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "a scalar must be one number, but the tensor is %s %s",
                            hs_dtype_name(value->dtype), hs_shape_text(&shape, text, sizeof text));
    hs_code code = hs_tensor_host(value, &op->copy, &host, err);
    return code ? code : hs_summary_scalar(op->summary, op->tag, hs_tensor_number(&host, 0), err);
}

static hs_code put_histogram(hs__summary_op *op, const hs_tensor *value, hs_error *err)
{
    return hs_summary_histogram(op->summary, op->tag, value, err);
}

static hs_code put_image(hs__summary_op *op, const hs_tensor *value, hs_error *err)
{
    const hs_image_options options = HS_INIT(hs_image_options, .max_outputs = op->max_outputs);
    return hs_summary_image(op->summary, op->tag, value, &options, err);
}

static hs_code put_audio(hs__summary_op *op, const hs_tensor *value, hs_error *err)
{
    const hs_audio_options options =
        HS_INIT(hs_audio_options, .max_outputs = op->max_outputs, .sample_rate = op->sample_rate);
    return hs_summary_audio(op->summary, op->tag, value, &options, err);
}

static hs_code put_text(hs__summary_op *op, const hs_tensor *value, hs_error *err)
{
    return hs_summary_text_tensor(op->summary, op->tag, value, err);
}

static hs_code put_tensor(hs__summary_op *op, const hs_tensor *value, hs_error *err)
{
    return hs_summary_tensor(op->summary, op->tag, value, NULL, err);
}

/* Viewers of the graph draw ops whose types end so at the side of what they show. */
const hs__summary_maker *hs__summary_maker_of(hs_summary_kind kind)
{
    static const hs__summary_maker makers[] = {
        [HS_SUMMARY_SCALAR] = {"ScalarSummary", put_scalar}, [HS_SUMMARY_HISTOGRAM] = {"HistogramSummary", put_histogram},
        [HS_SUMMARY_IMAGE] = {"ImageSummary", put_image},    [HS_SUMMARY_AUDIO] = {"AudioSummary", put_audio},
        [HS_SUMMARY_TEXT] = {"TextSummary", put_text},       [HS_SUMMARY_TENSOR] = {"TensorSummary", put_tensor},
    };
    size_t index = (size_t)kind;
    return index < sizeof makers / sizeof *makers && makers[index].put ? &makers[index] : NULL;
}
