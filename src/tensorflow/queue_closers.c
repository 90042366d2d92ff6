/* SPDX-License-Identifier: Apache-2.0 */
/* Finds or adds the ops that close the graph's queues and cancel the enqueue ops that wait for them. */
#include "tensorflow/queue_closers.h"

#include <string.h>

/* Types of queues, with the type of the op that closes them. */
typedef struct {
    const char *type, *closer;
} kind;
static const kind kinds[] = {
    {"FIFOQueueV2", "QueueCloseV2"},     {"PaddingFIFOQueueV2", "QueueCloseV2"},
    {"PriorityQueueV2", "QueueCloseV2"}, {"RandomShuffleQueueV2", "QueueCloseV2"},
    {"FIFOQueue", "QueueClose"},         {"PaddingFIFOQueue", "QueueClose"},
    {"PriorityQueue", "QueueClose"},     {"RandomShuffleQueue", "QueueClose"},
    {"Barrier", "BarrierClose"},
};
#define PREFIX "hooksess/"

/* NULL: the op is not a queue. */
static const kind *kind_of(const hs__tf_backend *backend, TF_Operation *op)
{
    const char *type = backend->tf.OperationOpType(op);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].type) == 0)
            return &kinds[i];
    return NULL;
}

static bool is_queue(const hs__tf_backend *backend, TF_Operation *op)
{
    return kind_of(backend, op) != NULL;
}

/* Appends an op that the list does not have. */
static hs_code list_op(const hs__tf_backend *backend, hs__tf_ops_list *list, TF_Operation *op, hs_error *err)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->ops[i] == op)
            return HS_OK;
    hs_code code = hs__reserve(&backend->env, &list->ops, &list->capacity, list->n + 1, sizeof *list->ops, err);
    if (!code)
        list->ops[list->n++] = op;
    return code;
}

static bool cancels(const hs__tf_backend *backend, TF_Operation *op)
{
    const hs__tf_api *tf = &backend->tf;
    TF_Status *status = tf->NewStatus();
    unsigned char value = 0;
    tf->OperationGetAttrBool(op, "cancel_pending_enqueues", &value, status);
    bool does = tf->GetCode(status) == TF_OK && value;
    tf->DeleteStatus(status);
    return does;
}

/* Sets *closer to an op that closes the queue and cancels; an earlier call may have added it. NULL: no such op. */
static hs_code find_closer(const hs__tf_backend *backend, TF_Operation *queue, const kind *of, TF_Operation **closer,
                           hs_error *err)
{
    const hs__tf_api *tf = &backend->tf;
    TF_Input *users;
    int n;
    hs_code code = hs__tf_consumers(backend, (TF_Output){queue, 0}, &users, &n, err);
    *closer = NULL;
    for (int i = 0; !*closer && i < n; i++)
        if (strcmp(tf->OperationOpType(users[i].oper), of->closer) == 0 && cancels(backend, users[i].oper))
            *closer = users[i].oper;
    hs__free(&backend->env, users);
    return code;
}

static hs_code add_closer(hs__tf_backend *backend, TF_Operation *queue, const kind *of, TF_Operation **closer,
                          hs_error *err)
{
    hs__tf_builder builder;
    hs__tf_builder_begin(&builder, backend, err);
    TF_OperationDescription *op = hs__tf_begin_op(&builder, of->closer, PREFIX "cancel_queue");
    if (op) {
        backend->tf.AddInput(op, (TF_Output){queue, 0});
        backend->tf.SetAttrBool(op, "cancel_pending_enqueues", 1);
    }
    *closer = hs__tf_finish_op(&builder, op).oper;
    return hs__tf_builder_end(&builder);
}

/* Appends the queue's closer to the list. Adds a missing closer to the graph, except for a remote session. */
static hs_code list_closer(hs__tf_backend *backend, TF_Operation *queue, bool remote, hs__tf_ops_list *closers,
                           hs_error *err)
{
    const kind *of = kind_of(backend, queue);
    TF_Operation *closer;
    hs_code code = find_closer(backend, queue, of, &closer, err);
    if (code)
        return code;
    if (remote && closer && strncmp(backend->tf.OperationName(closer), PREFIX, sizeof PREFIX - 1) == 0)
        return HS_OK; /* an added one */
    if (!closer && !remote)
        code = add_closer(backend, queue, of, &closer, err);
    return code || !closer ? code : list_op(backend, closers, closer, err);
}

/* Ops that this function adds come last in the graph, and are not queues. */
hs_code hs__tf_find_closers(hs__tf_backend *backend, bool remote, hs__tf_ops_list *closers, bool *has_queues, hs_error *err)
{
    hs_code code = HS_OK;
    size_t at = 0;
    TF_Operation *op;
    *has_queues = false;
    while (!code && (op = backend->tf.GraphNextOperation(backend->graph, &at)))
        if (is_queue(backend, op)) {
            *has_queues = true;
            code = list_closer(backend, op, remote, closers, err);
        }
    return code;
}

