/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_SUMMARY_SAVER_H
#define HOOKSESS_HOOKS_SUMMARY_SAVER_H

#include <hooksess/scaffold.h>
#include <hooksess/trigger.h>

/* Fetches summary ops and writes their values to an event file, in the first run and then every N steps or seconds (N = 50:
 * at 1, 51, 101). For single numbers use hs_scalars, which needs no ops. TensorFlow: SummarySaverHook.
 *
 *     hs_graph_summary_histogram(g, "weights", "weights");
 *     hs_hook hook = hs_summary_saver(.summary_ops = HS_NAMES("summary/weights"), .every_n_steps = 50,
 *                                     .summary_dir = "run");
 *
 * A summary op gives a string, a serialized Summary: graph_summary.h makes such ops. An op of the program fills an
 * hs_summary. An empty string writes nothing; a tensor of another type is HS_INVALID_ARGUMENT.
 *
 * The first run writes a session log START at its step, so that TensorBoard drops later points of an interrupted run. The
 * end flushes the file. A schedule in steps is saved in the checkpoint: a resumed run writes at the same steps.
 *
 * With a trigger, the first run is fetched only if `first` is set. Its `last` fetches at the end by an extra run, unless
 * that step was fetched or no run was made.
 *
 * In a group only rank 0 calls the hook.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_summary_saver_options {
    size_t size;
    /* Names of summary ops; each writes one event per saved step. Ended by NULL. Set either summary_ops or scaffold */
    const char *const *summary_ops;
    hs_scaffold *scaffold;             /* the scaffold's summary op; without one only START is written. Borrowed */
    int64_t every_n_steps;             /* steps between summaries. Set one of every_n_steps, every_n_secs and trigger */
    double every_n_secs;               /* seconds between summaries, instead of every_n_steps */
    const hs_trigger *trigger;         /* instead of every_n_steps and every_n_secs */
    const char *summary_dir;           /* directory of the session's event file. Set either this or summary_writer */
    hs_summary_writer *summary_writer; /* instead of summary_dir. Borrowed */
} hs_summary_saver_options;

/* The graph needs a global step. */
HS_API hs_hook hs_summary_saver_hook(const hs_summary_saver_options *options);
#define hs_summary_saver(...) hs_summary_saver_hook(HS_OPTIONS(hs_summary_saver_options, __VA_ARGS__))

HS_END_DECLS

#endif
