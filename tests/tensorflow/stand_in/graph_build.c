/* SPDX-License-Identifier: Apache-2.0 */
/* Converts an embedded graph to a TensorFlow graph. Op X becomes X/call, X/outN for each output, X/valueN and X/setN for
 * each variable that it writes, X/step if it advances the step, and X, which runs after all of these. */
#include "tensorflow/stand_in/graph.h"
#include "tensorflow/stand_in/kernel.h"

typedef graph_stand_in stand_in;

enum { NAME = 256 };

/* The task of a kernel: to call an op, or to return one of its outputs or a variable's first value. */
typedef struct graph_target {
    kernel_target kernel;
    struct graph_target *next;
    stand_in *g;
    hs__graph_node *node;
    size_t output;
    bool is_first;
    void *host; /* a copy of a value in device memory */
} target;

/* The kernels' functions. */

static hs_code call_op(stand_in *g, hs__graph_node *node, const hs_tensor *inputs, hs_error *err)
{
    hs__graph_session *memory = g->running;
    hs_op op = {.session = memory, .node = node};
    for (size_t i = 0; i < node->n_inputs; i++) {
        size_t slot = node->inputs[i].node->slot + node->inputs[i].output;
        memory->fed[slot] = &inputs[i];
        memory->fed_in[slot] = memory->run;
    }
    hs_error error = {0};
    hs_code code = node->run ? node->run(node->self, &op, &error) : HS_OK;
    for (size_t i = 0; i < node->n_inputs; i++)
        memory->fed_in[node->inputs[i].node->slot + node->inputs[i].output] = 0;
    for (size_t i = 0; !code && i < node->n_writes; i++)
        memory->initialized[node->writes[i]->slot] = true;
    if (code) {
        hs_error_set(err, code, "op '%s': %s", node->name, error.message);
        g->failure = *err;
    }
    return code;
}

static hs_code first_value(stand_in *g, const hs__graph_node *variable, hs_error *err)
{
    const hs_tensor *value = &g->running->tensors[variable->slot];
    g->running->initialized[variable->slot] = true;
    if (variable->def.initialize)
        return variable->def.initialize(variable->def.user, value, err);
    if (variable->def.initial)
        memcpy(value->data, variable->def.initial, value->bytes);
    else if (!variable->data)
        memset(value->data, 0, value->bytes);
    return HS_OK;
}

static hs_code copy_to_host(target *t, hs_tensor *value, hs_error *err)
{
    const hs_memory *memory = value->memory;
    free(t->host);
    t->host = malloc(value->bytes + 1);
    assert_non_null(t->host);
    hs_code code = memory->to_host(memory->user, t->host, value->data, value->bytes, err);
    *value = hs_tensor_of(value->dtype, hs_tensor_shape(value), t->host);
    return code;
}

static hs_code run_target(kernel_target *kernel, const hs_tensor *inputs, size_t n, hs_tensor *output, hs_error *err)
{
    target *t = (target *)kernel;
    (void)n;
    if (!t->g->running)
        return hs_error_set(err, HS_INTERNAL, "'%s' runs outside of a session", t->node->name);
    if (!output)
        return call_op(t->g, t->node, inputs, err);
    hs_code code = t->is_first ? first_value(t->g, t->node, err) : HS_OK;
    *output = t->g->running->tensors[t->node->slot + t->output];
    if (!code && output->rank < 0)
        code = hs_error_set(err, HS_INTERNAL, "op '%s' did not set its output", t->node->name);
    return code || !output->memory ? code : copy_to_host(t, output, err);
}

static target *new_target(stand_in *g, hs__graph_node *node, size_t output, bool is_first)
{
    target *t = calloc(1, sizeof *t);
    assert_non_null(t);
    *t = (target){.kernel = {.tf = g->tf, .run = run_target},
                  .next = g->targets,
                  .g = g,
                  .node = node,
                  .output = output,
                  .is_first = is_first};
    kernel_add(&t->kernel);
    return g->targets = t;
}

/* The variables: a meta graph with collections. */

static void add_text(hs__buffer *text, const char *key, const hs__graph_node *variable, unsigned char field)
{
    char name[NAME];
    size_t length = (size_t)snprintf(name, sizeof name, "%s%s", variable->name, key);
    assert_true(length < 128);
    hs__buffer_text(text, "\\%03o\\%03o%s", (unsigned)field, (unsigned)length, name);
}

