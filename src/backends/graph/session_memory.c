/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and frees sessions of the embedded graph and their forks: the arrays (allocate), the tensors (init_tensor), the
 * queues (open_queues). */
#include "backends/graph/queue.h"

#include <dlfcn.h>
#include <string.h>

static hs_code allocate_tensor(hs__graph_session *session, size_t slot, size_t bytes, hs_error *err)
{
    hs_tensor *tensor = &session->tensors[slot];
    session->owned[slot] = hs__alloc(&session->graph->env, bytes, 1);
    if (!session->owned[slot])
        return hs__no_memory(err, bytes, "the memory of a tensor");
    tensor->data = session->owned[slot];
    tensor->bytes = bytes;
    return HS_OK;
}

/* Allocates the outputs of an op that have no memory yet. */
static hs_code own_outputs(hs__graph_session *session, const hs__graph_node *op, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && !op->is_dequeue && i < op->n_outputs; i++) {
        const hs_output_def *output = &op->outputs[i];
        size_t slot = op->slot + i;
        if (!output->data && !session->owned[slot] && output->dtype != HS_STRING && hs_shape_elements(&output->shape) >= 0)
            code = allocate_tensor(session, slot, session->tensors[slot].bytes, err);
    }
    return code;
}

static hs_code init_tensor(hs__graph_session *session, const hs__graph_node *node, hs_error *err)
{
    if (node->kind == HS__OP) {
        for (size_t i = 0; i < node->n_outputs; i++) {
            const hs_output_def *output = &node->outputs[i];
            hs_tensor *tensor = &session->tensors[node->slot + i];
            *tensor = hs_tensor_of(output->dtype, output->shape, output->data);
            tensor->memory = output->memory;
            if (hs_shape_elements(&output->shape) < 0)
                tensor->rank = -1; /* unset */
        }
        /* a fork executes few ops: hs__graph_prepare_fork allocates the outputs of those */
        return session->is_fork ? HS_OK : own_outputs(session, node, err);
    }
    hs_tensor *tensor = &session->tensors[node->slot];
    *tensor = hs_tensor_of(node->dtype, node->shape, node->data);
    tensor->memory = node->memory;
    if (session->is_fork && node->kind == HS__VARIABLE)
        return HS_OK; /* a fork does not access variables */
    session->initialized[node->slot] = node->kind != HS__VARIABLE || node->data || node->moves;
    if (session->initialized[node->slot])
        return HS_OK;
    return allocate_tensor(session, node->slot, tensor->bytes, err);
}

/* Makes the session's queues, or retains those of the parent. */
static hs_code open_queues(hs__graph_session *session, const hs__graph_session *parent, hs_error *err)
{
    hs_graph *graph = session->graph;
    if (!graph->n_queues)
        return HS_OK;
    session->queues = hs__alloc(&graph->env, graph->n_queues, sizeof *session->queues);
    session->held = hs__alloc(&graph->env, graph->n_queues, sizeof *session->held);
    if (!session->queues || !session->held)
        return hs__no_memory(err, graph->n_queues * sizeof *session->queues, "the queues of a session");
    for (size_t i = 0; i < graph->n_queues; i++) {
        if (parent)
            hs__queue_retain(parent->queues[i]);
        session->queues[i] = parent ? parent->queues[i] : hs__queue_new(graph->queues[i], err);
        if (!session->queues[i])
            return HS_RESOURCE_EXHAUSTED;
        if (!parent)
            graph->queues[i]->live = session->queues[i];
    }
    return HS_OK;
}

/* Releases the queues. A session that is not a fork also cancels them, which wakes waiting threads. */
static void close_queues(hs__graph_session *session)
{
    const hs_graph *graph = session->graph;
    for (size_t i = 0; session->queues && session->held && i < graph->n_queues; i++) {
        hs__queue *queue = session->queues[i];
        if (!queue)
            continue;
        if (!session->is_fork) {
            hs__queue_close(queue, true);
            if (graph->queues[i]->live == queue)
                graph->queues[i]->live = NULL;
        }
        hs__queue_recycle(queue, session->held[i]);
        hs__queue_release(queue);
    }
    hs__free(&graph->env, session->queues);
    hs__free(&graph->env, session->held);
}

void hs__graph_session_free(hs__graph_session *session)
{
    hs_graph *graph = session->graph;
    const hs_env *env = &graph->env;
    close_queues(session);
    for (size_t i = 0; session->owned && i < session->graph->n_slots; i++)
        hs__free(env, session->owned[i]);
    void *const blocks[] = {session->tensors,  session->owned,   session->initialized, (void *)session->fed,
                            session->fed_in,   session->needed,  session->stack,       session->trace,
                            session->executed, session->declined};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        hs__free(env, blocks[i]);
    hs__buffer_free(&session->metadata);
    hs__free(env, session);
    hs__graph_release(graph);
}

static hs_code allocate(hs__graph_session *session, hs_error *err)
{
    const hs_graph *graph = session->graph;
    const hs_env *env = &graph->env;
    size_t n = graph->n_slots;
    session->tensors = hs__alloc(env, n, sizeof *session->tensors);
    session->owned = hs__alloc(env, n, sizeof *session->owned);
    session->initialized = hs__alloc(env, n, sizeof *session->initialized);
    session->fed = hs__alloc(env, n, sizeof *session->fed);
    session->fed_in = hs__alloc(env, n, sizeof *session->fed_in);
    session->needed = hs__alloc(env, (graph->n_ops + 63) / 64, sizeof *session->needed);
    session->stack = hs__alloc(env, graph->n_ops, sizeof *session->stack);
    session->trace = hs__alloc(env, 2 * graph->n_ops, sizeof *session->trace);
    session->executed = hs__alloc(env, graph->n_ops, sizeof *session->executed);
    session->declined = hs__alloc(env, n, sizeof *session->declined);
    if (!session->tensors || !session->owned || !session->initialized || !session->fed || !session->fed_in ||
        !session->needed || !session->stack || !session->trace || !session->executed || !session->declined)
        return hs__no_memory(err, n * sizeof *session->tensors, "a session of the graph");
    hs__graph_forget_ages(session);
    return HS_OK;
}

