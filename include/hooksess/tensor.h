/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TENSOR_H
#define HOOKSESS_TENSOR_H

#include <hooksess/env.h>

/* Tensors: views of memory that somebody else owns.
 *
 * Threads: any. Two threads never use one hs_host_copy at the same time. */

HS_BEGIN_DECLS

/* Element types, with TensorFlow's DataType numbers. */
typedef enum hs_dtype {
    HS_DTYPE_NONE = 0,
    HS_FLOAT = 1,
    HS_DOUBLE = 2,
    HS_INT32 = 3,
    HS_UINT8 = 4,
    HS_INT16 = 5,
    HS_INT8 = 6,
    HS_STRING = 7, /* elements are hs_string */
    HS_COMPLEX64 = 8,
    HS_INT64 = 9,
    HS_BOOL = 10, /* one byte, 0 or 1 */
    HS_QINT8 = 11,
    HS_QUINT8 = 12,
    HS_QINT32 = 13,
    HS_BFLOAT16 = 14,
    HS_QINT16 = 15,
    HS_QUINT16 = 16,
    HS_UINT16 = 17,
    HS_COMPLEX128 = 18,
    HS_HALF = 19,
    HS_UINT32 = 22,
    HS_UINT64 = 23
} hs_dtype;

/* The most dimensions a tensor has. */
#define HS_MAX_RANK 8

/* An element of a string tensor: bytes that need no zero at the end. Frozen. */
typedef struct hs_string {
    const char *data;
    size_t bytes;
} hs_string;

/* Rank and dimensions, outermost first; rank 0 is a scalar. Where a shape may be open (a placeholder's), -1 is a dimension
 * of any size and rank -1 a shape of any rank. Frozen. */
typedef struct hs_shape {
    int32_t rank;
    int32_t reserved;
    int64_t dims[HS_MAX_RANK];
} hs_shape;

/* HS_SHAPE(128, 784), HS_SCALAR. hs_shape_of(rank, dims) makes one of numbers that the program has in an array. More than
 * HS_MAX_RANK dimensions do not compile. */
#define HS_SHAPE(...)                                                                                                      \
    HS__VALUE(hs_shape, .rank = (int32_t)HS__COUNT(int64_t, __VA_ARGS__), .reserved = 0, .dims = {__VA_ARGS__})
#define HS_SCALAR    HS__VALUE(hs_shape, .rank = 0)
#define HS_ANY_SHAPE HS__VALUE(hs_shape, .rank = -1)

/* Memory that is not the host's: how to bring bytes to the host and back. `user` is passed to all functions. It must
 * outlive the tensors that point at it. Both copies are finished when the function returns. They are made by the thread
 * that reads or sets the tensor: of a session's, by the one that runs it, also for a save in the background. What else has
 * gone wrong on the device by then may be their error, too. */
typedef struct hs_memory {
    size_t size;
    int32_t device_type; /* as in DLPack: 2 is CUDA, 10 ROCm */
    int32_t device_id;
    hs_code (*to_host)(void *user, void *host, const void *device, size_t bytes, hs_error *err);
    hs_code (*from_host)(void *user, void *device, const void *host, size_t bytes, hs_error *err);
    /* Allocates `bytes` for a variable whose pointer is NULL when it is restored (hs_graph_variable_at). The program frees
     * it. NULL: such a restore fails with HS_FAILED_PRECONDITION */
    hs_code (*allocate)(void *user, size_t bytes, void **device, hs_error *err);
    void *user;
} hs_memory;

/* A view: it owns nothing, and copying it copies no data. Elements lie one after the other, the last dimension fastest.
 * Frozen. */
typedef struct hs_tensor {
    void *data; /* where `memory` says; readers of a borrowed view must not write through it */
    size_t bytes;
    hs_dtype dtype;
    int32_t rank;
    int64_t dims[HS_MAX_RANK];
    const hs_memory *memory; /* NULL: the host's */
    void *reserved[2];
} hs_tensor;

/* A view of host memory. `bytes` follows from dtype and shape (0 where they make no sense, which whoever reads the view
 * then refuses). */
HS_API hs_tensor hs_tensor_of(hs_dtype dtype, hs_shape shape, const void *data);
HS_API hs_shape hs_shape_of(int32_t rank, const int64_t *dims);
HS_API hs_shape hs_tensor_shape(const hs_tensor *tensor);

/* Bytes of one element; 0 for a number that is no dtype. */
HS_API size_t hs_dtype_size(hs_dtype dtype);
/* "float", "int64", ... as TensorFlow names them; "invalid" for a number that is no dtype. Static. */
HS_API const char *hs_dtype_name(hs_dtype dtype);

/* The number of elements, or -1 if a dimension is negative or the product does not fit. */
HS_API int64_t hs_shape_elements(const hs_shape *shape);
HS_API bool hs_shape_equal(const hs_shape *a, const hs_shape *b);
/* Writes "[128,784]", "[]" for a scalar, "?" for any rank. Returns `text`, always ended; 32 + 21 * HS_MAX_RANK bytes
 * suffice. */
HS_API const char *hs_shape_text(const hs_shape *shape, char *text, size_t bytes);
#define HS_SHAPE_TEXT_SIZE (32 + 21 * HS_MAX_RANK)

/* HS_OK if dtype, rank, dimensions, bytes and data fit together; else HS_INVALID_ARGUMENT saying what does not. */
HS_API hs_code hs_tensor_check(const hs_tensor *tensor, hs_error *err);

/* A place for copies of device memory, reused from call to call: {0} at first, freed with hs_host_copy_free. Frozen. */
typedef struct hs_host_copy {
    const hs_env *env; /* whose allocator; NULL is malloc */
    void *data;
    size_t capacity;
} hs_host_copy;

/* *host views the tensor's elements in host memory: the tensor's own memory where that is the host's, else `copy`, which
 * grows as needed. The view is good until the next call with the same `copy`. HS_RESOURCE_EXHAUSTED, or what the
 * memory's to_host returned. */
HS_API hs_code hs_tensor_host(const hs_tensor *tensor, hs_host_copy *copy, hs_tensor *host, hs_error *err);
HS_API void hs_host_copy_free(hs_host_copy *copy);

/* Element `index` of a host tensor of any real numeric type as a double (booleans are 0 or 1); NaN where there is none. */
HS_API double hs_tensor_number(const hs_tensor *tensor, size_t index);

/* How many elements of a float, double, half or bfloat16 (or complex) tensor are not finite, and the first of them.
 * Zero counts for every other type. Frozen. */
typedef struct hs_nonfinite {
    size_t nan, positive_infinity, negative_infinity;
    int64_t first_index; /* flat, in elements; -1: all are finite */
} hs_nonfinite;

/* The tensor is in host memory. */
HS_API hs_nonfinite hs_tensor_nonfinite(const hs_tensor *tensor);

HS_END_DECLS

#endif
