/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the ops that TensorFlow's Scaffold adds if the graph's collections do not name them: initialize, report variables
 * that are not initialized, merge summaries. */
#include "tensorflow/tf_backend.h"

#include <string.h>

/* Begins an op that runs other ops. */
static TF_OperationDescription *begin_group(hs__tf_builder *builder, const char *name)
{
    return hs__tf_begin_op(builder, "NoOp", name);
}

static void add_initializers(hs__tf_builder *builder, TF_OperationDescription *group, uint64_t local)
{
    const hs__tf_backend *backend = builder->backend;
    for (size_t i = 0; group && i < backend->n_variables; i++) {
        const hs__tf_variable *variable = &backend->variables[i];
        if (variable->assigns && (variable->flags & HS_VARIABLE_LOCAL) == local)
            backend->tf.AddControlInput(group, variable->assigns);
    }
    for (size_t i = 0; group && i < backend->n_unsaved; i++)
        if ((backend->unsaved[i].flags & HS_VARIABLE_LOCAL) == local)
            backend->tf.AddControlInput(group, backend->unsaved[i].op);
}

static TF_Output make_init(hs__tf_builder *builder)
{
    TF_OperationDescription *group = begin_group(builder, "hooksess/init");
    add_initializers(builder, group, 0);
    return hs__tf_finish_op(builder, group);
}

/* Local variables and tables. */
static TF_Output make_local_init(hs__tf_builder *builder)
{
    hs__tf_backend *backend = builder->backend;
    TF_OperationDescription *group = begin_group(builder, "hooksess/local_init");
    add_initializers(builder, group, HS_VARIABLE_LOCAL);
    const hs__tf_item *item;
    for (size_t i = 0; group && (item = hs__tf_find_item(backend, "table_initializer", i)); i++) {
        TF_Operation *table = NULL;
        if (!builder->code)
            builder->code = hs__tf_find_op(backend, item->data, &table, builder->err);
        if (table)
            backend->tf.AddControlInput(group, table);
        else if (!builder->code)
            builder->code =
                hs_error_set(builder->err, HS_NOT_FOUND,
                             "the collection 'table_initializer' lists '%s', which is not in the graph", item->data);
    }
    return hs__tf_finish_op(builder, group);
}

/* Ops of the report. */

/* Adds an op with these inputs, and only the attributes that follow from them. */
static TF_Output add_simple_op(hs__tf_builder *builder, const char *type, const char *name, const TF_Output *inputs,
                               size_t n)
{
    TF_OperationDescription *op = hs__tf_begin_op(builder, type, name);
    for (size_t i = 0; op && i < n; i++)
        builder->backend->tf.AddInput(op, inputs[i]);
    return hs__tf_finish_op(builder, op);
}

static TF_Output add_constant(hs__tf_builder *builder, const char *name, const hs_tensor *value)
{
    hs__tf_backend *backend = builder->backend;
    TF_Tensor *tensor = builder->code ? NULL : hs__tf_copy_in(backend, value, builder->err);
    if (!tensor) {
        if (!builder->code)
            builder->code = HS_RESOURCE_EXHAUSTED;
        return (TF_Output){NULL, 0};
    }
    TF_OperationDescription *op = hs__tf_begin_op(builder, "Const", name);
    if (op) {
        backend->tf.SetAttrType(op, "dtype", (TF_DataType)value->dtype);
        backend->tf.SetAttrTensor(op, "value", tensor, builder->status);
        builder->code = hs__tf_check_status(&backend->tf, builder->status, builder->err);
    }
    TF_Output made = hs__tf_finish_op(builder, op);
    backend->tf.DeleteTensor(tensor);
    return made;
}

/* The op that returns the names of variables that are not initialized. */

typedef struct {
    hs_string *names;
    TF_Output *initialized; /* a bool for each name */
    size_t n;
} report;

static void add_checks(hs__tf_builder *builder, report *r, bool with_local)
{
    const hs__tf_backend *backend = builder->backend;
    for (size_t i = 0; i < backend->n_variables; i++) {
        const hs__tf_variable *variable = &backend->variables[i];
        if (!with_local && (variable->flags & HS_VARIABLE_LOCAL))
            continue;
        const char *type = variable->is_resource ? "VarIsInitializedOp" : "IsVariableInitialized";
        r->names[r->n] = (hs_string){variable->name, strlen(variable->name)};
        r->initialized[r->n++] =
            add_simple_op(builder, type, "hooksess/report/known", &(TF_Output){variable->handle, 0}, 1);
    }
}

