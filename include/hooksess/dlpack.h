/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_DLPACK_H
#define HOOKSESS_DLPACK_H

#include <hooksess/tensor.h>

/* To and from DLPack (version 1) without copying. Not part of hooksess.h: a program that uses it has DLPack's own header,
 * whose struct these functions speak of.
 *
 * Threads: any. */

HS_BEGIN_DECLS

struct DLManagedTensorVersioned;

/* *view shows the managed tensor's memory, until its deleter is called, which stays the caller's business. `memory` says
 * how to reach a device and is taken as it is; it must be NULL for the CPU and given for any other device.
 * HS_INVALID_ARGUMENT: a major version other than 1, an element type that TensorFlow has not, more than HS_MAX_RANK
 * dimensions, strides that leave gaps, or a device without `memory`. */
HS_API hs_code hs_tensor_from_dlpack(const struct DLManagedTensorVersioned *managed, const hs_memory *memory,
                                     hs_tensor *view, hs_error *err);

/* A managed tensor over the view's memory, which must stay until its deleter has been called; the deleter then calls
 * release(user), where that is given. `env` gives the memory of the managed tensor itself; NULL is malloc. On failure NULL,
 * and `release` is not called: HS_INVALID_ARGUMENT for strings and quantized types, HS_RESOURCE_EXHAUSTED. */
HS_API struct DLManagedTensorVersioned *hs_tensor_to_dlpack(const hs_tensor *view, const hs_env *env,
                                                            void (*release)(void *user), void *user, hs_error *err);

HS_END_DECLS

#endif
