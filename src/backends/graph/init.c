/* SPDX-License-Identifier: Apache-2.0 */
/* The ops that the library adds to a graph: first the one that merges summaries, then those that initialize variables and
 * list uninitialized ones. hs__graph_prepare makes a graph ready for a session. */
#include <hooksess/graph_summary.h>

#include "backends/graph/graph.h"

#include <string.h>

/* The op that merges all summaries of a graph. It concatenates them: a serialized Summary is a list of values. */

static hs_code count_bytes(const hs_op *op, size_t index, const hs_tensor *input, size_t *bytes, hs_error *err)
{
    if (input->dtype != HS_STRING || input->memory)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' in the collection '%s' is not a string (a serialized Summary)",
                            op->node->input_names[index], HS_SUMMARIES);
    const hs_string *strings = input->data;
    for (size_t i = 0; i < input->bytes / sizeof *strings; i++) {
        if (strings[i].bytes && !strings[i].data)
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "'%s' in the collection '%s' is a string of %zu bytes whose data is NULL",
                                op->node->input_names[index], HS_SUMMARIES, strings[i].bytes);
        if (strings[i].bytes > SIZE_MAX / 2 - *bytes)
            return hs__no_memory(err, strings[i].bytes, "the merged summaries");
        *bytes += strings[i].bytes;
    }
    return HS_OK;
}

static hs_code run_merge(void *self, hs_op *op, hs_error *err)
{
    size_t bytes = 0;
    hs_code code = HS_OK;
    (void)self;
    for (size_t i = 0; !code && i < op->node->n_inputs; i++)
        code = count_bytes(op, i, hs_op_input(op, i), &bytes, err);
    hs_string *merged = code ? NULL : hs_op_memory(op, 0, sizeof *merged + bytes, err);
    if (!merged)
        return code ? code : HS_RESOURCE_EXHAUSTED;
    char *to = (char *)(merged + 1);
    *merged = (hs_string){to, bytes};
    for (size_t i = 0; i < op->node->n_inputs; i++) {
        const hs_tensor *input = hs_op_input(op, i);
        const hs_string *strings = input->data;
        for (size_t k = 0; k < input->bytes / sizeof *strings; k++)
            if (strings[k].bytes) {
                memcpy(to, strings[k].data, strings[k].bytes);
                to += strings[k].bytes;
            }
    }
    const hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, merged);
    return hs_op_set_output(op, 0, &value, err);
}

/* Makes all summaries inputs of the op that merges them, unless the graph is in use. */
static hs_code update_merge(hs_graph *graph, hs_error *err)
{
    const hs_env *env = &graph->env;
    hs__graph_node *merge = graph->merge_summaries;
    if (!merge || !hs__graph_may_change(graph))
        return HS_OK;
    const char **names = hs__alloc(env, graph->n_collected + 1, sizeof *names);
    if (!names)
        return hs__no_memory(err, graph->n_collected * sizeof *names, "the summaries of a graph");
    size_t n = 0;
    for (size_t i = 0; i < graph->n_collected; i++) {
        const char *name = graph->collected[i].item;
        bool skips = strcmp(graph->collected[i].key, HS_SUMMARIES) != 0;
        for (size_t k = 0; !skips && k < n; k++)
            skips = strcmp(names[k], name) == 0;
        if (!skips)
            names[n++] = name;
    }
    if (n == merge->n_inputs) { /* summaries are never removed */
        hs__free(env, names);
        return HS_OK;
    }
    const char *const *copied = hs__names_copy(env, names);
    hs__edge *inputs = hs__alloc(env, n, sizeof *inputs);
    hs__free(env, names);
    if (!copied || !inputs) {
        hs__free(env, (void *)copied);
        hs__free(env, inputs);
        return hs__no_memory(err, n * sizeof *inputs, "the summaries of a graph");
    }
    hs__free(env, (void *)merge->input_names);
    hs__free(env, merge->inputs);
    merge->input_names = copied;
    merge->inputs = inputs;
    merge->n_inputs = n;
    return HS_OK;
}

static hs_code make_merge(hs_graph *graph, hs_error *err)
{
    static const char *const none[] = {NULL};
    static const hs_output_def string[] = {{.dtype = HS_STRING}, {.dtype = HS_DTYPE_NONE}};
    const hs_op_def def = HS_INIT(hs_op_def, .name = "Merge/MergeSummary", .type = "MergeSummary", .run = run_merge,
                                  .outputs = string, .writes = none);
    hs__graph_node *made;
    hs_code code = hs__graph_add_unique(graph, &def, &made, err);
    if (code)
        return code;
    made->is_summary = true;
    graph->merge_summaries = made;
    return HS_OK;
}

hs_code hs__graph_default_merge(hs_graph *graph, const char **name, hs_error *err)
{
    hs_code code = HS_OK;
    bool any = hs__graph_collected(graph, HS_SUMMARIES, 0) != NULL;
    if (any && !graph->merge_summaries && !hs__graph_may_change(graph))
        hs_log(&graph->env, HS_LOG_WARNING, "the graph's summaries are not merged: the graph has an open session");
    else if (any && !graph->merge_summaries)
        code = make_merge(graph, err);
    *name = code || !graph->merge_summaries ? NULL : graph->merge_summaries->name;
    return code;
}

hs_code hs_graph_merge_all_summaries(hs_graph *graph, const char **name)
{
    hs_error error = {0};
    bool is_merged = false; /* the op exists and is in the collection HS_SUMMARY_OP */
    if (name)
        *name = NULL;
    for (size_t i = 0; graph && graph->merge_summaries && i < graph->n_collected; i++)
        is_merged |= strcmp(graph->collected[i].key, HS_SUMMARY_OP) == 0 &&
                     strcmp(graph->collected[i].item, graph->merge_summaries->name) == 0;
    if (!is_merged) {
        hs_code code = hs__graph_check_open(graph, "op", "Merge/MergeSummary");
        if (code)
            return code;
        const char *item = hs__graph_collected(graph, HS_SUMMARY_OP, 0);
        if (item)
            hs_error_set(&error, HS_ALREADY_EXISTS,
                         "cannot merge all summaries: the graph's collection '%s' already has '%s'", HS_SUMMARY_OP, item);
        else if (graph->merge_summaries || !make_merge(graph, &error))
            hs__graph_collect(graph, HS_SUMMARY_OP, graph->merge_summaries->name, true, NULL, &error);
        if ((code = hs__graph_record_error(graph, &error)))
            return code;
    }
    if (name)
        *name = graph->merge_summaries->name;
    return HS_OK;
}

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

hs_code hs__graph_ensure_builtins(hs_graph *graph, hs_error *err)
{
    static const hs_output_def list[] = {{.dtype = HS_STRING, .shape = {.rank = 1, .dims = {-1}}},
                                         {.dtype = HS_DTYPE_NONE}};
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < HS__BUILTINS; i++) {
        hs__graph_node *node;
        const hs_op_def def = HS_INIT(hs_op_def, .name = builtins[i].name, .run = builtins[i].run, .user = graph,
                                      .outputs = builtins[i].reports ? list : NULL);
        if (graph->builtins[i] || (code = hs__graph_add_unique(graph, &def, &node, err)))
            continue;
        node->builtin = true;
        graph->builtins[i] = node->name;
    }
    return code;
}

hs_code hs__graph_prepare(hs_graph *graph, hs_error *err)
{
    if (graph->resolved)
        return HS_OK;
    hs_code code = update_merge(graph, err);
    return code ? code : hs__graph_resolve(graph, err);
}
