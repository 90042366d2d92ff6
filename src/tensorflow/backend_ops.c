/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of TensorFlow's graph as a backend. */
#include "tensorflow/tf_session.h"

#include <string.h>

static const hs_env *tf_env(void *self)
{
    return &((hs__tf_backend *)self)->env;
}

static hs_code tf_status(void *self, hs_error *err)
{
    const hs__tf_backend *backend = self;
    return backend->error.code ? hs__error_copy(err, &backend->error) : HS_OK;
}

static hs_code tf_finalize(void *self, bool finalized, hs_error *err)
{
    hs__tf_backend *backend = self;
    hs_code code = tf_status(self, err);
    if (!code)
        backend->finalized = finalized;
    return code;
}

static bool tf_finalized(void *self)
{
    return ((hs__tf_backend *)self)->finalized;
}

static const char *tf_step_name(void *self)
{
    const hs__tf_backend *backend = self;
    return backend->global_step == HS__NONE ? NULL : backend->variables[backend->global_step].name;
}

/* Makes the savers or queue runners of the graph when a caller first reads their collection. A failure is logged here; if a
 * queue runner cannot be made, opening a session also fails. */
static void make_objects(hs__tf_backend *backend, const char *key)
{
    hs_error error = {0};
    if (backend->error.code)
        return;
    if (strcmp(key, HS_QUEUE_RUNNERS) == 0) {
        hs__tf_make_queue_runners(backend, hs__tf_is_remote(backend, NULL), &error);
    } else if (strcmp(key, HS_SAVERS) == 0 && !backend->made_savers) {
        backend->made_savers = true;
        hs__tf_make_savers(backend, &error);
    }
    if (error.code)
        hs_log(&backend->env, HS_LOG_WARNING, "the graph's collection '%s': %s", key, error.message);
}

static bool tf_collection_item(void *self, const char *key, size_t index, const void **item)
{
    if (!index || strcmp(key, HS_QUEUE_RUNNERS) != 0)
        make_objects(self, key);
    return hs__tf_collection_item(self, key, index, item);
}

static hs_code tf_graph_def(void *self, hs_bytes *out, hs_error *err)
{
    hs__tf_backend *backend = self;
    hs_code code = tf_status(self, err);
    if (code)
        return code;
    const hs__tf_api *tf = &backend->tf;
    TF_Status *status = tf->NewStatus();
    if (backend->graph_def)
        tf->DeleteBuffer(backend->graph_def);
    backend->graph_def = tf->NewBuffer();
    tf->GraphToGraphDef(backend->graph, backend->graph_def, status);
    code = hs__tf_check_status(tf, status, err);
    tf->DeleteStatus(status);
    *out = (hs_bytes){backend->graph_def->data, backend->graph_def->length};
    return code;
}

#define TF_OPS(value_flags)                                                                                                \
    HS_INIT(hs_backend_ops, .name = "tensorflow", .flags = (value_flags), .env = tf_env, .status = tf_status,              \
            .find = hs__tf_find, .finalize = tf_finalize, .finalized = tf_finalized, .global_step_name = tf_step_name,     \
            .collection_item = tf_collection_item, .add_to_collection = hs__tf_add_to_collection,                          \
            .default_op = hs__tf_default_op, .variable = hs__tf_variable_at, .graph_def = tf_graph_def,                    \
            .open = hs__tf_session_open, .run = hs__tf_session_run, .close = hs__tf_session_close,                         \
            .read_variable = hs__tf_read_variable, .write_variable = hs__tf_write_variable,                                \
            .lend_variable = hs__tf_lend_variable, .global_step = hs__tf_read_step, .fork = hs__tf_session_fork,           \
            .variable_slice = hs__tf_variable_slice, .meta_graph = hs__tf_meta_graph)

/* The value of a reference is the variable's memory, which the next run of any session may change. */
const hs_backend_ops hs__tf_ops = TF_OPS(0);
const hs_backend_ops hs__tf_keeping_ops = TF_OPS(HS_BACKEND_KEEPS_VALUES | HS_BACKEND_KEEPS_VIEWS);

hs__tf_backend *hs__tf_of(hs_backend backend)
{
    return backend.ops == &hs__tf_ops || backend.ops == &hs__tf_keeping_ops ? backend.self : NULL;
}
