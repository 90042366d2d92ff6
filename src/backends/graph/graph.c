/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, frees and searches a graph, and adds nodes, state and items of collections. A public function that adds
 * something checks that the graph is open, adds it, and records the error in the graph. */
#include "backends/graph/graph.h"

#include "backends/graph/queue.h"
#include "backends/output_name.h"
#include "base/state.h"

#include <string.h>

hs_graph *hs_graph_new(const hs_env *env)
{
    hs_env copied;
    hs_error error = {0};
    if (hs__env_copy(&copied, env, &error))
        copied = *hs_env_default(); /* opening a session reports the error */
    hs_graph *graph = hs__alloc(&copied, 1, sizeof *graph);
    if (!graph)
        return NULL;
    graph->env = copied;
    graph->error = error;
    hs__map_init(&graph->names, &graph->env);
    hs__buffer_init(&graph->graph_def, &graph->env);
    atomic_init(&graph->references, 1);
    return graph;
}

static void graph_free_node(const hs_env *env, hs__graph_node *node)
{
    if (node->free_self)
        node->free_self(node->self);
    hs__free(env, node->type);
    hs__free(env, node->outputs);
    hs__free(env, (void *)node->input_names);
    hs__free(env, (void *)node->control_names);
    hs__free(env, (void *)node->write_names);
    hs__free(env, node->inputs);
    hs__free(env, node->controls);
    hs__free(env, node->writes);
    hs__free(env, node);
}

static void graph_free_state(const hs_env *env, const hs__graph_state *state)
{
    hs__free(env, (void *)state->provider.name);
    hs__free(env, (void *)state->provider.identity);
    hs__free(env, state->owned);
}

void hs__queue_def_free(hs__queue_def *def)
{
    const hs_env *env = &def->graph->env;
    if (def->locks_producer)
        hs__producer_lock_destroy(&def->producer_lock);
    hs__free(env, def->element.outputs);
    hs__free(env, def->name);
    hs__free(env, def);
}

/* Memory for hooks. */

static void free_memory(const hs_env *env, hs__graph_memory *memory)
{
    if (!memory)
        return;
    hs__free(env, memory->name);
    hs__free(env, memory->data);
    hs__free(env, memory);
}

void *hs_graph_memory(hs_graph *graph, const char *name, size_t bytes, hs_error *err)
{
    hs_error_clear(err);
    if (!graph || !name || !bytes) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_graph_memory: %s",
                     !graph ? "graph is NULL"
                     : name ? "bytes is 0"
                            : "name is NULL");
        return NULL;
    }
    hs__graph_memory *found = graph->memory;
    while (found && strcmp(found->name, name) != 0)
        found = found->next;
    if (found && found->bytes != bytes) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_graph_memory: '%s' has %zu bytes, not %zu", name, found->bytes, bytes);
        return NULL;
    }
    if (found)
        return found->data;
    hs__graph_memory *added = hs__alloc(&graph->env, 1, sizeof *added);
    if (!added || !(added->name = hs__strdup(&graph->env, name)) || !(added->data = hs__alloc(&graph->env, 1, bytes))) {
        free_memory(&graph->env, added);
        hs__no_memory(err, bytes, "memory of the graph");
        return NULL;
    }
    added->bytes = bytes;
    added->next = graph->memory;
    graph->memory = added;
    return added->data;
}

void hs__graph_release(hs_graph *graph)
{
    if (atomic_fetch_sub(&graph->references, 1) > 1)
        return;
    hs_env env = graph->env;
    hs__graph_unresolve(graph);
    for (size_t i = 0; i < graph->n_queues; i++)
        hs__queue_def_free(graph->queues[i]);
    for (size_t i = 0; i < graph->n_nodes; i++)
        graph_free_node(&env, graph->nodes[i]);
    for (size_t i = 0; i < graph->n_states; i++)
        graph_free_state(&env, &graph->states[i]);
    for (hs__graph_memory *next, *memory = graph->memory; memory; memory = next) {
        next = memory->next;
        free_memory(&env, memory);
    }
    hs__free(&env, graph->queues);
    hs__free(&env, graph->nodes);
    hs__free(&env, graph->states);
    hs__map_free(&graph->names);
    hs__buffer_free(&graph->graph_def);
    hs__free(&env, graph);
}

