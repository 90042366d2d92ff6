/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded graph as a backend. */
#include "backends/graph/graph.h"

#include "backends/output_name.h"

#include <string.h>

static const hs_env *graph_env(void *self)
{
    return &((hs_graph *)self)->env;
}

static hs_code graph_status(void *self, hs_error *err)
{
    const hs_graph *graph = self;
    return graph->error.code ? hs__error_copy(err, &graph->error) : HS_OK;
}

static hs_code graph_find(void *self, const char *name, hs_node *out, hs_error *err)
{
    const hs_graph *graph = self;
    hs__graph_node *node = hs__graph_node_of(graph, name);
    hs__output_name parsed = hs__parse_output_name(name);
    if (parsed.has_output && parsed.valid) {
        char *op_name = hs__strndup(&graph->env, name, parsed.op_length);
        if (!op_name)
            return hs__no_memory(err, strlen(name), "a name");
        node = hs__graph_node_of(graph, op_name);
        hs__free(&graph->env, op_name);
    }
    if (!node)
        return hs_error_set(err, HS_NOT_FOUND, "'%s' is not in the graph", name);
    size_t n_outputs = node->kind == HS__OP ? node->n_outputs : 1;
    if (parsed.output >= n_outputs && parsed.has_output)
        return hs_error_set(err, HS_NOT_FOUND, "'%s' is not in the graph: op '%s' has %zu output%s", name, node->name,
                            n_outputs, n_outputs == 1 ? "" : "s");
    bool has_value = parsed.has_output || n_outputs == 1;
    *out = (hs_node){.op = node, .output = has_value ? (int32_t)parsed.output : -1, .n_outputs = (int32_t)n_outputs};
    return HS_OK;
}

static hs_code graph_finalize(void *self, bool finalized, hs_error *err)
{
    hs_graph *graph = self;
    hs_code code = HS_OK;
    if (finalized) {
        if (graph->error.code)
            return hs__error_copy(err, &graph->error);
        if (!(code = hs__graph_ensure_builtins(graph, err)))
            code = hs__graph_prepare(graph, err);
    }
    if (!code)
        graph->finalized = finalized;
    return code;
}

static bool graph_finalized(void *self)
{
    return ((hs_graph *)self)->finalized;
}

static const char *graph_step_name(void *self)
{
    const hs_graph *graph = self;
    return graph->global_step ? graph->global_step->name : NULL;
}

static bool graph_collection_item(void *self, const char *key, size_t index, const void **item)
{
    const void *found = hs__graph_collected(self, key, index);
    if (found)
        *item = found;
    return found != NULL;
}

static hs_code graph_add_to_collection(void *self, const char *key, const void *item, void (*release)(void *item),
                                       hs_error *err)
{
    bool is_name = key && strcmp(key, HS_SAVERS) != 0 && strcmp(key, HS_QUEUE_RUNNERS) != 0;
    return hs__graph_collect(self, key, item, is_name, release, err);
}

static hs_code graph_default_op(void *self, const char *key, const char **name, hs_error *err)
{
    static const struct {
        const char *key;
        int builtin;
    } defaults[] = {
        {HS_INIT_OP, HS__BUILTIN_INIT},
        {HS_LOCAL_INIT_OP, HS__BUILTIN_LOCAL_INIT},
        {HS_READY_OP, HS__BUILTIN_READY},
        {HS_READY_FOR_LOCAL_INIT_OP, HS__BUILTIN_READY_FOR_LOCAL},
    };
    hs_graph *graph = self;
    *name = NULL;
    if (strcmp(key, HS_SUMMARY_OP) == 0)
        return hs__graph_default_merge(graph, name, err);
    hs_code code = hs__graph_ensure_builtins(graph, err);
    for (size_t i = 0; !code && i < sizeof defaults / sizeof *defaults; i++)
        if (strcmp(defaults[i].key, key) == 0)
            *name = graph->builtins[defaults[i].builtin];
    return code;
}

static bool graph_variable(void *self, size_t index, hs_variable *out)
{
    const hs_graph *graph = self;
    const hs__graph_node *node = NULL;
    if (graph->resolved) {
        node = index < graph->n_variables ? graph->variables[index] : NULL;
    } else {
        for (size_t i = 0, n = 0; i < graph->n_nodes && !node; i++)
            if (graph->nodes[i]->kind == HS__VARIABLE && n++ == index)
                node = graph->nodes[i];
    }
    if (!node)
        return false;
    *out = (hs_variable){
        .name = node->name, .dtype = node->dtype, .shape = node->shape, .flags = hs__variable_flags(&node->def)};
    return true;
}

static const hs_state_provider *graph_state(void *self, size_t index)
{
    const hs_graph *graph = self;
    return index < graph->n_states ? &graph->states[index].provider : NULL;
}

static hs_code graph_graph_def(void *self, hs_bytes *out, hs_error *err)
{
    return hs__graph_make_def(self, out, err);
}

const hs_backend_ops hs__graph_backend_ops = HS_INIT(
    hs_backend_ops, .name = "graph", .flags = HS_BACKEND_KEEPS_VIEWS, .env = graph_env, .status = graph_status,
    .find = graph_find, .finalize = graph_finalize, .finalized = graph_finalized, .global_step_name = graph_step_name,
    .collection_item = graph_collection_item, .add_to_collection = graph_add_to_collection, .default_op = graph_default_op,
    .variable = graph_variable, .state = graph_state, .graph_def = graph_graph_def, .open = hs__graph_session_open,
    .run = hs__graph_session_run, .close = hs__graph_session_close, .read_variable = hs__graph_read_variable,
    .write_variable = hs__graph_write_variable, .global_step = hs__graph_read_step, .advance_step = hs__graph_advance_step,
    .guard = hs__graph_guard, .lend_variable = hs__graph_lend_variable, .fork = hs__graph_session_fork,
    .lend_value = hs__graph_lend_value, .collective_op = hs__graph_collective_op);

/* The backend of a graph that is NULL. Opening a session on it reports the error. */

static hs_code no_graph_status(void *self, hs_error *err)
{
    (void)self;
    return hs_graph_error(NULL, err);
}

static hs_code no_graph_find(void *self, const char *name, hs_node *node, hs_error *err)
{
    (void)name, (void)node;
    return no_graph_status(self, err);
}

static hs_code no_graph_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    (void)target, (void)config, (void)session;
    return no_graph_status(self, err);
}

static hs_code no_graph_run(void *session, hs_backend_call *call, hs_error *err)
{
    (void)call;
    return no_graph_status(session, err);
}

static const hs_backend_ops no_graph_ops =
    HS_INIT(hs_backend_ops, .name = "no graph", .status = no_graph_status, .find = no_graph_find, .open = no_graph_open,
            .run = no_graph_run, .close = no_graph_status);

hs_backend hs_graph_backend(hs_graph *graph)
{
    return graph ? (hs_backend){&hs__graph_backend_ops, graph} : (hs_backend){&no_graph_ops, NULL};
}

hs_graph *hs_graph_of(hs_backend backend)
{
    return backend.ops == &hs__graph_backend_ops ? backend.self : NULL;
}
