/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves a graph (hs__graph_resolve): finds nodes by their names, orders the ops, numbers the slots of tensors, and finds
 * out whether nodes share memory. */
#include "backends/graph/graph.h"

#include "backends/output_name.h"

#include <stdlib.h>
#include <string.h>

/* "loss:1" is output 1 of node "loss"; "loss" is output 0. */
static hs_code find_edge(const hs_graph *graph, const hs__graph_node *op, const char *name, hs__edge *edge, hs_error *err)
{
    hs__output_name parsed = hs__parse_output_name(name);
    char *op_name = hs__strndup(&graph->env, name, parsed.op_length);
    if (!op_name)
        return hs__no_memory(err, strlen(name), "a name");
    hs__graph_node *node = hs__graph_node_of(graph, op_name);
    hs__free(&graph->env, op_name);
    size_t n_outputs = node && node->kind == HS__OP ? node->n_outputs : 1;
    if (!node)
        return hs_error_set(err, HS_NOT_FOUND, "op '%s': input '%s' is not in the graph", op->name, name);
    if (!parsed.valid || parsed.output >= n_outputs)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "op '%s': input '%s' does not exist: '%s' has %zu outputs", op->name,
                            name, node->name, n_outputs);
    *edge = (hs__edge){node, parsed.output};
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
            code = hs_error_set(err, HS_NOT_FOUND, "op '%s': control input '%s' is not an op of the graph", op->name,
                                op->control_names[i]);
    }
    for (size_t i = 0; !code && i < op->n_writes; i++) {
        op->writes[i] = hs__graph_node_of(graph, op->write_names[i]);
        if (!op->writes[i] || (op->writes[i]->kind != HS__VARIABLE && op->writes[i]->kind != HS__VALUE))
            code = hs_error_set(err, HS_NOT_FOUND, "op '%s' writes '%s', which is not a variable or value of the graph",
                                op->name, op->write_names[i]);
    }
    return code;
}

static size_t n_dependencies(const hs__graph_node *op)
{
    return op->n_inputs + op->n_controls;
}

static hs__graph_node *dependency(const hs__graph_node *op, size_t index)
{
    return index < op->n_inputs ? op->inputs[index].node : op->controls[index - op->n_inputs];
}

/* A topological sort. dependents[first[i]] to dependents[first[i + 1] - 1] depend on node i. `ready` is a heap of the ops
 * without unordered dependencies; the op that was added first is on top. */
typedef struct {
    hs__graph_node **dependents, **ready;
    size_t *first;
    size_t n_ready;
} ordering;

static void push(ordering *o, hs__graph_node *op)
{
    size_t at = o->n_ready++;
    for (size_t up; at && o->ready[up = (at - 1) / 2]->index > op->index; at = up)
        o->ready[at] = o->ready[up];
    o->ready[at] = op;
}

static hs__graph_node *pop(ordering *o)
{
    hs__graph_node *top = o->ready[0], *last = o->ready[--o->n_ready];
    size_t at = 0;
    for (size_t down; (down = 2 * at + 1) < o->n_ready; at = down) {
        if (down + 1 < o->n_ready && o->ready[down + 1]->index < o->ready[down]->index)
            down++;
        if (o->ready[down]->index > last->index)
            break;
        o->ready[at] = o->ready[down];
    }
    o->ready[at] = last;
    return top;
}

