/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the graph's variables, with the outputs and ops that read and set each of them. */
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

/* Sets `assigns` and `initial`. The variable is set by running its initializer with the initial value fed. Ignores an
 * initializer of another variable. */
static void set_initializer(const hs__tf_backend *backend, hs__tf_variable *variable, TF_Operation *initializer)
{
    const hs__tf_api *tf = &backend->tf;
    if (!initializer || !is_assign(tf->OperationOpType(initializer)) || tf->OperationNumInputs(initializer) < 2 ||
        tf->OperationInput((TF_Input){initializer, 0}).oper != variable->handle)
        return;
    variable->assigns = initializer;
    variable->initial = tf->OperationInput((TF_Input){initializer, 1});
}

/* Records the initializer of a variable of an unsupported type. */
static hs_code add_unsaved(hs__tf_backend *backend, const hs__tf_variable *variable, hs_error *err)
{
    hs_log(&backend->env, HS_LOG_WARNING, "variable '%s' is not saved: its type or rank is not supported", variable->name);
    hs_code code = hs__reserve(&backend->env, &backend->unsaved, &backend->unsaved_capacity, backend->n_unsaved + 1,
                               sizeof *backend->unsaved, err);
    if (!code && variable->assigns)
        backend->unsaved[backend->n_unsaved++] = (hs__tf_initializer){variable->assigns, variable->flags};
    return code;
}

static hs_code add_variable(hs__tf_backend *backend, hs__tf_variable *variable, hs_error *err)
{
    hs__tf_output value = hs__tf_describe(backend, variable->value);
    for (size_t i = 0; i < backend->n_variables; i++)
        if (backend->variables[i].handle == variable->handle)
            return HS_OK; /* listed by two collections */
    if (!value.dtype || value.rank_too_high)
        return add_unsaved(backend, variable, err);
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

/* Partitioned variables: which part of a whole each variable is. */

static bool read_slice(const Hs__Pb__SaveSliceInfoDef *def, const hs_shape *part, hs_variable_slice *out)
{
    if (def->n_full_shape > HS_MAX_RANK || def->n_var_offset != def->n_full_shape || part->rank != (int)def->n_full_shape)
        return false;
    out->shape.rank = part->rank;
    for (size_t i = 0; i < def->n_full_shape; i++) {
        out->shape.dims[i] = def->full_shape[i];
        out->starts[i] = def->var_offset[i];
        if (out->starts[i] < 0 || part->dims[i] < 0 || out->shape.dims[i] < part->dims[i] ||
            out->starts[i] > out->shape.dims[i] - part->dims[i])
            return false;
    }
    return hs_shape_elements(&out->shape) >= 0;
}

/* Sets the slice of the variable that was added last, if that has this handle. */
static hs_code set_slice(hs__tf_backend *backend, const TF_Operation *handle, const Hs__Pb__SaveSliceInfoDef *def,
                         hs_error *err)
{
    hs_variable_slice slice = {.name = NULL};
    hs__tf_variable *variable = backend->n_variables ? &backend->variables[backend->n_variables - 1] : NULL;
    if (!def || !*def->full_name || !variable || variable->handle != handle || variable->slice)
        return HS_OK;
    if (!read_slice(def, &variable->shape, &slice))
        return hs_error_set(err, HS_DATA_LOSS, "meta graph: variable '%s' is a slice that does not lie within '%s'",
                            variable->name, def->full_name);
    size_t bytes = strlen(def->full_name) + 1;
    variable->slice = hs__alloc(&backend->env, sizeof slice + bytes, 1); /* the slice, then its name */
    if (!variable->slice)
        return hs__no_memory(err, bytes, "a slice");
    *variable->slice = slice;
    variable->slice->name = memcpy(variable->slice + 1, def->full_name, bytes);
    return HS_OK;
}

/* Variables of a collection. */

static hs_code damaged(const char *name, const char *what, hs_error *err)
{
    return hs_error_set(err, HS_DATA_LOSS, "meta graph: variable '%s': its %s is not in the graph", name, what);
}

/* True if the op can be a variable's handle. A damaged file may name any op, even one without outputs. */
static bool is_handle(const hs__tf_backend *backend, const hs__tf_variable *variable)
{
    if (backend->tf.OperationNumOutputs(variable->handle) != 1)
        return false;
    TF_DataType type = backend->tf.OperationOutputType((TF_Output){variable->handle, 0});
    return variable->is_resource ? type == TF_RESOURCE : hs__tf_is_reference(type);
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
        set_initializer(backend, variable, initializer);
    return code;
}

static hs_code add_def(hs__tf_backend *backend, const Hs__Pb__VariableDef *def, uint64_t flags, hs_error *err)
{
    hs__tf_variable variable = {.flags = flags, .is_resource = def->is_resource};
    hs_code code = find_parts(backend, def, &variable, err);
    if (code)
        return code;
    variable.name = hs__tf_op_name(backend, def->variable_name);
    if (!variable.name)
        return hs__no_memory(err, strlen(def->variable_name), "a name");
    if (!(code = add_variable(backend, &variable, err)))
        code = set_slice(backend, variable.handle, def->save_slice_info_def, err);
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

static hs_code add_collection(hs__tf_backend *backend, const char *key, uint64_t flags, hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(&backend->env);
    const hs__tf_item *item;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && (item = hs__tf_find_item(backend, key, i)); i++) {
        Hs__Pb__VariableDef *def;
        if (item->is_name || (code = unpack_def(backend, item, &def, err)))
            continue;
        code = add_def(backend, def, flags, err);
        protobuf_c_message_free_unpacked(&def->base, &allocator);
    }
    return code;
}

/* Variables of a graph without these collections. */

/* TensorFlow prefixes a variable's own ops with its name. Other ops that set it may belong to a saver. */
static bool belongs_to(const hs__tf_backend *backend, TF_Operation *op, TF_Operation *variable)
{
    const char *name = backend->tf.OperationName(variable), *other = backend->tf.OperationName(op);
    size_t length = strlen(name);
    return strncmp(other, name, length) == 0 && other[length] == '/';
}

/* Sets *found to a consumer of a wanted type with the variable as first input, preferably to one of the variable's
 * own ops. Without such a consumer, *found does not change. */
static hs_code find_consumer(const hs__tf_backend *backend, TF_Operation *variable, bool (*wanted)(const char *type),
                             TF_Operation **found, hs_error *err)
{
    const hs__tf_api *tf = &backend->tf;
    TF_Input *users;
    int n;
    hs_code code = hs__tf_consumers(backend, (TF_Output){variable, 0}, &users, &n, err);
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

/* Adds a read for a variable that the graph never reads, such as an optimizer's slot. */
static hs_code add_read(hs__tf_backend *backend, TF_Operation *handle, TF_Output *read, hs_error *err)
{
    TF_DataType dtype;
    hs__tf_builder builder;
    hs__tf_builder_begin(&builder, backend, err);
    backend->tf.OperationGetAttrType(handle, "dtype", &dtype, builder.status);
    if (!(builder.code = hs__tf_check_status(&backend->tf, builder.status, err)))
        *read = hs__tf_finish_op(&builder, hs__tf_begin_read(&builder, "hooksess/read", handle, dtype, true));
    return hs__tf_builder_end(&builder);
}

static hs_code add_op(hs__tf_backend *backend, TF_Operation *op, hs_error *err)
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
        code = find_consumer(backend, op, is_read, &value, err);
    }
    variable.value = (TF_Output){value, 0};
    if (!code && !value)
        code = add_read(backend, op, &variable.value, err);
    if (code || (code = find_consumer(backend, op, is_assign, &initializer, err)))
        return code;
    set_initializer(backend, &variable, initializer);
    return add_variable(backend, &variable, err);
}