/* A thread that fills a queue may still run. It needs the graph, but not the collections. */
void hs_graph_free(hs_graph *graph)
{
    if (!graph)
        return;
    hs_env env = graph->env;
    for (size_t i = graph->n_collected; i-- > 0;) {
        const hs__collected *item = &graph->collected[i];
        if (item->release)
            item->release((void *)item->item);
        if (item->is_copy)
            hs__free(&env, (void *)item->item);
        hs__free(&env, item->key);
    }
    hs__free(&env, graph->collected);
    graph->collected = NULL;
    graph->n_collected = graph->collected_capacity = 0;
    hs__graph_release(graph);
}

hs_code hs_graph_error(const hs_graph *graph, hs_error *out)
{
    static const hs_error no_graph = {.code = HS_RESOURCE_EXHAUSTED,
                                      .message = "the graph is NULL; hs_graph_new returns NULL if memory is exhausted"};
    return hs__error_copy(out, graph ? &graph->error : &no_graph);
}

hs__graph_node *hs__graph_node_of(const hs_graph *graph, const char *name)
{
    size_t at = hs__map_find(&graph->names, name);
    return at == HS__NONE ? NULL : graph->nodes[at];
}

const hs__graph_node *hs__graph_value(const hs_graph *graph, const char *name)
{
    if (!graph || !name)
        return NULL;
    const hs__graph_node *found = hs__graph_node_of(graph, name);
    if (found)
        return found->kind == HS__VALUE ? found : NULL;
    const hs__output_name parsed = hs__parse_output_name(name);
    for (size_t i = 0; parsed.has_output && parsed.output == 0 && i < graph->n_nodes; i++)
        if (graph->nodes[i]->kind == HS__VALUE && strlen(graph->nodes[i]->name) == parsed.op_length &&
            memcmp(graph->nodes[i]->name, name, parsed.op_length) == 0)
            return graph->nodes[i];
    return NULL;
}

void hs__graph_unresolve(hs_graph *graph)
{
    hs__free(&graph->env, graph->order);
    hs__free(&graph->env, graph->variables);
    graph->order = graph->variables = NULL;
    graph->resolved = false;
    hs__buffer_clear(&graph->graph_def);
}

bool hs__graph_may_change(const hs_graph *graph)
{
    return !graph->live_sessions && atomic_load(&graph->references) == 1;
}

const void *hs__graph_collected(const hs_graph *graph, const char *key, size_t index)
{
    for (size_t i = 0; i < graph->n_collected; i++)
        if (strcmp(graph->collected[i].key, key) == 0 && index-- == 0)
            return graph->collected[i].item;
    return NULL;
}

hs_code hs__graph_record_error(hs_graph *graph, const hs_error *error)
{
    if (error->code && !graph->error.code)
        hs__error_copy(&graph->error, error);
    return error->code;
}

static bool is_name(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-";
    return *name && *name != '/' && *name != '-' && !name[strspn(name, allowed)];
}

hs_code hs__graph_check_name(const hs_graph *graph, const char *what, const char *name, hs_error *err)
{
    if (!name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the name of a new %s is NULL", what);
    if (!is_name(name))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s '%s': the name is invalid; use letters, digits and _ . / -, and do not begin with / or -",
                            what, name);
    if (strncmp(name, HS__STATE_PREFIX, strlen(HS__STATE_PREFIX)) == 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s '%s': names that begin with %s are reserved for state in checkpoints", what, name,
                            HS__STATE_PREFIX);
    if (hs__graph_node_of(graph, name))
        return hs_error_set(err, HS_ALREADY_EXISTS, "%s '%s': the graph already has a node with this name", what, name);
    return HS_OK;
}

hs_code hs__graph_check_open(hs_graph *graph, const char *what, const char *name)
{
    if (!graph)
        return HS_INVALID_ARGUMENT;
    if (!graph->finalized && atomic_load(&graph->references) == 1)
        return HS_OK;
    hs_log(&graph->env, HS_LOG_ERROR,
           "cannot add %s '%s': the graph is finalized, it has an open session, or a thread of a session still runs", what,
           name ? name : "?");
    return HS_FAILED_PRECONDITION;
}

