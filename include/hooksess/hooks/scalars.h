/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_SCALARS_H
#define HOOKSESS_HOOKS_SCALARS_H

#include <hooksess/scalar_sink.h>
#include <hooksess/trigger.h>

/* Writes single numbers, such as the loss, to an event file for TensorBoard, or to a sink of the program (scalar_sink.h).
 * TensorFlow: SummarySaverHook over tf.summary.scalar.
 *
 *     hs_hook hook = hs_scalars(.tensors = HS_NAMES("loss", "accuracy"), .every_n_steps = 50);
 *
 * The first run gives a row, and then every N steps (N = 50: 1, 51, 101). Only these runs fetch the tensors. A training
 * session has the option `scalars`. Other summaries: graph_summary.h.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_scalars_options {
    size_t size;
    const char *const *tensors; /* tensors or values of one number each. NULL: none */
    const char *const *labels;  /* names (TensorBoard's tags), one for each tensor. NULL: the tensors' names */
    /* Metrics (hs_raw_session_set_metric), in the next row after they were set. Set at least one of tensors and metrics */
    const char *const *metrics;
    int64_t every_n_steps; /* steps between rows. Without a schedule: 100 */
    double every_n_secs;   /* or: seconds between rows */
    /* or: conditions. `last`: a row at the end, from an extra run */
    hs_trigger when;
    const char *summary_dir;           /* directory of the event file. NULL: the session's (hs_raw_session_summary_dir) */
    hs_summary_writer *summary_writer; /* or: a writer */
    hs_scalar_sink sink;               /* or: a sink. The hook destroys it, also if it is invalid */
    /* Each rank of a group writes, rank 2 to SUMMARY_DIR.rank-00002. False: only rank 0 calls the hook */
    bool every_rank;
    unsigned char reserved[7];
} hs_scalars_options;

/* Errors:
 *
 *   opening  HS_INVALID_ARGUMENT     more than one of summary_dir, summary_writer and sink, or no directory
 *            HS_FAILED_PRECONDITION  the graph has no global step
 *            HS_NOT_FOUND            a tensor does not exist
 *   a run    HS_INVALID_ARGUMENT     a tensor is not a single number
 *
 * If the `size` of the options or of sink.ops is invalid, the caller keeps the sink. */
HS_API hs_hook hs_scalars_hook(const hs_scalars_options *options);
#define hs_scalars(...) hs_scalars_hook(HS_OPTIONS(hs_scalars_options, __VA_ARGS__))

HS_END_DECLS

#endif
