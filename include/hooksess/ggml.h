/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_GGML_H
#define HOOKSESS_GGML_H

#include <hooksess/graph.h>

#include <ggml-backend.h>
#include <ggml.h>

#include <stdio.h>
#include <string.h>

/* Tensors of ggml as variables and values, in the memory of any of its backends: header-only (docs/guide/ggml.md).
 *
 *     hs_ggml_variables(g, model.weights);
 *     hs_ggml_variable(g, "scale", model.scale);
 *     hs_ggml_value(g, "loss", model.loss);
 *
 * Copies go through ggml_backend_tensor_get and _set, which wait for the copy, but not for a graph that another thread or
 * ggml_backend_graph_compute_async still computes: call ggml_backend_synchronize before the step ends.
 *
 *   in ggml                           in the graph and in checkpoints
 *   ne = {784, 500}                   [500,784]: the dimensions in reverse
 *   one element                       a scalar
 *   f32, f16, bf16, f64, i8 to i64    float, half, bfloat16, double, int8 to int64
 *   q4_0 and other quantized types    bytes: uint8, and the type at the end of the name: "fc1.weight.q4_0"
 *
 * The address is found at each save, restore and fetch, so ggml may move the tensor. If it has no memory then, or is not
 * contiguous: HS_FAILED_PRECONDITION. Borrowed: the tensor, as long as the session lives. Names are copied. */

HS_BEGIN_DECLS

static inline hs_dtype hs__ggml_dtype(enum ggml_type type)
{
    switch ((int)type) {
    case GGML_TYPE_F32:
        return HS_FLOAT;
    case GGML_TYPE_F16:
        return HS_HALF;
    case GGML_TYPE_BF16:
        return HS_BFLOAT16;
    case GGML_TYPE_F64:
        return HS_DOUBLE;
    case GGML_TYPE_I8:
        return HS_INT8;
    case GGML_TYPE_I16:
        return HS_INT16;
    case GGML_TYPE_I32:
        return HS_INT32;
    case GGML_TYPE_I64:
        return HS_INT64;
    default:
        return HS_UINT8;
    }
}

static inline hs_code hs__ggml_locate(void *user, size_t bytes, bool allocate, void **data, hs_error *err)
{
    const struct ggml_tensor *tensor = (const struct ggml_tensor *)user;
    (void)bytes, (void)allocate;
    if (!tensor)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "its tensor is NULL; compare the name that ggml_get_tensor got");
    if (!tensor->data)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "its tensor is not allocated; call ggml_backend_alloc_ctx_tensors before you open the session");
    if (!ggml_is_contiguous(tensor))
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "its tensor is not contiguous; add the tensor that it is a view of");
    *data = tensor->data;
    return HS_OK;
}

static inline bool hs__ggml_has_buffer(const struct ggml_tensor *tensor)
{
    /* A context with no_alloc = false allocates by itself: its tensors have no buffer. */
    return (tensor->view_src ? tensor->view_src->buffer : tensor->buffer) != HS__NULL;
}

static inline hs_code hs__ggml_to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    const struct ggml_tensor *tensor = (const struct ggml_tensor *)user;
    (void)err;
    if (!hs__ggml_has_buffer(tensor)) {
        memcpy(host, device, bytes);
        return HS_OK;
    }
    ggml_backend_tensor_get(tensor, host, (size_t)((const char *)device - (const char *)tensor->data), bytes);
    return HS_OK;
}

static inline hs_code hs__ggml_from_host(void *user, void *device, const void *host, size_t bytes, hs_error *err)
{
    struct ggml_tensor *tensor = (struct ggml_tensor *)user;
    (void)err;
    if (!hs__ggml_has_buffer(tensor)) {
        memcpy(device, host, bytes);
        return HS_OK;
    }
    ggml_backend_tensor_set(tensor, host, (size_t)((char *)device - (char *)tensor->data), bytes);
    return HS_OK;
}

static inline hs_code hs__ggml_add(hs_graph *graph, const char *name, struct ggml_tensor *tensor, uint64_t flags)
{
    char text[512];
    hs_variable_def def;
    memset(&def, 0, sizeof def);
    def.size = sizeof def;
    def.name = name ? name : tensor ? tensor->name : HS__NULL;
    def.dtype = HS_FLOAT;
    if (tensor && (def.dtype = hs__ggml_dtype(tensor->type)) == HS_UINT8) {
        snprintf(text, sizeof text, "%s.%s", def.name, ggml_type_name(tensor->type));
        def.name = text;
    }
    if (tensor && !ggml_is_scalar(tensor)) {
        def.shape.rank = ggml_n_dims(tensor);
        for (int i = 0; i < def.shape.rank; i++)
            def.shape.dims[def.shape.rank - 1 - i] =
                i || def.dtype != HS_UINT8 ? tensor->ne[i] : (int64_t)ggml_row_size(tensor->type, tensor->ne[0]);
    }
    def.locate = hs__ggml_locate;
    def.user = tensor;
    def.flags = flags;
    /* One hs_memory for each tensor, as its functions must find the tensor. The graph owns it. */
    static hs_memory none; /* zeros: the graph refuses it */
    hs_memory *memory = def.name ? (hs_memory *)hs_graph_memory(graph, def.name, sizeof none, HS__NULL) : HS__NULL;
    if (memory) {
        *memory = none;
        memory->size = sizeof none;
        memory->device_type = 12; /* DLPack's kDLExtDev */
        memory->to_host = hs__ggml_to_host;
        memory->from_host = hs__ggml_from_host;
        memory->user = tensor;
    }
    def.memory = memory ? memory : &none;
    return hs_graph_add_variable(graph, &def);
}

/* Adds a tensor as a variable.
 *
 * name  NULL: the tensor's name */
static inline hs_code hs_ggml_variable(hs_graph *graph, const char *name, struct ggml_tensor *tensor)
{
    return hs__ggml_add(graph, name, tensor, 0);
}

/* The same for a value, which is not saved: a loss. It is copied only in runs in which a hook fetches it. */
static inline hs_code hs_ggml_value(hs_graph *graph, const char *name, struct ggml_tensor *tensor)
{
    return hs__ggml_add(graph, name, tensor, HS_VARIABLE_LOCAL);
}

/* Adds the tensors of a context as variables, under their own names: weights, moments. Omits inputs (ggml_set_input),
 * results of operations, and views. Returns the first error. */
static inline hs_code hs_ggml_variables(hs_graph *graph, struct ggml_context *context)
{
    hs_code code = HS_OK;
    for (struct ggml_tensor *t = ggml_get_first_tensor(context); !code && t; t = ggml_get_next_tensor(context, t))
        if (t->op == GGML_OP_NONE && !t->view_src && !(t->flags & GGML_TENSOR_FLAG_INPUT))
            code = hs_ggml_variable(graph, HS__NULL, t);
    return code;
}

HS_END_DECLS

#endif
