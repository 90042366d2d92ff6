/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_NAN_TENSOR_H
#define HOOKSESS_HOOKS_NAN_TENSOR_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Checks a tensor after each run, and fails or stops if an element is not finite: NaN or an infinity. The message names the
 * tensor, the step, the first index, and how many elements are NaN, positive and negative infinity.
 *
 * A check fetches the tensor. If that is expensive (a tensor in the memory of a device is copied, and the run waits for
 * it), set an interval: the other runs fetch nothing. Then up to N steps are trained on NaN before the hook notices.
 * Nothing of this hook is saved in checkpoints: a resumed run begins with a check, too.
 *
 * TensorFlow: NanTensorHook, which sees only NaN. */

HS_BEGIN_DECLS

typedef enum hs_on_nan {
    /* The run fails with HS_FAILED_PRECONDITION: no end is called, nothing is saved. */
    HS_NAN_FAIL = 0,
    /* A warning in the log, and a stop. The session ends normally, with exit code 0, as TensorFlow's does. Nothing more is
     * saved: the newest checkpoint is one from before. The model in memory may have NaN: compare hs_outcome.hook with the
     * hook's name before you use it. */
    HS_NAN_STOP = 1
} hs_on_nan;

typedef struct hs_nan_tensor_options {
    size_t size;
    const char *tensor; /* (required) a float tensor of any shape */
    /* Runs of this session from one check to the next. The first run is checked. None of every_n_steps, every_n_secs and
     * trigger: every run */
    int64_t every_n_steps;
    double every_n_secs; /* seconds between checks, instead of every_n_steps */
    /* Instead of every_n_steps and every_n_secs. Its steps are runs of this session. Its `last` is HS_INVALID_ARGUMENT */
    const hs_trigger *trigger;
    hs_on_nan on_nan; /* 0: HS_NAN_FAIL */
    int32_t reserved_on_nan;
    const hs_env *env; /* NULL: the system's. Copied */
} hs_nan_tensor_options;

/* Threads: any. */
HS_API hs_hook hs_nan_tensor_hook(const hs_nan_tensor_options *options);
#define hs_nan_tensor(...) hs_nan_tensor_hook(HS_OPTIONS(hs_nan_tensor_options, __VA_ARGS__))

HS_END_DECLS

#endif
