/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_TRACE_H
#define HS_SUMMARY_TRACE_H

#include <hooksess/hook.h>

#include "base/buffer.h"

/* A trace of one run as browsers and Perfetto show it: JSON in Chrome's trace event format, a process for the hooks and one
 * for each device. It is made in memory: begun, filled, finished, and then stands in `json`. */
typedef struct hs__trace {
    hs__buffer json;
    size_t first, limit; /* where the events begin, and how many bytes of them there may be */
    int64_t dropped;     /* events that found no room */
    bool full;
} hs__trace;

void hs__trace_begin(hs__trace *trace, const hs_env *env, size_t max_bytes);
void hs__trace_free(hs__trace *trace);

/* What hooks did. `to_realtime_ns` moves their times of the monotonic clock to the calendar's, which the ops' go by. */
void hs__trace_spans(hs__trace *trace, const hs_hook_span *spans, size_t n, int64_t to_realtime_ns);
/* What ops did, of a serialized RunMetadata (empty: nothing); with `memory`, how much each asked of its allocators.
 * DATA_LOSS if the bytes are no RunMetadata. */
hs_code hs__trace_run(hs__trace *trace, hs_bytes run_metadata, bool memory, hs_error *err);
/* RESOURCE_EXHAUSTED if there was no memory for it. */
hs_code hs__trace_finish(hs__trace *trace, int64_t step, hs_error *err);

#endif