/* Adds the node to the graph, or frees it on failure. */
static hs_code add_node(hs_graph *graph, hs__graph_node *node, const char *name, hs_error *err)
{
    hs_code code;
    if ((code = hs__reserve(&graph->env, &graph->nodes, &graph->nodes_capacity, graph->n_nodes + 1, sizeof *graph->nodes,
                            err)) ||
        (code = hs__map_add(&graph->names, name, graph->n_nodes, &node->name, err))) {
        graph_free_node(&graph->env, node);
        return code;
    }
    graph->nodes[graph->n_nodes++] = node;
    hs__graph_unresolve(graph);
    return HS_OK;
}

static hs__graph_node *new_node(const hs_graph *graph, hs__node_kind kind, hs_error *err)
{
    hs__graph_node *node = hs__alloc(&graph->env, 1, sizeof *node);
    if (!node)
        hs__no_memory(err, sizeof *node, "a node of the graph");
    else
        node->kind = kind;
    return node;
}

static hs_code add_variable(hs_graph *graph, const hs_variable_def *given, bool needs_data, hs_error *err)
{
    hs_variable_def def;
    hs_code code;
    if (!given)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_graph_add_variable: def is NULL");
    if ((code = HS_STRUCT_TAKE(hs_variable_def, reserved, &def, given, err)) ||
        (code = hs__graph_check_name(graph, "variable", def.name, err)) || (code = hs__variable_check(&def, err)))
        return code;
    if (needs_data && !def.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "variable '%s': data is NULL; for memory that is allocated later use hs_graph_variable_at, and "
                            "for separate memory in each session hs_graph_add_variable",
                            def.name);
    hs__graph_node *node = new_node(graph, HS__VARIABLE, err);
    if (!node)
        return HS_RESOURCE_EXHAUSTED;
    node->dtype = def.dtype;
    node->shape = def.shape;
    node->data = def.data;
    node->memory = def.memory;
    node->def = def;
    node->moves = hs__variable_moves(&def);
    if ((code = add_node(graph, node, def.name, err)))
        return code;
    node->def.name = node->name;
    graph->program_memory |= def.data || node->moves;
    bool is_step = strcmp(def.name, "global_step") == 0 && def.dtype == HS_INT64 && def.shape.rank == 0 && !def.memory;
    if (is_step && !graph->global_step && !node->moves)
        graph->global_step = node;
    return HS_OK;
}

hs_code hs_graph_add_variable(hs_graph *graph, const hs_variable_def *def)
{
    hs_code code = hs__graph_check_open(graph, "variable", def ? def->name : NULL);
    if (code)
        return code;
    hs_error error = {0};
    add_variable(graph, def, false, &error);
    return hs__graph_record_error(graph, &error);
}

hs_code hs_graph_check_bytes(hs_graph *graph, const char *name, size_t bytes, size_t element, size_t room)
{
    hs_error error = {0};
    if (room && bytes > room)
        hs_error_set(&error, HS_INVALID_ARGUMENT,
                     element ? "'%s': bytes is %zu, but its memory has only %zu"
                             : "the shape of '%s' needs %zu bytes, but its memory has only %zu",
                     name ? name : "?", bytes, room);
    else if (bytes == sizeof(void *) && bytes < element)
        hs_error_set(&error, HS_INVALID_ARGUMENT,
                     "'%s' has %zu bytes, but its pointer points to %zu: is it the size of the pointer?", name ? name : "?",
                     bytes, element);
    else
        return HS_OK;
    hs_code code = hs__graph_check_open(graph, "array", name);
    return code ? code : hs__graph_record_error(graph, &error);
}

hs_code(hs_graph_variable)(hs_graph *graph, const char *name, hs_dtype dtype, hs_shape shape, void *data)
{
    const hs_variable_def def =
        HS_INIT(hs_variable_def, .name = name, .dtype = (int64_t)dtype, .shape = shape, .data = data);
    hs_code code = hs__graph_check_open(graph, "variable", name);
    if (code)
        return code;
    hs_error error = {0};
    add_variable(graph, &def, true, &error);
    return hs__graph_record_error(graph, &error);
}

