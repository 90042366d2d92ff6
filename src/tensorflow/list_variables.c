/* SPDX-License-Identifier: Apache-2.0 */
/* The graph's variables: what reads each, and what sets it. */
#include "tensorflow/tf_backend.h"

#include "variable.pb-c.h"

#include "base/proto.h"

#include <string.h>

static bool is_reference_variable(const char *type)
{
    return strcmp(type, "VariableV2") == 0 || strcmp(type, "Variable") == 0;
}

static bool is_assign(const char *type)
{
    return strcmp(type, "Assign") == 0 || strcmp(type, "AssignVariableOp") == 0;
}

/* What is fed to set the variable is the value that its initializer gives it. One that sets another variable is none. */
static void note_initializer(const hs__tf_backend *backend, hs__tf_variable *variable, TF_Operation *initializer)
{
    const hs__tf_api *tf = &backend->tf;
    if (!initializer || !is_assign(tf->OperationOpType(initializer)) || tf->OperationNumInputs(initializer) < 2 ||
        tf->OperationInput((TF_Input){initializer, 0}).oper != variable->handle)
        return;
    variable->assigns = initializer;
    variable->initial = tf->OperationInput((TF_Input){initializer, 1});
}

static hs_code pass_over(hs__tf_backend *backend, const hs__tf_variable *variable, hs_error *err)
{
    hs_log(&backend->env, HS_LOG_WARNING, "variable '%s' is not saved: its type or rank is not supported", variable->name);
    hs_code code = hs__reserve(&backend->env, &backend->unlisted, &backend->unlisted_capacity, backend->n_unlisted + 1,
                               sizeof *backend->unlisted, err);
    if (!code && variable->assigns)
        backend->unlisted[backend->n_unlisted++] = (hs__tf_initializer){variable->assigns, variable->flags};
    return code;
}

static hs_code add_variable(hs__tf_backend *backend, hs__tf_variable *variable, hs_error *err)
{
    hs__tf_output value = hs__tf_describe(backend, variable->value);
    for (size_t i = 0; i < backend->n_variables; i++)
        if (backend->variables[i].handle == variable->handle)
            return HS_OK; /* in two collections */
    if (!value.dtype || value.too_many)
        return pass_over(backend, variable, err);
    variable->dtype = value.dtype;
    variable->shape = value.shape;
    hs_code code = hs__reserve(&backend->env, &backend->variables, &backend->variables_capacity, backend->n_variables + 1,
                               sizeof *backend->variables, err);
    if (code)
        return code;
    char *name = hs__strdup(&backend->env, variable->name);
    if (!name)
        return hs__no_memory(err, strlen(variable->name), "a name");
    backend->variables[backend->n_variables] = *variable;
    backend->variables[backend->n_variables++].name = name;
    return HS_OK;
}

/* As a collection has it. */

static hs_code damaged(const char *name, const char *what, hs_error *err)
{
    return hs_error_set(err, HS_DATA_LOSS, "meta graph: variable '%s': its %s is not in the graph", name, what);
}

/* Any op may be named, also one without outputs. */
static bool is_handle(const hs__tf_backend *backend, const hs__tf_variable *variable)
{
    const int references = 100;
    if (backend->tf.OperationNumOutputs(variable->handle) != 1)
        return false;
    TF_DataType type = backend->tf.OperationOutputType((TF_Output){variable->handle, 0});
    return variable->is_resource ? type == TF_RESOURCE : (int)type > references;
}

static hs_code find_parts(hs__tf_backend *backend, const Hs__Pb__VariableDef *def, hs__tf_variable *variable, hs_error *err)
{
    const char *snapshot = *def->snapshot_name ? def->snapshot_name : def->variable_name;
    TF_Operation *initializer = NULL;
    hs_code code = hs__tf_find_op(backend, def->variable_name, &variable->handle, err);
    if (code)
        return code;
    if (!variable->handle)
        return damaged(def->variable_name, "op", err);
    if (!is_handle(backend, variable))
        return hs_error_set(err, HS_DATA_LOSS, "meta graph: variable '%s' is %s: its op has type '%s'", def->variable_name,
                            variable->is_resource ? "not a resource" : "not a reference",
                            backend->tf.OperationOpType(variable->handle));
    variable->value = (TF_Output){variable->handle, 0};
    if (def->is_resource && (code = hs__tf_find_output(backend, snapshot, &variable->value, err)))
        return code == HS_NOT_FOUND ? damaged(def->variable_name, "snapshot", err) : code;
    if (*def->initializer_name && !(code = hs__tf_find_op(backend, def->initializer_name, &initializer, err)))
        note_initializer(backend, variable, initializer);
    return code;
}

