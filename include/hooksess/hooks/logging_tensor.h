/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_LOGGING_TENSOR_H
#define HOOKSESS_HOOKS_LOGGING_TENSOR_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Logs the values of tensors: "step 1200: loss = 0.25, accuracy = 0.91 (0.18 s)". The step, if the graph has one, is the
 * global step after the run; the time is that since the previous line. TensorFlow: LoggingTensorHook.
 *
 *     hs_hook hook = hs_logging_tensor(.tensors = HS_NAMES("loss", "accuracy"), .every_n_steps = 100);
 *
 * It counts its own runs, not the global step, and logs the first one: with 100, runs 1, 101, 201. With HS_EVERY_STEPS(100)
 * steps: runs 100, 200, or with `first` 1, 101. Only these runs fetch the tensors. A line has at most 16 elements of a
 * tensor; of strings and complex numbers the type and shape. Of a value of an earlier step (hs_raw_session_computed_at), it
 * has "not computed in this step".
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

/* Writes the whole log line to `text`, without a newline: at most `bytes` with the final zero. `values` has the order of
 * the tensors. Not called if a tensor is a value that was not computed in this step. */
typedef void (*hs_logging_format_fn)(void *user, const hs_run_values *values, char *text, size_t bytes);

typedef struct hs_logging_tensor_options {
    size_t size;
    const char *const *tensors; /* (required) names of tensors or values */
    const char *const *labels;  /* names in the line, one per tensor. NULL: the tensors' names */
    /* Runs between lines. Set one of the three, or at_end */
    int64_t every_n_steps;
    double every_n_secs; /* or: seconds between lines */
    /* or: conditions. `last`: a line at the end, from an extra run, unless the last run had one */
    hs_trigger when;
    bool at_end; /* always a line at the end, from an extra run */
    /* Each rank of a group writes lines, "step 3, rank 2: loss = 200.333333". False: only rank 0 calls the hook */
    bool every_rank;
    unsigned char reserved[6];
    hs_logging_format_fn formatter; /* NULL: the line above */
    void *user;
} hs_logging_tensor_options;

HS_API hs_hook hs_logging_tensor_hook(const hs_logging_tensor_options *options);
#define hs_logging_tensor(...) hs_logging_tensor_hook(HS_OPTIONS(hs_logging_tensor_options, __VA_ARGS__))

HS_END_DECLS

#endif