static bool holds_step(const hs__tf_variable *variable)
{
    int64_t n = hs_shape_elements(&variable->shape);
    return (variable->dtype == HS_INT64 || variable->dtype == HS_INT32) && variable->shape.rank >= 0 && n == 1;
}

/* Finds the variable of the collection "global_step", or else the variable of that name. */
static hs_code find_step(hs__tf_backend *backend, hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(&backend->env);
    const hs__tf_item *item = hs__tf_find_item(backend, "global_step", 0);
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
    hs_code code = add_collection(backend, "variables", 0, err);
    if (!code)
        code = add_collection(backend, "local_variables", HS_VARIABLE_LOCAL, err);
    size_t at = 0;
    TF_Operation *op;
    bool has_collections = backend->n_variables > 0;
    while (!code && !has_collections && (op = backend->tf.GraphNextOperation(backend->graph, &at)))
        code = add_op(backend, op, err);
    return code ? code : find_step(backend, err);
}

void hs__tf_free_variables(hs__tf_backend *backend)
{
    for (size_t i = 0; i < backend->n_variables; i++) {
        hs__free(&backend->env, backend->variables[i].name);
        hs__free(&backend->env, backend->variables[i].slice);
    }
    hs__free(&backend->env, backend->variables);
    hs__free(&backend->env, backend->unsaved);
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

bool hs__tf_variable_slice(void *self, size_t index, hs_variable_slice *out)
{
    const hs__tf_backend *backend = self;
    if (index >= backend->n_variables || !backend->variables[index].slice)
        return false;
    *out = *backend->variables[index].slice;
    return true;
}