/* A variable's VariableDef, as text. */
static void add_def(hs__buffer *text, const hs__graph_node *variable)
{
    hs__buffer_text(text, " value: '");
    add_text(text, ":0", variable, 0x0a);
    add_text(text, "/Assign", variable, 0x12);
    add_text(text, "/Read:0", variable, 0x1a);
    hs__buffer_text(text, "\\050\\001'");
}

static void add_collection(hs__buffer *text, const stand_in *g, const char *key, bool local, bool step_alone)
{
    hs__buffer_text(text, "collection_def { key: '%s' value { bytes_list {", key);
    for (size_t i = 0; i < g->graph->n_nodes; i++) {
        const hs__graph_node *node = g->graph->nodes[i];
        if (node->kind == HS__VARIABLE && !(node->def.flags & HS_VARIABLE_LOCAL) == !local &&
            (!step_alone || node == g->graph->global_step))
            add_def(text, node);
    }
    hs__buffer_text(text, " } } }\n");
}

static void add_variable(hs__buffer *text, stand_in *g, hs__graph_node *variable)
{
    const char *name = variable->name;
    char type[32];
    snprintf(type, sizeof type, "DT_%s", hs_dtype_name(variable->dtype));
    for (char *c = type; *c; c++)
        *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    hs__buffer_text(text, "node { name: '%s' op: 'VarHandleOp' device: '/device:CPU:0'\n", name);
    hs__buffer_text(text, "attr { key: 'dtype' value { type: %s } } attr { key: 'shared_name' value { s: '%s' } }\n", type,
                    name);
    hs__buffer_text(text, "attr { key: 'shape' value { shape {");
    for (int i = 0; i < variable->shape.rank; i++)
        hs__buffer_text(text, " dim { size: %lld }", (long long)variable->shape.dims[i]);
    hs__buffer_text(text, " } } } }\n");
    hs__buffer_text(text, "node { name: '%s/initial' op: 'HooksessValue' attr { key: 'dtype' value { type: %s } }\n", name,
                    type);
    hs__buffer_text(text, "attr { key: 'target' value { i: %zu } } }\n", new_target(g, variable, 0, true)->kernel.number);
    hs__buffer_text(text, "node { name: '%s/Assign' op: 'AssignVariableOp' input: '%s' input: '%s/initial' ", name, name,
                    name);
    hs__buffer_text(text, "attr { key: 'dtype' value { type: %s } } }\n", type);
    hs__buffer_text(text, "node { name: '%s/Read' op: 'ReadVariableOp' input: '%s' ", name, name);
    hs__buffer_text(text, "attr { key: 'dtype' value { type: %s } } }\n", type);
}

void graph_stand_in_forget(stand_in *g)
{
    hs_tensorflow_free(g->tf);
    g->tf = (hs_backend){NULL, NULL};
    while (g->targets) {
        target *next = g->targets->next;
        kernel_remove(&g->targets->kernel);
        free(g->targets->host);
        free(g->targets);
        g->targets = next;
    }
    g->n_nodes = g->n_collected = g->n_late = 0;
}

static hs_code import(stand_in *g, hs_error *err)
{
    hs__buffer text;
    hs_error error = {0};
    graph_stand_in_forget(g);
    hs_backend loaded = engine_open(NULL, &error); /* loads TensorFlow's library */
    hs_code code = error.code ? error.code : kernel_register(&error);
    hs_tensorflow_free(loaded);
    hs__buffer_init(&text, hs_env_default());
    hs__buffer_text(&text, "graph_def {\nnode { name: 'stand_in' op: 'NoOp' }\n");
    g->n_variables = 0;
    for (size_t i = 0; !code && i < g->graph->n_nodes; i++)
        if (g->graph->nodes[i]->kind == HS__VARIABLE) {
            add_variable(&text, g, g->graph->nodes[i]);
            g->n_variables++;
        }
    hs__buffer_text(&text, "}\n");
    add_collection(&text, g, "variables", false, false);
    add_collection(&text, g, "local_variables", true, false);
    if (g->graph->global_step)
        add_collection(&text, g, "global_step", false, true);
    if (!code && !(code = hs__buffer_check(&text, "a graph", &error))) {
        const hs_tensorflow_options options = HS_INIT(hs_tensorflow_options, .env = &g->graph->env);
        g->tf = hs_tensorflow_open_bytes((hs_bytes){text.data, text.size}, &options, &error);
        code = error.code;
    }
    engine_graphs++;
    for (target *t = g->targets; t; t = t->next)
        t->kernel.tf = g->tf;
    hs__buffer_free(&text);
    if (code)
        graph_stand_in_forget(g);
    return code ? hs_error_set(err, code, "%s", error.message) : HS_OK;
}

