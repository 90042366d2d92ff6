/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/graph/node_def.h"

#include "graph.pb-c.h"

#include "base/proto.h"

#include <string.h>

/* Fields of the messages in base/wire/graph.proto. */
enum { GRAPH_NODE = 1, NODE_NAME = 1, NODE_OP = 2, NODE_INPUT = 3, NODE_ATTR = 5, ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { VALUE_LIST = 1, VALUE_INT = 3, VALUE_BOOL = 5, VALUE_TYPE = 6, VALUE_SHAPE = 7 };

void hs__node_def_init(hs__node_def *def, hs__buffer *graph)
{
    def->graph = graph;
    hs__buffer_init(&def->node, graph->env);
    hs__buffer_init(&def->value, graph->env);
    hs__buffer_init(&def->entry, graph->env);
}

void hs__node_def_free(hs__node_def *def)
{
    hs__buffer_free(&def->node);
    hs__buffer_free(&def->value);
    hs__buffer_free(&def->entry);
}

/* hs__buffer_clear resets `failed`, so it is copied first. */
static void clear(hs__node_def *def, hs__buffer *buffer)
{
    def->graph->failed |= buffer->failed;
    hs__buffer_clear(buffer);
}

static void put_text(hs__buffer *out, uint32_t field, const char *text)
{
    hs__proto_put_bytes(out, field, text, strlen(text));
}

static void put_number(hs__buffer *out, uint32_t field, uint64_t value)
{
    hs__buffer_varint(out, (uint64_t)field << 3);
    hs__buffer_varint(out, value);
}

void hs__node_def_begin(hs__node_def *def, const char *name, const char *op)
{
    clear(def, &def->node);
    clear(def, &def->value);
    put_text(&def->node, NODE_NAME, name);
    put_text(&def->node, NODE_OP, op);
}

/* Writes an input: "NAME", "NAME:1" or "^NAME". */
static void put_edge(hs__buffer *node, const char *before, const char *name, size_t output)
{
    char number[24] = "", *digit = number + sizeof number - 1;
    for (size_t rest = output; rest; rest /= 10)
        *--digit = (char)('0' + rest % 10);
    if (output)
        *--digit = ':';
    else
        digit = number;
    hs__buffer_varint(node, NODE_INPUT << 3 | 2);
    hs__buffer_varint(node, strlen(before) + strlen(name) + strlen(digit));
    hs__buffer_append(node, before, strlen(before));
    hs__buffer_append(node, name, strlen(name));
    hs__buffer_append(node, digit, strlen(digit));
}

void hs__node_def_input(hs__node_def *def, const char *name, size_t output)
{
    put_edge(&def->node, "", name, output);
}

void hs__node_def_control(hs__node_def *def, const char *name)
{
    put_edge(&def->node, "^", name, 0);
}

void hs__node_def_controls(hs__node_def *def, const hs__graph_node *op)
{
    for (size_t i = 0; i < op->n_controls; i++)
        hs__node_def_control(def, op->controls[i]->name);
}

/* Writes `value` as the attribute `key`. */
static void end_attr(hs__node_def *def, const char *key)
{
    clear(def, &def->entry);
    put_text(&def->entry, ENTRY_KEY, key);
    hs__proto_put_bytes(&def->entry, ENTRY_VALUE, def->value.data, def->value.size);
    hs__proto_put_bytes(&def->node, NODE_ATTR, def->entry.data, def->entry.size);
    clear(def, &def->value);
}

static void end_list(hs__node_def *def, const char *key)
{
    clear(def, &def->entry);
    hs__proto_put_bytes(&def->entry, VALUE_LIST, def->value.data, def->value.size);
    clear(def, &def->value);
    hs__buffer_append(&def->value, def->entry.data, def->entry.size);
    end_attr(def, key);
}

static void put_shape(hs__buffer *out, const hs_shape *shape)
{
    Hs__Pb__TensorShapeProto message = HS__PB__TENSOR_SHAPE_PROTO__INIT;
    Hs__Pb__TensorShapeProto__Dim dims[HS_MAX_RANK], *pointers[HS_MAX_RANK];
    message.unknown_rank = shape->rank < 0;
    message.n_dim = shape->rank < 0 ? 0 : (size_t)shape->rank;
    message.dim = pointers;
    for (size_t i = 0; i < message.n_dim; i++) {
        dims[i] = (Hs__Pb__TensorShapeProto__Dim)HS__PB__TENSOR_SHAPE_PROTO__DIM__INIT;
        dims[i].size = shape->dims[i];
        pointers[i] = &dims[i];
    }
    hs__proto_put_message(out, VALUE_SHAPE, &message.base);
}

void hs__node_def_type(hs__node_def *def, const char *key, hs_dtype dtype)
{
    put_number(&def->value, VALUE_TYPE, (uint64_t)dtype);
    end_attr(def, key);
}

void hs__node_def_shape(hs__node_def *def, const char *key, const hs_shape *shape)
{
    put_shape(&def->value, shape);
    end_attr(def, key);
}

void hs__node_def_int(hs__node_def *def, const char *key, int64_t value)
{
    put_number(&def->value, VALUE_INT, (uint64_t)value);
    end_attr(def, key);
}

void hs__node_def_bool(hs__node_def *def, const char *key, bool value)
{
    put_number(&def->value, VALUE_BOOL, value);
    end_attr(def, key);
}

/* A list has the same fields as a single value. */

void hs__node_def_type_of_list(hs__node_def *def, hs_dtype dtype)
{
    put_number(&def->value, VALUE_TYPE, (uint64_t)dtype);
}

void hs__node_def_end_list(hs__node_def *def, const char *key)
{
    end_list(def, key);
}

void hs__node_def_types(hs__node_def *def, const char *key, const hs_output_def *outputs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hs__node_def_type_of_list(def, outputs[i].dtype);
    end_list(def, key);
}

void hs__node_def_shapes(hs__node_def *def, const char *key, const hs_output_def *outputs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_shape(&def->value, &outputs[i].shape);
    end_list(def, key);
}

void hs__node_def_end(hs__node_def *def)
{
    hs__proto_put_bytes(def->graph, GRAPH_NODE, def->node.data, def->node.size);
    clear(def, &def->node);
    clear(def, &def->entry);
}
