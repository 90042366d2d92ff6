/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_SCALARS_H
#define HOOKSESS_HOOKS_SCALARS_H

#include <hooksess/scalar_sink.h>
#include <hooksess/trigger.h>

/* Writes single numbers, such as the loss, to the event files that TensorBoard shows, or to a sink of the program's own.
 *
 *     hs_hook hook = hs_scalars(.tensors = HS_NAMES("loss", "accuracy"), .every_n_steps = 50);
 *
 * In a training session one field is enough: HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .scalars = HS_NAMES("loss")).
 *
 * The numbers are fetched only in the runs that give a row: the first run, and from there every N steps (1, 51, 101 for
 * 50). The schedule is saved in the checkpoint: a resumed run has the points that the run without the interruption would
 * have had. TensorBoard drops what a killed run has written beyond the checkpoint.
 *
 * Histograms, images and other summaries are ops: graph_summary.h. TensorFlow: SummarySaverHook over tf.summary.scalar. */

HS_BEGIN_DECLS

typedef struct hs_scalars_options {
    size_t size;
    const char *const *tensors; /* HS_NAMES(...): tensors with one number each */
    const char *const
        *labels; /* names that are shown (tags in TensorBoard), one for each tensor. NULL: the tensors' names */
    /* HS_NAMES(...): metrics (hs_raw_session_set_metric). Each is in the next row after it was set. At least one of tensors
     * and metrics is required */
    const char *const *metrics;
    int64_t every_n_steps; /* steps between rows. None of every_n_steps, every_n_secs and trigger: 100 steps */
    double every_n_secs;   /* seconds between rows, instead of every_n_steps */
    /* Instead of every_n_steps and every_n_secs. Its `last`: a row at the end, from a separate run */
    const hs_trigger *trigger;
    const char *summary_dir;           /* where the event file is. NULL: the session's (hs_raw_session_summary_dir) */
    hs_summary_writer *summary_writer; /* instead of summary_dir. Borrowed */
    hs_scalar_sink sink;               /* instead of an event file. The hook destroys it, also if options are invalid */
    const hs_env *env;                 /* NULL: the system's. Copied */
} hs_scalars_options;

/* Threads: any.
 *
 * Makes the hook. Opening a session fails with HS_INVALID_ARGUMENT if more than one of summary_dir, summary_writer and sink
 * is given, or if there is no directory for the event file; with HS_FAILED_PRECONDITION if the graph has no global step;
 * with HS_NOT_FOUND if a tensor does not exist. A run fails with HS_INVALID_ARGUMENT if a tensor is not a single number. If
 * the size of the options or of sink.ops is refused, the sink stays the caller's. */
HS_API hs_hook hs_scalars_hook(const hs_scalars_options *options);
#define hs_scalars(...) hs_scalars_hook(HS_OPTIONS(hs_scalars_options, __VA_ARGS__))

HS_END_DECLS

#endif
