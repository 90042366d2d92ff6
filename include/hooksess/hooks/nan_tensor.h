/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_NAN_TENSOR_H
#define HOOKSESS_HOOKS_NAN_TENSOR_H

#include <hooksess/hook.h>

/* Looks at a tensor in every run, and fails or stops when an element is not finite: NaN or an infinity. TensorFlow:
 * NanTensorHook (which sees only NaN). The message names tensor, step, first index, and how many elements are NaN, positive
 * and negative infinity. */

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
    hs_on_nan on_nan;   /* 0: HS_NAN_FAIL */
    int32_t reserved_on_nan;
    const hs_env *env; /* NULL: the system's. Copied */
} hs_nan_tensor_options;

/* Threads: any. */
HS_API hs_hook hs_nan_tensor_hook(const hs_nan_tensor_options *options);
#define hs_nan_tensor(...) hs_nan_tensor_hook(HS_OPTIONS(hs_nan_tensor_options, __VA_ARGS__))

HS_END_DECLS

#endif