/* Adds a value or a placeholder. */
static hs_code add_tensor(hs_graph *graph, hs__node_kind kind, const char *what, const char *name, hs_dtype dtype,
                          const hs_shape *shape, void *data, hs_error *err)
{
    hs_code code;
    if ((code = hs__graph_check_name(graph, what, name, err)) ||
        (code = hs__check_kind(what, name, (int64_t)dtype, shape, kind == HS__PLACEHOLDER, err)))
        return code;
    if (kind == HS__VALUE && !data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "value '%s': data is NULL", name);
    hs__graph_node *node = new_node(graph, kind, err);
    if (!node)
        return HS_RESOURCE_EXHAUSTED;
    node->dtype = dtype;
    node->shape = *shape;
    node->data = data;
    return add_node(graph, node, name, err);
}

hs_code(hs_graph_value)(hs_graph *graph, const char *name, hs_dtype dtype, hs_shape shape, void *data)
{
    hs_code code = hs__graph_check_open(graph, "value", name);
    if (code)
        return code;
    hs_error error = {0};
    add_tensor(graph, HS__VALUE, "value", name, dtype, &shape, data, &error);
    return hs__graph_record_error(graph, &error);
}

hs_code hs_graph_placeholder(hs_graph *graph, const char *name, hs_dtype dtype, hs_shape shape)
{
    hs_code code = hs__graph_check_open(graph, "placeholder", name);
    if (code)
        return code;
    hs_error error = {0};
    add_tensor(graph, HS__PLACEHOLDER, "placeholder", name, dtype, &shape, NULL, &error);
    return hs__graph_record_error(graph, &error);
}

static hs_code add_global_step(hs_graph *graph, const char *name, int64_t *data, hs_error *err)
{
    if (graph->global_step)
        return hs_error_set(err, HS_ALREADY_EXISTS, "global step '%s': the graph already has the global step '%s'", name,
                            graph->global_step->name);
    hs_variable_def def = HS_INIT(hs_variable_def, .name = name, .dtype = HS_INT64, .shape = HS_SCALAR, .data = data);
    hs_code code = add_variable(graph, &def, false, err);
    if (!code)
        graph->global_step = hs__graph_node_of(graph, name);
    return code;
}

hs_code hs_graph_global_step(hs_graph *graph, const char *name, int64_t *data)
{
    hs_code code = hs__graph_check_open(graph, "global step", name);
    if (code)
        return code;
    hs_error error = {0};
    add_global_step(graph, name ? name : "global_step", data, &error);
    return hs__graph_record_error(graph, &error);
}

void hs__graph_ensure_step(hs_graph *graph)
{
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->kind == HS__OP && !graph->nodes[i]->builtin && !graph->nodes[i]->is_summary)
            return;
    if (!graph->global_step && !graph->finalized && !graph->error.code && !hs__graph_node_of(graph, "global_step"))
        hs_graph_global_step(graph, NULL, NULL);
}

static hs_code check_outputs(const char *name, const hs_output_def *outputs, size_t *n, hs_error *err)
{
    hs_code code = HS_OK;
    for (*n = 0; !code && outputs && outputs[*n].dtype; ++*n) {
        const hs_output_def *out = &outputs[*n];
        if (!(code = hs__check_kind("an output of op", name, (int64_t)out->dtype, &out->shape, true, err)))
            code = hs__check_memory("an output of op", name, out->memory, err);
        if (!code && out->data && hs_shape_elements(&out->shape) < 0)
            code = hs_error_set(err, HS_INVALID_ARGUMENT, "op '%s': output %zu has data, so its shape must be fully known",
                                name, *n);
    }
    return code;
}

/* Copies the functions and lists of an op's definition. */
static hs_code copy_lists(const hs_graph *graph, hs__graph_node *node, const hs_op_def *def, hs_error *err)
{
    const hs_env *env = &graph->env;
    node->run = def->run;
    node->self = def->user;
    node->advances_step = def->advances_step;
    node->collective = def->collective;
    node->n_inputs = hs__names_count(def->inputs);
    node->n_controls = hs__names_count(def->control_inputs);
    node->n_writes = hs__names_count(def->writes);
    node->outputs = hs__alloc(env, node->n_outputs, sizeof *node->outputs);
    node->input_names = hs__names_copy(env, def->inputs);
    node->control_names = hs__names_copy(env, def->control_inputs);
    node->write_names = hs__names_copy(env, def->writes);
    node->lists_inputs = def->inputs != NULL;
    node->lists_writes = def->writes != NULL;
    node->inputs = hs__alloc(env, node->n_inputs, sizeof *node->inputs);
    node->controls = hs__alloc(env, node->n_controls, sizeof(void *));
    node->writes = hs__alloc(env, node->n_writes, sizeof(void *));
    node->type = def->type ? hs__strdup(env, def->type) : NULL;
    if (!node->outputs || !node->input_names || !node->control_names || !node->write_names || !node->inputs ||
        !node->controls || !node->writes || (def->type && !node->type))
        return hs__no_memory(err, sizeof *node, "an op of the graph");
    for (size_t i = 0; i < node->n_outputs; i++)
        node->outputs[i] = def->outputs[i];
    return HS_OK;
}

