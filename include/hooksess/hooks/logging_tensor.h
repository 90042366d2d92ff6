/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_LOGGING_TENSOR_H
#define HOOKSESS_HOOKS_LOGGING_TENSOR_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Logs the values of tensors: "step 1200: loss = 0.25, accuracy = 0.91 (0.18 s)". The step is the global step after the
 * run, if the graph has one. The time is that since the previous line. TensorFlow: LoggingTensorHook.
 *
 *     hs_hook hook = hs_logging_tensor(.tensors = HS_NAMES("loss", "accuracy"), .every_n_steps = 100);
 *
 * It counts its own runs, not the global step, and logs the first one: with 100, runs 1, 101, 201. With a trigger of 100
 * steps: runs 100, 200, or with `first` 1, 101. Checkpoints save the position, and a resumed run continues it. Only runs
 * that log fetch the tensors. Of a large tensor, the line has 16 elements; of strings and complex numbers the type and
 * shape.
 *
 * Threads: any thread, at any time. The session's thread calls `formatter`. */

HS_BEGIN_DECLS

/* Writes the whole log line to `text`, without a newline: at most `bytes` with the final zero. The values are in the order
 * of the tensors. The library adds nothing, not even the step. */
typedef void (*hs_logging_format_fn)(void *user, const hs_run_values *values, char *text, size_t bytes);

typedef struct hs_logging_tensor_options {
    size_t size;
    const char *const *tensors; /* (required) names of tensors or values, ended by NULL */
    const char *const *labels;  /* names in the line, one for each tensor. NULL: the tensors' names */
    /* Runs between lines. Set one of every_n_steps, every_n_secs and trigger; with at_end, none is needed */
    int64_t every_n_steps;
    double every_n_secs; /* seconds between lines */
    /* Its `last`: a line at the end, from an extra run, unless the last run had one */
    const hs_trigger *trigger;
    bool at_end; /* always a line at the end, from an extra run */
    /* In a group: each rank writes lines, rank 2 for example "step 3, rank 2: loss = 200.333333". False: only rank 0 does,
     * and the others do not call the hook */
    bool every_rank;
    unsigned char reserved[6];
    hs_logging_format_fn formatter; /* NULL: the line above */
    void *user;
} hs_logging_tensor_options;

HS_API hs_hook hs_logging_tensor_hook(const hs_logging_tensor_options *options);
#define hs_logging_tensor(...) hs_logging_tensor_hook(HS_OPTIONS(hs_logging_tensor_options, __VA_ARGS__))

HS_END_DECLS

#endif
