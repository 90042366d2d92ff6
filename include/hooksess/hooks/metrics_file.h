/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_METRICS_FILE_H
#define HOOKSESS_HOOKS_METRICS_FILE_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Writes scalars to a file that any program reads: a row each time it is due, the first in the first run, as
 * comma-separated values or as a JSON object on a line. Beyond TensorFlow, whose Keras has a CSVLogger.
 *
 *   step,wall_time,loss,accuracy              {"step":1,"wall_time":1700000000.125,"loss":0.5,"accuracy":null}
 *   1,1700000000.125,0.5,                     {"step":11,"wall_time":1700000007.250,"loss":0.25,"accuracy":0.91}
 *   11,1700000007.250,0.25,0.91
 *
 * Numbers have as many digits as it takes to read back the same, in any locale. What is not finite is nan, inf and -inf in
 * CSV and the strings "NaN", "Infinity" and "-Infinity" in JSON, which has no such numbers (protobuf's JSON has them so).
 * CSV has a header row; names that need it are quoted as RFC 4180 says, and have no line's end; lines end with '\n'. Names
 * are UTF-8.
 *
 * A metric of the session's board (hs_raw_session_set_metric) stands in the first row that is written after it was said,
 * and in no other: elsewhere its place is empty in CSV and null in JSON.
 *
 * The file after a crash. A row is one write, and each checkpoint knows how many bytes of rows precede it, which are on the
 * disk before it is saved. When it is restored (a rollback is a restore, too) the file is cut back to there, so that by
 * steps, without wall_time, the file of a run that was killed and resumed is byte for byte that of one that was not (but
 * for rows that a trigger's `last` and `on_request` asked for). What is torn is cut. A file that is shorter than it should
 * be is a warning, and goes on at its end. After a restore from a checkpoint without this hook's state, or where the step
 * is not 0 for another reason, the rows beyond the step are cut. A file whose columns are others is HS_FAILED_PRECONDITION.
 * A training that begins anew, at step 0, keeps the file of an earlier one aside: it is renamed to FILE.1, or the next
 * number that is free. Cutting copies what stays to FILE.tmp and renames that.
 *
 * Rows are never written through a link, not even one that was made on purpose: if FILE is a symbolic link, or has another
 * name (a hard link), a copy takes its place when the hook opens it, with a warning. A FIFO is HS_INVALID_ARGUMENT.
 *
 * A file that cannot be opened at first fails the session. Later, a full or failing disk does not end the training: the
 * log has a warning, the outcome counts the failure, and each due row tries again. The row that failed, or half of it, is
 * then completed before the next one; rows that were due in between are lost. One process at a time writes to a file:
 * among replicas, list the hook for the chief alone. Files are the environment's (hs_env.files).
 */

HS_BEGIN_DECLS

typedef enum hs_metrics_file_format {
    HS_METRICS_BY_NAME = 0, /* .csv, .jsonl or .json (JSON lines, too) */
    HS_METRICS_CSV = 1,
    HS_METRICS_JSON_LINES = 2
} hs_metrics_file_format;

typedef struct hs_metrics_file_options {
    size_t size;
    const char *path;           /* (required) its directory is created if it is missing */
    const char *const *tensors; /* with one number each, fetched in the runs that give a row; ended by NULL */
    const char *const *labels;  /* names of the tensors in the file, one for each. NULL: the names of the tensors */
    const char *const *metrics; /* metrics of the session; ended by NULL. At least one of tensors and metrics is required */
    int64_t every_n_steps;      /* steps between rows. None of every_n_steps, every_n_secs and trigger: 100 steps */
    double every_n_secs;        /* seconds between rows, instead of every_n_steps */
    /* instead of every_n_steps and every_n_secs. Its `last`: a row at the end, from a separate run */
    const hs_trigger *trigger;
    hs_metrics_file_format format; /* 0: HS_METRICS_BY_NAME */
    int32_t reserved_format;
    bool no_wall_time; /* no column wall_time, which has the seconds since 1970, UTC */
    unsigned char reserved[7];
    const hs_env *env; /* NULL: the system's. Copied */
} hs_metrics_file_options;

/* Threads: any.
 *
 * The hook's begin refuses two columns with the same name. The graph needs a global step. A tensor that is not one number
 * is HS_INVALID_ARGUMENT in the first run. */
HS_API hs_hook hs_metrics_file_hook(const hs_metrics_file_options *options);
#define hs_metrics_file(...) hs_metrics_file_hook(HS_OPTIONS(hs_metrics_file_options, __VA_ARGS__))

HS_END_DECLS

#endif
