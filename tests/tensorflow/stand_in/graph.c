/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a test's embedded graph in TensorFlow. The program is linked with --wrap, so that hs_graph_backend returns the
 * backend below: it makes a TensorFlow graph with the same variables, and ops that call the test's functions (kernel.h). A
 * session runs, saves, restores and initializes these. It also opens a session of the embedded graph, and uses only its
 * memory, which the functions see. Values that an op writes there are assigned to TensorFlow's variables after the op, and
 * a write of a TensorFlow variable writes that memory as well. */
#include "tensorflow/stand_in/graph.h"

#include "graph.pb-c.h"

#include "base/proto.h"

hs_backend __real_hs_graph_backend(hs_graph *graph);
hs_graph *__real_hs_graph_of(hs_backend backend);
void __real_hs_graph_free(hs_graph *graph);

hs_backend __wrap_hs_graph_backend(hs_graph *graph);
hs_graph *__wrap_hs_graph_of(hs_backend backend);
void __wrap_hs_graph_free(hs_graph *graph);

typedef graph_stand_in stand_in;

enum { LATER = 64 /* added to the level of the second run (sg_run) */ };

typedef struct {
    stand_in *g;
    void *tf;
    hs__graph_session *memory;
} session;

/* All graphs: usually one, sometimes two. */
static stand_in *all;

static stand_in *of(const hs_graph *graph)
{
    stand_in *g = all;
    while (g && g->graph != graph)
        g = g->next;
    if (!g && (g = calloc(1, sizeof *g))) {
        g->graph = (hs_graph *)graph;
        g->next = all;
        all = g;
    }
    assert_non_null(g);
    return g;
}

const hs_backend_ops *graph_stand_in_theirs(const stand_in *g)
{
    return __real_hs_graph_backend(g->graph).ops;
}

/* The backend. */

static const hs_env *sg_env(void *self)
{
    return &((hs_graph *)self)->env;
}

static hs_code sg_status(void *self, hs_error *err)
{
    return graph_stand_in_theirs(of(self))->status(self, err);
}

static hs_code sg_find(void *self, const char *name, hs_node *node, hs_error *err)
{
    stand_in *g = of(self);
    hs_code code = graph_stand_in_follow_or_fail(g, err);
    if (code || (code = g->tf.ops->find(g->tf.self, name, node, err)))
        return code;
    hs_node found;
    hs_error error = {0};
    if (graph_stand_in_theirs(g)->find(self, name, &found, &error) == HS_RESOURCE_EXHAUSTED)
        return hs_error_set(err, error.code, "%s", error.message);
    const hs__graph_node *is = error.code ? NULL : found.op;
    if (is && (is->kind == HS__VARIABLE || is->kind == HS__VALUE)) {
        assert_true(g->n_late < STAND_IN_MOST);
        for (size_t i = 0; i < g->n_late; i++)
            if (g->late[i] == node->op)
                return HS_OK;
        g->late[g->n_late++] = node->op;
    }
    return HS_OK;
}

static hs_code sg_finalize(void *self, bool finalized, hs_error *err)
{
    stand_in *g = of(self);
    hs_code code = graph_stand_in_follow_or_fail(g, err);
    if (!code && !(code = graph_stand_in_theirs(g)->finalize(self, finalized, err)))
        code = g->tf.ops->finalize(g->tf.self, finalized, err);
    return code;
}

static bool sg_finalized(void *self)
{
    return graph_stand_in_theirs(of(self))->finalized(self);
}

static const char *sg_step_name(void *self)
{
    stand_in *g = of(self);
    return graph_stand_in_follow(g, NULL) ? NULL : g->tf.ops->global_step_name(g->tf.self);
}

static bool sg_collection_item(void *self, const char *key, size_t index, const void **item)
{
    stand_in *g = of(self);
    return !graph_stand_in_follow(g, NULL) && g->tf.ops->collection_item(g->tf.self, key, index, item);
}

static hs_code sg_collect(void *self, const char *key, const void *item, void (*release)(void *item), hs_error *err)
{
    stand_in *g = of(self);
    hs_code code = graph_stand_in_follow_or_fail(g, err);
    return code ? code : g->tf.ops->add_to_collection(g->tf.self, key, item, release, err);
}

static hs_code sg_default_op(void *self, const char *key, const char **name, hs_error *err)
{
    stand_in *g = of(self);
    hs_code code = graph_stand_in_follow_or_fail(g, err);
    return code ? code : g->tf.ops->default_op(g->tf.self, key, name, err);
}

static bool sg_variable(void *self, size_t index, hs_variable *out)
{
    stand_in *g = of(self);
    return !graph_stand_in_follow(g, NULL) && g->tf.ops->variable(g->tf.self, index, out);
}