/* Counts the dependents of each node, then lists them. */
static hs_code find_dependents(const hs_graph *graph, ordering *o, hs_error *err)
{
    size_t n = graph->n_nodes;
    o->first = hs__alloc(&graph->env, n + 2, sizeof *o->first);
    o->ready = hs__alloc(&graph->env, n, sizeof *o->ready);
    if (!o->first || !o->ready)
        return hs__no_memory(err, n * sizeof *o->first, "ordering the graph");
    size_t *ends = o->first + 1; /* ends[i] moves to the end of node i's part, where the next one begins */
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; graph->nodes[i]->kind == HS__OP && k < n_dependencies(graph->nodes[i]); k++)
            ends[dependency(graph->nodes[i], k)->index + 1]++;
    for (size_t i = 0; i < n; i++)
        ends[i + 1] += ends[i];
    o->dependents = hs__alloc(&graph->env, ends[n], sizeof(hs__graph_node *));
    if (!o->dependents)
        return hs__no_memory(err, ends[n] * sizeof(hs__graph_node *), "ordering the graph");
    for (size_t i = 0; i < n; i++) {
        hs__graph_node *node = graph->nodes[i];
        for (size_t k = 0; node->kind == HS__OP && k < n_dependencies(node); k++) {
            const hs__graph_node *before = dependency(node, k);
            o->dependents[ends[before->index]++] = node;
            node->n_unordered += before->kind == HS__OP;
        }
    }
    return HS_OK;
}

/* Reports an op of a cycle. Following unordered dependencies for n_nodes steps ends in a cycle. */
static hs_code report_cycle(const hs_graph *graph, hs_error *err)
{
    const hs__graph_node *op = NULL, *before = NULL;
    for (size_t i = 0; !op; i++)
        if (graph->nodes[i]->kind == HS__OP && graph->nodes[i]->n_unordered)
            op = graph->nodes[i];
    for (size_t i = 0; i <= graph->n_nodes; i++) {
        size_t k = 0;
        while (dependency(op, k)->kind != HS__OP || !dependency(op, k)->n_unordered)
            k++;
        before = op;
        op = dependency(op, k);
    }
    return hs_error_set(err, HS_INVALID_ARGUMENT, "op '%s' depends on itself through '%s'", op->name, before->name);
}

/* Orders ops after their dependencies, and otherwise in the order of their addition. */
static hs_code order_ops(hs_graph *graph, hs_error *err)
{
    ordering o = {.n_ready = 0};
    size_t n_ops = 0;
    hs_code code = find_dependents(graph, &o, err);
    for (size_t i = 0; !code && i < graph->n_nodes; i++) {
        n_ops += graph->nodes[i]->kind == HS__OP;
        if (graph->nodes[i]->kind == HS__OP && !graph->nodes[i]->n_unordered)
            push(&o, graph->nodes[i]);
    }
    while (!code && o.n_ready) {
        hs__graph_node *op = pop(&o);
        op->rank = graph->n_ops;
        graph->order[graph->n_ops++] = op;
        for (size_t i = o.first[op->index]; i < o.first[op->index + 1]; i++)
            if (--o.dependents[i]->n_unordered == 0)
                push(&o, o.dependents[i]);
    }
    if (!code && graph->n_ops < n_ops)
        code = report_cycle(graph, err);
    hs__free(&graph->env, o.dependents);
    hs__free(&graph->env, o.first);
    hs__free(&graph->env, o.ready);
    return code;
}

/* Returns true if the op's function sets a view for an output. */
static bool sets_views(const hs__graph_node *op)
{
    for (size_t i = 0; i < op->n_outputs; i++)
        if (!op->outputs[i].data && (op->outputs[i].dtype == HS_STRING || hs_shape_elements(&op->outputs[i].shape) < 0))
            return true;
    return false;
}

/* Numbers the slots and the variables. Sets the flags for which a run calls prepare() before an op. */
static void number_tensors(hs_graph *graph)
{
    graph->n_slots = graph->n_variables = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        hs__graph_node *node = graph->nodes[i];
        node->slot = graph->n_slots;
        graph->n_slots += node->kind == HS__OP ? node->n_outputs : 1;
        if (node->kind == HS__VARIABLE) {
            node->variable = graph->n_variables;
            graph->variables[graph->n_variables++] = node;
        }
        if (node->kind != HS__OP)
            continue;
        node->sets_views = sets_views(node);
        node->reads_views = node->moves = false;
        for (size_t k = 0; k < node->n_inputs; k++) {
            const hs__graph_node *input = node->inputs[k].node;
            node->reads_views |= input->kind == HS__OP && sets_views(input);
            node->moves |= input->kind == HS__VARIABLE && input->moves;
        }
        for (size_t k = 0; k < node->n_writes; k++)
            node->moves |= node->writes[k]->moves;
    }
}

