/* SPDX-License-Identifier: Apache-2.0 */
/* The graph as TensorFlow's GraphDef, for graph.pbtxt, .meta files and TensorBoard: first the writing of a node, then a
 * function for each kind of node, which `define` chooses. */
#include "backends/graph/queue.h"

#include "graph.pb-c.h"

#include "base/proto.h"

#include <string.h>

/* The version of the format. All fields that are written here exist since version 27. From version 21 on, TensorFlow checks
 * the output shapes. */
enum { GRAPH_VERSIONS = 4, VERSION_PRODUCER = 1, PRODUCER = 27 };

/* TensorFlow's attribute for the shapes of outputs. */
#define OUTPUT_SHAPES "_output_shapes"

/* Writing nodes: begin_node, then inputs and attributes, then end_node. Data inputs come before control inputs. If memory
 * is exhausted, graph->failed is set. */

/* Fields of the messages in base/wire/graph.proto. */
enum { GRAPH_NODE = 1, NODE_NAME = 1, NODE_OP = 2, NODE_INPUT = 3, NODE_ATTR = 5, ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { VALUE_LIST = 1, VALUE_INT = 3, VALUE_BOOL = 5, VALUE_TYPE = 6, VALUE_SHAPE = 7 };

typedef struct {
    hs__buffer *graph;             /* nodes are appended to it */
    hs__buffer node, value, entry; /* current node, value of the current attribute, attribute with its key */
} node_def;

/* hs__buffer_clear resets `failed`, so it is copied first. */
static void clear(node_def *def, hs__buffer *buffer)
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

static void begin_node(node_def *def, const char *name, const char *op)
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

static void add_input(node_def *def, const char *name, size_t output)
{
    put_edge(&def->node, "", name, output);
}

static void add_control(node_def *def, const char *name)
{
    put_edge(&def->node, "^", name, 0);
}

static void add_controls(node_def *def, const hs__graph_node *op)
{
    for (size_t i = 0; i < op->n_controls; i++)
        add_control(def, op->controls[i]->name);
}

/* Writes `value` as the attribute `key`. */
static void end_attr(node_def *def, const char *key)
{
    clear(def, &def->entry);
    put_text(&def->entry, ENTRY_KEY, key);
    hs__proto_put_bytes(&def->entry, ENTRY_VALUE, def->value.data, def->value.size);
    hs__proto_put_bytes(&def->node, NODE_ATTR, def->entry.data, def->entry.size);
    clear(def, &def->value);
}

/* Writes `value` as a list. */
static void end_list(node_def *def, const char *key)
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

/* A list has the same fields as a single value. */

static void add_list_type(node_def *def, hs_dtype dtype)
{
    put_number(&def->value, VALUE_TYPE, (uint64_t)dtype);
}

static void add_types(node_def *def, const char *key, const hs_output_def *outputs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_list_type(def, outputs[i].dtype);
    end_list(def, key);
}

static void add_shapes(node_def *def, const char *key, const hs_output_def *outputs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_shape(&def->value, &outputs[i].shape);
    end_list(def, key);
}

static void end_node(node_def *def)
{
    hs__proto_put_bytes(def->graph, GRAPH_NODE, def->node.data, def->node.size);
    clear(def, &def->node);
    clear(def, &def->entry);
}

/* Nodes and ops. */

static void define_tensor(node_def *def, const hs__graph_node *node)
{
    const hs_output_def output = {.dtype = node->dtype, .shape = node->shape};
    begin_node(def, node->name,
               node->kind == HS__VARIABLE ? "VariableV2"
               : node->kind == HS__VALUE  ? "Value"
                                          : "Placeholder");
    put_number(&def->value, VALUE_TYPE, (uint64_t)node->dtype);
    end_attr(def, "dtype");
    put_shape(&def->value, &node->shape);
    end_attr(def, "shape");
    add_shapes(def, OUTPUT_SHAPES, &output, 1);
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
static void define_group(node_def *def, const hs__graph_node *op)
{
    begin_node(def, op->name, op->type ? op->type : "NoOp");
    for (size_t i = 0; i < op->n_inputs; i++)
        if (!reads(op, op->inputs[i].node, i))
            add_control(def, op->inputs[i].node->name);
    add_controls(def, op);
}

/* An op of the library, which initializes variables or lists uninitialized ones: they become control inputs. Viewers draw a
 * NoOp apart from the training. */
static void define_builtin(node_def *def, const hs_graph *graph, const hs__graph_node *op)
{
    const uint64_t local = op->name == graph->builtins[HS__BUILTIN_LOCAL_INIT] ? HS_VARIABLE_LOCAL : 0;
    const bool all = op->name == graph->builtins[HS__BUILTIN_READY];
    begin_node(def, op->name, "NoOp");
    for (size_t i = 0; i < graph->n_variables; i++)
        if (all || (graph->variables[i]->def.flags & HS_VARIABLE_LOCAL) == local)
            add_control(def, graph->variables[i]->name);
}

typedef void (*edge_visitor)(node_def *def, const hs__graph_node *node, size_t output);

/* Visits the inputs of an op, and the nodes that it writes: TensorFlow's ops have the variables that they change as inputs.
 */
static void each_data_input(node_def *def, const hs_graph *graph, const hs__graph_node *op, edge_visitor visit)
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

static void add_edge(node_def *def, const hs__graph_node *node, size_t output)
{
    add_input(def, node->name, output);
}

static void add_edge_type(node_def *def, const hs__graph_node *node, size_t output)
{
    add_list_type(def, node->kind == HS__OP ? node->outputs[output].dtype : node->dtype);
}

static void define_op(node_def *def, const hs_graph *graph, const hs__graph_node *op)
{
    begin_node(def, op->name, op->type ? op->type : "Op");
    each_data_input(def, graph, op, add_edge);
    add_controls(def, op);
    each_data_input(def, graph, op, add_edge_type);
    end_list(def, "Tin");
    add_types(def, "Tout", op->outputs, op->n_outputs);
    if (op->n_outputs)
        add_shapes(def, OUTPUT_SHAPES, op->outputs, op->n_outputs);
}

/* Queues: the queue, its producer and its ops. */

/* Returns an unused name for a node that only the GraphDef has. */
static char *free_name(const hs__queue_def *queue, const char *what)
{
    const hs_env *env = &queue->graph->env;
    char *name = hs__format(env, "%s/%s", queue->name, what);
    for (int i = 1; name && hs__graph_node_of(queue->graph, name); i++) {
        hs__free(env, name);
        name = hs__format(env, "%s/%s_%d", queue->name, what, i);
    }
    return name;
}

/* Writes the shapes only if all are fully known, as TensorFlow requires. */
static void define_queue(node_def *def, const hs__queue_def *queue, const char *name)
{
    static const hs_output_def handle = {.shape = {.rank = 0}};
    const hs__graph_node *element = &queue->element;
    bool closed = true;
    for (size_t i = 0; i < element->n_outputs; i++)
        closed &= hs_shape_elements(&element->outputs[i].shape) >= 0;
    begin_node(def, name, "FIFOQueueV2");
    add_types(def, "component_types", element->outputs, element->n_outputs);
    if (closed)
        add_shapes(def, "shapes", element->outputs, element->n_outputs);
    put_number(&def->value, VALUE_INT, (uint64_t)queue->capacity);
    end_attr(def, "capacity");
    add_shapes(def, OUTPUT_SHAPES, &handle, 1);
    end_node(def);
}

/* Writes TensorFlow's op of the same kind. With the enqueue op, also writes the queue and its producer. */
static hs_code define_queue_op(node_def *def, const hs__graph_node *op, hs_error *err)
{
    const hs__queue_def *queue = op->self;
    const hs_env *env = &queue->graph->env;
    const hs_output_def *components = queue->element.outputs;
    size_t n = queue->element.n_outputs;
    hs__queue_op what = hs__queue_op_of(op);
    char *name = free_name(queue, "fifo_queue"), *producer = free_name(queue, "produce");
    if (!name || !producer) {
        hs__free(env, name);
        hs__free(env, producer);
        return hs__no_memory(err, 1, "a name");
    }
    switch (what) {
    case HS__QUEUE_ENQUEUE:
        define_queue(def, queue, name);
        if (queue->produce) {
            begin_node(def, producer, "Op");
            end_list(def, "Tin");
            add_types(def, "Tout", components, n);
            add_shapes(def, OUTPUT_SHAPES, components, n);
            end_node(def);
        }
        begin_node(def, op->name, "QueueEnqueueV2");
        add_input(def, name, 0);
        for (size_t i = 0; i < n; i++)
            if (queue->produce)
                add_input(def, producer, i);
            else
                add_input(def, op->inputs[i].node->name, op->inputs[i].output);
        add_controls(def, op);
        add_types(def, "Tcomponents", components, n);
        break;
    case HS__QUEUE_DEQUEUE:
        begin_node(def, op->name, "QueueDequeueV2");
        add_input(def, name, 0);
        add_types(def, "component_types", op->outputs, op->n_outputs);
        add_shapes(def, OUTPUT_SHAPES, op->outputs, op->n_outputs);
        break;
    case HS__QUEUE_SIZE:
        begin_node(def, op->name, "QueueSizeV2");
        add_input(def, name, 0);
        add_shapes(def, OUTPUT_SHAPES, op->outputs, op->n_outputs);
        break;
    default: /* close or cancel */
        begin_node(def, op->name, "QueueCloseV2");
        add_input(def, name, 0);
        put_number(&def->value, VALUE_BOOL, what == HS__QUEUE_CANCEL);
        end_attr(def, "cancel_pending_enqueues");
    }
    hs__free(env, name);
    hs__free(env, producer);
    return HS_OK;
}

/* The graph. */

static hs_code define(node_def *def, const hs_graph *graph, const hs__graph_node *node, hs_error *err)
{
    hs_code code = HS_OK;
    if (node->kind != HS__OP)
        define_tensor(def, node);
    else if (hs__queue_op_of(node) != HS__NO_QUEUE_OP)
        code = define_queue_op(def, node, err);
    else if (!node->run)
        define_group(def, node);
    else if (node->builtin)
        define_builtin(def, graph, node);
    else
        define_op(def, graph, node);
    end_node(def);
    return code;
}

hs_code hs__graph_make_def(hs_graph *graph, hs_bytes *out, hs_error *err)
{
    hs_code code = hs__graph_prepare(graph, err);
    if (code)
        return code;
    hs__buffer *made = &graph->graph_def;
    if (!made->size) {
        static const unsigned char version[] = {VERSION_PRODUCER << 3, PRODUCER};
        node_def def = {.graph = made};
        hs__buffer_init(&def.node, made->env);
        hs__buffer_init(&def.value, made->env);
        hs__buffer_init(&def.entry, made->env);
        for (size_t i = 0; !code && i < graph->n_nodes; i++)
            code = define(&def, graph, graph->nodes[i], err);
        hs__buffer_free(&def.node);
        hs__buffer_free(&def.value);
        hs__buffer_free(&def.entry);
        hs__proto_put_bytes(made, GRAPH_VERSIONS, version, sizeof version);
        if (!code)
            code = hs__buffer_check(made, "the graph's definition", err);
    }
    if (code)
        hs__buffer_clear(made);
    else
        *out = (hs_bytes){made->data, made->size};
    return code;
}
