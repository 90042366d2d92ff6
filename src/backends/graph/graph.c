/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, frees and searches a graph. */
#include "backends/graph/queue.h"

#include <string.h>

hs_graph *hs_graph_new(const hs_env *env)
{
    hs_env taken;
    hs_error error = {0};
    if (hs__env_take(&taken, env, &error))
        taken = *hs_env_default(); /* opening a session reports the error */
    hs_graph *graph = hs__alloc(&taken, 1, sizeof *graph);
    if (!graph)
        return NULL;
    graph->env = taken;
    graph->error = error;
    hs__map_init(&graph->names, &graph->env);
    hs__buffer_init(&graph->graph_def, &graph->env);
    atomic_init(&graph->references, 1);
    return graph;
}

void hs__graph_free_node(const hs_env *env, hs__graph_node *node)
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

void hs__graph_free_state(const hs_env *env, const hs__graph_state *state)
{
    hs__free(env, (void *)state->provider.name);
    hs__free(env, (void *)state->provider.identity);
    hs__free(env, state->owned);
}

static void free_collections(hs_graph *graph)
{
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

static hs__graph_memory *add_memory(hs_graph *graph, const char *name, size_t bytes, hs_error *err)
{
    const hs_env *env = &graph->env;
    hs__graph_memory *memory = hs__alloc(env, 1, sizeof *memory);
    if (!memory || !(memory->name = hs__strdup(env, name)) || !(memory->data = hs__alloc(env, 1, bytes))) {
        free_memory(env, memory);
        hs__no_memory(err, bytes, "memory of the graph");
        return NULL;
    }
    memory->bytes = bytes;
    memory->next = graph->memory;
    return graph->memory = memory;
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
    if (!found)
        found = add_memory(graph, name, bytes, err);
    return found ? found->data : NULL;
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
        hs__graph_free_node(&env, graph->nodes[i]);
    for (size_t i = 0; i < graph->n_states; i++)
        hs__graph_free_state(&env, &graph->states[i]);
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
    free_collections(graph);
    hs__graph_release(graph);
}

hs_code hs_graph_error(const hs_graph *graph, hs_error *out)
{
    static const hs_error no_graph = {.code = HS_RESOURCE_EXHAUSTED,
                                      .message = "the graph is NULL; hs_graph_new returns NULL if memory is exhausted"};
    return hs__error_copy(out, graph ? &graph->error : &no_graph);
}

bool hs_graph_has(const hs_graph *graph, const char *name)
{
    return graph && name && hs__graph_node_of(graph, name);
}

hs__graph_node *hs__graph_node_of(const hs_graph *graph, const char *name)
{
    size_t at = hs__map_find(&graph->names, name);
    return at == HS__NONE ? NULL : graph->nodes[at];
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
