/* SPDX-License-Identifier: Apache-2.0 */
/* hs_tensorflow_add_op: ops that hooks add to the graph. */
#include "tensorflow/tf_backend.h"

#include <limits.h>
#include <string.h>

/* Finds the inputs before the op is begun, as TensorFlow requires that an op that was begun is finished. */
static hs_code find_all(hs__tf_backend *backend, const char *const *names, bool ops, TF_Output *out, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && names && names[i]; i++) {
        TF_Operation *op = NULL;
        if (ops && (code = hs__tf_find_op(backend, names[i], &op, err)))
            break;
        out[i] = (TF_Output){op, 0};
        if (!op)
            code = hs__tf_find_output(backend, names[i], &out[i], err);
    }
    return code;
}

static void add_inputs(const hs__tf_api *tf, TF_OperationDescription *op, const hs_tensorflow_op_def *def,
                       const TF_Output *inputs, size_t n)
{
    size_t from = def->inputs_are_a_list ? def->list_from : n, until = def->list_until ? def->list_until : n;
    for (size_t i = 0; i < from; i++)
        tf->AddInput(op, inputs[i]);
    if (def->inputs_are_a_list)
        tf->AddInputList(op, inputs + from, (int)(until - from));
    for (size_t i = until; i < n; i++)
        tf->AddInput(op, inputs[i]);
}

static hs_code check_list(const hs_tensorflow_op_def *def, hs_error *err)
{
    size_t n = hs__names_count(def->inputs), until = def->list_until ? def->list_until : n;
    if (!def->inputs_are_a_list && (def->list_from || def->list_until))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "list_from and list_until are given without inputs_are_a_list");
    if (def->list_from > until || until > n)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the list is from input %zu to input %zu, but the op has %zu inputs",
                            def->list_from, until, n);
    return HS_OK;
}

/* Attributes. */

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
    return hs__tf_check_status(tf, builder->status, builder->err);
}

/* Attributes that are lists. Each function converts the elements to TensorFlow's types in `room`, which the caller
 * allocates and frees. TensorFlow copies them. */

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

/* NULL is the empty string, as in add_attr. */
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

static hs_code check_list_attr(const hs_tensorflow_attr *attr, hs_error *err)
{
    if (attr->kind < HS_TENSORFLOW_TYPES || attr->kind > HS_TENSORFLOW_SHAPES)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "kind %d does not exist", (int)attr->kind);
    if (attr->n_values && !attr->types) /* all pointers are in one union */
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
    hs_code code = check_list_attr(attr, builder->err);
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

static hs_code add_attrs(hs__tf_builder *builder, TF_OperationDescription *op, const hs_tensorflow_attr *attr)
{
    hs_code code = HS_OK;
    for (; !code && attr && attr->name; attr++)
        if ((code = add_attr(builder, op, attr)))
            hs_error_prefix(builder->err, "attribute '%s'", attr->name);
    return code;
}

/* The op. */

static hs_code build(hs__tf_builder *builder, const hs_tensorflow_op_def *def, const TF_Output *inputs,
                     const TF_Output *controls)
{
    const hs__tf_api *tf = &builder->backend->tf;
    size_t n = hs__names_count(def->inputs), n_controls = hs__names_count(def->control_inputs);
    TF_OperationDescription *op = hs__tf_begin_op(builder, def->type, def->name);
    if (!op)
        return builder->code;
    if (def->device)
        tf->SetDevice(op, def->device);
    add_inputs(tf, op, def, inputs, n);
    for (size_t i = 0; i < n_controls; i++)
        tf->AddControlInput(op, controls[i].oper);
    hs_code code = add_attrs(builder, op, def->attrs);
    hs_error kept = {0};
    if (code && builder->err)
        kept = *builder->err;
    for (int i = 0; code && i < 2; i++)
        tf->AddInputList(op, NULL, 0); /* too many inputs: finishing the op fails, and the graph does not change */
    hs__tf_finish_op(builder, op);
    if (code && builder->err)
        *builder->err = kept;
    return code ? code : builder->code;
}

#define FIRST_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789."

/* TensorFlow accepts any name here, but could not import the graph again. */
static bool is_name(const char *name)
{
    return strspn(name, FIRST_LETTERS) > 0 && !name[strspn(name, FIRST_LETTERS "_/>\\-")];
}

static hs_code add_op(hs__tf_backend *backend, const hs_tensorflow_op_def *def, hs_error *err)
{
    size_t n = hs__names_count(def->inputs), n_controls = hs__names_count(def->control_inputs);
    TF_Output *inputs = hs__alloc(&backend->env, n + n_controls, sizeof *inputs);
    hs__tf_builder builder;
    if (!inputs)
        return hs__no_memory(err, n * sizeof *inputs, "the inputs of an op");
    hs_code code = check_list(def, err);
    if (!code)
        code = find_all(backend, def->inputs, false, inputs, err);
    if (!code)
        code = find_all(backend, def->control_inputs, true, inputs + n, err);
    if (!code) {
        hs__tf_builder_begin(&builder, backend, err);
        code = build(&builder, def, inputs, inputs + n);
        hs__tf_builder_end(&builder);
    }
    hs__free(&backend->env, inputs);
    return code;
}

hs_code hs_tensorflow_add_op(hs_backend backend, const hs_tensorflow_op_def *given, hs_error *err)
{
    hs_tensorflow_op_def def = HS_INIT(hs_tensorflow_op_def);
    hs__tf_backend *self = hs__tf_of(backend);
    hs_error_clear(err);
    if (!self || !given)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_tensorflow_add_op: %s",
                            self ? "op is NULL" : "the backend is not a TensorFlow backend");
    if (self->error.code)
        return hs__error_copy(err, &self->error);
    hs_code code = HS_STRUCT_TAKE(hs_tensorflow_op_def, list_until, &def, given, err);
    if (code)
        return code;
    if (!def.type || !def.name || !*def.type || !*def.name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_tensorflow_add_op: %s is missing",
                            def.name && *def.name ? "type" : "name");
    if (!is_name(def.name))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' is not a valid name of an op", def.name);
    if (self->finalized)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "cannot add op '%s': the graph is finalized", def.name);
    if (self->tf.GraphOperationByName(self->graph, def.name))
        return hs_error_set(err, HS_ALREADY_EXISTS, "cannot add op '%s': the graph already has an op with this name",
                            def.name);
    if ((code = add_op(self, &def, err)))
        hs_error_prefix(err, "cannot add op '%s'", def.name);
    else
        hs_error_clear(err);
    return code;
}