/* Adds an op that runs all of `ops`. */
static hs_code add_group(hs__tf_backend *backend, const hs__tf_ops_list *ops, const char **name, hs_error *err)
{
    hs__tf_builder builder;
    hs__tf_builder_begin(&builder, backend, err);
    TF_OperationDescription *group = hs__tf_begin_op(&builder, "NoOp", PREFIX "cancel_runner");
    for (size_t i = 0; group && i < ops->n; i++)
        backend->tf.AddControlInput(group, ops->ops[i]);
    TF_Output made = hs__tf_finish_op(&builder, group);
    if (made.oper)
        *name = backend->tf.OperationName(made.oper);
    return hs__tf_builder_end(&builder);
}

/* The queues that an op waits for: those from which it, or an op that it needs, takes elements. */

typedef struct {
    hs__tf_backend *backend;
    hs__map visited; /* names of ops */
    TF_Operation **ops;
    size_t n, capacity; /* of `ops`: all visited ops, in the order in which their inputs are visited */
    hs__tf_ops_list *queues;
} walk;

/* Returns true if the op takes elements from a queue. Closing a queue and reading its size do not wait. An enqueue op ends
 * when its own queue is closed. */
static bool dequeues(const hs__tf_backend *backend, TF_Operation *op)
{
    static const char *const types[] = {"QueueDequeue", "BarrierTake", "ReaderRead"};
    const char *type = backend->tf.OperationOpType(op);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strncmp(type, types[i], strlen(types[i])) == 0)
            return true;
    return false;
}

static hs_code visit(walk *w, TF_Operation *op, hs_error *err)
{
    const hs__tf_api *tf = &w->backend->tf;
    hs_code code;
    if (hs__map_find(&w->visited, tf->OperationName(op)) != HS__NONE)
        return HS_OK;
    if ((code = hs__map_add(&w->visited, tf->OperationName(op), w->n, NULL, err)) ||
        (code = hs__reserve(&w->backend->env, &w->ops, &w->capacity, w->n + 1, sizeof *w->ops, err)))
        return code;
    w->ops[w->n++] = op;
    return HS_OK;
}

static hs_code visit_inputs(walk *w, TF_Operation *op, hs_error *err)
{
    const hs__tf_api *tf = &w->backend->tf;
    hs_code code = HS_OK;
    for (int i = 0; !code && i < tf->OperationNumInputs(op); i++) {
        TF_Operation *from = tf->OperationInput((TF_Input){op, i}).oper;
        if (!is_queue(w->backend, from))
            code = visit(w, from, err);
        else if (dequeues(w->backend, op))
            code = list_op(w->backend, w->queues, from, err);
    }
    return code;
}

static hs_code visit_controls(walk *w, TF_Operation *op, hs_error *err)
{
    const hs__tf_api *tf = &w->backend->tf;
    int n = tf->OperationNumControlInputs(op);
    TF_Operation **controls = n > 0 ? hs__alloc(&w->backend->env, (size_t)n, sizeof *controls) : NULL;
    hs_code code = HS_OK;
    if (n > 0 && !controls)
        return hs__no_memory(err, (size_t)n * sizeof *controls, "the inputs of an op");
    n = controls ? tf->OperationGetControlInputs(op, controls, n) : 0;
    for (int i = 0; !code && i < n; i++)
        code = visit(w, controls[i], err);
    hs__free(&w->backend->env, controls);
    return code;
}

static hs_code list_upstream_queues(hs__tf_backend *backend, TF_Operation *op, hs__tf_ops_list *queues, hs_error *err)
{
    walk w = {.backend = backend, .queues = queues};
    hs__map_init(&w.visited, &backend->env);
    hs_code code = visit(&w, op, err);
    for (size_t i = 0; !code && i < w.n; i++)
        if (!(code = visit_inputs(&w, w.ops[i], err)))
            code = visit_controls(&w, w.ops[i], err);
    hs__free(&backend->env, w.ops);
    hs__map_free(&w.visited);
    return code;
}

static hs_code list_upstream(hs__tf_backend *backend, const char *const *enqueue_ops, hs__tf_ops_list *queues,
                             hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && enqueue_ops[i]; i++) {
        TF_Operation *op = NULL;
        if (!(code = hs__tf_find_op(backend, enqueue_ops[i], &op, err)) && op)
            code = list_upstream_queues(backend, op, queues, err);
    }
    return code;
}

/* Ignores names that are not in the graph: starting the runner fails with an error that names them. */
hs_code hs__tf_make_cancel_op(hs__tf_backend *backend, const char *const *enqueue_ops, const char *cancel_op, bool remote,
                              const char **name, hs_error *err)
{
    hs__tf_ops_list queues = {.ops = NULL}, closers = {.ops = NULL};
    TF_Operation *cancel = NULL;
    *name = cancel_op;
    hs_code code = cancel_op ? hs__tf_find_op(backend, cancel_op, &cancel, err) : HS_OK;
    if (!code && cancel && !(code = list_upstream(backend, enqueue_ops, &queues, err)) && queues.n)
        code = list_op(backend, &closers, cancel, err);
    for (size_t i = 0; !code && i < queues.n; i++)
        code = list_closer(backend, queues.ops[i], remote, &closers, err);
    if (!code && closers.n > 1)
        code = add_group(backend, &closers, name, err);
    hs__free(&backend->env, queues.ops);
    hs__free(&backend->env, closers.ops);
    return code;
}
