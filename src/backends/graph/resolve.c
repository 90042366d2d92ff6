/* SPDX-License-Identifier: Apache-2.0 */
/* From names to nodes: edges, the order of execution, a slot for each tensor. */
#include "backends/graph/graph.h"

#include <stdlib.h>
#include <string.h>

void hs__graph_unresolve(hs_graph *graph)
{
    hs__free(&graph->env, graph->order);
    hs__free(&graph->env, graph->variables);
    graph->order = graph->variables = NULL;
    graph->resolved = false;
    hs__buffer_clear(&graph->graph_def);
}

/* "loss:1" is node "loss", output 1; without a number, output 0. */
static hs_code find_edge(const hs_graph *graph, const hs__graph_node *op, const char *name, hs__edge *edge, hs_error *err)
{
    const char *colon = strrchr(name, ':');
    char *end = NULL;
    unsigned long output = colon ? strtoul(colon + 1, &end, 10) : 0;
    char *base = hs__strndup(&graph->env, name, colon ? (size_t)(colon - name) : strlen(name));
    if (!base)
        return hs__no_memory(err, strlen(name), "a name");
    hs__graph_node *node = hs__graph_node_of(graph, base);
    hs__free(&graph->env, base);
    size_t n_outputs = node && node->kind == HS__OP ? node->n_outputs : 1;
    if (!node)
        return hs_error_set(err, HS_NOT_FOUND, "op '%s' has the input '%s', which is not in the graph", op->name, name);
    if ((colon && (end == colon + 1 || *end)) || output >= n_outputs)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "op '%s' has the input '%s', but '%s' has %zu outputs", op->name,
                            name, node->name, n_outputs);
    *edge = (hs__edge){node, output};
    return HS_OK;
}

static hs_code resolve_op(const hs_graph *graph, hs__graph_node *op, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < op->n_inputs; i++)
        code = find_edge(graph, op, op->input_names[i], &op->inputs[i], err);
    for (size_t i = 0; !code && i < op->n_controls; i++) {
        op->controls[i] = hs__graph_node_of(graph, op->control_names[i]);
        if (!op->controls[i] || op->controls[i]->kind != HS__OP)
            code = hs_error_set(err, HS_NOT_FOUND, "op '%s' has the control input '%s', which is no op of the graph",
                                op->name, op->control_names[i]);
    }
    for (size_t i = 0; !code && i < op->n_writes; i++) {
        op->writes[i] = hs__graph_node_of(graph, op->write_names[i]);
        if (!op->writes[i] || (op->writes[i]->kind != HS__VARIABLE && op->writes[i]->kind != HS__VALUE))
            code =
                hs_error_set(err, HS_NOT_FOUND, "op '%s' writes '%s', which is neither a variable nor a value of the graph",
                             op->name, op->write_names[i]);
    }
    return code;
}

static hs__graph_node *dependency(const hs__graph_node *op, size_t index)
{
    return index < op->n_inputs ? op->inputs[index].node : op->controls[index - op->n_inputs];
}

/* Depth first, from one op, without recursion: `path` has the ops that wait for their dependencies, `at` how far each is.
 */
static hs_code order_from(hs_graph *graph, hs__graph_node *op, hs__graph_node **path, size_t *at, hs_error *err)
{
    size_t depth = 0;
    path[0] = op;
    at[0] = 0;
    op->visited = 1;
    for (;;) {
        hs__graph_node *top = path[depth];
        if (at[depth] < top->n_inputs + top->n_controls) {
            hs__graph_node *next = dependency(top, at[depth]++);
            if (next->kind != HS__OP || next->visited == 2)
                continue;
            if (next->visited == 1)
                return hs_error_set(err, HS_INVALID_ARGUMENT, "op '%s' depends on itself, through '%s'", next->name,
                                    top->name);
            next->visited = 1;
            path[++depth] = next;
            at[depth] = 0;
        } else {
            top->visited = 2;
            top->rank = graph->n_ops;
            graph->order[graph->n_ops++] = top;
            if (depth-- == 0)
                return HS_OK;
        }
    }
}

static hs_code order_ops(hs_graph *graph, hs_error *err)
{
    hs__graph_node **path = hs__alloc(&graph->env, graph->n_nodes, sizeof *path);
    size_t *at = hs__alloc(&graph->env, graph->n_nodes, sizeof *at);
    hs_code code = path && at ? HS_OK : hs__no_memory(err, graph->n_nodes, "ordering the graph");
    for (size_t i = 0; !code && i < graph->n_nodes; i++)
        if (graph->nodes[i]->kind == HS__OP && !graph->nodes[i]->visited)
            code = order_from(graph, graph->nodes[i], path, at, err);
    hs__free(&graph->env, path);
    hs__free(&graph->env, at);
    return code;
}

static void number_tensors(hs_graph *graph)
{
    graph->n_slots = graph->n_variables = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        hs__graph_node *node = graph->nodes[i];
        node->slot = graph->n_slots;
        graph->n_slots += node->kind == HS__OP ? node->n_outputs : 1;
        if (node->kind == HS__VARIABLE)
            graph->variables[graph->n_variables++] = node;
    }
}

hs_code hs__graph_resolve(hs_graph *graph, hs_error *err)
{
    if (graph->resolved)
        return HS_OK;
    hs__graph_unresolve(graph);
    graph->order = hs__alloc(&graph->env, graph->n_nodes, sizeof *graph->order);
    graph->variables = hs__alloc(&graph->env, graph->n_nodes, sizeof *graph->variables);
    graph->n_ops = 0;
    hs_code code = graph->order && graph->variables ? HS_OK : hs__no_memory(err, graph->n_nodes, "ordering the graph");
    for (size_t i = 0; !code && i < graph->n_nodes; i++) {
        graph->nodes[i]->visited = 0;
        if (graph->nodes[i]->kind == HS__OP)
            code = resolve_op(graph, graph->nodes[i], err);
    }
    if (!code)
        code = order_ops(graph, err);
    if (code) {
        hs__graph_unresolve(graph);
        return code;
    }
    number_tensors(graph);
    graph->resolved = true;
    return HS_OK;
}
