/* SPDX-License-Identifier: Apache-2.0 */
/* What a run tells of itself: TensorFlow's RunMetadata. */
#include "backends/graph/graph.h"

#include "run_metadata.pb-c.h"

#include "base/proto.h"

static void set_times(Hs__Pb__NodeExecStats *stats, const hs__graph_session *session, const hs__graph_node *op,
                      int64_t offset)
{
    const int64_t *times = &session->trace[2 * op->rank];
    *stats = (Hs__Pb__NodeExecStats)HS__PB__NODE_EXEC_STATS__INIT;
    stats->node_name = hs__proto_string(op->name);
    stats->all_start_nanos = times[0] + offset;
    stats->op_end_rel_nanos = stats->all_end_rel_nanos = times[1] - times[0];
    stats->all_start_micros = stats->scheduled_micros = stats->all_start_nanos / 1000;
    stats->op_end_rel_micros = stats->all_end_rel_micros = (times[1] - times[0]) / 1000;
}

static size_t count_needed(const hs__graph_session *session)
{
    size_t n = 0;
    for (size_t rank = 0; rank < session->graph->n_ops; rank++)
        n += session->needed[rank / 64] >> rank % 64 & 1;
    return n;
}

/* Ops without a function take no time and are left out. Times of the monotonic clock are moved to the calendar's. */
static void append_stats(hs__graph_session *session, Hs__Pb__NodeExecStats *stats, Hs__Pb__NodeExecStats **pointers)
{
    const hs_graph *graph = session->graph;
    int64_t offset = hs_env_realtime_ns(&graph->env) - hs_env_monotonic_ns(&graph->env);
    size_t n = 0;
    for (size_t rank = 0; rank < graph->n_ops; rank++)
        if ((session->needed[rank / 64] >> rank % 64 & 1) && graph->order[rank]->run) {
            set_times(&stats[n], session, graph->order[rank], offset);
            pointers[n] = &stats[n];
            n++;
        }
    Hs__Pb__DeviceStepStats device = HS__PB__DEVICE_STEP_STATS__INIT, *devices = &device;
    device.device = (char[]){"/job:localhost/replica:0/task:0/device:CPU:0"};
    device.n_node_stats = n;
    device.node_stats = pointers;
    Hs__Pb__StepStats step = HS__PB__STEP_STATS__INIT;
    step.n_dev_stats = 1;
    step.dev_stats = &devices;
    Hs__Pb__RunMetadata metadata = HS__PB__RUN_METADATA__INIT;
    metadata.step_stats = &step;
    hs__proto_pack(&metadata.base, &session->metadata);
}

static hs_code add_stats(hs__graph_session *session, hs_error *err)
{
    const hs_env *env = &session->graph->env;
    size_t n = count_needed(session);
    Hs__Pb__NodeExecStats *stats = hs__alloc(env, n, sizeof *stats), **pointers = hs__alloc(env, n, sizeof *pointers);
    hs_code code = HS_OK;
    if (stats && pointers)
        append_stats(session, stats, pointers);
    else
        code = hs__no_memory(err, n * sizeof *stats, "step stats");
    hs__free(env, stats);
    hs__free(env, pointers);
    return code;
}

hs_code hs__graph_metadata(hs__graph_session *session, hs_backend_call *call, hs_error *err)
{
    hs_code code = HS_OK;
    hs_bytes graph = {NULL, 0};
    hs__buffer *out = &session->metadata;
    hs__buffer_clear(out);
    if (call->options->trace_level >= HS_TRACE_SOFTWARE)
        code = add_stats(session, err);
    if (!code && call->options->output_partition_graphs && !(code = hs__graph_make_def(session->graph, &graph, err)))
        hs__proto_put_bytes(out, 3, graph.data, graph.size); /* RunMetadata.partition_graphs */
    if (!code)
        code = hs__buffer_check(out, "run metadata", err);
    call->metadata = (hs_bytes){out->data, out->size};
    return code;
}
