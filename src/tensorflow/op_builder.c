/* SPDX-License-Identifier: Apache-2.0 */
/* Adds ops to the graph. */
#include "tensorflow/tf_backend.h"

#include <string.h>

void hs__tf_builder_begin(hs__tf_builder *builder, hs__tf_backend *backend, hs_error *err)
{
    *builder = (hs__tf_builder){.backend = backend, .err = err, .status = backend->tf.NewStatus()};
}

hs_code hs__tf_builder_end(hs__tf_builder *builder)
{
    builder->backend->tf.DeleteStatus(builder->status);
    return builder->code;
}

/* Appends a number if the graph has the name: it may have been exported with ops that the library added. */
static char *make_unique_name(const hs__tf_backend *backend, const char *name)
{
    char *found = hs__strdup(&backend->env, name);
    for (unsigned i = 1; found && backend->tf.GraphOperationByName(backend->graph, found); i++) {
        hs__free(&backend->env, found);
        found = hs__format(&backend->env, "%s_%u", name, i);
    }
    return found;
}

TF_OperationDescription *hs__tf_begin_op(hs__tf_builder *builder, const char *type, const char *name)
{
    if (builder->code)
        return NULL;
    hs__tf_backend *backend = builder->backend;
    char *unique = make_unique_name(backend, name);
    if (!unique) {
        builder->code = hs__no_memory(builder->err, strlen(name), "a name");
        return NULL;
    }
    TF_OperationDescription *op = backend->tf.NewOperation(backend->graph, type, unique);
    hs__free(&backend->env, unique);
    return op;
}

TF_Output hs__tf_finish_op(hs__tf_builder *builder, TF_OperationDescription *op)
{
    if (!op)
        return (TF_Output){NULL, 0};
    hs__tf_backend *backend = builder->backend;
    TF_Operation *made = backend->tf.FinishOperation(op, builder->status);
    backend->generation++;
    hs_code code = hs__tf_check_status(&backend->tf, builder->status, builder->err);
    if (!builder->code)
        builder->code = code;
    if (!code)
        hs__tf_record_references(backend, made);
    return (TF_Output){code ? NULL : made, 0};
}

TF_OperationDescription *hs__tf_begin_read(hs__tf_builder *builder, const char *name, TF_Operation *handle,
                                           TF_DataType dtype, bool is_resource)
{
    const hs__tf_api *tf = &builder->backend->tf;
    TF_OperationDescription *op = hs__tf_begin_op(builder, is_resource ? "ReadVariableOp" : "Identity", name);
    if (!op)
        return NULL;
    tf->AddInput(op, (TF_Output){handle, 0});
    if (is_resource)
        tf->SetAttrType(op, "dtype", dtype);
    /* Otherwise TensorFlow may read on another device, and send the value before the read's control inputs have run. */
    tf->ColocateWith(op, handle);
    return op;
}
