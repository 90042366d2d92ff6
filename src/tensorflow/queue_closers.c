/* SPDX-License-Identifier: Apache-2.0 */
/* The graph's queues, and the ops that close them with what is pending in them. */
#include "tensorflow/queue_closers.h"

#include <string.h>

/* Kinds of queues, by the type of op that closes them. */
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

/* NULL: the op is no queue. */
static const kind *kind_of(const hs__tf_backend *backend, TF_Operation *op)
{
    const char *type = backend->tf.OperationOpType(op);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].type) == 0)
            return &kinds[i];
    return NULL;
}

bool hs__tf_is_queue(const hs__tf_backend *backend, TF_Operation *op)
{
    return kind_of(backend, op) != NULL;
}

hs_code hs__tf_list_op(const hs__tf_backend *backend, hs__tf_ops_list *list, TF_Operation *op, hs_error *err)
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

/* The graph's own, or one that was added before. *closer is NULL where there is none. */
static hs_code find_closer(const hs__tf_backend *backend, TF_Operation *queue, const kind *of, TF_Operation **closer,
                           hs_error *err)
{
    const hs__tf_api *tf = &backend->tf;
    TF_Input *users;
    int n;
    hs_code code = hs__tf_users_of(backend, (TF_Output){queue, 0}, &users, &n, err);
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
    hs_code code = hs__tf_builder_begin(&builder, backend, err);
    if (code)
        return code;
    TF_OperationDescription *op = hs__tf_begin_op(&builder, of->closer, PREFIX "cancel_queue");
    if (op) {
        backend->tf.AddInput(op, (TF_Output){queue, 0});
        backend->tf.SetAttrBool(op, "cancel_pending_enqueues", 1);
    }
    *closer = hs__tf_finish_op(&builder, op).oper;
    return hs__tf_builder_end(&builder);
}

/* To the list, if the queue has one. */
static hs_code list_closer(hs__tf_backend *backend, TF_Operation *queue, bool remote, hs__tf_ops_list *closers,
                           hs_error *err)
{
    const kind *of = kind_of(backend, queue);
    TF_Operation *closer;
    hs_code code = find_closer(backend, queue, of, &closer, err);
    if (code)
        return code;
    if (remote && closer && strncmp(backend->tf.OperationName(closer), PREFIX, sizeof PREFIX - 1) == 0)
        return HS_OK; /* not the graph's own */
    if (!closer && !remote)
        code = add_closer(backend, queue, of, &closer, err);
    return code || !closer ? code : hs__tf_list_op(backend, closers, closer, err);
}

/* Ops that are added on the way come at the end, and are no queues. */
hs_code hs__tf_find_closers(hs__tf_backend *backend, bool remote, hs__tf_ops_list *closers, bool *has_queues, hs_error *err)
{
    hs_code code = HS_OK;
    size_t at = 0;
    TF_Operation *op;
    *has_queues = false;
    while (!code && (op = backend->tf.GraphNextOperation(backend->graph, &at)))
        if (hs__tf_is_queue(backend, op)) {
            *has_queues = true;
            code = list_closer(backend, op, remote, closers, err);
        }
    return code;
}

/* An op that is run where all of these are. */
static hs_code add_group(hs__tf_backend *backend, const hs__tf_ops_list *ops, const char **name, hs_error *err)
{
    hs__tf_builder builder;
    hs_code code = hs__tf_builder_begin(&builder, backend, err);
    if (code)
        return code;
    TF_OperationDescription *group = hs__tf_begin_op(&builder, "NoOp", PREFIX "cancel_runner");
    for (size_t i = 0; group && i < ops->n; i++)
        backend->tf.AddControlInput(group, ops->ops[i]);
    TF_Output made = hs__tf_finish_op(&builder, group);
    if (made.oper)
        *name = backend->tf.OperationName(made.oper);
    return hs__tf_builder_end(&builder);
}

static hs_code list_upstream(hs__tf_backend *backend, const char *const *enqueue_ops, hs__tf_ops_list *queues,
                             hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && enqueue_ops[i]; i++) {
        TF_Operation *op = NULL;
        if (!(code = hs__tf_find_op(backend, enqueue_ops[i], &op, err)) && op)
            code = hs__tf_upstream_queues(backend, op, queues, err);
    }
    return code;
}

/* What is not in the graph is left to whoever starts the runner, and says so. */
hs_code hs__tf_cancel_all(hs__tf_backend *backend, const char *const *enqueue_ops, const char *cancel_op, bool remote,
                          const char **name, hs_error *err)
{
    hs__tf_ops_list queues = {.ops = NULL}, closers = {.ops = NULL};
    TF_Operation *cancel = NULL;
    *name = cancel_op;
    hs_code code = cancel_op ? hs__tf_find_op(backend, cancel_op, &cancel, err) : HS_OK;
    if (!code && cancel && !(code = list_upstream(backend, enqueue_ops, &queues, err)) && queues.n)
        code = hs__tf_list_op(backend, &closers, cancel, err);
    for (size_t i = 0; !code && i < queues.n; i++)
        code = list_closer(backend, queues.ops[i], remote, &closers, err);
    if (!code && closers.n > 1)
        code = add_group(backend, &closers, name, err);
    hs__free(&backend->env, queues.ops);
    hs__free(&backend->env, closers.ops);
    return code;
}
