/* SPDX-License-Identifier: Apache-2.0 */
/* Adds queues to a graph. add_queue checks the definition, copies it, and adds the ops, the position and the queue runner.
 */
#include "backends/graph/queue.h"

#include <hooksess/queue_runner.h>

#include "base/state.h"

#include <string.h>

enum { DEFAULT_CAPACITY = 32, MOST_THREADS = 1024 };

static hs_code check_components(const hs_queue_def *def, size_t *n, hs_error *err)
{
    for (*n = 0; def->components && def->components[*n].dtype; ++*n)
        if (def->components[*n].data || def->components[*n].memory)
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "queue '%s': component %zu sets data or memory; leave both out, as each element has its "
                                "own",
                                def->name, *n);
    if (!*n)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "queue '%s' has no components; set .components = HS_OUTPUTS(...)",
                            def->name);
    return HS_OK;
}

static hs_code check_filling(const hs_queue_def *def, size_t n_components, hs_error *err)
{
    size_t n_inputs = def->inputs ? hs__names_count(def->inputs) : 0;
    if (!def->produce == !def->inputs)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "queue '%s' has %s; give exactly one of the two", def->name,
                            def->produce ? "both produce and inputs" : "neither produce nor inputs");
    if (def->inputs && n_inputs != n_components)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "queue '%s' has %zu inputs for %zu components", def->name, n_inputs,
                            n_components);
    if (def->position && !def->produce)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "queue '%s' has a position, but no produce; a position needs produce",
                            def->name);
    if (def->position && def->threads > 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "queue '%s' has a position, so one thread fills it; threads is %lld",
                            def->name, (long long)def->threads);
    return HS_OK;
}

static hs_code check_numbers(const hs_queue_def *def, hs_error *err)
{
    if (def->capacity < 0 || def->capacity > INT32_MAX)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "queue '%s': capacity is %lld; it must be from 1 to %d, or 0 for %d",
                            def->name, (long long)def->capacity, INT32_MAX, DEFAULT_CAPACITY);
    if (def->threads != HS_NEVER && (def->threads < 0 || def->threads > MOST_THREADS))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "queue '%s': threads is %lld; it must be from 1 to %d, 0 for 1, or HS_NEVER for none",
                            def->name, (long long)def->threads, MOST_THREADS);
    return HS_OK;
}

/* Makes a definition and adds it to the graph's queues. */
static hs_code new_def(hs_graph *graph, const hs_queue_def *given, size_t n, hs__queue_def **out, hs_error *err)
{
    const hs_env *env = &graph->env;
    hs_code code =
        hs__reserve(env, &graph->queues, &graph->queues_capacity, graph->n_queues + 1, sizeof *graph->queues, err);
    if (code)
        return code;
    hs__queue_def *def = hs__alloc(env, 1, sizeof *def);
    if (!def)
        return hs__no_memory(err, sizeof *def, "a queue");
    def->graph = graph;
    def->index = graph->n_queues;
    def->capacity = given->capacity ? given->capacity : DEFAULT_CAPACITY;
    def->produce = given->produce;
    def->self = given->user;
    def->name = hs__strdup(env, given->name);
    def->element.kind = HS__OP;
    def->element.n_outputs = n;
    def->element.outputs = hs__alloc(env, n, sizeof *def->element.outputs);
    if (def->name && def->element.outputs)
        memcpy(def->element.outputs, given->components, n * sizeof *def->element.outputs);
    else
        code = hs__no_memory(err, n * sizeof *def->element.outputs, "a queue");
    bool one_thread = given->threads == 0 || given->threads == 1;
    if (!code && (one_thread || given->position)) {
        hs_state_provider saved = {.save = NULL};
        if (given->position)
            code = hs__state_provider_copy(&saved, given->position, "position", err);
        if (!code && !(code = hs__producer_lock_init(&def->producer_lock, err))) {
            def->locks_producer = true;
            def->saved = saved;
        }
    }
    if (code) {
        hs__queue_def_free(def);
        return code;
    }
    graph->queues[graph->n_queues++] = def;
    *out = def;
    return HS_OK;
}

/* The functions of a queue's ops. */

static hs__queue *queue_of(const void *self, const hs_op *op)
{
    return op->session->queues[((const hs__queue_def *)self)->index];
}

static hs_code run_enqueue(void *self, hs_op *op, hs_error *err)
{
    const hs__queue_def *def = self;
    hs__queue *queue = queue_of(self, op);
    hs__element *element = NULL;
    hs_code code = hs__queue_begin_enqueue(queue, &element, err);
    if (code)
        return code;
    if (def->produce)
        return hs__queue_produce(queue, op, element, err);
    for (size_t i = 0; !code && i < def->element.n_outputs; i++)
        code = hs__element_set(def, element, i, hs_op_input(op, i), err);
    return hs__queue_end_enqueue(queue, element, code, err);
}

/* The outputs are the element's memory, which stays valid until the next dequeue. */
static hs_code run_dequeue(void *self, hs_op *op, hs_error *err)
{
    const hs__queue_def *def = self;
    hs__element **held = &op->session->held[def->index];
    bool keeps_last = *held && !hs_op_has_input(op);
    hs_code code = keeps_last ? HS_OK : hs__queue_dequeue(queue_of(self, op), op, held, err);
    for (size_t i = 0; !code && i < def->element.n_outputs; i++)
        *hs_op_output(op, i) = (*held)->values[i];
    return code;
}

