/* SPDX-License-Identifier: Apache-2.0 */
/* The queues that an op waits for: those that it, or what it needs, takes elements from. */
#include "tensorflow/queue_closers.h"

#include <string.h>

typedef struct {
    hs__tf_backend *backend;
    hs__map seen; /* names of ops */
    TF_Operation **ops;
    size_t n, capacity; /* those that were seen; what they need is looked at in that order */
    hs__tf_ops_list *queues;
} walk;

/* Closing one, or asking for its size, waits for nothing, and what puts elements in is woken by its own queue's end. */
static bool takes(const hs__tf_backend *backend, TF_Operation *op)
{
    static const char *const takers[] = {"QueueDequeue", "BarrierTake", "ReaderRead"};
    const char *type = backend->tf.OperationOpType(op);
    for (size_t i = 0; i < sizeof takers / sizeof *takers; i++)
        if (strncmp(type, takers[i], strlen(takers[i])) == 0)
            return true;
    return false;
}

static hs_code add(walk *w, TF_Operation *op, hs_error *err)
{
    const hs__tf_api *tf = &w->backend->tf;
    hs_code code;
    if (hs__map_find(&w->seen, tf->OperationName(op)) != HS__NONE)
        return HS_OK;
    if ((code = hs__map_add(&w->seen, tf->OperationName(op), w->n, NULL, err)) ||
        (code = hs__reserve(&w->backend->env, &w->ops, &w->capacity, w->n + 1, sizeof *w->ops, err)))
        return code;
    w->ops[w->n++] = op;
    return HS_OK;
}

static hs_code look_at_inputs(walk *w, TF_Operation *op, hs_error *err)
{
    const hs__tf_api *tf = &w->backend->tf;
    hs_code code = HS_OK;
    for (int i = 0; !code && i < tf->OperationNumInputs(op); i++) {
        TF_Operation *from = tf->OperationInput((TF_Input){op, i}).oper;
        if (!hs__tf_is_queue(w->backend, from))
            code = add(w, from, err);
        else if (takes(w->backend, op))
            code = hs__tf_list_op(w->backend, w->queues, from, err);
    }
    return code;
}

static hs_code look_at_controls(walk *w, TF_Operation *op, hs_error *err)
{
    const hs__tf_api *tf = &w->backend->tf;
    int n = tf->OperationNumControlInputs(op);
    TF_Operation **controls = n > 0 ? hs__alloc(&w->backend->env, (size_t)n, sizeof *controls) : NULL;
    hs_code code = HS_OK;
    if (n > 0 && !controls)
        return hs__no_memory(err, (size_t)n * sizeof *controls, "the inputs of an op");
    n = controls ? tf->OperationGetControlInputs(op, controls, n) : 0;
    for (int i = 0; !code && i < n; i++)
        code = add(w, controls[i], err);
    hs__free(&w->backend->env, controls);
    return code;
}

hs_code hs__tf_upstream_queues(hs__tf_backend *backend, TF_Operation *op, hs__tf_ops_list *queues, hs_error *err)
{
    walk w = {.backend = backend, .queues = queues};
    hs__map_init(&w.seen, &backend->env);
    hs_code code = add(&w, op, err);
    for (size_t i = 0; !code && i < w.n; i++)
        if (!(code = look_at_inputs(&w, w.ops[i], err)))
            code = look_at_controls(&w, w.ops[i], err);
    hs__free(&backend->env, w.ops);
    hs__map_free(&w.seen);
    return code;
}