/* The other nodes. */

typedef struct {
    stand_in *g;
    char names[STAND_IN_MOST][NAME]; /* of the ops that run before the op */
    const char *controls[STAND_IN_MOST + 1];
    size_t n;
    hs_error *err;
} adding;

static void after(adding *a, const char *name)
{
    assert_true(a->n < STAND_IN_MOST);
    snprintf(a->names[a->n], NAME, "%s", name);
    a->controls[a->n] = a->names[a->n];
    a->controls[++a->n] = NULL;
}

static hs_code add(adding *a, const char *type, const char *name, const char *const *inputs, bool is_list,
                   const hs_tensorflow_attr *attrs)
{
    const hs_tensorflow_op_def def = HS_INIT(hs_tensorflow_op_def, .type = type, .name = name, .inputs = inputs,
                                             .control_inputs = a->controls, .attrs = attrs, .inputs_are_a_list = is_list);
    hs_code code = hs_tensorflow_add_op(a->g->tf, &def, a->err);
    return code == HS_ALREADY_EXISTS ? HS_OK : code; /* an earlier attempt ran out of memory after it */
}

/* Adds an op that returns a value in the embedded session's memory, after the ops in `a`. */
static hs_code add_value(adding *a, hs__graph_node *node, size_t output, hs_dtype dtype, const char *name)
{
    const target *t = new_target(a->g, node, output, false);
    return add(
        a, "HooksessValue", name, NULL, false,
        (const hs_tensorflow_attr[]){{.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = dtype},
                                     {.name = "target", .kind = HS_TENSORFLOW_INT, .number = (int64_t)t->kernel.number},
                                     {.name = NULL}});
}

static bool writes(const hs__graph_node *op, const hs__graph_node *variable)
{
    for (size_t i = 0; i < op->n_writes; i++)
        if (op->writes[i] == variable)
            return true;
    return false;
}

static hs_code add_sets(adding *a, const hs__graph_node *op, adding *last)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < a->g->graph->n_nodes; i++) {
        hs__graph_node *variable = a->g->graph->nodes[i];
        char value[NAME], set[NAME];
        snprintf(value, sizeof value, "%s/value%zu", op->name, i);
        snprintf(set, sizeof set, "%s/set%zu", op->name, i);
        if (variable->kind != HS__VARIABLE || !writes(op, variable) ||
            (code = add_value(a, variable, 0, variable->dtype, value)))
            continue;
        code = add(a, "AssignVariableOp", set, HS_NAMES(variable->name, value), false, NULL);
        after(last, set);
    }
    return code;
}

static hs_code add_step(adding *a, const hs__graph_node *op, adding *last)
{
    static const int64_t one = 1;
    const hs_tensor value = hs_tensor_of(HS_INT64, HS_SCALAR, &one);
    char by[NAME], step[NAME];
    if (!op->advances_step || !a->g->graph->global_step)
        return HS_OK;
    snprintf(by, sizeof by, "%s/by", op->name);
    snprintf(step, sizeof step, "%s/step", op->name);
    hs_code code = add(a, "Const", by, NULL, false,
                       (const hs_tensorflow_attr[]){{.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = HS_INT64},
                                                    {.name = "value", .kind = HS_TENSORFLOW_TENSOR, .tensor = &value},
                                                    {.name = NULL}});
    after(last, step);
    return code ? code : add(a, "AssignAddVariableOp", step, HS_NAMES(a->g->graph->global_step->name, by), false, NULL);
}

static hs_code add_call(adding *a, hs__graph_node *op, const char *name)
{
    static char edges[STAND_IN_MOST][NAME];
    const char *inputs[STAND_IN_MOST + 1] = {NULL};
    const target *t = new_target(a->g, op, 0, false);
    assert_true(op->n_inputs < STAND_IN_MOST);
    for (size_t i = 0; i < op->n_inputs; i++) {
        const hs__graph_node *from = op->inputs[i].node;
        snprintf(edges[i], NAME, from->kind == HS__VARIABLE ? "%s/Read:%zu" : "%s:%zu", from->name, op->inputs[i].output);
        inputs[i] = edges[i];
    }
    return add(a, "HooksessCall", name, inputs, true,
               (const hs_tensorflow_attr[]){
                   {.name = "target", .kind = HS_TENSORFLOW_INT, .number = (int64_t)t->kernel.number}, {.name = NULL}});
}