static hs_code run_close(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    hs__queue_close(queue_of(self, op), false);
    return HS_OK;
}

static hs_code run_cancel(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    hs__queue_close(queue_of(self, op), true);
    return HS_OK;
}

static hs_code run_size(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    *(int32_t *)hs_op_output(op, 0)->data = hs__queue_size(queue_of(self, op));
    return HS_OK;
}

hs__queue_op hs__queue_op_of(const hs__graph_node *op)
{
    return op->run == run_enqueue   ? HS__QUEUE_ENQUEUE
           : op->run == run_dequeue ? HS__QUEUE_DEQUEUE
           : op->run == run_close   ? HS__QUEUE_CLOSE
           : op->run == run_cancel  ? HS__QUEUE_CANCEL
           : op->run == run_size    ? HS__QUEUE_SIZE
                                    : HS__NO_QUEUE_OP;
}

/* Adding a queue. */

/* Adds the op NAME/what. It writes no variables. */
static hs_code add_op(hs__queue_def *def, const char *what, hs_op_fn run, const char *const *inputs,
                      const hs_output_def *outputs, hs__graph_node **node, hs_error *err)
{
    char *name = hs__format(&def->graph->env, "%s/%s", def->name, what);
    if (!name)
        return hs__no_memory(err, strlen(def->name), "a name");
    hs_code code = hs__graph_add_op(def->graph,
                                    HS_OP_DEF(.name = name, .run = run, .user = def, .inputs = inputs, .outputs = outputs,
                                              .writes = (const char *const[]){NULL}),
                                    err);
    if (!code)
        *node = hs__graph_node_of(def->graph, name);
    hs__free(&def->graph->env, name);
    return code;
}

static hs_code add_ops(hs__queue_def *def, const hs_queue_def *given, hs_error *err)
{
    hs__graph_node *dequeue, *other;
    hs_code code;
    if ((code = add_op(def, "enqueue", run_enqueue, given->inputs, NULL, &def->enqueue, err)) ||
        (code = add_op(def, "dequeue", run_dequeue, NULL, given->components, &dequeue, err)))
        return code;
    def->element.name = def->enqueue->name;
    dequeue->is_dequeue = true;
    if ((code = add_op(def, "close", run_close, NULL, NULL, &other, err)) ||
        (code = add_op(def, "cancel", run_cancel, NULL, NULL, &other, err)))
        return code;
    return add_op(def, "size", run_size, NULL, HS_OUTPUTS({.dtype = HS_INT32}), &other, err);
}

static void release_runner(void *runner)
{
    hs_queue_runner_free(runner);
}

static hs_code add_runner(const hs__queue_def *def, int64_t threads, hs_error *err)
{
    hs_graph *graph = def->graph;
    if (threads == HS_NEVER)
        return HS_OK;
    size_t n = threads ? (size_t)threads : 1;
    const char **names = hs__alloc(&graph->env, n + 1, sizeof *names);
    if (!names)
        return hs__no_memory(err, n * sizeof *names, "a queue runner");
    for (size_t i = 0; i < n; i++)
        names[i] = def->enqueue->name;
    hs_queue_runner *runner =
        hs_queue_runner_new(HS_QUEUE_RUNNER_OPTIONS(.queue = def->name, .enqueue_ops = names, .env = &graph->env), err);
    hs__free(&graph->env, names);
    if (!runner)
        return err->code;
    hs_code code = hs__graph_collect(graph, HS_QUEUE_RUNNERS, runner, false, release_runner, err);
    if (code)
        hs_queue_runner_free(runner);
    return code;
}

static hs_code add_queue(hs_graph *graph, const hs_queue_def *given, hs_error *err)
{
    hs_queue_def def;
    hs__queue_def *made = NULL;
    size_t n;
    hs_code code;
    if (!given)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_graph_add_queue: def is NULL");
    if ((code = HS_STRUCT_TAKE(hs_queue_def, position, &def, given, err)) ||
        (code = hs__graph_check_name(graph, "queue", def.name, err)) || (code = check_components(&def, &n, err)) ||
        (code = check_filling(&def, n, err)) || (code = check_numbers(&def, err)) ||
        (code = new_def(graph, &def, n, &made, err)))
        return code;
    if ((code = add_ops(made, &def, err)))
        return code;
    if (made->saved.save) {
        hs_state_provider state = made->saved;
        state.save = hs__queue_save_position;
        state.load = hs__queue_load_position;
        state.self = made;
        graph->has_position = true;
        made->saved.name = made->saved.identity = NULL; /* the caller owns them */
        if ((code = hs__graph_add_state(graph, &state, err)))
            return code;
    }
    return add_runner(made, def.threads, err);
}

hs_code hs_graph_add_queue(hs_graph *graph, const hs_queue_def *def)
{
    hs_code code = hs__graph_check_open(graph, "queue", def ? def->name : NULL);
    if (code)
        return code;
    hs_error error = {0};
    add_queue(graph, def, &error);
    return hs__graph_record_error(graph, &error);
}
