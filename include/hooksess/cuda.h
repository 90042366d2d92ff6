/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_CUDA_H
#define HOOKSESS_CUDA_H

#include <hooksess/graph.h>

/* Variables and values in the memory of a CUDA device. Link with libhooksess_cuda. It loads CUDA's driver (libcuda.so.1, of
 * CUDA 11.2 or newer) in hs_cuda_new(); to build it, and to compile this header, CUDA is not needed. See docs/guide/gpu.md.
 *
 *     hs_cuda *cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = stream), NULL);
 *     hs_cuda_variable(cuda, g, "parameters", HS_FLOAT, HS_SHAPE(model.n_parameters), &model.device_memory);
 *     hs_cuda_value(cuda, g, "loss", HS_FLOAT, HS_SCALAR, &model.device_loss);
 *
 * Copies: they begin after the work that the program's stream has at that time, and run on a stream of the object. The
 * library does not synchronize the device; the driver may, when it first allocates pinned memory or loads the kernels.
 * Saves, restores and values are copied in pieces of at most 8 MiB through pinned memory. If there is none, they go through
 * other memory, which is slower. A save needs at most 32 MiB of it, a restore 64 MiB, whatever the size of the variables;
 * the object keeps it until it is freed. Background saves first copy the variables on the device, except those for which it
 * has no room besides a sixteenth of its memory. They free the copies when the checkpoint is written. See
 * hs_step_before_update.
 *
 * NaN: hs_nan_tensor and hs_finite_guard look for it in large tensors by a kernel, without a copy.
 *
 * Memory: device memory, managed memory, and host memory that CUDA has registered, of the device's primary context, which
 * CUDA's runtime uses.
 *
 *   errors                  cause
 *   HS_INVALID_ARGUMENT     an address is not memory of this device, or its allocation is too small
 *   HS_RESOURCE_EXHAUSTED   no memory on the device
 *   HS_UNAVAILABLE          no driver, an older driver, no device, or the device or its MPS server is lost
 *   HS_INTERNAL             another failure, also one of the program's earlier work on the device
 *
 * The message has the driver's name of the error and its text.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_cuda hs_cuda;

typedef struct hs_cuda_options {
    size_t size;
    void *stream;   /* of the program, a cudaStream_t or a CUstream. Borrowed until hs_cuda_free. NULL: the default */
    int32_t device; /* its number, from 0 */
    int32_t reserved_device;
    const hs_env *env; /* memory. NULL: the default. Copied */
} hs_cuda_options;
#define HS_CUDA_OPTIONS(...) HS_OPTIONS(hs_cuda_options, __VA_ARGS__)

/* Loads the driver, and retains the device's primary context. One object for each device and stream. `err` NULL: logs the
 * error. A graph with a variable of NULL instead of an object cannot be opened. */
HS_API hs_cuda *hs_cuda_new(const hs_cuda_options *options, hs_error *err);
/* Frees the object, after the graphs, copies of the state and savers that use it. NULL is allowed. */
HS_API void hs_cuda_free(hs_cuda *cuda);
/* Returns the device for hs_variable_def.memory and hs_tensor.memory, valid until the object is freed. */
HS_API const hs_memory *hs_cuda_memory(const hs_cuda *cuda);

/* Adds a variable in device memory. Its memory may move, and may not exist before the first step (hs_graph_variable_at).
 * Memory that a restore allocates, the program frees with cudaFree().
 *
 * pointer  address of the program's pointer. Borrowed as long as the session lives. More fields of hs_variable_def may
 *          follow */
#define hs_cuda_variable(cuda, graph, ...) HS__CUDA_VARIABLE(cuda, graph, __VA_ARGS__, )
/* The same for a value, which is not saved. It is copied only in runs in which a hook fetches it. */
#define hs_cuda_value(cuda, graph, ...)    HS__CUDA_VARIABLE(cuda, graph, __VA_ARGS__, .flags = HS_VARIABLE_LOCAL, )
#define HS__CUDA_VARIABLE(cuda, graph, name_, dtype_, shape_, pointer, ...)                                                \
    hs_graph_add_variable((graph), HS_VARIABLE_DEF(.name = (name_), .dtype = (dtype_), .shape = (shape_),                  \
                                                   HS_DATA_AT(pointer), .memory = hs_cuda_memory(cuda), __VA_ARGS__))

HS_END_DECLS

#endif
