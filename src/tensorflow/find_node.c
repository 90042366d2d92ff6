/* SPDX-License-Identifier: Apache-2.0 */
/* Finds ops and outputs by name. */
#include "tensorflow/tf_backend.h"

#include "backends/output_name.h"
#include "base/similar_name.h"

#include <string.h>

char *hs__tf_op_name(const hs__tf_backend *backend, const char *name)
{
    hs__output_name parsed = hs__parse_output_name(name);
    return hs__strndup(&backend->env, name, parsed.valid ? parsed.op_length : strlen(name));
}

hs_code hs__tf_consumers(const hs__tf_backend *backend, TF_Output output, TF_Input **users, int *n, hs_error *err)
{
    const hs__tf_api *tf = &backend->tf;
    int room = tf->OperationOutputNumConsumers(output);
    *n = 0;
    *users = room > 0 ? hs__alloc(&backend->env, (size_t)room, sizeof **users) : NULL;
    if (room > 0 && !*users)
        return hs__no_memory(err, (size_t)room * sizeof **users, "the users of a tensor");
    *n = room > 0 ? tf->OperationOutputConsumers(output, *users, room) : 0;
    return HS_OK;
}

bool hs__tf_type_in(const char *type, const char *const *types, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

static hs_code not_found(const hs__tf_backend *backend, const char *name, hs_error *err)
{
    const hs__tf_item *item = hs__tf_find_item(backend, name, 0);
    if (item && item->is_name)
        return hs_error_set(err, HS_NOT_FOUND, "'%s' is not in the graph; did you mean '%s' from its collection '%s'?",
                            name, item->data, name);
    hs__similar_name similar = hs__similar_name_begin(name);
    TF_Operation *op;
    for (size_t at = 0; (op = backend->tf.GraphNextOperation(backend->graph, &at));)
        hs__similar_name_add(&similar, backend->tf.OperationName(op));
    return similar.found
               ? hs_error_set(err, HS_NOT_FOUND, "'%s' is not in the graph; did you mean '%s'?", name, similar.found)
               : hs_error_set(err, HS_NOT_FOUND, "'%s' is not in the graph", name);
}

void hs__tf_record_references(hs__tf_backend *backend, TF_Operation *op)
{
    for (int i = 0; i < backend->tf.OperationNumOutputs(op); i++)
        backend->has_references |= hs__tf_is_reference(backend->tf.OperationOutputType((TF_Output){op, i}));
}

hs__tf_output hs__tf_describe(const hs__tf_backend *backend, TF_Output output)
{
    const hs__tf_api *tf = &backend->tf;
    TF_Status *status = tf->NewStatus();
    hs__tf_output found = {.type = tf->OperationOutputType(output), .shape = {.rank = -1}};
    int type = (int)found.type - (hs__tf_is_reference(found.type) ? HS__TF_REFERENCES : 0);
    int rank = tf->GraphGetTensorNumDims(backend->graph, output, status);
    if (hs__dtype_valid(type))
        found.dtype = (hs_dtype)type;
    if (tf->GetCode(status) == TF_OK && rank > HS_MAX_RANK)
        found.rank_too_high = true;
    else if (tf->GetCode(status) == TF_OK && rank >= 0) {
        found.shape.rank = rank;
        tf->GraphGetTensorShape(backend->graph, output, found.shape.dims, rank, status);
    }
    tf->DeleteStatus(status);
    return found;
}

/* Sets *out to the op's hs__tf_op, which is made on the first call and never moves. */
static hs_code get_op(hs__tf_backend *backend, TF_Operation *op, hs__tf_op **out, hs_error *err)
{
    const char *name = backend->tf.OperationName(op);
    size_t at = hs__map_find(&backend->names, name), n = (size_t)backend->tf.OperationNumOutputs(op);
    if (at != HS__NONE) {
        *out = backend->ops[at];
        return HS_OK;
    }
    hs_code code =
        hs__reserve(&backend->env, &backend->ops, &backend->ops_capacity, backend->n_ops + 1, sizeof *backend->ops, err);
    hs__tf_op *made = code ? NULL : hs__alloc(&backend->env, sizeof *made + n * sizeof *made->outputs, 1);
    if (!made)
        return code ? code : hs__no_memory(err, sizeof *made, "an op");
    made->op = op;
    made->n_outputs = n;
    if ((code = hs__map_add(&backend->names, name, backend->n_ops, &made->name, err))) {
        hs__free(&backend->env, made);
        return code;
    }
    for (size_t i = 0; i < n; i++)
        made->outputs[i] = hs__tf_describe(backend, (TF_Output){op, (int)i});
    backend->ops[backend->n_ops++] = made;
    *out = made;
    return HS_OK;
}

void hs__tf_free_ops(hs__tf_backend *backend)
{
    for (size_t i = 0; i < backend->n_ops; i++)
        hs__free(&backend->env, backend->ops[i]);
    hs__free(&backend->env, backend->ops);
    hs__map_free(&backend->names);
}

/* Returns the value of the resource variable with this handle; oper NULL: the op is not such a handle. */
static TF_Output value_of_handle(const hs__tf_backend *backend, TF_Operation *op)
{
    for (size_t i = 0; i < backend->n_variables; i++)
        if (backend->variables[i].is_resource && backend->variables[i].handle == op)
            return backend->variables[i].value;
    return (TF_Output){NULL, 0};
}

hs_code hs__tf_find(void *self, const char *name, hs_node *node, hs_error *err)
{
    hs__tf_backend *backend = self;
    hs__tf_op *known = NULL;
    if (backend->error.code)
        return hs__error_copy(err, &backend->error);
    hs__output_name parsed = hs__parse_output_name(name);
    size_t output = parsed.output;
    bool is_tensor = parsed.has_output && parsed.valid;
    char *op_name = hs__tf_op_name(backend, name);
    if (!op_name)
        return hs__no_memory(err, strlen(name), "a name");
    TF_Operation *op = backend->tf.GraphOperationByName(backend->graph, op_name);
    TF_Output value = op ? value_of_handle(backend, op) : (TF_Output){NULL, 0};
    hs__free(&backend->env, op_name);
    hs_code code = op ? get_op(backend, op, &known, err) : not_found(backend, name, err);
    if (code)
        return code;
    if (is_tensor && output >= known->n_outputs)
        return hs_error_set(err, HS_NOT_FOUND, "'%s' is not in the graph: op '%s' has %zu output%s", name, known->name,
                            known->n_outputs, known->n_outputs == 1 ? "" : "s");
    if (value.oper) {
        is_tensor = true;
        output = (size_t)value.index;
        if ((code = get_op(backend, value.oper, &known, err)))
            return code;
    }
    bool has_value = is_tensor || known->n_outputs == 1;
    *node = (hs_node){.op = known, .output = has_value ? (int32_t)output : -1, .n_outputs = (int32_t)known->n_outputs};
    return HS_OK;
}

hs_code hs__tf_find_output(hs__tf_backend *backend, const char *name, TF_Output *out, hs_error *err)
{
    size_t output = hs__parse_output_name(name).output;
    char *op_name = hs__tf_op_name(backend, name);
    if (!op_name)
        return hs__no_memory(err, strlen(name), "a name");
    TF_Operation *op = backend->tf.GraphOperationByName(backend->graph, op_name);
    hs__free(&backend->env, op_name);
    if (!op)
        return not_found(backend, name, err);
    if (output >= (size_t)backend->tf.OperationNumOutputs(op))
        return hs_error_set(err, HS_NOT_FOUND, "'%s' has no output %zu", backend->tf.OperationName(op), output);
    *out = (TF_Output){op, (int)output};
    return HS_OK;
}

hs_code hs__tf_find_op(hs__tf_backend *backend, const char *name, TF_Operation **op, hs_error *err)
{
    char *op_name = hs__tf_op_name(backend, name);
    if (!op_name)
        return hs__no_memory(err, strlen(name), "a name");
    *op = backend->tf.GraphOperationByName(backend->graph, op_name);
    hs__free(&backend->env, op_name);
    return HS_OK;
}
