/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TENSOR_H
#define HOOKSESS_TENSOR_H

#include <hooksess/env.h>

/* Tensors: views of memory that other code owns.
 *
 *     float weights[2][3] = {{0}};
 *     hs_tensor tensor = hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), weights);
 *     hs_nonfinite found = hs_tensor_nonfinite(&tensor);
 *
 * Threads: any thread, at any time. Two threads never use one hs_host_copy at the same time. */

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

/* The largest number of dimensions. */
#define HS_MAX_RANK 8

/* An element of a string tensor. It needs no zero byte at its end. Frozen. */
typedef struct hs_string {
    const char *data;
    size_t bytes;
} hs_string;

/* Rank and dimensions, the outermost first. Rank 0 is a scalar. In an open shape, dimension -1 is of any size, and rank -1
 * is any rank. Frozen. */
typedef struct hs_shape {
    int32_t rank;
    int32_t reserved;
    int64_t dims[HS_MAX_RANK];
} hs_shape;

/* HS_SHAPE(128, 784). More than HS_MAX_RANK dimensions do not compile. */
#ifdef __cplusplus
extern "C++" {
template <class T> constexpr int64_t hs__dimension(T dimension)
{
    static_assert(static_cast<T>(0.5F) == T(), "a dimension is not an integer");
    return static_cast<int64_t>(dimension); /* also of a size_t */
}
template <class... T> constexpr hs_shape hs__shape(T... dims)
{
    static_assert(sizeof...(T) <= HS_MAX_RANK, "a shape has at most HS_MAX_RANK dimensions");
    return {static_cast<int32_t>(sizeof...(T)), 0, {hs__dimension(dims)...}};
}
}
#define HS_SHAPE(...) hs__shape(__VA_ARGS__)
#else
#define HS_SHAPE(...)                                                                                                      \
    HS__VALUE(hs_shape, .rank = (int32_t)HS__COUNT(int64_t, __VA_ARGS__), .reserved = 0, .dims = {__VA_ARGS__})
#endif
#define HS_SCALAR    HS__VALUE(hs_shape, .rank = 0)
#define HS_ANY_SHAPE HS__VALUE(hs_shape, .rank = -1)

/* The numbers that are not finite. A complex element counts as two. All counts are 0 for types without floating point.
 * Frozen. */
typedef struct hs_nonfinite {
    size_t nan, positive_infinity, negative_infinity;
    int64_t first_index; /* flat index of the first such element. -1: all are finite */
} hs_nonfinite;

/* Access to a device's memory. A device that only copies has to_host and from_host. They may return an error of earlier
 * work on the device. `device` may be inside a tensor: large variables are copied in pieces of 8 MiB. The session's thread
 * calls them, also for background saves; for other tensors, the thread that reads them. With `wait`, any thread calls any
 * of the functions, several at the same time. The struct must outlive its tensors. */
typedef struct hs_memory {
    size_t size;
    int32_t device_type; /* as in DLPack: 2 is CUDA, 10 ROCm */
    int32_t device_id;
    hs_code (*to_host)(void *user, void *host, const void *device, size_t bytes, hs_error *err);
    hs_code (*from_host)(void *user, void *device, const void *host, size_t bytes, hs_error *err);
    /* Returns when the copies to and from the memory at `host`, the address that they got, are finished. Copies of one
     * address are not in progress at the same time. NULL: to_host and from_host return when the copy is finished */
    hs_code (*wait)(void *user, const void *host, hs_error *err);
    /* The copies that begin later wait for the work that the program has enqueued, until the next call. The session's
     * thread calls it before it copies. NULL: to_host and from_host wait */
    hs_code (*mark)(void *user, hs_error *err);
    /* Allocate and free host memory for copies, such as pinned memory: often, so keep what is freed. NULL, or a failure:
     * the library allocates it */
    hs_code (*allocate_host)(void *user, size_t bytes, void **host, hs_error *err);
    void (*free_host)(void *user, void *host);
    /* Copies of variables on the device, for background saves and hs_raw_session_copy_state. They need `wait`. `duplicate`
     * begins a copy of memory as it is at the mark, and sets *copy to it; later calls of to_host may read it.
     * HS_RESOURCE_EXHAUSTED, HS_UNIMPLEMENTED: there is no room, and the variable is copied to the host. `hold`: the work
     * that the program enqueues later waits until the copies that have begun, also those by to_host, have read the memory.
     * `restore` begins to set memory to a copy: after the work before the mark, and before the work that the program
     * enqueues later. All NULL: variables are copied to the host, and late hooks (hs_hook_late) are not late */
    hs_code (*duplicate)(void *user, const void *device, size_t bytes, void **copy, hs_error *err);
    void (*release)(void *user, void *copy);
    void (*hold)(void *user);
    hs_code (*restore)(void *user, void *device, const void *copy, size_t bytes, hs_error *err);
    /* Allocates `bytes` for a variable whose pointer is NULL when it is restored. The program frees it. NULL: such a
     * restore fails with HS_FAILED_PRECONDITION */
    hs_code (*allocate)(void *user, size_t bytes, void **device, hs_error *err);
    /* Counts the numbers of a tensor on the device that are not finite, as of the mark, and returns when `found` is set.
     * NULL, or any error: the library copies the tensor in pieces and counts on the host */
    hs_code (*count_nonfinite)(void *user, const void *device, size_t bytes, hs_dtype dtype, hs_nonfinite *found,
                               hs_error *err);
    void *user;
} hs_memory;

