/* SPDX-License-Identifier: Apache-2.0 */
/* The graph as TensorFlow's GraphDef, for graph.pbtxt, .meta files and TensorBoard. */
#include "backends/graph/graph_def.h"

#include "base/proto.h"

#include <string.h>

/* The version of the format. All fields that are written here exist since version 27. From version 21 on, TensorFlow checks
 * the output shapes. */
enum { GRAPH_VERSIONS = 4, VERSION_PRODUCER = 1, PRODUCER = 27 };

static void define_tensor(hs__node_def *def, const hs__graph_node *node, const char *op)
{
    const hs_output_def output = {.dtype = node->dtype, .shape = node->shape};
    hs__node_def_begin(def, node->name, op);
    hs__node_def_type(def, "dtype", node->dtype);
    hs__node_def_shape(def, "shape", &node->shape);
    hs__node_def_shapes(def, HS__OUTPUT_SHAPES, &output, 1);
}

/* Returns true if one of the op's first `n` inputs is of the node. */
static bool reads(const hs__graph_node *op, const hs__graph_node *node, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (op->inputs[i].node == node)
            return true;
    return false;
}

/* Returns true if one of the first `n` nodes that the op writes is the node. */
static bool writes(const hs__graph_node *op, const hs__graph_node *node, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (op->writes[i] == node)
            return true;
    return false;
}

/* An op without a function: its inputs become control inputs. */
static void define_group(hs__node_def *def, const hs__graph_node *op)
{
    hs__node_def_begin(def, op->name, op->type ? op->type : "NoOp");
    for (size_t i = 0; i < op->n_inputs; i++)
        if (!reads(op, op->inputs[i].node, i))
            hs__node_def_control(def, op->inputs[i].node->name);
    hs__node_def_controls(def, op);
}

/* An op that initializes variables: they become control inputs, which viewers draw separately. */
static void define_init(hs__node_def *def, const hs_graph *graph, const hs__graph_node *op)
{
    uint64_t local = op->name == graph->builtins[HS__BUILTIN_LOCAL_INIT] ? HS_VARIABLE_LOCAL : 0;
    hs__node_def_begin(def, op->name, "NoOp");
    for (size_t i = 0; i < graph->n_variables; i++)
        if ((graph->variables[i]->def.flags & HS_VARIABLE_LOCAL) == local)
            hs__node_def_control(def, graph->variables[i]->name);
}

typedef void (*edge_visitor)(hs__node_def *def, const hs__graph_node *node, size_t output);

/* Visits the inputs of an op, and the nodes that it writes: TensorFlow's ops have the variables that they change as inputs.
 */
static void each_data_input(hs__node_def *def, const hs_graph *graph, const hs__graph_node *op, edge_visitor visit)
{
    const hs__graph_node *step = op->advances_step ? graph->global_step : NULL;
    for (size_t i = 0; i < op->n_inputs; i++)
        visit(def, op->inputs[i].node, op->inputs[i].output);
    for (size_t i = 0; i < op->n_writes; i++)
        if (!reads(op, op->writes[i], op->n_inputs) && !writes(op, op->writes[i], i))
            visit(def, op->writes[i], 0);
    if (step && !reads(op, step, op->n_inputs) && !writes(op, step, op->n_writes))
        visit(def, step, 0);
}

static void add_edge(hs__node_def *def, const hs__graph_node *node, size_t output)
{
    hs__node_def_input(def, node->name, output);
}

static void add_edge_type(hs__node_def *def, const hs__graph_node *node, size_t output)
{
    hs__node_def_type_of_list(def, node->kind == HS__OP ? node->outputs[output].dtype : node->dtype);
}

static void define_op(hs__node_def *def, const hs_graph *graph, const hs__graph_node *op)
{
    hs__node_def_begin(def, op->name, op->type ? op->type : "Op");
    each_data_input(def, graph, op, add_edge);
    hs__node_def_controls(def, op);
    each_data_input(def, graph, op, add_edge_type);
    hs__node_def_end_list(def, "Tin");
    hs__node_def_types(def, "Tout", op->outputs, op->n_outputs);
    if (op->n_outputs)
        hs__node_def_shapes(def, HS__OUTPUT_SHAPES, op->outputs, op->n_outputs);
}

static hs_code define(hs__node_def *def, const hs_graph *graph, const hs__graph_node *node, hs_error *err)
{
    hs_code code = HS_OK;
    if (node->kind != HS__OP)
        define_tensor(def, node,
                      node->kind == HS__VARIABLE ? "VariableV2"
                      : node->kind == HS__VALUE  ? "Value"
                                                 : "Placeholder");
    else if (hs__is_queue_op(node))
        code = hs__define_queue_op(def, node, err);
    else if (!node->run)
        define_group(def, node);
    else if (node->builtin && !node->n_outputs)
        define_init(def, graph, node);
    else
        define_op(def, graph, node);
    hs__node_def_end(def);
    return code;
}

static hs_code define_all(const hs_graph *graph, hs__buffer *out, hs_error *err)
{
    hs__node_def def;
    hs_code code = HS_OK;
    hs__node_def_init(&def, out);
    for (size_t i = 0; !code && i < graph->n_nodes; i++)
        code = define(&def, graph, graph->nodes[i], err);
    hs__node_def_free(&def);
    const unsigned char version[] = {VERSION_PRODUCER << 3, PRODUCER};
    hs__proto_put_bytes(out, GRAPH_VERSIONS, version, sizeof version);
    return code ? code : hs__buffer_check(out, "the graph's definition", err);
}

hs_code hs__graph_make_def(hs_graph *graph, hs_bytes *out, hs_error *err)
{
    hs_code code = hs__graph_prepare(graph, err);
    if (code)
        return code;
    hs__buffer *def = &graph->graph_def;
    if (!def->size && (code = define_all(graph, def, err))) {
        hs__buffer_clear(def);
        return code;
    }
    *out = (hs_bytes){def->data, def->size};
    return HS_OK;
}
