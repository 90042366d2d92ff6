/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_NAN_TENSOR_H
#define HOOKSESS_HOOKS_NAN_TENSOR_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Checks a tensor after each run, and fails or stops if an element is NaN or an infinity. The message names the tensor,
 * the first bad index, and the numbers of NaN and infinities. TensorFlow: NanTensorHook, which sees only NaN.
 *
 *     hs_hook hook = hs_nan_tensor(.tensor = "loss", .on_nan = HS_NAN_STOP);
 *
 * With an interval, up to N runs train on NaN before the hook stops them. A resumed run begins with a check.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef enum hs_on_nan {
    HS_NAN_FAIL = 0, /* the run fails with HS_FAILED_PRECONDITION. Hooks get no `end`, and nothing is saved */
    /* Logs a warning and stops without a save. The session ends normally, with exit code 0 and "nan_tensor" in
     * hs_outcome.hook. The model in memory may contain NaN */
    HS_NAN_STOP = 1
} hs_on_nan;

typedef struct hs_nan_tensor_options {
    size_t size;
    /* (required) tensor, value or variable of type float, double, half, bfloat16 or complex. Another type fails the first
     * checked run */
    const char *tensor;
    /* Runs between checks; the first run is checked. Without a schedule: 1 */
    int64_t every_n_steps;
    double every_n_secs; /* or: seconds between checks */
    /* or: conditions. Steps are runs. `last` is HS_INVALID_ARGUMENT */
    hs_trigger when;
    hs_on_nan on_nan; /* 0: HS_NAN_FAIL */
    int32_t reserved_on_nan;
} hs_nan_tensor_options;

HS_API hs_hook hs_nan_tensor_hook(const hs_nan_tensor_options *options);
#define hs_nan_tensor(...) hs_nan_tensor_hook(HS_OPTIONS(hs_nan_tensor_options, __VA_ARGS__))

HS_END_DECLS

#endif
