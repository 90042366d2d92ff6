/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors as DLPack's, and back: views in both directions, which copy nothing. */
#include <hooksess/dlpack.h>

#include "base/tensor.h"

#include <string.h>

/* DLPack's ABI, version 1, as in its specification. */

enum { DL_CPU = 1 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };

typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} dl_type;

typedef struct {
    void *data;
    int32_t device_type, device_id;
    int32_t rank;
    dl_type type;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: contiguous */
    uint64_t byte_offset;
} dl_tensor;

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    dl_tensor tensor;
};

static const struct {
    dl_type type;
    hs_dtype dtype;
} types[] = {
    {{DL_FLOAT, 32, 1}, HS_FLOAT},       {{DL_FLOAT, 64, 1}, HS_DOUBLE},
    {{DL_FLOAT, 16, 1}, HS_HALF},        {{DL_BFLOAT, 16, 1}, HS_BFLOAT16},
    {{DL_INT, 8, 1}, HS_INT8},           {{DL_INT, 16, 1}, HS_INT16},
    {{DL_INT, 32, 1}, HS_INT32},         {{DL_INT, 64, 1}, HS_INT64},
    {{DL_UINT, 8, 1}, HS_UINT8},         {{DL_UINT, 16, 1}, HS_UINT16},
    {{DL_UINT, 32, 1}, HS_UINT32},       {{DL_UINT, 64, 1}, HS_UINT64},
    {{DL_COMPLEX, 64, 1}, HS_COMPLEX64}, {{DL_COMPLEX, 128, 1}, HS_COMPLEX128},
    {{DL_BOOL, 8, 1}, HS_BOOL},
};

static hs_dtype dtype_of(dl_type type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type.code == type.code && types[i].type.bits == type.bits && types[i].type.lanes == type.lanes)
            return types[i].dtype;
    return HS_DTYPE_NONE;
}

static bool has_gaps(const dl_tensor *tensor)
{
    hs_shape shape = hs_shape_of(tensor->rank, tensor->shape);
    if (hs_shape_elements(&shape) <= 0) /* no elements, or an invalid shape, which hs_tensor_check reports */
        return false;
    int64_t expected = 1;
    for (int32_t i = tensor->rank; tensor->strides && i-- > 0;) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != expected)
            return true;
        expected *= tensor->shape[i];
    }
    return false;
}

hs_code hs_tensor_from_dlpack(const struct DLManagedTensorVersioned *managed, const hs_memory *memory, hs_tensor *view,
                              hs_error *err)
{
    hs_error_clear(err);
    if (!managed || !view)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_tensor_from_dlpack: managed or view is NULL");
    const dl_tensor *tensor = &managed->tensor;
    if (managed->major != 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "DLPack version %u.%u is not supported; the version must be 1.x",
                            managed->major, managed->minor);
    hs_dtype dtype = dtype_of(tensor->type);
    if (!dtype)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "DLPack's element type (code %u, %u bits, %u lanes) is not supported",
                            tensor->type.code, tensor->type.bits, tensor->type.lanes);
    if (tensor->rank < 0 || tensor->rank > HS_MAX_RANK)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the DLPack tensor has %d dimensions; the maximum is %d",
                            (int)tensor->rank, HS_MAX_RANK);
    if (tensor->rank && !tensor->shape)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the DLPack tensor has %d dimensions, but its shape is NULL",
                            (int)tensor->rank);
    if ((tensor->device_type == DL_CPU) != !memory)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the DLPack tensor is on device %d:%d, but %s hs_memory is given",
                            (int)tensor->device_type, (int)tensor->device_id, memory ? "an" : "no");
    if (has_gaps(tensor))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the DLPack tensor is not contiguous; make it contiguous first");
    *view = hs_tensor_of(dtype, hs_shape_of(tensor->rank, tensor->shape),
                         tensor->data ? (char *)tensor->data + tensor->byte_offset : NULL);
    view->memory = memory;
    return hs_tensor_check(view, err);
}

typedef struct {
    struct DLManagedTensorVersioned managed;
    hs_env env;
    int64_t shape[HS_MAX_RANK];
    void (*release)(void *user);
    void *user;
} owned;

static void delete_owned(struct DLManagedTensorVersioned *managed)
{
    owned *made = managed->context;
    void (*release)(void *user) = made->release;
    void *user = made->user;
    hs_env env = made->env;
    hs__free(&env, made);
    if (release)
        release(user);
}

struct DLManagedTensorVersioned *hs_tensor_to_dlpack(const hs_tensor *view, const hs_env *env, void (*release)(void *user),
                                                     void *user, hs_error *err)
{
    hs_env copied;
    if (!view) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_tensor_to_dlpack: view is NULL");
        return NULL;
    }
    if (hs_tensor_check(view, err) || hs__env_copy(&copied, env, err))
        return NULL;
    size_t i = 0, n = sizeof types / sizeof *types;
    while (i < n && types[i].dtype != view->dtype)
        i++;
    if (i == n) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "DLPack does not support type %s", hs_dtype_name(view->dtype));
        return NULL;
    }
    owned *made = hs__alloc(&copied, 1, sizeof *made);
    if (!made) {
        hs__no_memory(err, sizeof *made, "a DLPack tensor");
        return NULL;
    }
    memcpy(made->shape, view->dims, sizeof made->shape);
    made->env = copied;
    made->release = release;
    made->user = user;
    made->managed = (struct DLManagedTensorVersioned){
        .major = 1,
        .context = made,
        .deleter = delete_owned,
        .tensor = {.data = view->data,
                   .device_type = view->memory ? view->memory->device_type : DL_CPU,
                   .device_id = view->memory ? view->memory->device_id : 0,
                   .rank = view->rank,
                   .type = types[i].type,
                   .shape = made->shape},
    };
    hs_error_clear(err);
    return &made->managed;
}
