/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of ops that are added. */
#include "tensorflow/add_op.h"

#include <limits.h>
#include <string.h>

static hs_code add_tensor(hs__tf_builder *builder, TF_OperationDescription *op, const hs_tensorflow_attr *attr)
{
    const hs__tf_api *tf = &builder->backend->tf;
    hs_code code = attr->tensor ? hs_tensor_check(attr->tensor, builder->err)
                                : hs_error_set(builder->err, HS_INVALID_ARGUMENT, "tensor is NULL");
    if (!code && attr->tensor->memory)
        code = hs_error_set(builder->err, HS_INVALID_ARGUMENT, "tensor is not in host memory");
    if (!code) {
        hs_shape shape = hs_tensor_shape(attr->tensor);
        code = hs__tf_check_shape(&shape, builder->err);
    }
    TF_Tensor *tensor = code ? NULL : hs__tf_copy_in(builder->backend, attr->tensor, builder->err);
    if (!tensor)
        return code ? code : HS_RESOURCE_EXHAUSTED;
    tf->SetAttrTensor(op, attr->name, tensor, builder->status);
    tf->DeleteTensor(tensor);
    return hs__tf_settle(tf, builder->status, builder->err);
}

/* Lists. TensorFlow has other types for most of their elements, and takes its copies at once. */

static void add_types(const hs__tf_api *tf, TF_OperationDescription *op, const hs_tensorflow_attr *attr, void *room)
{
    TF_DataType *types = room;
    for (size_t i = 0; i < attr->n_values; i++)
        types[i] = (TF_DataType)attr->types[i];
    tf->SetAttrTypeList(op, attr->name, types, (int)attr->n_values);
}

static void add_floats(const hs__tf_api *tf, TF_OperationDescription *op, const hs_tensorflow_attr *attr, void *room)
{
    float *reals = room;
    for (size_t i = 0; i < attr->n_values; i++)
        reals[i] = (float)attr->reals[i];
    tf->SetAttrFloatList(op, attr->name, reals, (int)attr->n_values);
}

static void add_bools(const hs__tf_api *tf, TF_OperationDescription *op, const hs_tensorflow_attr *attr, void *room)
{
    unsigned char *truths = room;
    for (size_t i = 0; i < attr->n_values; i++)
        truths[i] = attr->truths[i];
    tf->SetAttrBoolList(op, attr->name, truths, (int)attr->n_values);
}

/* A text that is left out is an empty one, as it is by itself. */
static void add_strings(const hs__tf_api *tf, TF_OperationDescription *op, const hs_tensorflow_attr *attr, void *room)
{
    const void **texts = room;
    size_t *lengths = (size_t *)(void *)(texts + attr->n_values);
    for (size_t i = 0; i < attr->n_values; i++) {
        texts[i] = attr->texts[i] ? attr->texts[i] : "";
        lengths[i] = strlen(texts[i]);
    }
    tf->SetAttrStringList(op, attr->name, texts, lengths, (int)attr->n_values);
}

static void add_shapes(const hs__tf_api *tf, TF_OperationDescription *op, const hs_tensorflow_attr *attr, void *room)
{
    const int64_t **dims = room;
    int *ranks = (int *)(void *)(dims + attr->n_values);
    for (size_t i = 0; i < attr->n_values; i++) {
        dims[i] = attr->shapes[i].dims;
        ranks[i] = attr->shapes[i].rank;
    }
    tf->SetAttrShapeList(op, attr->name, dims, ranks, (int)attr->n_values);
}

static hs_code check_list(const hs_tensorflow_attr *attr, hs_error *err)
{
    if (attr->kind < HS_TENSORFLOW_TYPES || attr->kind > HS_TENSORFLOW_SHAPES)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "kind %d does not exist", (int)attr->kind);
    if (attr->n_values && !attr->types) /* the pointers share their place */
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the list of %zu values is NULL", attr->n_values);
    if (attr->n_values > INT_MAX)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the list of %zu values is too long", attr->n_values);
    hs_code code = HS_OK;
    for (size_t i = 0; !code && attr->kind == HS_TENSORFLOW_SHAPES && i < attr->n_values; i++)
        code = hs__tf_check_shape(&attr->shapes[i], err);
    return code;
}

static hs_code add_list(hs__tf_builder *builder, TF_OperationDescription *op, const hs_tensorflow_attr *attr)
{
    static void (*const adders[])(const hs__tf_api *tf, TF_OperationDescription *op, const hs_tensorflow_attr *attr,
                                  void *room) = {[HS_TENSORFLOW_TYPES] = add_types,
                                                 [HS_TENSORFLOW_FLOATS] = add_floats,
                                                 [HS_TENSORFLOW_BOOLS] = add_bools,
                                                 [HS_TENSORFLOW_STRINGS] = add_strings,
                                                 [HS_TENSORFLOW_SHAPES] = add_shapes};
    const hs__tf_api *tf = &builder->backend->tf;
    const hs_env *env = &builder->backend->env;
    hs_code code = check_list(attr, builder->err);
    if (code)
        return code;
    if (attr->kind == HS_TENSORFLOW_INTS) {
        tf->SetAttrIntList(op, attr->name, attr->numbers, (int)attr->n_values);
        return HS_OK;
    }
    void *room = hs__alloc(env, attr->n_values, sizeof(void *) + sizeof(size_t));
    if (!room)
        return hs__no_memory(builder->err, attr->n_values, "an attribute");
    adders[attr->kind](tf, op, attr, room);
    hs__free(env, room);
    return HS_OK;
}

static hs_code add_attr(hs__tf_builder *builder, TF_OperationDescription *op, const hs_tensorflow_attr *attr)
{
    const hs__tf_api *tf = &builder->backend->tf;
    hs_code code;
    switch (attr->kind) {
    case HS_TENSORFLOW_TYPE:
        tf->SetAttrType(op, attr->name, (TF_DataType)attr->type);
        return HS_OK;
    case HS_TENSORFLOW_INT:
        tf->SetAttrInt(op, attr->name, attr->number);
        return HS_OK;
    case HS_TENSORFLOW_FLOAT:
        tf->SetAttrFloat(op, attr->name, (float)attr->real);
        return HS_OK;
    case HS_TENSORFLOW_BOOL:
        tf->SetAttrBool(op, attr->name, attr->number != 0);
        return HS_OK;
    case HS_TENSORFLOW_STRING:
        tf->SetAttrString(op, attr->name, attr->text ? attr->text : "", attr->text ? strlen(attr->text) : 0);
        return HS_OK;
    case HS_TENSORFLOW_SHAPE:
        if ((code = hs__tf_check_shape(&attr->shape, builder->err)))
            return code;
        tf->SetAttrShape(op, attr->name, attr->shape.dims, attr->shape.rank);
        return HS_OK;
    case HS_TENSORFLOW_TENSOR:
        return add_tensor(builder, op, attr);
    default:
        return add_list(builder, op, attr);
    }
}

hs_code hs__tf_add_attrs(hs__tf_builder *builder, TF_OperationDescription *op, const hs_tensorflow_attr *attr)
{
    hs_code code = HS_OK;
    for (; !code && attr && attr->name; attr++)
        if ((code = add_attr(builder, op, attr)))
            hs_error_prefix(builder->err, "attribute '%s'", attr->name);
    return code;
}
