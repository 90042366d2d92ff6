/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's RunMetadata of a run: the time of each op, and the memory of its outputs. add_stats writes a node for each
 * op that the run executed, and for each other node that was used. */
#include "backends/graph/graph.h"

#include "run_metadata.pb-c.h"

#include "base/proto.h"

enum { RUN_STEP_STATS = 1, RUN_PARTITION_GRAPHS = 3, STEP_DEV_STATS = 1, DEVICE_NAME = 1, DEVICE_NODE_STATS = 2 };
enum { NODE_OUTPUT = 7 };

static const char device_name[] = "/job:localhost/replica:0/task:0/device:CPU:0";

typedef struct {
    const hs__graph_session *session;
    int64_t offset; /* real time minus monotonic time */
    bool *used;     /* by node: is fetched, read or written */
    hs__buffer node, device;
} stats;

static void put_output(hs__buffer *node, size_t slot, const hs_tensor *value)
{
    Hs__Pb__TensorShapeProto shape = HS__PB__TENSOR_SHAPE_PROTO__INIT;
    Hs__Pb__TensorShapeProto__Dim dims[HS_MAX_RANK], *pointers[HS_MAX_RANK];
    Hs__Pb__TensorDescription description = HS__PB__TENSOR_DESCRIPTION__INIT;
    Hs__Pb__NodeOutput output = HS__PB__NODE_OUTPUT__INIT;
    shape.n_dim = value->rank < 0 ? 0 : (size_t)value->rank;
    shape.dim = pointers;
    for (size_t i = 0; i < shape.n_dim; i++) {
        dims[i] = (Hs__Pb__TensorShapeProto__Dim)HS__PB__TENSOR_SHAPE_PROTO__DIM__INIT;
        dims[i].size = value->dims[i];
        pointers[i] = &dims[i];
    }
    description.dtype = (Hs__Pb__DataType)value->dtype;
    description.shape = &shape;
    output.slot = (int32_t)slot;
    output.tensor_description = &description;
    hs__proto_put_message(node, NODE_OUTPUT, &output.base);
}

/* hs__buffer_clear resets `failed`, so it is copied first. */
static void clear_node(stats *of)
{
    of->device.failed |= of->node.failed;
    hs__buffer_clear(&of->node);
}

/* Writes a node with its outputs. */
static void put_node(stats *of, const hs__graph_node *node)
{
    Hs__Pb__NodeExecStats message = HS__PB__NODE_EXEC_STATS__INIT;
    Hs__Pb__AllocatorMemoryUsed memory = HS__PB__ALLOCATOR_MEMORY_USED__INIT, *memories = &memory;
    size_t n_outputs = node->kind == HS__OP ? node->n_outputs : 1;
    memory.allocator_name = hs__proto_string("cpu");
    clear_node(of);
    for (size_t i = 0; i < n_outputs; i++) {
        const hs_tensor *value = hs__graph_tensor_at(of->session, node->slot + i);
        put_output(&of->node, i, value);
        memory.total_bytes += (int64_t)value->bytes;
        if (value->memory)
            memory.allocator_name = hs__proto_string("device");
    }
    message.node_name = hs__proto_string(node->name);
    message.n_memory = n_outputs ? 1 : 0;
    message.memory = &memories;
    if (node->kind == HS__OP) { /* microseconds are rounded up, because TensorBoard shows an op of 0 us as not executed */
        const int64_t *times = &of->session->trace[2 * node->rank];
        int64_t length = times[1] - times[0];
        message.all_start_nanos = times[0] + of->offset;
        message.op_end_rel_nanos = message.all_end_rel_nanos = length;
        message.all_start_micros = message.scheduled_micros = message.all_start_nanos / 1000;
        message.op_end_rel_micros = message.all_end_rel_micros = length < 1000 ? 1 : (length + 999) / 1000;
    }
    hs__proto_pack(&message.base, &of->node);
    hs__proto_put_bytes(&of->device, DEVICE_NODE_STATS, of->node.data, of->node.size);
}

static hs_code add_stats(hs__graph_session *session, const hs_backend_call *call, hs_error *err)
{
    const hs_env *env = &session->graph->env;
    stats of = {.session = session, .offset = hs_env_realtime_ns(env) - hs_env_monotonic_ns(env)};
    of.used = hs__alloc(env, session->graph->n_nodes, sizeof *of.used);
    if (!of.used)
        return hs__no_memory(err, session->graph->n_nodes, "step stats");
    hs__buffer_init(&of.node, env);
    hs__buffer_init(&of.device, env);
    hs__proto_put_bytes(&of.device, DEVICE_NAME, device_name, sizeof device_name - 1);

    const hs_graph *graph = session->graph;
    for (size_t i = 0; i < call->n_fetches; i++)
        of.used[((const hs__graph_node *)call->fetches[i].op)->index] = true;
    for (size_t rank = 0; rank < graph->n_ops; rank++) {
        const hs__graph_node *op = graph->order[rank];
        if (!(session->needed[rank / 64] >> rank % 64 & 1) || !op->run)
            continue; /* not executed, or without a function */
        for (size_t i = 0; i < op->n_inputs; i++)
            of.used[op->inputs[i].node->index] = true;
        for (size_t i = 0; i < op->n_writes; i++)
            of.used[op->writes[i]->index] = true;
        if (op->advances_step && graph->global_step)
            of.used[graph->global_step->index] = true;
        put_node(&of, op);
    }
    for (size_t i = 0; i < graph->n_nodes; i++) /* nodes that are not ops have no times */
        if (of.used[i] && graph->nodes[i]->kind != HS__OP)
            put_node(&of, graph->nodes[i]);

    clear_node(&of);
    hs__proto_put_bytes(&of.node, STEP_DEV_STATS, of.device.data, of.device.size);
    hs__proto_put_bytes(&session->metadata, RUN_STEP_STATS, of.node.data, of.node.size);
    hs_code code = hs__buffer_check(&of.node, "step stats", err);
    if (!code)
        code = hs__buffer_check(&of.device, "step stats", err);
    hs__buffer_free(&of.node);
    hs__buffer_free(&of.device);
    hs__free(env, of.used);
    return code;
}

hs_code hs__graph_metadata(hs__graph_session *session, hs_backend_call *call, hs_error *err)
{
    hs_code code = HS_OK;
    hs_bytes graph = {NULL, 0};
    hs__buffer *out = &session->metadata;
    hs__buffer_clear(out);
    if (call->options->trace_level >= HS_TRACE_SOFTWARE)
        code = add_stats(session, call, err);
    if (!code && call->options->output_partition_graphs && !(code = hs__graph_make_def(session->graph, &graph, err)))
        hs__proto_put_bytes(out, RUN_PARTITION_GRAPHS, graph.data, graph.size);
    if (!code)
        code = hs__buffer_check(out, "run metadata", err);
    call->metadata = (hs_bytes){out->data, out->size};
    return code;
}
