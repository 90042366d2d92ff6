/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes variables between runs. */
#include "tensorflow/tf_session.h"

#include <string.h>

void hs__tf_drop_reads(hs__tf_session *session)
{
    if (!session->read_batch)
        return;
    session->read_batch = 0;
    for (size_t i = 0; i < session->n_reads; i++)
        if (session->reads[i].tensor) {
            session->link->backend->tf.DeleteTensor(session->reads[i].tensor);
            session->reads[i].tensor = NULL;
        }
}

hs_code hs__tf_fetch(hs__tf_session *session, const TF_Output *outputs, TF_Tensor **tensors, size_t n, hs_error *err)
{
    const hs__tf_api *tf = &session->link->backend->tf;
    memset((void *)tensors, 0, n * sizeof *tensors);
    hs_code code = hs__tf_check_peers(session->link, err);
    if (code)
        return code;
    tf->SessionRun(session->link->session, NULL, NULL, NULL, 0, outputs, tensors, (int)n, NULL, 0, NULL, session->status);
    return hs__tf_run_result(session, err);
}

/* Caches the tensor as the variable's value, or frees it if that fails. */
static hs_code cache_value(hs__tf_session *session, size_t index, TF_Tensor *tensor, hs_error *err)
{
    const hs__tf_backend *backend = session->link->backend;
    hs__tf_read *read = &session->reads[index];
    hs_code code = hs__reserve(&backend->env, &read->strings, &read->strings_capacity,
                               hs__tf_count_strings(backend, tensor), sizeof *read->strings, err);
    if (!code)
        code = hs__tf_view(backend, tensor, read->strings, backend->variables[index].name, &read->view, err);
    if (code)
        backend->tf.DeleteTensor(tensor);
    else
        read->tensor = tensor;
    return code;
}

static hs_code read_one(hs__tf_session *session, size_t index, hs_error *err)
{
    const hs__tf_variable *variable = &session->link->backend->variables[index];
    TF_Tensor *tensor;
    hs_code code = hs__tf_fetch(session, &variable->value, &tensor, 1, err);
    if (code == HS_NOT_FOUND) /* the resource does not exist yet */
        return hs_error_set(err, HS_FAILED_PRECONDITION, "variable '%s' is not initialized", variable->name);
    return code ? code : cache_value(session, index, tensor, err);
}

/* A save reads one variable after the other, and each run has a cost. So each uncached read fetches twice as many variables
 * as the one before. */

enum { MAX_AHEAD = 64, MAX_BYTES = 64 << 20 };

/* Chooses the next uncached variables from `index` on, up to session->read_batch variables and MAX_BYTES. */
static size_t choose_ahead(const hs__tf_session *session, size_t index, size_t *chosen)
{
    const hs__tf_backend *backend = session->link->backend;
    size_t n = 0;
    int64_t bytes = 0;
    for (size_t i = index; i < session->n_reads && n < session->read_batch; i++) {
        const hs__tf_variable *variable = &backend->variables[i];
        int64_t elements = hs_shape_elements(&variable->shape), size = (int64_t)hs_dtype_size(variable->dtype);
        if (session->reads[i].tensor)
            continue;
        bytes += elements < 0 || elements > MAX_BYTES / size ? MAX_BYTES : elements * size;
        if (n && bytes > MAX_BYTES)
            break;
        chosen[n++] = i;
    }
    return n;
}

/* Fetches the chosen variables in one run. If that fails, none is cached, and the caller reads its variable alone. */
static void read_ahead(hs__tf_session *session, size_t index)
{
    const hs__tf_backend *backend = session->link->backend;
    size_t chosen[MAX_AHEAD], n = choose_ahead(session, index, chosen);
    TF_Output outputs[MAX_AHEAD];
    TF_Tensor *tensors[MAX_AHEAD];
    for (size_t i = 0; i < n; i++)
        outputs[i] = backend->variables[chosen[i]].value;
    if (n < 2 || hs__tf_fetch(session, outputs, tensors, n, NULL))
        return;
    for (size_t i = 0; i < n; i++)
        cache_value(session, chosen[i], tensors[i], NULL);
}

hs_code hs__tf_read_variable(void *self, size_t index, hs_tensor *value, hs_error *err)
{
    hs__tf_session *session = self;
    hs__tf_read *read = &session->reads[index];
    if (!read->tensor) {
        session->read_batch = !session->read_batch              ? 1
                              : session->read_batch < MAX_AHEAD ? 2 * session->read_batch
                                                                : MAX_AHEAD;
        read_ahead(session, index);
    }
    hs_code code = read->tensor ? HS_OK : read_one(session, index, err);
    if (!code)
        *value = read->view;
    return code;
}

/* Returns the memory of a tensor. If the variable is written with it, TensorFlow adopts the tensor without a copy. */
hs_code hs__tf_lend_variable(void *self, size_t index, hs_tensor *memory, hs_error *err)
{
    hs__tf_session *session = self;
    const hs__tf_backend *backend = session->link->backend;
    const hs__tf_variable *variable = &backend->variables[index];
    hs__tf_read *place = &session->reads[index];
    int64_t n = hs_shape_elements(&variable->shape);
    if (variable->dtype == HS_STRING || variable->shape.rank < 0 || n < 0 || !variable->assigns)
        return hs_error_set(err, HS_UNIMPLEMENTED,
                            "the size of variable '%s' is not known, so its memory cannot be returned", variable->name);
    *memory = hs_tensor_of(variable->dtype, variable->shape, NULL);
    if (!place->staging)
        place->staging = backend->tf.AllocateTensor((TF_DataType)memory->dtype, memory->dims, memory->rank, memory->bytes);
    memory->data = place->staging ? backend->tf.TensorData(place->staging) : NULL;
    if (memory->data || !memory->bytes)
        return HS_OK;
    if (place->staging) /* if memory is exhausted, the tensor has no data */
        backend->tf.DeleteTensor(place->staging);
    place->staging = NULL;
    return hs__no_memory(err, memory->bytes, "a tensor");
}

hs_code hs__tf_write_variable(void *self, size_t index, const hs_tensor *value, hs_error *err)
{
    hs__tf_session *session = self;
    const hs__tf_backend *backend = session->link->backend;
    const hs__tf_variable *variable = &backend->variables[index];
    if (!variable->assigns)
        return hs_error_set(err, HS_UNIMPLEMENTED, "cannot set variable '%s': it has no initializer", variable->name);
    hs_shape shape = hs_tensor_shape(value);
    hs_code code = hs__tf_check_shape(&shape, err);
    if (!code)
        code = hs__tf_check_peers(session->link, err);
    if (code)
        return code;
    hs__tf_read *place = &session->reads[index];
    TF_Tensor *tensor = NULL;
    if (place->staging && value->data == backend->tf.TensorData(place->staging)) {
        tensor = place->staging; /* the caller filled its memory */
        place->staging = NULL;
    }
    if (!tensor && !(tensor = hs__tf_copy_in(backend, value, err)))
        return HS_RESOURCE_EXHAUSTED;
    hs__tf_drop_reads(session);
    session->step_known &= index != backend->global_step;
    const TF_Operation *assigns = variable->assigns;
    backend->tf.SessionRun(session->link->session, NULL, &variable->initial, &tensor, 1, NULL, NULL, 0, &assigns, 1, NULL,
                           session->status);
    backend->tf.DeleteTensor(tensor);
    return hs__tf_run_result(session, err);
}