/* cuPointerGetAttribute */
typedef int (*query_fn)(void *value, int attribute, unsigned long long address);

static bool is_on_device(query_fn query, const void *address)
{
    enum { MEMORY_TYPE = 2, IS_MANAGED = 8, ON_DEVICE = 2 };
    int type = 0;
    unsigned char is_managed = 0;
    return address && !query(&type, MEMORY_TYPE, (uintptr_t)address) && type == ON_DEVICE &&
           !query(&is_managed, IS_MANAGED, (uintptr_t)address) && !is_managed;
}

/* Refuses memory of a device that the program gave without its hs_memory, because an access by the host ends the program.
 * CUDA's driver can tell, if the program has loaded it. */
static hs_code check_host_memory(const hs_graph *graph, hs_error *err)
{
    query_fn query = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD),
         *found = driver ? dlsym(driver, "cuPointerGetAttribute") : NULL;
    hs_code code = HS_OK;
    memcpy(&query, &found, sizeof query);
    for (size_t i = 0; query && !code && i < graph->n_nodes; i++) {
        const hs__graph_node *node = graph->nodes[i];
        void *address = node->data;
        if (node->kind == HS__VARIABLE && node->def.data_at)
            memcpy(&address, node->def.data_at, sizeof address);
        if (!node->memory && is_on_device(query, address))
            code = hs_error_set(err, HS_INVALID_ARGUMENT,
                                "'%s' is in memory of a CUDA device; add it with hs_cuda_variable or hs_cuda_value "
                                "(hooksess/cuda.h; C++: give the hs::cuda, too), or set .memory",
                                node->name);
    }
    for (size_t i = 0; query && !code && i < graph->n_states; i++)
        if (is_on_device(query, graph->states[i].bytes))
            code = hs_error_set(err, HS_INVALID_ARGUMENT,
                                "state '%s' is in memory of a CUDA device; add it with hs_cuda_variable "
                                "(hooksess/cuda.h), as HS_UINT8",
                                graph->states[i].provider.name);
    if (driver)
        dlclose(driver);
    return code;
}

hs_code hs__graph_session_make(hs_graph *graph, const hs__graph_session *parent, hs__graph_session **session, hs_error *err)
{
    hs__graph_session *made = hs__alloc(&graph->env, 1, sizeof *made);
    if (!made)
        return hs__no_memory(err, sizeof *made, "a session of the graph");
    made->graph = graph;
    made->is_fork = parent != NULL;
    atomic_fetch_add(&graph->references, 1);
    hs__buffer_init(&made->metadata, &graph->env);
    hs_code code = parent ? HS_OK : check_host_memory(graph, err);
    if (!code)
        code = allocate(made, err);
    for (size_t i = 0; !code && i < graph->n_nodes; i++)
        code = init_tensor(made, graph->nodes[i], err);
    if (code || (code = open_queues(made, parent, err)))
        hs__graph_session_free(made);
    else
        *session = made;
    return code;
}

/* Forks of a session: handles for threads that run ops concurrently with training. A fork has private outputs, shares the
 * session's queues and cannot access variables, so that runs need no lock. */

hs_code hs__graph_session_fork(void *self, void **forked, hs_error *err)
{
    const hs__graph_session *parent = self;
    hs__graph_session *made = NULL;
    hs_code code = hs__graph_session_make(parent->graph, parent, &made, err);
    *forked = made;
    return code;
}

/* Returns a variable that the op reads or writes, or NULL. */
static const hs__graph_node *accessed_variable(const hs__graph_session *session, const hs__graph_node *op)
{
    for (size_t i = 0; i < op->n_writes; i++)
        if (op->writes[i]->kind == HS__VARIABLE)
            return op->writes[i];
    for (size_t i = 0; i < op->n_inputs; i++) {
        const hs__graph_node *input = op->inputs[i].node;
        if (input->kind == HS__VARIABLE && session->fed_in[input->slot] != session->run)
            return input;
    }
    return op->advances_step ? session->graph->global_step : NULL;
}

hs_code hs__graph_prepare_fork(hs__graph_session *session, const hs_backend_call *call, hs_error *err)
{
    static const char rule[] = "which only the session's own thread may do, not a thread that fills a queue";
    const hs_graph *graph = session->graph;
    for (size_t i = 0; i < call->n_fetches; i++) {
        const hs__graph_node *node = call->fetches[i].op;
        if (node->kind == HS__VARIABLE && session->fed_in[node->slot] != session->run)
            return hs_error_set(err, HS_FAILED_PRECONDITION, "variable '%s' is fetched, %s", node->name, rule);
    }
    for (size_t word = 0; word * 64 < graph->n_ops; word++)
        for (uint64_t bits = session->needed[word]; bits; bits &= bits - 1) {
            const hs__graph_node *op = graph->order[word * 64 + (size_t)__builtin_ctzll(bits)];
            const hs__graph_node *variable = accessed_variable(session, op);
            if (variable)
                return hs_error_set(err, HS_FAILED_PRECONDITION, "op '%s' reads or writes variable '%s', %s", op->name,
                                    variable->name, rule);
            if (op->builtin)
                return hs_error_set(err, HS_FAILED_PRECONDITION, "op '%s' reads or writes all variables, %s", op->name,
                                    rule);
            hs_code code = own_outputs(session, op, err);
            if (code)
                return code;
        }
    return HS_OK;
}
