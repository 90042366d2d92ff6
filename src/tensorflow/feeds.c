/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds: checked against the graph, and converted to TensorFlow's tensors. */
#include "tensorflow/tf_session.h"

static hs_code check_feed(const hs__tf_op *op, int32_t index, const hs_tensor *value, hs_error *err)
{
    char wanted[HS_SHAPE_TEXT_SIZE], given[HS_SHAPE_TEXT_SIZE];
    if (index < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "cannot feed op '%s': it has no value", op->name);
    const hs__tf_output *output = &op->outputs[index];
    hs_code code = hs_tensor_check(value, err);
    hs_shape shape = {.rank = 0};
    if (!code) {
        shape = hs_tensor_shape(value);
        code = hs__tf_check_shape(&shape, err);
    }
    if (code) {
        hs_error_prefix(err, "cannot feed '%s:%d'", op->name, (int)index);
        return code;
    }
    if (!output->dtype)
        return hs_error_set(err, HS_UNIMPLEMENTED, "cannot feed '%s:%d': TensorFlow's type %d is not supported", op->name,
                            (int)index, (int)output->type);
    if (value->dtype != output->dtype || !hs__shape_fits(&output->shape, &shape))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s:%d' is %s %s, but was fed with %s %s", op->name, (int)index,
                            hs_dtype_name(output->dtype), hs_shape_text(&output->shape, wanted, sizeof wanted),
                            hs_dtype_name(value->dtype), hs_shape_text(&shape, given, sizeof given));
    return HS_OK;
}

/* Deciding which feeds need no copy. TensorFlow counts references to a tensor: a queue, or an assigned variable, may keep
 * the fed memory after the run. So the caller's memory is borrowed only if each op that reads it computes a new value from
 * it, directly or through ops that only view it in another shape. Any other feed is copied. */

/* Ops that read the value and keep no part of it. TensorFlow's optimizer turns none of them into an identity. */
static const char *const readers[] = {
    "ArgMax",
    "BatchMatMul",
    "BatchMatMulV2",
    "Conv2D",
    "Conv3D",
    "DepthwiseConv2dNative",
    "Equal",
    "GatherV2",
    "HistogramSummary",
    "ImageSummary",
    "InTopKV2",
    "MatMul",
    "OneHot",
    "ScalarSummary",
    "Shape",
    "Size",
    "SparseSoftmaxCrossEntropyWithLogits",
};
/* Ops whose output may be the same memory. */
static const char *const views[] = {"ExpandDims", "Identity", "Reshape", "Squeeze", "StopGradient"};

enum { DEEPEST = 8 };

static hs_code only_read(const hs__tf_backend *backend, TF_Output output, int depth, bool *only, hs_error *err);

static hs_code reads_only(const hs__tf_backend *backend, TF_Operation *user, int depth, bool *only, hs_error *err)
{
    const char *type = backend->tf.OperationOpType(user);
    *only = hs__tf_type_in(type, readers, sizeof readers / sizeof *readers);
    if (!*only && depth < DEEPEST && hs__tf_type_in(type, views, sizeof views / sizeof *views))
        return only_read(backend, (TF_Output){user, 0}, depth + 1, only, err);
    return HS_OK;
}

static hs_code only_read(const hs__tf_backend *backend, TF_Output output, int depth, bool *only, hs_error *err)
{
    TF_Input *users;
    int n;
    hs_code code = hs__tf_consumers(backend, output, &users, &n, err);
    *only = true;
    for (int i = 0; !code && *only && i < n; i++)
        code = reads_only(backend, users[i].oper, depth, only, err);
    hs__free(&backend->env, users);
    return code;
}

static hs_code may_borrow(hs__tf_backend *backend, hs__tf_op *op, size_t output, bool *may, hs_error *err)
{
    hs__tf_output *known = &op->outputs[output];
    if (known->borrowable_generation != backend->generation) {
        hs_code code = only_read(backend, (TF_Output){op->op, (int)output}, 0, &known->borrowable, err);
        if (code)
            return code;
        known->borrowable_generation = backend->generation;
    }
    *may = known->borrowable;
    return HS_OK;
}

/* Copies a value in device memory to a tensor. */
static TF_Tensor *copy_from_device(const hs__tf_backend *backend, const hs_tensor *value, hs_error *err)
{
    hs_host_copy copy = {.env = &backend->env};
    hs_tensor host;
    hs_code code = hs_tensor_host(value, &copy, &host, err);
    TF_Tensor *made = code ? NULL : hs__tf_copy_in(backend, &host, err);
    hs_host_copy_free(&copy);
    if (!made && err && !err->code)
        hs__normalize_error(code ? code : HS_RESOURCE_EXHAUSTED, "hs_memory.to_host", err);
    return made;
}

static hs_code convert_feed(hs__tf_session *session, hs__tf_level *level, const hs_backend_feed *feed, hs_error *err)
{
    hs__tf_backend *backend = session->link->backend;
    hs__tf_op *op = feed->node.op;
    hs_error error = {0};
    hs_code code = check_feed(op, feed->node.output, feed->value, err);
    bool borrowable = false, can_borrow = !session->forked && !feed->value->memory && feed->value->dtype != HS_STRING;
    if (!code && can_borrow)
        code = may_borrow(backend, op, (size_t)feed->node.output, &borrowable, err);
    if (code)
        return code;
    TF_Tensor *tensor = borrowable            ? hs__tf_wrap(backend, feed->value, &error)
                        : feed->value->memory ? copy_from_device(backend, feed->value, &error)
                                              : hs__tf_copy_in(backend, feed->value, &error);
    if (!tensor) {
        hs_error_prefix(&error, "cannot feed '%s:%d'", op->name, (int)feed->node.output);
        return hs__error_copy(err, &error);
    }
    level->inputs[level->n_fed] = (TF_Output){op->op, feed->node.output};
    level->borrowed[level->n_fed] = borrowable;
    level->fed[level->n_fed++] = tensor;
    return HS_OK;
}

hs_code hs__tf_convert_feeds(hs__tf_session *session, hs__tf_level *level, const hs_backend_call *call, hs_error *err)
{
    const hs_env *env = &session->link->backend->env;
    size_t n = call->n_feeds;
    hs_code code;
    if (!n)
        return HS_OK;
    if ((code = hs__reserve(env, &level->inputs, &level->inputs_capacity, n, sizeof *level->inputs, err)) ||
        (code = hs__reserve(env, &level->fed, &level->fed_capacity, n, sizeof *level->fed, err)) ||
        (code = hs__reserve(env, &level->borrowed, &level->borrowed_capacity, n, sizeof *level->borrowed, err)))
        return code;
    for (size_t i = 0; !code && i < n; i++)
        code = convert_feed(session, level, &call->feeds[i], err);
    return code;
}

void hs__tf_free_feeds(const hs__tf_backend *backend, hs__tf_level *level)
{
    for (size_t i = 0; i < level->n_fed; i++)
        backend->tf.DeleteTensor(level->fed[i]);
    level->n_fed = 0;
}
