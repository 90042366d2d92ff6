/* SPDX-License-Identifier: Apache-2.0 */
/* The spans of hooks (hs__trace_spans) and the ops of a RunMetadata (hs__trace_run) as events of Chrome's trace format,
 * each of which begin_event and end_event put into the JSON, unless it is full. */
#include "summary/trace.h"

#include "run_metadata.pb-c.h"

#include "base/json_writer.h"
#include "base/proto.h"
#include "summary/value.h"

#include <stdio.h>
#include <string.h>

enum { HOOKS_PID = 1, FIRST_DEVICE_PID = 2, LANES = 64 };

/* The sum of two such times does not overflow. */
static const int64_t LATEST_NS = INT64_MAX / 2;

static void put_text(hs__buffer *out, const char *text)
{
    hs__json_quote(hs__buffer_put, out, text);
}

/* Events. */

static size_t begin_event(hs__trace *trace)
{
    size_t begun = trace->json.size;
    hs__buffer_text(&trace->json, begun == trace->first ? "\n" : ",\n");
    return begun;
}

/* Removes the event if it exceeds the limit. Then no later event is added. */
static void end_event(hs__trace *trace, size_t begun, bool counts)
{
    trace->full |= trace->json.size - trace->first > trace->limit;
    if (!trace->full)
        return;
    trace->json.size = begun;
    trace->dropped += counts;
}

/* Names a process, or one of its threads if `tid` is at least 0. */
static void put_name(hs__trace *trace, size_t pid, int64_t tid, const char *name)
{
    if (trace->full)
        return;
    size_t begun = begin_event(trace);
    hs__buffer_text(&trace->json, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%zu", tid < 0 ? "process_name" : "thread_name",
                    pid);
    if (tid >= 0)
        hs__buffer_text(&trace->json, ",\"tid\":%lld", (long long)tid);
    hs__buffer_text(&trace->json, ",\"args\":{\"name\":");
    put_text(&trace->json, name);
    hs__buffer_text(&trace->json, "}}");
    end_event(trace, begun, false);
}

typedef struct {
    const char *category, *name;
    size_t pid, tid;
    int64_t begin_ns, length_ns;
} work;

/* Appends a span up to its args, which the caller appends. */
static void put_work(hs__buffer *out, const work *w)
{
    hs__buffer_text(out, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":", w->category);
    put_text(out, w->name);
    hs__buffer_text(out, ",\"pid\":%zu,\"tid\":%zu,\"ts\":%lld.%03lld,\"dur\":%lld.%03lld,\"args\":{", w->pid, w->tid,
                    (long long)w->begin_ns / 1000, (long long)w->begin_ns % 1000, (long long)w->length_ns / 1000,
                    (long long)w->length_ns % 1000);
}

static int64_t clamp(int64_t ns)
{
    return ns < 0 ? 0 : ns > LATEST_NS ? LATEST_NS : ns;
}

/* Hooks. */

static void put_span(hs__trace *trace, const hs__hook_span *span, size_t tid, int64_t to_realtime_ns)
{
    if (trace->full) {
        trace->dropped++;
        return;
    }
    size_t begun = begin_event(trace);
    int64_t begin_ns = clamp(clamp(span->begin_ns) + to_realtime_ns);
    const work w = {"hook", span->callback, HOOKS_PID, tid, begin_ns, clamp(clamp(span->end_ns) - clamp(span->begin_ns))};
    put_work(&trace->json, &w);
    hs__buffer_text(&trace->json, "\"hook\":");
    put_text(&trace->json, span->hook);
    hs__buffer_text(&trace->json, "}}");
    end_event(trace, begun, true);
}

void hs__trace_spans(hs__trace *trace, const hs__hook_span *spans, size_t n, int64_t to_realtime_ns)
{
    if (n)
        put_name(trace, HOOKS_PID, -1, "hooks");
    for (size_t i = 0; i < n; i++) {
        size_t tid = 0; /* the index of the first span of the same hook */
        while (strcmp(spans[tid].hook, spans[i].hook) != 0)
            tid++;
        if (tid == i)
            put_name(trace, HOOKS_PID, (int64_t)tid, spans[i].hook);
        put_span(trace, &spans[i], tid, to_realtime_ns);
    }
}

/* Ops. */

/* Ops that overlap get different lanes. */
typedef struct {
    int64_t end_ns[LANES];
    size_t n;
} lanes;

