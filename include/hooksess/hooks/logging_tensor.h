/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_LOGGING_TENSOR_H
#define HOOKSESS_HOOKS_LOGGING_TENSOR_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Logs the values of tensors: "step 1200: loss = 0.25, accuracy = 0.91 (0.18 s)". The step is the global step after the
 * run, and is left out if the graph has none. The seconds are those since the previous line. TensorFlow: LoggingTensorHook.
 *
 * It counts its own runs, not the global step, and logs in the first. The tensors are fetched only in the runs that log. By
 * runs, the rhythm rides in the checkpoint: a resumed run logs when the run that it resumes would have.
 *
 * A trigger's steps are its runs, too: every_n_steps = 100 logs in the hundredth, and in the first if `first` is set, from
 * which the hundred are counted then. */

HS_BEGIN_DECLS

/* Writes a whole log line, without its end, into `text` (cut at `bytes`). The values are in the order of the tensors. The
 * library adds nothing to it, not even the step. */
typedef void (*hs_logging_format_fn)(void *user, const hs_run_values *values, char *text, size_t bytes);

typedef struct hs_logging_tensor_options {
    size_t size;
    const char *const *tensors; /* (required) names, ended by NULL */
    const char *const *labels;  /* stand for the tensors in the line, one for each. NULL: the names */
    /* Runs of this hook between lines. One of every_n_steps, every_n_secs, trigger and at_end is required */
    int64_t every_n_steps;
    double every_n_secs; /* seconds between lines, instead of every_n_steps */
    /* Instead of every_n_steps and every_n_secs. Its `last` is at_end, unless the last run had a line */
    const hs_trigger *trigger;
    bool at_end; /* a line at the end, from a separate run that fetches the tensors */
    unsigned char reserved[7];
    hs_logging_format_fn formatter; /* NULL: the line above */
    void *user;
    const hs_env *env; /* NULL: the system's. Copied */
} hs_logging_tensor_options;

/* Threads: any. The session's thread calls `formatter`. */
HS_API hs_hook hs_logging_tensor_hook(const hs_logging_tensor_options *options);
#define hs_logging_tensor(...) hs_logging_tensor_hook(HS_OPTIONS(hs_logging_tensor_options, __VA_ARGS__))

HS_END_DECLS

#endif
