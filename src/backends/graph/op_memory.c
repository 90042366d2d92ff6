/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that an op asks for while it runs. */
#include "backends/graph/graph.h"

#include <stddef.h>
#include <string.h>

/* Stands before it, in the slot's block. */
typedef union {
    size_t capacity;
    max_align_t aligned;
} header;

static hs_code check(const hs_op *op, size_t index, hs_error *err)
{
    if (!op)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_op_memory: op is NULL");
    if (index >= op->node->n_outputs)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the op has %zu outputs, so output %zu does not exist",
                            op->node->n_outputs, index);
    const hs_output_def *output = &op->node->outputs[index];
    bool sets_view = !output->data && (output->dtype == HS_STRING || hs_shape_elements(&output->shape) < 0);
    if (!sets_view || op->node->lends || !op->session->owned)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "output %zu already has memory", index);
    return HS_OK;
}

void *hs_op_memory(hs_op *op, size_t index, size_t bytes, hs_error *err)
{
    hs_error_clear(err);
    if (check(op, index, err))
        return NULL;
    const hs_env *env = &op->session->graph->env;
    void **block = &op->session->owned[op->node->slot + index];
    header *old = *block;
    if (old && old->capacity >= bytes)
        return old + 1;
    size_t capacity = old && old->capacity < SIZE_MAX / 4 && bytes < 2 * old->capacity ? 2 * old->capacity : bytes;
    header *made = capacity < SIZE_MAX - sizeof *made ? hs__alloc(env, sizeof *made + capacity, 1) : NULL;
    if (!made) {
        hs__no_memory(err, bytes, "an op's output");
        return NULL;
    }
    made->capacity = capacity;
    if (old)
        memcpy(made + 1, old + 1, old->capacity);
    hs__free(env, old);
    *block = made;
    return made + 1;
}