/* Returns the first lane that is free at that time. If no lane is free: a new lane, or the lane that becomes free first. */
static size_t choose_lane(lanes *of, int64_t begin_ns)
{
    size_t soonest = 0;
    for (size_t i = 0; i < of->n; i++) {
        if (of->end_ns[i] <= begin_ns)
            return i;
        if (of->end_ns[i] < of->end_ns[soonest])
            soonest = i;
    }
    return of->n < LANES ? of->n++ : soonest;
}

/* Older writers set only microseconds. */
static int64_t ns_of(int64_t nanos, int64_t micros)
{
    if (nanos)
        return clamp(nanos);
    return micros > LATEST_NS / 1000 ? LATEST_NS : clamp(micros) * 1000;
}

static void put_op(hs__trace *trace, const Hs__Pb__NodeExecStats *stats, size_t pid, lanes *device, bool memory)
{
    if (!stats->all_start_nanos && !stats->all_start_micros && !stats->all_end_rel_nanos && !stats->all_end_rel_micros)
        return; /* was not executed: only describes memory */
    if (trace->full) {
        trace->dropped++;
        return;
    }
    work w = {"op",
              stats->node_name,
              pid,
              0,
              ns_of(stats->all_start_nanos, stats->all_start_micros),
              ns_of(stats->all_end_rel_nanos, stats->all_end_rel_micros)};
    size_t known = device->n;
    w.tid = choose_lane(device, w.begin_ns);
    device->end_ns[w.tid] = w.begin_ns + w.length_ns;
    if (device->n > known) {
        char name[32];
        snprintf(name, sizeof name, "ops %zu", w.tid);
        put_name(trace, pid, (int64_t)w.tid, name);
    }
    size_t begun = begin_event(trace);
    put_work(&trace->json, &w);
    if (*stats->timeline_label) {
        hs__buffer_text(&trace->json, "\"label\":");
        put_text(&trace->json, stats->timeline_label);
    }
    if (memory && stats->n_memory) {
        hs__buffer *out = &trace->json;
        hs__buffer_text(out, "%s\"memory\":[", *stats->timeline_label ? "," : "");
        for (size_t i = 0; i < stats->n_memory; i++) {
            hs__buffer_text(out, i ? ",{\"allocator\":" : "{\"allocator\":");
            put_text(out, stats->memory[i]->allocator_name);
            hs__buffer_text(out, ",\"bytes\":%lld}", (long long)stats->memory[i]->total_bytes);
        }
        hs__buffer_text(out, "]");
    }
    hs__buffer_text(&trace->json, "}}");
    end_event(trace, begun, true);
}

hs_code hs__trace_run(hs__trace *trace, hs_bytes run_metadata, bool memory, hs_error *err)
{
    bool no_memory;
    const hs_env *env = trace->json.env;
    ProtobufCAllocator allocator = hs__proto_allocator(env);
    Hs__Pb__RunMetadata *metadata = (Hs__Pb__RunMetadata *)(void *)hs__proto_unpack(
        &hs__pb__run_metadata__descriptor, env, run_metadata.data, run_metadata.size, &no_memory);
    if (!metadata && no_memory)
        return hs__no_memory(err, run_metadata.size, "run metadata");
    if (!metadata)
        return hs_error_set(err, HS_DATA_LOSS, "the backend's run metadata of %zu bytes is not a RunMetadata",
                            run_metadata.size);
    for (size_t i = 0; metadata->step_stats && i < metadata->step_stats->n_dev_stats; i++) {
        const Hs__Pb__DeviceStepStats *device = metadata->step_stats->dev_stats[i];
        lanes of_device = {.n = 0};
        put_name(trace, FIRST_DEVICE_PID + i, -1, device->device);
        for (size_t k = 0; k < device->n_node_stats; k++)
            put_op(trace, device->node_stats[k], FIRST_DEVICE_PID + i, &of_device, memory);
    }
    hs__pb__run_metadata__free_unpacked(metadata, &allocator);
    return HS_OK;
}

void hs__trace_begin(hs__trace *trace, const hs_env *env, size_t max_bytes)
{
    *trace = (hs__trace){.limit = max_bytes};
    hs__buffer_init(&trace->json, env);
    hs__buffer_text(&trace->json, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    trace->first = trace->json.size;
}

hs_code hs__trace_finish(hs__trace *trace, int64_t step, hs_error *err)
{
    hs__buffer_text(&trace->json, "\n],\"metadata\":{\"step\":%lld,\"dropped_events\":%lld}}\n", (long long)step,
                    (long long)trace->dropped);
    return hs__buffer_check(&trace->json, "a trace", err);
}

void hs__trace_free(hs__trace *trace)
{
    hs__buffer_free(&trace->json);
}