static const hs_state_provider *sg_state(void *self, size_t index)
{
    return graph_stand_in_theirs(of(self))->state(self, index);
}

static int by_key(const void *a, const void *b)
{
    const Hs__Pb__NodeDef__AttrEntry *const *left = a, *const *right = b;
    return strcmp((*left)->key, (*right)->key);
}

/* TensorFlow writes attributes in a random order, but tests compare files. */
static hs_code sort_attributes(stand_in *g, hs_bytes *bytes, hs_error *err)
{
    bool no_memory;
    ProtobufCMessage *message =
        hs__proto_unpack(&hs__pb__graph_def__descriptor, hs_env_default(), bytes->data, bytes->size, &no_memory);
    Hs__Pb__GraphDef *def = (Hs__Pb__GraphDef *)message;
    if (!def)
        return hs_error_set(err, HS_INTERNAL, "TensorFlow's graph cannot be read");
    for (size_t i = 0; i < def->n_node; i++)
        if (def->node[i]->n_attr)
            qsort(def->node[i]->attr, def->node[i]->n_attr, sizeof(void *), by_key);
    hs__buffer_free(&g->def);
    hs__buffer_init(&g->def, hs_env_default());
    hs__proto_pack(message, &g->def);
    ProtobufCAllocator allocator = hs__proto_allocator(hs_env_default());
    protobuf_c_message_free_unpacked(message, &allocator);
    *bytes = (hs_bytes){g->def.data, g->def.size};
    return hs__buffer_check(&g->def, "a graph", err);
}

static hs_code sg_graph_def(void *self, hs_bytes *out, hs_error *err)
{
    stand_in *g = of(self);
    hs_code code = graph_stand_in_follow_or_fail(g, err);
    if (!code && !(code = g->tf.ops->graph_def(g->tf.self, out, err)))
        code = sort_attributes(g, out, err);
    return code;
}

static hs_code sg_open(void *self, const char *where, hs_bytes config, void **opened, hs_error *err)
{
    stand_in *g = of(self);
    void *tf = NULL, *memory = NULL;
    hs_code code = graph_stand_in_follow_or_fail(g, err);
    if (code || (code = g->tf.ops->open(g->tf.self, where, config, &tf, err)))
        return code;
    session *s = calloc(1, sizeof *s);
    assert_non_null(s);
    if ((code = graph_stand_in_theirs(g)->open(self, "", (hs_bytes){NULL, 0}, &memory, err))) {
        g->tf.ops->close(tf, NULL);
        free(s);
        return code;
    }
    *s = (session){g, tf, memory};
    *opened = s;
    return HS_OK;
}

static hs_code sg_close(void *closing, hs_error *err)
{
    session s = *(session *)closing;
    free(closing);
    graph_stand_in_theirs(s.g)->close(s.memory, NULL);
    return s.g->tf.ops->close(s.tf, err);
}

/* Copies TensorFlow's step to the embedded session, where the program may read it. */
static void copy_step(const session *s)
{
    const hs__graph_node *node = s->g->graph->global_step;
    int64_t step;
    if (!node || s->g->tf.ops->global_step(s->tf, &step, NULL))
        return;
    memcpy(s->memory->tensors[node->slot].data, &step, sizeof step);
    s->memory->initialized[node->slot] = true;
}

/* Copies the program's memory to TensorFlow's variables if it differs: functions may change it without hs_op_def.writes. */
static void copy_memory(const session *s)
{
    const hs_graph *graph = s->g->graph;
    const hs_backend_ops *ops = s->g->tf.ops;
    hs_variable variable;
    hs_tensor value;
    for (size_t i = 0; ops->variable(s->g->tf.self, i, &variable); i++)
        for (size_t k = 0; k < graph->n_variables; k++) {
            const hs__graph_node *node = graph->variables[k];
            const hs_tensor *memory = &s->memory->tensors[node->slot];
            if (node->data && !memory->memory && node != graph->global_step && strcmp(node->name, variable.name) == 0 &&
                !ops->read_variable(s->tf, i, &value, NULL) && memcmp(value.data, memory->data, memory->bytes) != 0)
                ops->write_variable(s->tf, i, memory, NULL);
        }
}