hs_code hs__graph_add_op(hs_graph *graph, const hs_op_def *given, hs_error *err)
{
    hs_op_def def;
    hs_code code;
    size_t n_outputs = 0;
    if (!given)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_graph_add_op: def is NULL");
    if ((code = HS_STRUCT_TAKE(hs_op_def, type, &def, given, err)) ||
        (code = hs__graph_check_name(graph, "op", def.name, err)) ||
        (code = check_outputs(def.name, def.outputs, &n_outputs, err)))
        return code;
    if (def.type && !is_name(def.type))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "op '%s': type '%s' is invalid; use letters, digits and _ . / -, and do not begin with / or -",
                            def.name, def.type);
    if (!def.run && n_outputs)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "op '%s' has outputs, but no function (run)", def.name);
    if (def.advances_step && !graph->global_step && (code = add_global_step(graph, "global_step", NULL, err)))
        return code;
    hs__graph_node *node = new_node(graph, HS__OP, err);
    if (!node)
        return HS_RESOURCE_EXHAUSTED;
    node->n_outputs = n_outputs;
    if ((code = copy_lists(graph, node, &def, err))) {
        graph_free_node(&graph->env, node);
        return code;
    }
    return add_node(graph, node, def.name, err);
}

hs_code hs_graph_add_op(hs_graph *graph, const hs_op_def *def)
{
    hs_code code = hs__graph_check_open(graph, "op", def ? def->name : NULL);
    if (code)
        return code;
    hs_error error = {0};
    hs__graph_add_op(graph, def, &error);
    return hs__graph_record_error(graph, &error);
}

hs_code hs__graph_add_unique(hs_graph *graph, const hs_op_def *wanted, hs__graph_node **added, hs_error *err)
{
    const char *name = wanted->name;
    char *unique = hs__strdup(&graph->env, name);
    for (int i = 1; unique && hs__graph_node_of(graph, unique); i++) {
        hs__free(&graph->env, unique);
        unique = hs__format(&graph->env, "%s_%d", name, i);
    }
    if (!unique)
        return hs__no_memory(err, strlen(name), "a name");
    hs_op_def def = *wanted;
    def.name = unique;
    hs_code code = hs__graph_add_op(graph, &def, err);
    if (!code)
        *added = hs__graph_node_of(graph, unique);
    hs__free(&graph->env, unique);
    return code;
}

hs_code hs__graph_add_state(hs_graph *graph, const hs_state_provider *given, hs_error *err)
{
    hs_state_provider state;
    hs_code code = hs__state_provider_copy(&state, given, "state", err);
    if (code)
        return code;
    if (!is_name(state.name))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "state '%s': the name is invalid; use letters, digits and _ . / -, and do not begin with / or "
                            "-",
                            state.name);
    for (size_t i = 0; i < graph->n_states; i++)
        if (strcmp(graph->states[i].provider.name, state.name) == 0)
            return hs_error_set(err, HS_ALREADY_EXISTS, "state '%s': the graph already has a state with this name",
                                state.name);
    if ((code = hs__reserve(&graph->env, &graph->states, &graph->states_capacity, graph->n_states + 1,
                            sizeof *graph->states, err)))
        return code;
    const char *identity = state.identity;
    state.name = hs__strdup(&graph->env, state.name);
    state.identity = identity ? hs__strdup(&graph->env, identity) : NULL;
    hs__graph_state added = {.provider = state};
    if (!state.name || (identity && !state.identity)) {
        graph_free_state(&graph->env, &added);
        return hs__no_memory(err, strlen(given->name), "a name");
    }
    graph->states[graph->n_states++] = added;
    return HS_OK;
}

