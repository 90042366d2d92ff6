/* SPDX-License-Identifier: Apache-2.0 */
/* May a value be fed as it lies in the caller's memory? TensorFlow's tensors are counted, not copied: a queue, or a
 * variable that is assigned, keeps the very memory that was fed, long after the run. So only what ops take that give
 * something of their own is lent, straight or through ops that merely look at it in another shape; anything else is copied.
 */
#include "tensorflow/tf_backend.h"

#include <string.h>

/* Ops that read the value and keep nothing of it. None of them becomes an identity when the graph is optimized. */
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
/* Ops whose output is the value's memory again. */
static const char *const views[] = {"ExpandDims", "Identity", "Reshape", "Squeeze", "StopGradient"};

enum { DEEPEST = 8 };

static hs_code only_read(const hs__tf_backend *backend, TF_Output output, int depth, bool *only, hs_error *err);

static hs_code reads_only(const hs__tf_backend *backend, TF_Operation *user, int depth, bool *only, hs_error *err)
{
    const char *type = backend->tf.OperationOpType(user);
    *only = hs__tf_is_among(type, readers, sizeof readers / sizeof *readers);
    if (!*only && depth < DEEPEST && hs__tf_is_among(type, views, sizeof views / sizeof *views))
        return only_read(backend, (TF_Output){user, 0}, depth + 1, only, err);
    return HS_OK;
}

static hs_code only_read(const hs__tf_backend *backend, TF_Output output, int depth, bool *only, hs_error *err)
{
    TF_Input *users;
    int n;
    hs_code code = hs__tf_users_of(backend, output, &users, &n, err);
    *only = true;
    for (int i = 0; !code && *only && i < n; i++)
        code = reads_only(backend, users[i].oper, depth, only, err);
    hs__free(&backend->env, users);
    return code;
}

hs_code hs__tf_may_lend(hs__tf_backend *backend, hs__tf_op *op, size_t output, bool *may, hs_error *err)
{
    hs__tf_output *known = &op->outputs[output];
    if (known->lends_as != backend->changes) {
        hs_code code = only_read(backend, (TF_Output){op->op, (int)output}, 0, &known->lends, err);
        if (code)
            return code;
        known->lends_as = backend->changes;
    }
    *may = known->lends;
    return HS_OK;
}
