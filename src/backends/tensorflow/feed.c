/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds: checked against the graph, and brought to TensorFlow. */
#include "backends/tensorflow/session.h"

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

/* Device memory comes to the host straight into TensorFlow's. */
static TF_Tensor *bring_home(const hs__tf_backend *backend, const hs_tensor *value, hs_error *err)
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

static hs_code take_feed(hs__tf_session *session, hs__tf_level *level, const hs_backend_feed *feed, hs_error *err)
{
    hs__tf_backend *backend = session->link->backend;
    hs__tf_op *op = feed->node.op;
    hs_error error = {0};
    hs_code code = check_feed(op, feed->node.output, feed->value, err);
    bool lends = false, /* what is known of the graph is the session's thread's */
        may_lend = !session->forked && !feed->value->memory && feed->value->dtype != HS_STRING;
    if (!code && may_lend)
        code = hs__tf_may_lend(backend, op, (size_t)feed->node.output, &lends, err);
    if (code)
        return code;
    TF_Tensor *tensor = lends                 ? hs__tf_lend(backend, feed->value, &error)
                        : feed->value->memory ? bring_home(backend, feed->value, &error)
                                              : hs__tf_copy_in(backend, feed->value, &error);
    if (!tensor) {
        hs_error_prefix(&error, "cannot feed '%s:%d'", op->name, (int)feed->node.output);
        return hs__error_copy(err, &error);
    }
    level->inputs[level->n_fed] = (TF_Output){op->op, feed->node.output};
    level->lent[level->n_fed] = lends;
    level->fed[level->n_fed++] = tensor;
    return HS_OK;
}

hs_code hs__tf_take_feeds(hs__tf_session *session, hs__tf_level *level, const hs_backend_call *call, hs_error *err)
{
    const hs_env *env = &session->link->backend->env;
    size_t n = call->n_feeds;
    hs_code code;
    if (!n)
        return HS_OK;
    if ((code = hs__reserve(env, &level->inputs, &level->inputs_capacity, n, sizeof *level->inputs, err)) ||
        (code = hs__reserve(env, &level->fed, &level->fed_capacity, n, sizeof *level->fed, err)) ||
        (code = hs__reserve(env, &level->lent, &level->lent_capacity, n, sizeof *level->lent, err)))
        return code;
    for (size_t i = 0; !code && i < n; i++)
        code = take_feed(session, level, &call->feeds[i], err);
    return code;
}

void hs__tf_drop_feeds(const hs__tf_backend *backend, hs__tf_level *level)
{
    for (size_t i = 0; i < level->n_fed; i++)
        backend->tf.DeleteTensor(level->fed[i]);
    level->n_fed = 0;
}
