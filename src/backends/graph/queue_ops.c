/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of a queue. */
#include "backends/graph/queue.h"

static hs__queue *queue_of(const void *self, const hs_op *op)
{
    return op->session->queues[((const hs__queue_def *)self)->index];
}

static hs_code copy_inputs(const hs__queue_def *def, const hs_op *op, hs__element *element, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < def->element.n_outputs; i++)
        code = hs__element_set(def, element, i, hs_op_input(op, i), err);
    return code;
}

hs_code hs__queue_run_enqueue(void *self, hs_op *op, hs_error *err)
{
    const hs__queue_def *def = self;
    hs__queue *queue = queue_of(self, op);
    hs__element *element = NULL;
    hs_code code = hs__queue_begin(queue, &element, err);
    if (code)
        return code;
    if (def->produce)
        return hs__queue_produce(queue, op, element, err);
    return hs__queue_end(queue, element, copy_inputs(def, op, element, err), err);
}

/* What it gives is the element's own memory, which is held until the next dequeue. */
hs_code hs__queue_run_dequeue(void *self, hs_op *op, hs_error *err)
{
    const hs__queue_def *def = self;
    hs__element **held = &op->session->held[def->index];
    hs_code code = hs__queue_take(queue_of(self, op), op, held, err);
    for (size_t i = 0; !code && i < def->element.n_outputs; i++)
        *hs_op_output(op, i) = (*held)->values[i];
    return code;
}

hs_code hs__queue_run_close(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    hs__queue_close(queue_of(self, op), false);
    return HS_OK;
}

hs_code hs__queue_run_cancel(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    hs__queue_close(queue_of(self, op), true);
    return HS_OK;
}

hs_code hs__queue_run_size(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    *(int32_t *)hs_op_output(op, 0)->data = hs__queue_size(queue_of(self, op));
    return HS_OK;
}
