/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_SUMMARY_SAVER_H
#define HOOKSESS_HOOKS_SUMMARY_SAVER_H

#include <hooksess/scaffold.h>
#include <hooksess/trigger.h>

/* Fetches summary ops every so many steps or seconds, the first time in the first run (every 50: at 1, 51, 101 ...; for the
 * last step there is a trigger's `last`), and writes what they give to an event file. By steps, the rhythm rides in the
 * checkpoint: a resumed run has the points that the run that it resumes would have had. TensorFlow: SummarySaverHook.
 *
 * A summary op gives a serialized Summary as a string: in the embedded graph a function that fills an hs_summary and sets
 * it as its output. For single numbers hs_scalars (hooks/scalars.h) needs none.
 *
 * The first run writes a session log START at its step, so that TensorBoard drops what a run that crashed has written
 * beyond the checkpoint. The end flushes the file.
 *
 * With a trigger, the first run is one that fetches only if `first` is set. `last` fetches at the end, in a run of its own,
 * unless the last run was one that did, or none was made. */

HS_BEGIN_DECLS

typedef struct hs_summary_saver_options {
    size_t size;
    const char *const *summary_ops; /* these are fetched, instead; ended by NULL. One event each */
    /* Its summary op is fetched; without one, only START is written. Borrowed. Exactly one of scaffold and summary_ops is
     * required */
    hs_scaffold *scaffold;
    int64_t every_n_steps;     /* steps between summaries. One of every_n_steps, every_n_secs and trigger is required */
    double every_n_secs;       /* seconds between summaries, instead of every_n_steps */
    const hs_trigger *trigger; /* instead of every_n_steps and every_n_secs */
    const char *summary_dir;   /* with the session's writer. Exactly one of summary_dir and summary_writer is required */
    hs_summary_writer *summary_writer; /* instead of summary_dir. Borrowed */
    const hs_env *env;                 /* NULL: the system's. Copied */
} hs_summary_saver_options;

/* Threads: any. */
HS_API hs_hook hs_summary_saver_hook(const hs_summary_saver_options *options);
#define hs_summary_saver(...) hs_summary_saver_hook(HS_OPTIONS(hs_summary_saver_options, __VA_ARGS__))

HS_END_DECLS

#endif
