/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_PROFILER_H
#define HOOKSESS_HOOKS_PROFILER_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Traces runs (HS_TRACE_FULL) and writes trace_dir/timeline-STEP.json in Chrome's format, for chrome://tracing or
 * Perfetto. The session's event file in trace_dir gets the run's metadata with the tag "step_STEP", for TensorBoard.
 * TensorFlow: ProfilerHook.
 *
 *     hs_hook hook = hs_profiler(.trace_dir = "run", .every_n_steps = 1000);
 *
 * The first run starts the interval and is traced only if `when` says so. A schedule in seconds starts again after
 * a resume.
 *
 * The trace has hooks, without boundaries after the profiler's, and devices of the backend; not the work of other
 * threads. Times are microseconds since 1970. Events beyond 64 MiB are dropped; "metadata" has "dropped_events". If a
 * file cannot be written, the log gets a warning, and training continues.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_profiler_options {
    size_t size;
    const char *trace_dir; /* NULL: the current directory */
    int64_t every_n_steps; /* steps between traces. Set one of the three */
    double every_n_secs;   /* or: seconds between traces */
    hs_trigger when;       /* or: conditions. `last` is HS_INVALID_ARGUMENT */
    bool show_memory;      /* adds the memory that each op returned or requested, if the backend reports it */
    /* Each rank of a group writes, rank 2 to TRACE_DIR.rank-00002. False: only rank 0 calls the hook */
    bool every_rank;
    unsigned char reserved[6];
} hs_profiler_options;

HS_API hs_hook hs_profiler_hook(const hs_profiler_options *options);
#define hs_profiler(...) hs_profiler_hook(HS_OPTIONS(hs_profiler_options, __VA_ARGS__))

HS_END_DECLS

#endif