static hs_code run_part(session *s, hs_backend_call *call, hs_error *err)
{
    stand_in *g = s->g;
    g->running = s->memory;
    g->failure.code = HS_OK;
    s->memory->run++;
    s->memory->call = call;
    if (g->tf.ops->global_step(s->tf, &s->memory->step, NULL))
        s->memory->step = -1;
    hs_code code = g->tf.ops->run(s->tf, call, err);
    s->memory->call = NULL;
    g->running = NULL;
    copy_step(s);
    copy_memory(s);
    /* TensorFlow replaces codes that it does not know, and UNAVAILABLE, which it reserves for the network. */
    if (code && g->failure.code && g->failure.code != code)
        code = hs_error_set(err, g->failure.code, "%s", g->failure.message);
    return code;
}

static bool is_late(const stand_in *g, const hs_node *node)
{
    for (size_t i = 0; i < g->n_late; i++)
        if (g->late[i] == node->op)
            return true;
    return false;
}

/* Runs the late fetches, or the others. */
static hs_code run_half(session *s, hs_backend_call *call, bool late, hs_error *err)
{
    hs_node fetches[STAND_IN_MOST];
    hs_tensor values[STAND_IN_MOST];
    hs_backend_call half = *call;
    size_t n = 0;
    for (size_t i = 0; i < call->n_fetches; i++)
        if (is_late(s->g, &call->fetches[i]) == late)
            fetches[n++] = call->fetches[i];
    half.fetches = fetches;
    half.n_fetches = n;
    half.values = values;
    half.level = call->level + (late ? LATER : 0);
    hs_code code = n || !late ? run_part(s, &half, err) : HS_OK;
    n = 0;
    for (size_t i = 0; !code && i < call->n_fetches; i++)
        if (is_late(s->g, &call->fetches[i]) == late)
            call->values[i] = values[n++];
    if (!late)
        call->metadata = half.metadata;
    return code;
}

/* The embedded graph reads variables after the ops that write them. TensorFlow promises no order, so there are two runs. */
static hs_code sg_run(void *running, hs_backend_call *call, hs_error *err)
{
    assert_true(call->n_fetches <= STAND_IN_MOST);
    hs_code code = run_half(running, call, false, err);
    return code ? code : run_half(running, call, true, err);
}

static hs_code sg_read(void *reading, size_t index, hs_tensor *value, hs_error *err)
{
    const session *s = reading;
    return s->g->tf.ops->read_variable(s->tf, index, value, err);
}

static hs_code sg_write(void *writing, size_t index, const hs_tensor *value, hs_error *err)
{
    const session *s = writing;
    const hs_graph *graph = s->g->graph;
    hs_variable variable;
    if (s->g->tf.ops->variable(s->g->tf.self, index, &variable))
        for (size_t i = 0; i < graph->n_variables; i++)
            if (strcmp(graph->variables[i]->name, variable.name) == 0)
                graph_stand_in_theirs(s->g)->write_variable(s->memory, i, value, NULL);
    return s->g->tf.ops->write_variable(s->tf, index, value, err);
}

static hs_code sg_lend(void *lending, size_t index, hs_tensor *memory, hs_error *err)
{
    const session *s = lending;
    return s->g->tf.ops->lend_variable(s->tf, index, memory, err);
}

static hs_code sg_step(void *reading, int64_t *step, hs_error *err)
{
    const session *s = reading;
    return s->g->tf.ops->global_step(s->tf, step, err);
}

static const hs_backend_ops graph_ops =
    HS_INIT(hs_backend_ops, .name = "graph of TensorFlow's", .flags = HS_BACKEND_KEEPS_VALUES | HS_BACKEND_KEEPS_VIEWS,
            .env = sg_env, .status = sg_status, .find = sg_find, .finalize = sg_finalize, .finalized = sg_finalized,
            .global_step_name = sg_step_name, .collection_item = sg_collection_item, .add_to_collection = sg_collect,
            .default_op = sg_default_op, .variable = sg_variable, .state = sg_state, .graph_def = sg_graph_def,
            .open = sg_open, .run = sg_run, .close = sg_close, .read_variable = sg_read, .write_variable = sg_write,
            .global_step = sg_step, .lend_variable = sg_lend);

hs_backend __wrap_hs_graph_backend(hs_graph *graph)
{
    return graph ? (hs_backend){&graph_ops, graph} : __real_hs_graph_backend(NULL);
}

hs_graph *__wrap_hs_graph_of(hs_backend backend)
{
    return backend.ops == &graph_ops ? backend.self : __real_hs_graph_of(backend);
}

void __wrap_hs_graph_free(hs_graph *graph)
{
    stand_in **at = &all;
    while (*at && (*at)->graph != graph)
        at = &(*at)->next;
    stand_in *g = *at;
    if (g) {
        *at = g->next;
        graph_stand_in_forget(g);
        hs__buffer_free(&g->def);
        free(g);
    }
    __real_hs_graph_free(graph);
}
