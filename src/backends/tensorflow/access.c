/* SPDX-License-Identifier: Apache-2.0 */
/* Variables from outside of runs. */
#include "backends/tensorflow/session.h"

#include <string.h>

void hs__tf_drop_reads(hs__tf_session *session)
{
    for (size_t i = 0; i < session->n_reads; i++)
        if (session->reads[i].tensor) {
            session->link->backend->tf.DeleteTensor(session->reads[i].tensor);
            session->reads[i].tensor = NULL;
        }
}

/* Fetches one output. */
static hs_code fetch(hs__tf_session *session, TF_Output output, TF_Tensor **tensor, hs_error *err)
{
    const hs__tf_api *tf = &session->link->backend->tf;
    *tensor = NULL;
    tf->SessionRun(session->link->session, NULL, NULL, NULL, 0, &output, tensor, 1, NULL, 0, NULL, session->status);
    return hs__tf_settle(tf, session->status, err);
}

static hs_code view(hs__tf_session *session, hs__tf_read *read, const char *name, hs_error *err)
{
    const hs__tf_backend *backend = session->link->backend;
    hs_code code = hs__reserve(&backend->env, &read->strings, &read->strings_capacity,
                               hs__tf_count_strings(backend, read->tensor), sizeof *read->strings, err);
    return code ? code : hs__tf_view(backend, read->tensor, read->strings, name, &read->view, err);
}

hs_code hs__tf_read_variable(void *self, size_t index, hs_tensor *value, hs_error *err)
{
    hs__tf_session *session = self;
    const hs__tf_variable *variable = &session->link->backend->variables[index];
    hs__tf_read *read = &session->reads[index];
    hs_code code = HS_OK;
    if (!read->tensor) {
        code = fetch(session, variable->value, &read->tensor, err);
        if (code == HS_NOT_FOUND) /* a resource that nobody has made yet */
            code = hs_error_set(err, HS_FAILED_PRECONDITION, "variable '%s' has not been initialised", variable->name);
        if (!code && (code = view(session, read, variable->name, err))) {
            session->link->backend->tf.DeleteTensor(read->tensor);
            read->tensor = NULL;
        }
    }
    if (!code)
        *value = read->view;
    return code;
}

/* A tensor that is handed over whole when it is written: TensorFlow makes it the variable's memory. */
hs_code hs__tf_lend_variable(void *self, size_t index, hs_tensor *memory, hs_error *err)
{
    hs__tf_session *session = self;
    const hs__tf_backend *backend = session->link->backend;
    const hs__tf_variable *variable = &backend->variables[index];
    hs__tf_read *place = &session->reads[index];
    int64_t n = hs_shape_elements(&variable->shape);
    if (variable->dtype == HS_STRING || variable->shape.rank < 0 || n < 0 || !variable->assigns)
        return hs_error_set(err, HS_UNIMPLEMENTED, "variable '%s' has no memory of a known size", variable->name);
    *memory = hs_tensor_of(variable->dtype, variable->shape, NULL);
    if (!place->lent)
        place->lent = backend->tf.AllocateTensor((TF_DataType)memory->dtype, memory->dims, memory->rank, memory->bytes);
    if (!place->lent)
        return hs__no_memory(err, memory->bytes, "a tensor");
    memory->data = backend->tf.TensorData(place->lent);
    return HS_OK;
}

/* What was lent, if this is it. The caller's to delete. */
static TF_Tensor *take_lent(const hs__tf_backend *backend, hs__tf_read *place, const hs_tensor *value)
{
    TF_Tensor *lent = place->lent;
    if (!lent || value->data != backend->tf.TensorData(lent))
        return NULL;
    place->lent = NULL;
    return lent;
}

hs_code hs__tf_write_variable(void *self, size_t index, const hs_tensor *value, hs_error *err)
{
    hs__tf_session *session = self;
    const hs__tf_backend *backend = session->link->backend;
    const hs__tf_variable *variable = &backend->variables[index];
    if (!variable->assigns)
        return hs_error_set(err, HS_UNIMPLEMENTED, "variable '%s' has no initializer that could set it", variable->name);
    TF_Tensor *tensor = take_lent(backend, &session->reads[index], value);
    if (!tensor && !(tensor = hs__tf_copy_in(backend, value, err)))
        return HS_RESOURCE_EXHAUSTED;
    hs__tf_drop_reads(session);
    const TF_Operation *assigns = variable->assigns;
    backend->tf.SessionRun(session->link->session, NULL, &variable->initial, &tensor, 1, NULL, NULL, 0, &assigns, 1, NULL,
                           session->status);
    backend->tf.DeleteTensor(tensor);
    return hs__tf_settle(&backend->tf, session->status, err);
}

hs_code hs__tf_read_step(void *self, int64_t *step, hs_error *err)
{
    hs__tf_session *session = self;
    const hs__tf_backend *backend = session->link->backend;
    TF_Tensor *tensor;
    if (backend->global_step == HS__NONE)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "the graph has no global step");
    const hs__tf_variable *variable = &backend->variables[backend->global_step];
    hs_code code = fetch(session, variable->value, &tensor, err);
    if (code == HS_NOT_FOUND || code == HS_FAILED_PRECONDITION)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "the global step has not been initialised");
    if (code)
        return code;
    int32_t narrow;
    if (backend->tf.TensorByteSize(tensor) == sizeof narrow) {
        memcpy(&narrow, backend->tf.TensorData(tensor), sizeof narrow);
        *step = narrow;
    } else {
        memcpy(step, backend->tf.TensorData(tensor), sizeof *step);
    }
    backend->tf.DeleteTensor(tensor);
    return HS_OK;
}
