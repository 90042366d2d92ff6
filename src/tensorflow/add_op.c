/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that hooks add to the graph. */
#include "tensorflow/add_op.h"

#include <string.h>

/* Names that are not in the graph are found before anything is begun: what was begun must be finished. */
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
    hs_code code = hs__tf_add_attrs(builder, op, def->attrs);
    hs_error kept = {0};
    if (code && builder->err)
        kept = *builder->err;
    for (int i = 0; code && i < 2; i++)
        tf->AddInputList(op, NULL, 0); /* what was begun must be finished: with too many inputs nothing comes of it */
    hs__tf_finish_op(builder, op);
    if (code && builder->err)
        *builder->err = kept;
    return code ? code : builder->code;
}

#define FIRST_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789."

/* TensorFlow takes any name here, and could not read the graph again. */
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
    if (!code && !(code = hs__tf_builder_begin(&builder, backend, err))) {
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