hs_code hs_graph_add_state(hs_graph *graph, const hs_state_provider *provider)
{
    hs_code code = hs__graph_check_open(graph, "state", provider ? provider->name : NULL);
    if (code)
        return code;
    hs_error error = {0};
    hs__graph_add_state(graph, provider, &error);
    return hs__graph_record_error(graph, &error);
}

hs_code hs_graph_state(hs_graph *graph, const char *name, hs_save_state_fn save, hs_load_state_fn load, void *self)
{
    return hs_graph_add_state(graph, HS_STATE_PROVIDER(.name = name, .save = save, .load = load, .self = self));
}

/* State of hs_graph_bytes. */
typedef struct {
    void *data;
    size_t size;
} plain_bytes;

static hs_code save_bytes(void *self, hs_state_writer *out, hs_error *err)
{
    const plain_bytes *bytes = self;
    return hs_state_writer_write(out, bytes->data, bytes->size, err);
}

static hs_code load_bytes(void *self, hs_state_reader *in, hs_error *err)
{
    const plain_bytes *bytes = self;
    if (hs_state_reader_remaining(in) != bytes->size)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "it has %zu bytes in the checkpoint, but %zu in the program (hs_graph_bytes)",
                            hs_state_reader_remaining(in), bytes->size);
    return hs_state_reader_read(in, bytes->data, bytes->size, err);
}

static hs_code add_bytes(hs_graph *graph, const char *name, void *data, size_t size, hs_state_scope scope, hs_error *err)
{
    if (!data || !size)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "state '%s': %s", name ? name : "?",
                            data ? "size is 0" : "data is NULL");
    plain_bytes *bytes = hs__alloc(&graph->env, 1, sizeof *bytes);
    if (!bytes)
        return hs__no_memory(err, sizeof *bytes, "state");
    *bytes = (plain_bytes){data, size};
    hs_code code = hs__graph_add_state(graph,
                                       HS_STATE_PROVIDER(.name = name, .save = save_bytes, .load = load_bytes,
                                                         .self = bytes, .bytes = size, .scope = scope),
                                       err);
    if (code) {
        hs__free(&graph->env, bytes);
        return code;
    }
    hs__graph_state *added = &graph->states[graph->n_states - 1];
    added->owned = bytes;
    added->bytes = data;
    return HS_OK;
}

hs_code(hs_graph_bytes)(hs_graph *graph, const char *name, void *data, size_t bytes, hs_state_scope scope)
{
    hs_code code = hs__graph_check_open(graph, "state", name);
    if (code)
        return code;
    hs_error error = {0};
    add_bytes(graph, name, data, bytes, scope, &error);
    return hs__graph_record_error(graph, &error);
}

hs_code hs__graph_collect(hs_graph *graph, const char *key, const void *item, bool is_name, void (*release)(void *item),
                          hs_error *err)
{
    const hs_env *env = &graph->env;
    if (!key || !item)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "cannot add to a collection: key or item is NULL");
    hs_code code = hs__reserve(env, &graph->collected, &graph->collected_capacity, graph->n_collected + 1,
                               sizeof *graph->collected, err);
    if (code)
        return code;
    hs__collected added = {hs__strdup(env, key), is_name ? hs__strdup(env, item) : item, release, is_name};
    if (!added.key || !added.item) {
        hs__free(env, added.key);
        if (is_name)
            hs__free(env, (void *)added.item);
        return hs__no_memory(err, strlen(key), "an item of a collection");
    }
    graph->collected[graph->n_collected++] = added;
    if (strcmp(key, HS_SUMMARIES) == 0 && graph->merge_summaries && hs__graph_may_change(graph))
        hs__graph_unresolve(graph);
    return HS_OK;
}

hs_code hs_graph_collect(hs_graph *graph, const char *key, const char *name)
{
    hs_code code = hs__graph_check_open(graph, "collection", key);
    if (code)
        return code;
    hs_error error = {0};
    if (key && (strcmp(key, HS_SAVERS) == 0 || strcmp(key, HS_QUEUE_RUNNERS) == 0))
        hs_error_set(&error, HS_INVALID_ARGUMENT, "cannot add to collection '%s': it holds %s, not names such as '%s'", key,
                     strcmp(key, HS_SAVERS) == 0 ? "savers" : "queue runners", name ? name : "(NULL)");
    else
        hs__graph_collect(graph, key, name, true, NULL, &error);
    return hs__graph_record_error(graph, &error);
}
