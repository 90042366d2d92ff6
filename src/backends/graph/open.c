/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing sessions of the embedded graph: their memory. */
#include "backends/graph/graph.h"

#include <string.h>

static hs_code own(hs__graph_session *session, size_t slot, size_t bytes, hs_error *err)
{
    hs_tensor *tensor = &session->tensors[slot];
    session->owned[slot] = hs__alloc(&session->graph->env, bytes, 1);
    if (!session->owned[slot])
        return hs__no_memory(err, bytes, "the memory of a tensor");
    tensor->data = session->owned[slot];
    tensor->bytes = bytes;
    return HS_OK;
}

hs_code hs__graph_own_outputs(hs__graph_session *session, const hs__graph_node *op, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && !op->lends && i < op->n_outputs; i++) {
        const hs_output_def *output = &op->outputs[i];
        size_t slot = op->slot + i;
        if (!output->data && !session->owned[slot] && output->dtype != HS_STRING && hs_shape_elements(&output->shape) >= 0)
            code = own(session, slot, session->tensors[slot].bytes, err);
    }
    return code;
}

/* A fork executes few of the ops, and gets memory for those that it does. */
static hs_code place_outputs(hs__graph_session *session, const hs__graph_node *op, hs_error *err)
{
    for (size_t i = 0; i < op->n_outputs; i++) {
        const hs_output_def *output = &op->outputs[i];
        hs_tensor *tensor = &session->tensors[op->slot + i];
        *tensor = hs_tensor_of(output->dtype, output->shape, output->data);
        tensor->memory = output->memory;
        if (hs_shape_elements(&output->shape) < 0)
            tensor->rank = -1; /* until it is set */
    }
    return session->forked ? HS_OK : hs__graph_own_outputs(session, op, err);
}

static hs_code place(hs__graph_session *session, const hs__graph_node *node, hs_error *err)
{
    if (node->kind == HS__OP)
        return place_outputs(session, node, err);
    hs_tensor *tensor = &session->tensors[node->slot];
    *tensor = hs_tensor_of(node->dtype, node->shape, node->data);
    tensor->memory = node->memory;
    if (session->forked && node->kind == HS__VARIABLE)
        return HS_OK; /* which nobody looks at */
    session->initialized[node->slot] = node->kind != HS__VARIABLE || node->data || node->moves;
    if (session->initialized[node->slot])
        return HS_OK;
    return own(session, node->slot, tensor->bytes, err);
}

static void free_session(hs__graph_session *session)
{
    hs_graph *graph = session->graph;
    const hs_env *env = &graph->env;
    hs__graph_close_queues(session);
    for (size_t i = 0; session->owned && i < session->graph->n_slots; i++)
        hs__free(env, session->owned[i]);
    void *const blocks[] = {session->tensors, session->owned,  session->initialized, (void *)session->fed,
                            session->fed_in,  session->needed, session->stack,       session->trace};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        hs__free(env, blocks[i]);
    hs__buffer_free(&session->metadata);
    hs__free(env, session);
    hs__graph_release(graph);
}

static hs_code allocate(hs__graph_session *session, hs_error *err)
{
    const hs_graph *graph = session->graph;
    const hs_env *env = &graph->env;
    size_t n = graph->n_slots;
    session->tensors = hs__alloc(env, n, sizeof *session->tensors);
    session->owned = hs__alloc(env, n, sizeof *session->owned);
    session->initialized = hs__alloc(env, n, sizeof *session->initialized);
    session->fed = hs__alloc(env, n, sizeof *session->fed);
    session->fed_in = hs__alloc(env, n, sizeof *session->fed_in);
    session->needed = hs__alloc(env, (graph->n_ops + 63) / 64, sizeof *session->needed);
    session->stack = hs__alloc(env, graph->n_ops, sizeof *session->stack);
    session->trace = hs__alloc(env, 2 * graph->n_ops, sizeof *session->trace);
    if (!session->tensors || !session->owned || !session->initialized || !session->fed || !session->fed_in ||
        !session->needed || !session->stack || !session->trace)
        return hs__no_memory(err, n * sizeof *session->tensors, "a session of the graph");
    return HS_OK;
}

hs_code hs__graph_session_make(hs_graph *graph, const hs__graph_session *parent, hs__graph_session **session, hs_error *err)
{
    hs__graph_session *made = hs__alloc(&graph->env, 1, sizeof *made);
    if (!made)
        return hs__no_memory(err, sizeof *made, "a session of the graph");
    made->graph = graph;
    made->forked = parent != NULL;
    atomic_fetch_add(&graph->references, 1);
    hs__buffer_init(&made->metadata, &graph->env);
    hs_code code = allocate(made, err);
    for (size_t i = 0; !code && i < graph->n_nodes; i++)
        code = place(made, graph->nodes[i], err);
    if (code || (code = hs__graph_open_queues(made, parent, err)))
        free_session(made);
    else
        *session = made;
    return code;
}

static hs_code check_alone(const hs_graph *graph, hs_error *err)
{
    if (!graph->live_sessions || (!graph->program_memory && !graph->has_position))
        return HS_OK;
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "the graph has %s, so it can have only one open session; close that session first",
                        graph->program_memory ? "variables in the program's memory" : "a queue with a position");
}

hs_code hs__graph_session_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    hs_graph *graph = self;
    (void)config;
    if (graph->error.code)
        return hs__error_copy(err, &graph->error);
    if (target && *target && strcmp(target, "local") != 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "the graph backend cannot connect to target '%s'; its sessions run in this process", target);
    hs__graph_session *made = NULL;
    hs_code code;
    /* No op is added any more while the session, or a fork of it, lives. */
    if ((code = check_alone(graph, err)) || (code = hs__graph_ensure_builtins(graph, err)) ||
        (code = hs__graph_resolve(graph, err)) || (code = hs__graph_session_make(graph, NULL, &made, err)))
        return code;
    graph->live_sessions++;
    *session = made;
    return HS_OK;
}

hs_code hs__graph_session_close(void *session, hs_error *err)
{
    (void)err;
    hs__graph_session *closing = session;
    hs__graph_guard(session, (hs_write_guard){NULL, NULL, NULL});
    if (!closing->forked)
        closing->graph->live_sessions--;
    free_session(closing);
    return HS_OK;
}
