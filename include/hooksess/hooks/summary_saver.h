/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_SUMMARY_SAVER_H
#define HOOKSESS_HOOKS_SUMMARY_SAVER_H

#include <hooksess/hook.h>
#include <hooksess/scaffold.h>
#include <hooksess/trigger.h>

/* Fetches summary ops and writes their values to an event file, in the first run and then every N steps or seconds (N =
 * 50: at 1, 51, 101). hs_scalars needs no ops. TensorFlow: SummarySaverHook.
 *
 *     hs_graph_summary(g, HS_SUMMARY_HISTOGRAM, .name = "weights", .tensor = "weights");
 *     hs_hook hook = hs_summary_saver(.summary_ops = HS_NAMES("summary/weights"), .every_n_steps = 50,
 *                                     .summary_dir = "run");
 *
 * A summary op gives a string, a serialized Summary: see graph_summary.h and summary.h. An empty string writes nothing;
 * another type is HS_INVALID_ARGUMENT.
 *
 * When the session is created, the hook writes a session log START with the step of the next run (summary.h). With `when`,
 * the first run is fetched only if `first` is set. Its `last` fetches at the end by an extra run, unless that step was
 * fetched or no run was made. The end flushes the file.
 *
 * In a group only rank 0 calls the hook.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_summary_saver_options {
    size_t size;
    /* Names of summary ops; each writes one event per saved step. Set either summary_ops or scaffold */
    const char *const *summary_ops;
    hs_scaffold *scaffold;             /* the scaffold's summary op; without one only START is written */
    int64_t every_n_steps;             /* steps between summaries. Set one of the three */
    double every_n_secs;               /* or: seconds between summaries */
    hs_trigger when;                   /* or: conditions */
    const char *summary_dir;           /* directory of the event file. Set either this or summary_writer */
    hs_summary_writer *summary_writer; /* or: a writer */
} hs_summary_saver_options;

/* The graph needs a global step. */
HS_API hs_hook hs_summary_saver_hook(const hs_summary_saver_options *options);
#define hs_summary_saver(...) hs_summary_saver_hook(HS_OPTIONS(hs_summary_saver_options, __VA_ARGS__))

HS_END_DECLS

#endif
