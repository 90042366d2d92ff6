/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_DLPACK_H
#define HOOKSESS_DLPACK_H

#include <hooksess/tensor.h>

/* Converts tensors from and to DLPack (version 1) without copying.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

struct DLManagedTensorVersioned;

/* Sets *view to the memory of `managed`, valid until the caller calls its deleter.
 *
 * memory  access to the device's memory (tensor.h). NULL for the CPU, and only for it. Borrowed by the view
 *
 * HS_INVALID_ARGUMENT: a major version other than 1, an unknown element type, more than HS_MAX_RANK dimensions, strides
 * with gaps, or the wrong `memory`. */
HS_API hs_code hs_tensor_from_dlpack(const struct DLManagedTensorVersioned *managed, const hs_memory *memory,
                                     hs_tensor *view, hs_error *err);

/* Returns a managed tensor that shares the memory of `view`. The memory must stay valid until its deleter is called.
 *
 * env      allocates the managed tensor. NULL: malloc
 * release  the deleter calls release(user). NULL: nothing
 *
 * After an error `release` is not called: HS_INVALID_ARGUMENT for strings and quantized types, HS_RESOURCE_EXHAUSTED. */
HS_API struct DLManagedTensorVersioned *hs_tensor_to_dlpack(const hs_tensor *view, const hs_env *env,
                                                            void (*release)(void *user), void *user, hs_error *err);

HS_END_DECLS

#endif
