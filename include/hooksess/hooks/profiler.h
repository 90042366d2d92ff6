/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_PROFILER_H
#define HOOKSESS_HOOKS_PROFILER_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Every so many steps or seconds, has a run traced (HS_TRACE_FULL) and writes trace_dir/timeline-STEP.json: a trace in
 * Chrome's format, for chrome://tracing or Perfetto, of what the backend tells of its ops and of the hooks' callbacks.
 * The run's metadata go into the session's event file of that directory, too, under the tag "step_STEP", as TensorBoard
 * wants them. TensorFlow: ProfilerHook.
 *
 * The first run is never traced, unless a trigger says so: the interval begins with it. By steps, the rhythm rides in the
 * checkpoint, and a resumed run is traced where the run that it resumes would have been, if need be at once; by seconds it
 * begins anew.
 *
 * The trace has a process "hooks", with a thread for each hook (the boundaries that come after the profiler's are not in
 * it), and one for each of the backend's devices, where ops that overlap lie beside each other; what threads do beside the
 * run (a queue's producers) is not in it. Times are the calendar's, in microseconds. Its "metadata" says the step and how
 * many events there was no room for ("dropped_events").
 *
 * Whoever looks for a file sees none, or the whole of it. One that cannot be written is a warning in the log: training goes
 * on. */

HS_BEGIN_DECLS

typedef struct hs_profiler_options {
    size_t size;
    const char *trace_dir;     /* created if it is missing. NULL: the current directory */
    int64_t every_n_steps;     /* steps between traces. One of every_n_steps, every_n_secs and trigger is required */
    double every_n_secs;       /* seconds between traces, instead of every_n_steps */
    const hs_trigger *trigger; /* instead of every_n_steps and every_n_secs. Its `last` is HS_INVALID_ARGUMENT */
    int64_t max_bytes;         /* of the events in a file: later ones are dropped and counted. 0: 64 MiB */
    bool show_memory;          /* the memory that each op returned or requested, if the backend reports it */
    unsigned char reserved[7];
    const hs_env *env; /* NULL: the system's. Copied */
} hs_profiler_options;

/* Threads: any. */
HS_API hs_hook hs_profiler_hook(const hs_profiler_options *options);
#define hs_profiler(...) hs_profiler_hook(HS_OPTIONS(hs_profiler_options, __VA_ARGS__))

HS_END_DECLS

#endif
