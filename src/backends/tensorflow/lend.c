/* SPDX-License-Identifier: Apache-2.0 */
/* May a value be fed as it lies in the caller's memory? TensorFlow's tensors are counted, not copied: a queue, or a
 * variable that is assigned, keeps the very memory that was fed, long after the run. So only what ops take that give
 * something of their own is lent, straight or through ops that merely look at it in another shape; anything else is copied.
 */
#include "backends/tensorflow/tensorflow.h"

#include <string.h>

/* Ops that read the value and keep nothing of it. None of them becomes an identity when the graph is optimised. */
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

static bool only_read(const hs__tf_backend *backend, TF_Output output, int depth);

static bool reads_only(const hs__tf_backend *backend, TF_Operation *user, int depth)
{
    const char *type = backend->tf.OperationOpType(user);
    if (hs__tf_is_among(type, readers, sizeof readers / sizeof *readers))
        return true;
    return depth < DEEPEST && hs__tf_is_among(type, views, sizeof views / sizeof *views) &&
           only_read(backend, (TF_Output){user, 0}, depth + 1);
}

static bool only_read(const hs__tf_backend *backend, TF_Output output, int depth)
{
    TF_Input *users;
    int n;
    bool all = hs__tf_users_of(backend, output, &users, &n, NULL) == HS_OK;
    for (int i = 0; all && i < n; i++)
        all = reads_only(backend, users[i].oper, depth);
    hs__free(&backend->env, users);
    return all;
}

bool hs__tf_may_lend(hs__tf_backend *backend, hs__tf_op *op, size_t output)
{
    hs__tf_output *known = &op->outputs[output];
    if (known->lends_as != backend->changes) {
        known->lends = known->dtype != HS_STRING && only_read(backend, (TF_Output){op->op, (int)output}, 0);
        known->lends_as = backend->changes;
    }
    return known->lends;
}
