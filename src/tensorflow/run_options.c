/* SPDX-License-Identifier: Apache-2.0 */
/* Run options as a serialized RunOptions. */
#include "tensorflow/tf_session.h"

#include "base/proto.h"

#include <string.h>

/* Fields of RunOptions, DebugOptions and DebugTensorWatch. */
enum {
    OPTIONS_TRACE_LEVEL = 1,
    OPTIONS_TIMEOUT = 2,
    OPTIONS_POOL = 3,
    OPTIONS_PARTITION_GRAPHS = 5,
    OPTIONS_DEBUG = 6,
    OPTIONS_REPORT_ALLOCATIONS = 7
};
enum { DEBUG_WATCHES = 4, DEBUG_RESET_DISK_USAGE = 11 };
enum { WATCH_NODE = 1, WATCH_SLOT = 2, WATCH_OPS = 3, WATCH_URLS = 4 };

static void put_number(hs__buffer *out, uint32_t field, int64_t value)
{
    if (!value)
        return;
    hs__buffer_varint(out, (uint64_t)field << 3);
    hs__buffer_varint(out, (uint64_t)value);
}

static void put_texts(hs__buffer *out, uint32_t field, const char *const *texts)
{
    for (; texts && *texts; texts++)
        hs__proto_put_bytes(out, field, *texts, strlen(*texts));
}

static void put_watch(hs__buffer *out, const hs_debug_watch *watch, const hs_env *env)
{
    hs__buffer one;
    hs__buffer_init(&one, env);
    const char *name = watch->node_name ? watch->node_name : "";
    hs__proto_put_bytes(&one, WATCH_NODE, name, strlen(name));
    put_number(&one, WATCH_SLOT, watch->output_slot);
    put_texts(&one, WATCH_OPS, watch->debug_ops);
    put_texts(&one, WATCH_URLS, watch->debug_urls);
    out->failed |= one.failed;
    hs__proto_put_bytes(out, DEBUG_WATCHES, one.data, one.size);
    hs__buffer_free(&one);
}

static void put_debugging(hs__buffer *out, const hs_run_options *options)
{
    hs__buffer debug;
    hs__buffer_init(&debug, out->env);
    for (const hs_debug_watch *watch = options->debug_watches; watch && watch->node_name; watch++)
        put_watch(&debug, watch, out->env);
    put_number(&debug, DEBUG_RESET_DISK_USAGE, options->reset_disk_byte_usage);
    out->failed |= debug.failed;
    if (debug.size)
        hs__proto_put_bytes(out, OPTIONS_DEBUG, debug.data, debug.size);
    hs__buffer_free(&debug);
}

int64_t hs__tf_milliseconds(double secs)
{
    const double ms = secs < 1e9 ? secs * 1e3 : 1e12;
    return !(secs > 0) ? 0 : ms < 1 ? 1 : (int64_t)(ms + 0.5);
}

hs_code hs__tf_run_options(const hs_run_options *options, hs__buffer *out, hs_error *err)
{
    hs__buffer_clear(out);
    put_number(out, OPTIONS_TRACE_LEVEL, options->trace_level);
    put_number(out, OPTIONS_TIMEOUT, hs__tf_milliseconds(options->timeout_secs));
    put_number(out, OPTIONS_POOL, options->inter_op_thread_pool);
    put_number(out, OPTIONS_PARTITION_GRAPHS, options->output_partition_graphs);
    put_debugging(out, options);
    put_number(out, OPTIONS_REPORT_ALLOCATIONS, options->report_tensor_allocations_upon_oom);
    return hs__buffer_check(out, "run options", err);
}
