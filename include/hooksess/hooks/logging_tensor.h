/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_LOGGING_TENSOR_H
#define HOOKSESS_HOOKS_LOGGING_TENSOR_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Logs the values of tensors: "loss = 0.25, accuracy = 0.91 (1.204 sec)", the seconds since the line before. TensorFlow:
 * LoggingTensorHook.
 *
 * It counts its own runs, not the global step, and logs in the first. The tensors are fetched only in the runs that log. By
 * runs, the rhythm rides in the checkpoint: a resumed run logs when the run that it resumes would have.
 *
 * A trigger's steps are its runs, too: every_n_steps = 100 logs in the hundredth, and in the first if `first` is set, from
 * which the hundred are counted then. */

HS_BEGIN_DECLS

/* Writes a line's text, without its end, into `text` (cut at `bytes`); the values are in the order of the tensors. The text
 * stands in the log as it is. */
typedef void (*hs_logging_format_fn)(void *user, const hs_run_values *values, char *text, size_t bytes);

typedef struct hs_logging_tensor_options {
    size_t size;
    const char *const *tensors; /* names, ended by NULL; copied */
    const char *const *labels;  /* what stands for each in the line; NULL: the names */
    int64_t every_n_steps;      /* a line every so many runs; or */
    double every_n_secs;        /* every so many seconds. At most one of the two, or of the two and trigger; none of them
                                 * needs at_end */
    hs_logging_format_fn formatter; /* NULL: the line above */
    void *user;
    const hs_env *env; /* the hook's own memory; NULL: malloc */
    bool at_end;       /* a line at the end, of a run of its own that fetches the tensors */
    unsigned char reserved[7];
    const hs_trigger *trigger; /* instead of every_n_steps or every_n_secs; copied. `last`: a line at the end, like
                                * at_end's, unless there was one in the last run */
} hs_logging_tensor_options;

/* Options that make no sense, or no memory, are reported by the hook's begin. */
HS_API hs_hook hs_logging_tensor_hook(const hs_logging_tensor_options *options);
#define hs_logging_tensor(...) hs_logging_tensor_hook(HS_OPTIONS(hs_logging_tensor_options, __VA_ARGS__))

HS_END_DECLS

#endif