static hs_code take_def(hs__tf_backend *backend, const Hs__Pb__VariableDef *def, uint64_t flags, hs_error *err)
{
    hs__tf_variable variable = {.flags = flags, .is_resource = def->is_resource};
    hs_code code = find_parts(backend, def, &variable, err);
    if (code)
        return code;
    variable.name = hs__tf_op_name(backend, def->variable_name);
    if (!variable.name)
        return hs__no_memory(err, strlen(def->variable_name), "a name");
    if (!(code = add_variable(backend, &variable, err)))
        code = hs__tf_note_slice(backend, variable.handle, def->save_slice_info_def, err);
    hs__free(&backend->env, variable.name);
    return code;
}

static hs_code unpack_def(hs__tf_backend *backend, const hs__tf_item *item, Hs__Pb__VariableDef **def, hs_error *err)
{
    bool no_memory;
    *def = (Hs__Pb__VariableDef *)hs__proto_unpack(&hs__pb__variable_def__descriptor, &backend->env, item->data,
                                                   item->bytes, &no_memory);
    if (*def)
        return HS_OK;
    return no_memory ? hs__no_memory(err, item->bytes, "a variable")
                     : hs_error_set(err, HS_DATA_LOSS, "meta graph: collection '%s' has an invalid variable", item->key);
}

static hs_code take_collection(hs__tf_backend *backend, const char *key, uint64_t flags, hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(&backend->env);
    const hs__tf_item *item;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && (item = hs__tf_item_of(backend, key, i)); i++) {
        Hs__Pb__VariableDef *def;
        if (item->is_name || (code = unpack_def(backend, item, &def, err)))
            continue;
        code = take_def(backend, def, flags, err);
        protobuf_c_message_free_unpacked(&def->base, &allocator);
    }
    return code;
}

/* As the graph has it, where no collection tells. */

/* TensorFlow names what belongs to a variable after it; others that set it may be those of a saver. */
static bool belongs_to(const hs__tf_backend *backend, TF_Operation *op, TF_Operation *variable)
{
    const char *name = backend->tf.OperationName(variable), *other = backend->tf.OperationName(op);
    size_t length = strlen(name);
    return strncmp(other, name, length) == 0 && other[length] == '/';
}

/* The op of these types that takes the variable first, its own rather than others. *found is NULL where there is none. */
static hs_code find_user(const hs__tf_backend *backend, TF_Operation *variable, bool (*wanted)(const char *type),
                         TF_Operation **found, hs_error *err)
{
    const hs__tf_api *tf = &backend->tf;
    TF_Input *users;
    int n;
    hs_code code = hs__tf_users_of(backend, (TF_Output){variable, 0}, &users, &n, err);
    for (int i = 0; i < n; i++)
        if (users[i].index == 0 && wanted(tf->OperationOpType(users[i].oper)) &&
            (!*found || belongs_to(backend, users[i].oper, variable)))
            *found = users[i].oper;
    hs__free(&backend->env, users);
    return code;
}

static bool is_read(const char *type)
{
    return strcmp(type, "ReadVariableOp") == 0;
}

/* Of what nothing reads, the slots of an optimizer, say. */
static hs_code add_read(hs__tf_backend *backend, TF_Operation *handle, TF_Output *read, hs_error *err)
{
    TF_DataType dtype;
    hs__tf_builder builder;
    hs_code code = hs__tf_builder_begin(&builder, backend, err);
    if (code)
        return code;
    backend->tf.OperationGetAttrType(handle, "dtype", &dtype, builder.status);
    if (!(builder.code = hs__tf_settle(&backend->tf, builder.status, err)))
        *read = hs__tf_finish_op(&builder, hs__tf_begin_read(&builder, "hooksess/read", handle, dtype, true));
    return hs__tf_builder_end(&builder);
}

