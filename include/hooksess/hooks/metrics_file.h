/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_METRICS_FILE_H
#define HOOKSESS_HOOKS_METRICS_FILE_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Writes scalars to a file, as CSV or JSON lines: one row in the first run, and then every N steps or seconds. Beyond
 * TensorFlow (Keras has a CSVLogger).
 *
 *     hs_hook hook = hs_metrics_file(.path = "run/metrics.csv", .tensors = HS_NAMES("loss"),
 *                                    .metrics = HS_NAMES("accuracy"), .every_n_steps = 10);
 *
 *   step,wall_time,loss,accuracy
 *   1,1700000000.125,0.5,
 *   11,1700000007.250,0.25,0.91
 *
 *   {"step":1,"wall_time":1700000000.125,"loss":0.5,"accuracy":null}
 *   {"step":11,"wall_time":1700000007.250,"loss":0.25,"accuracy":0.91}
 *
 * Names are UTF-8. wall_time is in seconds since 1970, UTC. Numbers read back as the same value. NaN and infinities are
 * nan, inf and -inf in CSV, and strings such as "NaN" and "-Infinity" in JSON. CSV quotes names by RFC 4180. A metric of
 * the session (hs_raw_session_set_metric) is in the first row after it was set; otherwise its place is empty or null.
 *
 * When the session is created, and after each restore (recovery, rollback), the hook cuts the file:
 *
 *   restored from                              rows that stay
 *   a checkpoint with this hook's state        those written before the checkpoint was saved
 *   another checkpoint, or a step above 0      those up to this step
 *   nothing, at step 0                         none; the old file is renamed to PATH.1, or the next free number
 *
 * Rows are synced before a checkpoint is saved. With every_n_steps and no_wall_time, a killed and resumed run writes the
 * same bytes as an uninterrupted run. Missing rows are logged. A new or cut file is written as PATH.tmp and renamed; it
 * replaces a link, with a warning.
 *
 * If the file cannot be opened, opening the session fails; with other columns than the hook's: HS_FAILED_PRECONDITION,
 * for a FIFO: HS_INVALID_ARGUMENT. Later failures do not end the training: they are logged and counted in the outcome,
 * and rows may be lost.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_metrics_file_options {
    size_t size;
    const char *path;           /* (required) ends with .csv, .jsonl or .json */
    const char *const *tensors; /* tensors or values of one number each. NULL: none */
    const char *const *labels;  /* their names in the file, one for each. NULL: the tensors' names */
    const char *const *metrics; /* metrics of the session. Set at least one of tensors and metrics */
    int64_t every_n_steps;      /* steps between rows. Without a schedule: 100 */
    double every_n_secs;        /* or: seconds between rows */
    /* or: conditions. `last`: a row at the end, from an extra run */
    hs_trigger when;
    bool no_wall_time; /* no column wall_time */
    /* Each rank of a group writes, rank 2 to PATH.rank-00002. After a restore, files of ranks above 0 keep the rows up to
     * the restored step. False: only rank 0 calls the hook */
    bool every_rank;
    unsigned char reserved[6];
} hs_metrics_file_options;

/* The graph needs a global step. `begin` also fails if two columns have the same name. The first run fails with
 * HS_INVALID_ARGUMENT if a tensor is not one number. */
HS_API hs_hook hs_metrics_file_hook(const hs_metrics_file_options *options);
#define hs_metrics_file(...) hs_metrics_file_hook(HS_OPTIONS(hs_metrics_file_options, __VA_ARGS__))

HS_END_DECLS

#endif