/* Adds ops that select the names whose `initialized` is false. */
static TF_Output select_uninitialized(hs__tf_builder *builder, TF_Output names, const report *r)
{
    const hs__tf_backend *backend = builder->backend;
    const int32_t zero = 0;
    TF_OperationDescription *pack = hs__tf_begin_op(builder, "Pack", "hooksess/report/all");
    if (pack)
        backend->tf.AddInputList(pack, r->initialized, (int)r->n);
    TF_Output known = hs__tf_finish_op(builder, pack);
    TF_Output unknown = add_simple_op(builder, "LogicalNot", "hooksess/report/not", &known, 1);
    TF_Output where = add_simple_op(builder, "Where", "hooksess/report/where", &unknown, 1);
    TF_OperationDescription *squeeze = hs__tf_begin_op(builder, "Squeeze", "hooksess/report/indices");
    if (squeeze) {
        backend->tf.AddInput(squeeze, where);
        backend->tf.SetAttrType(squeeze, "T", TF_INT64);
    }
    TF_Output indices = hs__tf_finish_op(builder, squeeze);
    hs_tensor axis = hs_tensor_of(HS_INT32, (hs_shape){.rank = 0}, &zero);
    TF_Output inputs[] = {names, indices, add_constant(builder, "hooksess/report/axis", &axis)};
    return add_simple_op(builder, "GatherV2", "hooksess/report/uninitialized", inputs, 3);
}

static TF_Output make_report(hs__tf_builder *builder, bool with_local)
{
    const hs__tf_backend *backend = builder->backend;
    const hs_env *env = &backend->env;
    size_t room = backend->n_variables + 1;
    report r = {.names = hs__alloc(env, room, sizeof *r.names), .initialized = hs__alloc(env, room, sizeof *r.initialized)};
    TF_Output made = {NULL, 0};
    if (r.names && r.initialized) {
        add_checks(builder, &r, with_local);
        hs_tensor list = hs_tensor_of(HS_STRING, (hs_shape){.rank = 1, .dims = {(int64_t)r.n}}, r.names);
        made = add_constant(builder, "hooksess/report/names", &list);
        if (!builder->code && r.n)
            made = select_uninitialized(builder, made, &r);
    } else {
        builder->code = hs__no_memory(builder->err, room * sizeof *r.names, "a list of variables");
    }
    hs__free(env, r.names);
    hs__free(env, r.initialized);
    return made;
}

/* Summaries. */

static TF_Output make_merge(hs__tf_builder *builder)
{
    hs__tf_backend *backend = builder->backend;
    TF_Output *inputs = NULL, made = {NULL, 0};
    size_t n = 0, capacity = 0;
    const hs__tf_item *item;
    for (size_t i = 0; !builder->code && (item = hs__tf_find_item(backend, HS_SUMMARIES, i)); i++)
        if (!(builder->code = hs__reserve(&backend->env, &inputs, &capacity, n + 1, sizeof *inputs, builder->err)))
            builder->code = hs__tf_find_output(backend, item->data, &inputs[n++], builder->err);
    TF_OperationDescription *merge = n ? hs__tf_begin_op(builder, "MergeSummary", "hooksess/merge_summaries") : NULL;
    if (merge) {
        backend->tf.AddInputList(merge, inputs, (int)n);
        made = hs__tf_finish_op(builder, merge);
    }
    hs__free(&backend->env, inputs);
    return made;
}

static TF_Output make(hs__tf_builder *builder, const char *key)
{
    if (strcmp(key, HS_INIT_OP) == 0)
        return make_init(builder);
    if (strcmp(key, HS_LOCAL_INIT_OP) == 0)
        return make_local_init(builder);
    if (strcmp(key, HS_READY_OP) == 0)
        return make_report(builder, true);
    if (strcmp(key, HS_READY_FOR_LOCAL_INIT_OP) == 0)
        return make_report(builder, false);
    if (strcmp(key, HS_SUMMARY_OP) == 0)
        return make_merge(builder);
    return (TF_Output){NULL, 0};
}

hs_code hs__tf_default_op(void *self, const char *key, const char **name, hs_error *err)
{
    hs__tf_backend *backend = self;
    hs__tf_builder builder;
    *name = NULL;
    if (backend->error.code)
        return hs__error_copy(err, &backend->error);
    hs__tf_builder_begin(&builder, backend, err);
    TF_Output made = make(&builder, key);
    hs_code code = hs__tf_builder_end(&builder);
    if (!code && made.oper)
        *name = backend->tf.OperationName(made.oper);
    return code;
}