/* Memory of the program that a node uses. */
typedef struct {
    uintptr_t begin, end;
} span;

static int by_place(const void *a, const void *b)
{
    uintptr_t x = ((const span *)a)->begin, y = ((const span *)b)->begin;
    return (x > y) - (x < y);
}

static void add_span(span *spans, size_t *n, const void *data, hs_dtype dtype, const hs_shape *shape)
{
    int64_t elements = hs_shape_elements(shape);
    size_t bytes = elements > 0 ? (size_t)elements * hs_dtype_size(dtype) : 1;
    if (data)
        spans[(*n)++] = (span){(uintptr_t)data, (uintptr_t)data + bytes};
}

/* Sets shares_memory if the memory of two nodes overlaps: an op may then change more than it lists in `writes`. */
static hs_code find_shared_memory(hs_graph *graph, hs_error *err)
{
    size_t n = 0, most = graph->n_slots;
    span *spans = hs__alloc(&graph->env, most, sizeof *spans);
    if (!spans)
        return hs__no_memory(err, most * sizeof *spans, "the memory of a graph");
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const hs__graph_node *node = graph->nodes[i];
        if (node->kind != HS__OP && node->kind != HS__PLACEHOLDER)
            add_span(spans, &n, node->data, node->dtype, &node->shape);
        for (size_t k = 0; node->kind == HS__OP && k < node->n_outputs; k++)
            add_span(spans, &n, node->outputs[k].data, node->outputs[k].dtype, &node->outputs[k].shape);
    }
    if (n)
        qsort(spans, n, sizeof *spans, by_place);
    graph->shares_memory = false;
    for (size_t i = 1; i < n; i++)
        graph->shares_memory |= spans[i].begin < spans[i - 1].end;
    hs__free(&graph->env, spans);
    return HS_OK;
}

hs_code hs__graph_resolve(hs_graph *graph, hs_error *err)
{
    hs__graph_unresolve(graph);
    graph->order = hs__alloc(&graph->env, graph->n_nodes, sizeof *graph->order);
    graph->variables = hs__alloc(&graph->env, graph->n_nodes, sizeof *graph->variables);
    graph->n_ops = 0;
    hs_code code = graph->order && graph->variables ? HS_OK : hs__no_memory(err, graph->n_nodes, "ordering the graph");
    for (size_t i = 0; !code && i < graph->n_nodes; i++) {
        graph->nodes[i]->index = i;
        graph->nodes[i]->n_unordered = 0;
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
    if ((code = find_shared_memory(graph, err))) {
        hs__graph_unresolve(graph);
        return code;
    }
    graph->resolved = true;
    return HS_OK;
}

const char *hs__graph_collective_op(void *self, hs_node node, const hs_node *others, size_t n)
{
    enum { BY_NODE = 1, BY_OTHERS = 2 };
    hs_graph *graph = self;
    const char *found = NULL;
    bool any = false;
    for (size_t i = 0; i < graph->n_ops; i++) {
        any |= graph->order[i]->collective;
        graph->order[i]->marks = 0;
    }
    if (!any)
        return NULL;
    ((hs__graph_node *)node.op)->marks = BY_NODE;
    for (size_t i = 0; i < n; i++)
        ((hs__graph_node *)others[i].op)->marks |= BY_OTHERS;
    for (size_t rank = graph->n_ops; rank-- > 0;) { /* an op's dependencies have lower ranks */
        const hs__graph_node *op = graph->order[rank];
        for (size_t k = 0; op->marks && k < n_dependencies(op); k++)
            dependency(op, k)->marks |= op->marks;
        if (op->collective && op->marks == BY_NODE)
            found = op->name;
    }
    return found;
}