/* A view. It owns nothing. Elements are contiguous, the last dimension fastest. Frozen. */
typedef struct hs_tensor {
    void *data; /* in `memory`. Do not write to a borrowed view */
    size_t bytes;
    hs_dtype dtype;
    int32_t rank;
    int64_t dims[HS_MAX_RANK];
    const hs_memory *memory; /* NULL: host memory */
    void *reserved[2];
} hs_tensor;

/* Returns a view of host memory. If dtype or shape are invalid, its `bytes` are 0, and readers refuse it. */
HS_API hs_tensor hs_tensor_of(hs_dtype dtype, hs_shape shape, const void *data);
HS_API hs_shape hs_shape_of(int32_t rank, const int64_t *dims);
HS_API hs_shape hs_tensor_shape(const hs_tensor *tensor);

/* Return the bytes of one element, and TensorFlow's name, such as "float". Not a dtype: 0 and "invalid". */
HS_API size_t hs_dtype_size(hs_dtype dtype);
HS_API const char *hs_dtype_name(hs_dtype dtype);

/* Returns the number of elements. -1: a dimension is negative, or the product overflows. */
HS_API int64_t hs_shape_elements(const hs_shape *shape);
HS_API bool hs_shape_equal(const hs_shape *a, const hs_shape *b);
/* Writes "[128,784]", "[]" for a scalar, or "?" for any rank, and returns `text`. HS_SHAPE_TEXT_SIZE bytes suffice; a
 * shorter text is cut. */
HS_API const char *hs_shape_text(const hs_shape *shape, char *text, size_t bytes);
#define HS_SHAPE_TEXT_SIZE (32 + 21 * HS_MAX_RANK)

/* HS_INVALID_ARGUMENT: dtype, rank, dimensions, bytes and data are not consistent. */
HS_API hs_code hs_tensor_check(const hs_tensor *tensor, hs_error *err);

/* A buffer for copies of device memory. Set it to zeros, and free it with hs_host_copy_free(). Frozen. */
typedef struct hs_host_copy {
    const hs_env *env; /* the allocator. NULL: malloc */
    void *data;
    size_t capacity;
} hs_host_copy;

/* Sets *host to a view in host memory: the tensor's own, or in `copy`, which grows as needed. Valid until the next call
 * with `copy`. HS_RESOURCE_EXHAUSTED, or the code of to_host. */
HS_API hs_code hs_tensor_host(const hs_tensor *tensor, hs_host_copy *copy, hs_tensor *host, hs_error *err);
HS_API void hs_host_copy_free(hs_host_copy *copy);

/* Returns element `index` as a double; a bool is 0 or 1. NaN for complex numbers, strings, device memory, and past the
 * end. */
HS_API double hs_tensor_number(const hs_tensor *tensor, size_t index);

/* Counts the numbers that are not finite. The tensor must be in host memory. */
HS_API hs_nonfinite hs_tensor_nonfinite(const hs_tensor *tensor);

HS_END_DECLS

#endif
