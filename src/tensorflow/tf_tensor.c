/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between hs_tensor and TF_Tensor. */
#include "tensorflow/tf_backend.h"

#include <string.h>

hs_code hs__tf_check_shape(const hs_shape *shape, hs_error *err)
{
    char text[HS_SHAPE_TEXT_SIZE];
    int64_t n = 1;
    bool known = true;
    if (shape->rank > HS_MAX_RANK)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the shape has rank %d; the maximum is %d", (int)shape->rank,
                            HS_MAX_RANK);
    for (int i = 0; i < shape->rank; i++) {
        int64_t dim = shape->dims[i];
        known &= dim >= 0;
        if (dim < -1 || (known && n && dim > INT64_MAX / n))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "shape %s is too large for TensorFlow",
                                hs_shape_text(shape, text, sizeof text));
        n = known ? n * dim : n;
    }
    return HS_OK;
}

/* The strings of a tensor that we made. TensorFlow may keep them after the backend was freed, and frees them in any thread.
 */
typedef struct {
    hs_env env;
    __typeof__(TF_StringDealloc) *dealloc;
    size_t n;
    TF_TString strings[];
} string_block;

static void free_strings(void *data, size_t bytes, void *user)
{
    (void)data, (void)bytes;
    string_block *block = user;
    hs_env env = block->env;
    for (size_t i = 0; i < block->n; i++)
        block->dealloc(&block->strings[i]);
    hs__free(&env, block);
}

static TF_Tensor *copy_strings(const hs__tf_backend *backend, const hs_tensor *value)
{
    const hs_string *from = value->data;
    size_t n = value->bytes / sizeof *from;
    string_block *block = hs__alloc(&backend->env, sizeof *block + n * sizeof *block->strings, 1);
    if (!block)
        return NULL;
    block->env = backend->env;
    block->dealloc = backend->tf.StringDealloc;
    block->n = n;
    for (size_t i = 0; i < n; i++) {
        backend->tf.StringInit(&block->strings[i]);
        backend->tf.StringCopy(&block->strings[i], from[i].data, from[i].bytes);
    }
    return backend->tf.NewTensor(TF_STRING, value->dims, value->rank, block->strings, n * sizeof *block->strings,
                                 free_strings, block);
}

TF_Tensor *hs__tf_copy_in(const hs__tf_backend *backend, const hs_tensor *value, hs_error *err)
{
    TF_Tensor *made = NULL;
    if (value->dtype == HS_STRING) {
        made = copy_strings(backend, value);
    } else if ((made = backend->tf.AllocateTensor((TF_DataType)value->dtype, value->dims, value->rank, value->bytes))) {
        void *data = backend->tf.TensorData(made); /* if memory is exhausted, the tensor has no data */
        if (value->bytes && !data) {
            backend->tf.DeleteTensor(made);
            made = NULL;
        } else if (value->bytes) {
            memcpy(data, value->data, value->bytes);
        }
    }
    if (!made)
        hs__no_memory(err, value->bytes, "a tensor");
    return made;
}

/* The deallocator of tensors over the caller's memory. */
static void free_nothing(void *data, size_t bytes, void *user)
{
    (void)data, (void)bytes, (void)user;
}

TF_Tensor *hs__tf_wrap(const hs__tf_backend *backend, const hs_tensor *value, hs_error *err)
{
    TF_Tensor *made = backend->tf.NewTensor((TF_DataType)value->dtype, value->dims, value->rank, value->data, value->bytes,
                                            free_nothing, NULL);
    if (!made)
        hs__no_memory(err, value->bytes, "a tensor");
    return made;
}

size_t hs__tf_count_strings(const hs__tf_backend *backend, const TF_Tensor *tensor)
{
    return backend->tf.TensorType(tensor) == TF_STRING ? (size_t)backend->tf.TensorElementCount(tensor) : 0;
}

static void view_strings(const hs__tf_backend *backend, TF_Tensor *tensor, hs_string *strings, hs_tensor *view)
{
    const TF_TString *from = backend->tf.TensorData(tensor);
    size_t n = hs__tf_count_strings(backend, tensor);
    for (size_t i = 0; i < n; i++)
        strings[i] = (hs_string){backend->tf.StringGetDataPointer(&from[i]), backend->tf.StringGetSize(&from[i])};
    view->data = strings;
    view->bytes = n * sizeof *strings;
}

hs_code hs__tf_view(const hs__tf_backend *backend, TF_Tensor *tensor, hs_string *strings, const char *name, hs_tensor *view,
                    hs_error *err)
{
    const hs__tf_api *tf = &backend->tf;
    int rank = tf->NumDims(tensor), dtype = (int)tf->TensorType(tensor);
    if (rank > HS_MAX_RANK)
        return hs_error_set(err, HS_UNIMPLEMENTED, "'%s' has %d dimensions; the maximum is %d", name, rank, HS_MAX_RANK);
    if (!hs__dtype_valid(dtype))
        return hs_error_set(err, HS_UNIMPLEMENTED, "'%s': TensorFlow's type %d is not supported", name, dtype);
    *view = (hs_tensor){.dtype = (hs_dtype)dtype, .rank = rank};
    for (int i = 0; i < rank; i++)
        view->dims[i] = tf->Dim(tensor, i);
    if (dtype == TF_STRING) {
        view_strings(backend, tensor, strings, view);
    } else {
        view->data = tf->TensorData(tensor);
        view->bytes = tf->TensorByteSize(tensor);
    }
    /* An empty tensor also needs a pointer: data NULL means that an op without a value was fetched. */
    static char empty[16];
    if (!view->data)
        view->data = empty;
    return HS_OK;
}