static hs_code take_op(hs__tf_backend *backend, TF_Operation *op, hs_error *err)
{
    const char *type = backend->tf.OperationOpType(op);
    hs__tf_variable variable = {.name = (char *)backend->tf.OperationName(op), .handle = op};
    variable.is_resource = strcmp(type, "VarHandleOp") == 0;
    if (!variable.is_resource && !is_reference_variable(type))
        return HS_OK;
    TF_Operation *value = op, *initializer = NULL;
    hs_code code = HS_OK;
    if (variable.is_resource) {
        value = NULL;
        code = find_user(backend, op, is_read, &value, err);
    }
    variable.value = (TF_Output){value, 0};
    if (!code && !value)
        code = add_read(backend, op, &variable.value, err);
    if (code || (code = find_user(backend, op, is_assign, &initializer, err)))
        return code;
    note_initializer(backend, &variable, initializer);
    return add_variable(backend, &variable, err);
}

static hs_code take_ops(hs__tf_backend *backend, hs_error *err)
{
    hs_code code = HS_OK;
    size_t at = 0;
    TF_Operation *op;
    while (!code && (op = backend->tf.GraphNextOperation(backend->graph, &at)))
        code = take_op(backend, op, err);
    return code;
}

static bool holds_step(const hs__tf_variable *variable)
{
    int64_t n = hs_shape_elements(&variable->shape);
    return (variable->dtype == HS_INT64 || variable->dtype == HS_INT32) && variable->shape.rank >= 0 && n == 1;
}

/* The collection's, or else that of TensorFlow's name for it. */
static hs_code find_step(hs__tf_backend *backend, hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(&backend->env);
    const hs__tf_item *item = hs__tf_item_of(backend, "global_step", 0);
    TF_Operation *step = NULL;
    Hs__Pb__VariableDef *def;
    hs_code code = HS_OK;
    if (item && item->is_name) {
        code = hs__tf_find_op(backend, item->data, &step, err);
    } else if (item && !(code = unpack_def(backend, item, &def, err))) {
        code = hs__tf_find_op(backend, def->variable_name, &step, err);
        protobuf_c_message_free_unpacked(&def->base, &allocator);
    }
    if (!step)
        step = backend->tf.GraphOperationByName(backend->graph, "global_step");
    for (size_t i = 0; step && i < backend->n_variables; i++)
        if (backend->variables[i].handle == step && holds_step(&backend->variables[i]))
            backend->global_step = i;
    return code;
}

hs_code hs__tf_list_variables(hs__tf_backend *backend, hs_error *err)
{
    backend->global_step = HS__NONE;
    hs_code code = take_collection(backend, "variables", 0, err);
    if (!code)
        code = take_collection(backend, "local_variables", HS_VARIABLE_LOCAL, err);
    if (!code && !backend->n_variables)
        code = take_ops(backend, err);
    return code ? code : find_step(backend, err);
}

void hs__tf_free_variables(hs__tf_backend *backend)
{
    for (size_t i = 0; i < backend->n_variables; i++) {
        hs__free(&backend->env, backend->variables[i].name);
        hs__free(&backend->env, backend->variables[i].slice);
    }
    hs__free(&backend->env, backend->variables);
    hs__free(&backend->env, backend->unlisted);
}

bool hs__tf_variable_at(void *self, size_t index, hs_variable *out)
{
    const hs__tf_backend *backend = self;
    if (index >= backend->n_variables)
        return false;
    const hs__tf_variable *variable = &backend->variables[index];
    *out = (hs_variable){.name = variable->name,
                         .dtype = variable->dtype,
                         .shape = variable->shape,
                         .flags = variable->flags,
                         .device = backend->tf.OperationDevice(variable->handle)};
    return true;
}
