/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that an op's function calls. */
#include "backends/graph/graph.h"

#include <stddef.h>
#include <string.h>

const hs_tensor *hs_op_input(const hs_op *op, size_t index)
{
    if (!op || index >= op->node->n_inputs)
        return NULL;
    const hs__edge *edge = &op->node->inputs[index];
    return hs__graph_tensor_at(op->session, edge->node->slot + edge->output);
}

hs_tensor *hs_op_output(hs_op *op, size_t index)
{
    return op && index < op->node->n_outputs ? &op->session->tensors[op->node->slot + index] : NULL;
}

hs_tensor *hs_op_written(hs_op *op, size_t index)
{
    return op && index < op->node->n_writes ? &op->session->tensors[op->node->writes[index]->slot] : NULL;
}

hs_code hs_op_set_output(hs_op *op, size_t index, const hs_tensor *value, hs_error *err)
{
    hs_error_clear(err);
    if (!op)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_op_set_output: op is NULL");
    if (index >= op->node->n_outputs)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the op has %zu outputs, so output %zu does not exist",
                            op->node->n_outputs, index);
    const hs_output_def *output = &op->node->outputs[index];
    hs_shape shape = hs_tensor_shape(value);
    hs_code code = hs_tensor_check(value, err);
    if (code)
        return code;
    char wanted[HS_SHAPE_TEXT_SIZE], given[HS_SHAPE_TEXT_SIZE];
    if (output->data || value->dtype != output->dtype || !hs__shape_fits(&output->shape, &shape))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "output %zu %s %s %s, but was set to %s %s", index,
                            output->data ? "has its own memory," : "is", hs_dtype_name(output->dtype),
                            hs_shape_text(&output->shape, wanted, sizeof wanted), hs_dtype_name(value->dtype),
                            hs_shape_text(&shape, given, sizeof given));
    op->session->tensors[op->node->slot + index] = *value;
    return HS_OK;
}

int64_t hs_op_global_step(const hs_op *op, hs_error *err)
{
    hs_error_clear(err);
    if (op && op->session->step >= 0)
        return op->session->step;
    hs_error_set(err, HS_FAILED_PRECONDITION, "%s",
                 !op                    ? "op is NULL"
                 : op->session->is_fork ? "threads that fill a queue have no global step"
                                        : "the global step is negative");
    return -1;
}

bool hs_op_stop_requested(const hs_op *op)
{
    const hs_backend_call *call = op ? op->session->call : NULL;
    return call && call->size > offsetof(hs_backend_call, user) && call->stop_requested && call->stop_requested(call->user);
}

hs_code hs_op_pass_gate(hs_op *op, hs_error *err)
{
    const hs_backend_call *call = op ? op->session->call : NULL;
    hs_error_clear(err);
    if (!op)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_op_pass_gate: op is NULL");
    bool has_gate = call && call->size > offsetof(hs_backend_call, pass_gate) && call->pass_gate;
    return has_gate ? call->pass_gate(call->user, err) : HS_OK;
}

bool hs_op_has_input(const hs_op *op)
{
    const hs_backend_call *call = op ? op->session->call : NULL;
    bool knows = call && call->size > offsetof(hs_backend_call, has_input) && call->has_input;
    return !knows || call->has_input(call->user);
}

void hs__op_report_wait(const hs_op *op, bool waiting)
{
    const hs_backend_call *call = op ? op->session->call : NULL;
    if (call && call->size > offsetof(hs_backend_call, waits) && call->waits)
        call->waits(call->user, waiting);
}

const char *hs_op_name(const hs_op *op)
{
    return op ? op->node->name : NULL;
}

/* Memory of outputs. */

/* Precedes the memory of an output in its block. */
typedef union {
    size_t capacity;
    max_align_t aligned;
} header;

void *hs_op_memory(hs_op *op, size_t index, size_t bytes, hs_error *err)
{
    hs_error_clear(err);
    if (!op) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_op_memory: op is NULL");
        return NULL;
    }
    if (index >= op->node->n_outputs) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "the op has %zu outputs, so output %zu does not exist", op->node->n_outputs,
                     index);
        return NULL;
    }
    const hs_output_def *output = &op->node->outputs[index];
    bool sets_view = !output->data && (output->dtype == HS_STRING || hs_shape_elements(&output->shape) < 0);
    if (!sets_view || op->node->is_dequeue || !op->session->owned) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "output %zu already has memory", index);
        return NULL;
    }
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