static hs_code add_op(stand_in *g, hs__graph_node *op, hs_error *err)
{
    adding *before = calloc(3, sizeof *before), *called = before + 1, *last = before + 2;
    char call[NAME], outs[STAND_IN_MOST][NAME];
    const char *outputs[STAND_IN_MOST + 1] = {NULL};
    assert_non_null(before);
    before->g = called->g = last->g = g;
    before->err = called->err = last->err = err;
    for (size_t i = 0; i < op->n_controls; i++)
        after(before, op->controls[i]->name);
    snprintf(call, sizeof call, "%s/call", op->name);
    hs_code code = add_call(before, op, call);
    after(called, call);
    after(last, call);
    for (size_t i = 0; !code && i < op->n_outputs; i++) {
        snprintf(outs[i], NAME, "%s/out%zu", op->name, i);
        outputs[i] = outs[i];
        code = add_value(called, op, i, op->outputs[i].dtype, outs[i]);
    }
    if (!code && !(code = add_sets(called, op, last)))
        code = add_step(called, op, last);
    if (!code)
        code = add(last,
                   op->n_outputs > 1 ? "IdentityN"
                   : op->n_outputs   ? "Identity"
                                     : "NoOp",
                   op->name, outputs, op->n_outputs > 1, NULL);
    free(before);
    return code;
}

static hs_code add_node(stand_in *g, hs__graph_node *node, hs_error *err)
{
    adding a = {.g = g, .err = err};
    hs_code code = HS_OK;
    hs_node unused;
    if (node->kind == HS__VARIABLE || node->builtin ||
        (code = g->tf.ops->find(g->tf.self, node->name, &unused, err)) != HS_NOT_FOUND)
        return code;
    code = HS_OK;
    for (size_t i = 0; !code && i < node->n_inputs; i++)
        code = add_node(g, node->inputs[i].node, err);
    for (size_t i = 0; !code && i < node->n_controls; i++)
        code = add_node(g, node->controls[i], err);
    if (code)
        return code;
    if (node->kind == HS__VALUE)
        return add_value(&a, node, 0, node->dtype, node->name);
    if (node->kind == HS__OP)
        return add_op(g, node, err);
    return add(&a, "Placeholder", node->name, NULL, false,
               (const hs_tensorflow_attr[]){
                   {.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = node->dtype},
                   {.name = node->shape.rank >= 0 ? "shape" : NULL, .kind = HS_TENSORFLOW_SHAPE, .shape = node->shape},
                   {.name = NULL}});
}

static size_t count_variables(const hs_graph *graph)
{
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i]->kind == HS__VARIABLE;
    return n;
}

/* Adds the new nodes. */
static hs_code try_to_follow(stand_in *g, hs_error *err)
{
    hs_graph *graph = g->graph;
    if (graph->n_queues)
        return hs_error_set(err, HS_UNIMPLEMENTED, "queues of the embedded graph are not TensorFlow's");
    hs_code code = graph_stand_in_theirs(g)->status(graph, err);
    if (code || (code = hs__graph_prepare(graph, err)))
        return code;
    if (!g->tf.ops || count_variables(graph) != g->n_variables)
        code = import(g, err);
    bool finalized = !code && g->tf.ops->finalized(g->tf.self);
    if (finalized)
        g->tf.ops->finalize(g->tf.self, false, NULL);
    while (!code && g->n_nodes < graph->n_nodes)
        if (!(code = add_node(g, graph->nodes[g->n_nodes], err)))
            g->n_nodes++;
    if (finalized)
        g->tf.ops->finalize(g->tf.self, true, NULL);
    while (!code && g->n_collected < graph->n_collected) {
        const hs__collected *c = &graph->collected[g->n_collected];
        if (!(code = g->tf.ops->add_to_collection(g->tf.self, c->key, c->item, NULL, err)))
            g->n_collected++;
    }
    return code;
}

/* Some callers cannot report that memory is exhausted. The next caller that can reports it for them. */
hs_code graph_stand_in_follow(stand_in *g, hs_error *err)
{
    hs_code code = try_to_follow(g, err);
    g->no_memory |= code == HS_RESOURCE_EXHAUSTED;
    return code == HS_RESOURCE_EXHAUSTED ? try_to_follow(g, err) : code;
}

hs_code graph_stand_in_follow_or_fail(stand_in *g, hs_error *err)
{
    hs_code code = graph_stand_in_follow(g, err);
    if (g->no_memory)
        code = hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for TensorFlow's graph");
    g->no_memory = false;
    return code;
}
