/* SPDX-License-Identifier: Apache-2.0 */
/* The ops that every graph has: they initialize variables, and list uninitialized ones. */
#include "backends/graph/graph.h"

#include <string.h>

/* Memory of the program without `initialize` and `initial` keeps its value, or does not exist yet. */
static hs_code initialize(hs__graph_session *session, const hs__graph_node *variable, hs_error *err)
{
    const hs_variable_def *def = &variable->def;
    hs_tensor *tensor = &session->tensors[variable->slot];
    bool is_programs = variable->data || variable->moves;
    hs_code code = variable->moves ? hs__variable_place(def, false, tensor, err) : HS_OK;
    if (!code && (!is_programs || ((def->initialize || def->initial) && (tensor->data || !tensor->bytes))))
        code = hs__variable_reset(def, tensor, err);
    if (!code)
        session->initialized[variable->slot] = true;
    return code;
}

static hs_code initialize_all(hs_op *op, uint64_t local, hs_error *err)
{
    const hs_graph *graph = op->session->graph;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < graph->n_variables; i++)
        if ((graph->variables[i]->def.flags & HS_VARIABLE_LOCAL) == local)
            code = initialize(op->session, graph->variables[i], err);
    return code;
}

static hs_code run_init(void *self, hs_op *op, hs_error *err)
{
    (void)self;
    return initialize_all(op, 0, err);
}

static hs_code run_local_init(void *self, hs_op *op, hs_error *err)
{
    (void)self;
    return initialize_all(op, HS_VARIABLE_LOCAL, err);
}

/* Sets the output to the names of uninitialized variables. The list is allocated once, for all variables. */
static hs_code report_uninitialized(hs_op *op, bool with_local, hs_error *err)
{
    hs__graph_session *session = op->session;
    const hs_graph *graph = session->graph;
    void **owned = &session->owned[op->node->slot];
    if (!*owned && !(*owned = hs__alloc(&graph->env, graph->n_variables, sizeof(hs_string))))
        return hs__no_memory(err, graph->n_variables * sizeof(hs_string), "a list of variables");
    hs_string *names = *owned;
    int64_t n = 0;
    for (size_t i = 0; i < graph->n_variables; i++) {
        const hs__graph_node *variable = graph->variables[i];
        if (!session->initialized[variable->slot] && (with_local || !(variable->def.flags & HS_VARIABLE_LOCAL)))
            names[n++] = (hs_string){variable->name, strlen(variable->name)};
    }
    hs_tensor list = hs_tensor_of(HS_STRING, (hs_shape){.rank = 1, .dims = {n}}, names);
    return hs_op_set_output(op, 0, &list, err);
}

static hs_code report_all(void *self, hs_op *op, hs_error *err)
{
    (void)self;
    return report_uninitialized(op, true, err);
}

static hs_code report_global(void *self, hs_op *op, hs_error *err)
{
    (void)self;
    return report_uninitialized(op, false, err);
}

static const struct {
    const char *name;
    hs_op_fn run;
    bool reports;
} builtins[HS__BUILTINS] = {
    [HS__BUILTIN_INIT] = {"init", run_init, false},
    [HS__BUILTIN_LOCAL_INIT] = {"local_init", run_local_init, false},
    [HS__BUILTIN_READY] = {"report_uninitialized_variables", report_all, true},
    [HS__BUILTIN_READY_FOR_LOCAL] = {"report_uninitialized_global_variables", report_global, true},
};

/* Adds one of the ops. Sets *given to its name. */
static hs_code add_builtin(hs_graph *graph, const char *name, hs_op_fn run, const hs_output_def *outputs,
                           const char **given, hs_error *err)
{
    hs__graph_node *node;
    const hs_op_def def = HS_INIT(hs_op_def, .name = name, .run = run, .user = graph, .outputs = outputs);
    hs_code code = hs__graph_add_unique(graph, &def, &node, err);
    if (!code) {
        node->builtin = true;
        *given = node->name;
    }
    return code;
}

hs_code hs__graph_ensure_builtins(hs_graph *graph, hs_error *err)
{
    static const hs_output_def list[] = {{.dtype = HS_STRING, .shape = {.rank = 1, .dims = {-1}}},
                                         {.dtype = HS_DTYPE_NONE}};
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < HS__BUILTINS; i++)
        if (!graph->builtins[i])
            code = add_builtin(graph, builtins[i].name, builtins[i].run, builtins[i].reports ? list : NULL,
                               &graph->builtins[i], err);
    return code;
}

hs_code hs__graph_prepare(hs_graph *graph, hs_error *err)
{
    if (graph->resolved)
        return HS_OK;
    hs_code code = hs__graph_update_merge(graph, err);
    return code ? code : hs__graph_resolve(graph, err);
}
