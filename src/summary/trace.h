/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_TRACE_H
#define HS_SUMMARY_TRACE_H

#include <hooksess/hook.h>

#include "base/buffer.h"

/* One call of a callback, in monotonic time. */
typedef struct hs__hook_span {
    const char *hook, *callback; /* names. Valid as long as the session */
    int64_t begin_ns, end_ns;
} hs__hook_span;

/* A trace of one run for browsers and Perfetto: JSON in Chrome's trace event format. The hooks are one process, each device
 * is another. Begin, fill and finish it; then `json` has the file's contents. */
typedef struct hs__trace {
    hs__buffer json;
    size_t first, limit; /* where the events begin, and their maximum size in bytes */
    int64_t dropped;     /* events beyond the limit */
    bool full;
} hs__trace;

void hs__trace_begin(hs__trace *trace, const hs_env *env, size_t max_bytes);
void hs__trace_free(hs__trace *trace);

/* Adds the spans of hooks. `to_realtime_ns` is added to their monotonic times, as the times of ops are real time. */
void hs__trace_spans(hs__trace *trace, const hs__hook_span *spans, size_t n, int64_t to_realtime_ns);
/* Adds the ops of a serialized RunMetadata (may be empty). With `memory`, also the bytes that each op allocated. DATA_LOSS:
 * not a RunMetadata. */
hs_code hs__trace_run(hs__trace *trace, hs_bytes run_metadata, bool memory, hs_error *err);
/* Completes the JSON. RESOURCE_EXHAUSTED: out of memory. */
hs_code hs__trace_finish(hs__trace *trace, int64_t step, hs_error *err);

#endif
