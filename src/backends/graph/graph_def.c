/* SPDX-License-Identifier: Apache-2.0 */
/* The graph as TensorFlow's GraphDef, for graph.pbtxt, .meta files and TensorBoard. */
#include "backends/graph/graph.h"

#include "graph.pb-c.h"

#include "base/proto.h"

#include <stdio.h>
#include <string.h>

/* Some inputs and attributes at a time are enough: a node is packed before the next one is put together. */
typedef struct {
    const hs_env *env;
    char **inputs;
    size_t n_inputs, inputs_capacity;
    Hs__Pb__NodeDef__AttrEntry attr[3], *attr_pointers[3];
    Hs__Pb__AttrValue values[3];
    Hs__Pb__TensorShapeProto shape;
    Hs__Pb__TensorShapeProto__Dim dims[HS_MAX_RANK], *dim_pointers[HS_MAX_RANK];
    size_t n_attr;
} node_parts;

static hs_code add_input(node_parts *parts, const char *format, const char *name, size_t output, hs_error *err)
{
    hs_code code =
        hs__reserve(parts->env, &parts->inputs, &parts->inputs_capacity, parts->n_inputs + 1, sizeof *parts->inputs, err);
    if (code)
        return code;
    char *input = output ? hs__format(parts->env, "%s:%zu", name, output) : hs__format(parts->env, "%s%s", format, name);
    if (!input)
        return hs__no_memory(err, strlen(name), "a name");
    parts->inputs[parts->n_inputs++] = input;
    return HS_OK;
}

static void clear_parts(node_parts *parts)
{
    for (size_t i = 0; i < parts->n_inputs; i++)
        hs__free(parts->env, parts->inputs[i]);
    parts->n_inputs = parts->n_attr = 0;
}

static Hs__Pb__AttrValue *add_attr(node_parts *parts, const char *key)
{
    size_t at = parts->n_attr++;
    parts->values[at] = (Hs__Pb__AttrValue)HS__PB__ATTR_VALUE__INIT;
    parts->attr[at] = (Hs__Pb__NodeDef__AttrEntry)HS__PB__NODE_DEF__ATTR_ENTRY__INIT;
    parts->attr[at].key = hs__proto_string(key);
    parts->attr[at].value = &parts->values[at];
    parts->attr_pointers[at] = &parts->attr[at];
    return &parts->values[at];
}

static void add_shape(node_parts *parts, const hs_shape *shape)
{
    Hs__Pb__AttrValue *value = add_attr(parts, "shape");
    parts->shape = (Hs__Pb__TensorShapeProto)HS__PB__TENSOR_SHAPE_PROTO__INIT;
    parts->shape.unknown_rank = shape->rank < 0;
    parts->shape.n_dim = shape->rank < 0 ? 0 : (size_t)shape->rank;
    parts->shape.dim = parts->dim_pointers;
    for (size_t i = 0; i < parts->shape.n_dim; i++) {
        parts->dims[i] = (Hs__Pb__TensorShapeProto__Dim)HS__PB__TENSOR_SHAPE_PROTO__DIM__INIT;
        parts->dims[i].size = shape->dims[i];
        parts->dim_pointers[i] = &parts->dims[i];
    }
    value->value_case = HS__PB__ATTR_VALUE__VALUE_SHAPE;
    value->shape = &parts->shape;
}

static void add_type(node_parts *parts, hs_dtype dtype)
{
    Hs__Pb__AttrValue *value = add_attr(parts, "dtype");
    value->value_case = HS__PB__ATTR_VALUE__VALUE_TYPE;
    value->type = (Hs__Pb__DataType)dtype;
}

static hs_code describe(node_parts *parts, const hs__graph_node *node, hs_error *err)
{
    if (node->kind != HS__OP) {
        add_type(parts, node->dtype);
        add_shape(parts, &node->shape);
        return HS_OK;
    }
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < node->n_inputs; i++)
        code = add_input(parts, "", node->inputs[i].node->name, node->inputs[i].output, err);
    /* what an op writes is drawn as an edge too, unless it is an input already */
    for (size_t i = 0; !code && i < node->n_writes; i++) {
        bool drawn = false;
        for (size_t k = 0; k < node->n_inputs; k++)
            drawn |= node->inputs[k].node == node->writes[i];
        if (!drawn)
            code = add_input(parts, "", node->writes[i]->name, 0, err);
    }
    for (size_t i = 0; !code && i < node->n_controls; i++)
        code = add_input(parts, "^", node->controls[i]->name, 0, err);
    if (!code && node->n_outputs == 1) {
        add_type(parts, node->outputs[0].dtype);
        add_shape(parts, &node->outputs[0].shape);
    }
    return code;
}

static hs_code pack_node(node_parts *parts, const hs__graph_node *node, hs__buffer *out, hs_error *err)
{
    static const char *const ops[] = {
        [HS__VARIABLE] = "VariableV2", [HS__VALUE] = "Value", [HS__PLACEHOLDER] = "Placeholder", [HS__OP] = "Op"};
    hs_code code = describe(parts, node, err);
    if (code)
        return code;
    Hs__Pb__NodeDef def = HS__PB__NODE_DEF__INIT;
    def.name = hs__proto_string(node->name);
    def.op = hs__proto_string(ops[node->kind]);
    def.input = parts->inputs;
    def.n_input = parts->n_inputs;
    def.attr = parts->attr_pointers;
    def.n_attr = parts->n_attr;
    hs__buffer_varint(out, 1 << 3 | 2); /* GraphDef.node */
    hs__buffer_varint(out, protobuf_c_message_get_packed_size(&def.base));
    hs__proto_pack(&def.base, out);
    return HS_OK;
}

hs_code hs__graph_make_def(hs_graph *graph, hs_bytes *out, hs_error *err)
{
    hs_code code = hs__graph_resolve(graph, err);
    if (code)
        return code;
    hs__buffer *def = &graph->graph_def;
    if (!def->size) {
        node_parts parts = {.env = &graph->env};
        for (size_t i = 0; !code && i < graph->n_nodes; i++) {
            code = pack_node(&parts, graph->nodes[i], def, err);
            clear_parts(&parts);
        }
        hs__free(&graph->env, parts.inputs);
        if (code || (code = hs__buffer_check(def, "the graph's definition", err))) {
            hs__buffer_clear(def);
            return code;
        }
    }
    *out = (hs_bytes){def->data, def->size};
    return HS_OK;
}
