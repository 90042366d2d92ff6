/* SPDX-License-Identifier: Apache-2.0 */
/* Makes hs_savers from the graph's SaverDefs, and lets them save and restore with the ops that a SaverDef names. */
#include "tensorflow/tf_backend.h"

#include <hooksess/checkpoint.h>

#include "base/proto.h"

#include <string.h>

/* The ops of a SaverDef. */

/* Runs an op for the files that begin with `prefix`. */
static hs_code run_op(const Hs__Pb__SaverDef *def, const char *op, hs_raw_session *session, const char *prefix,
                      hs_error *err)
{
    const hs_string text = {prefix, strlen(prefix)};
    const char *const names[] = {op, NULL};
    const hs_feed feeds[] = {{def->filename_tensor_name, hs_tensor_of(HS_STRING, HS_SCALAR, &text)}, {.name = NULL}};
    return hs_raw_session_run(session, HS_RUN_ARGS(.names = names, .feeds = feeds), NULL, err);
}

/* hs_variables_fn */
static hs_code save_variables(void *user, hs_raw_session *session, const char *prefix, hs_error *err)
{
    const Hs__Pb__SaverDef *def = user;
    int64_t modified_ns;
    hs_code code = run_op(def, def->save_tensor_name, session, prefix, err);
    if (!code) /* the op has written a checkpoint */
        code = hs_checkpoint_mtime(hs_backend_env(hs_raw_session_backend(session)), prefix, &modified_ns, err);
    if (code)
        hs_error_prefix(err, "the graph's save op '%s' failed", def->save_tensor_name);
    return code;
}

/* hs_variables_fn */
static hs_code restore_variables(void *user, hs_raw_session *session, const char *prefix, hs_error *err)
{
    const Hs__Pb__SaverDef *def = user;
    if (strpbrk(prefix, "*?[\\"))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "cannot restore '%s' with graph_restores: the graph's op takes *, ?, [ and \\ as a pattern; rename "
            "the checkpoint, or leave graph_restores out",
            prefix);
    hs_code code = run_op(def, def->restore_op_name, session, prefix, err);
    if (code)
        hs_error_prefix(err, "the graph's restore op '%s' failed", def->restore_op_name);
    return code == HS_INVALID_ARGUMENT ? HS_FAILED_PRECONDITION : code; /* the op may have set some variables */
}

static hs_code lacks(const char *option, const char *what, hs_error *err)
{
    return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_tensorflow_options.%s: the SaverDef has no %s", option, what);
}

/* Files of format V1 have neither an index nor checksums. */
static hs_code check_def(const hs__tf_backend *backend, const Hs__Pb__SaverDef *def, hs_error *err)
{
    const char *option = backend->graph_saves ? "graph_saves" : "graph_restores";
    if (!*def->filename_tensor_name)
        return lacks(option, "filename_tensor_name", err);
    if (backend->graph_saves && !*def->save_tensor_name)
        return lacks(option, "save_tensor_name", err);
    if (backend->graph_restores && !*def->restore_op_name)
        return lacks("graph_restores", "restore_op_name", err);
    if (def->version == HS__PB__SAVER_DEF__CHECKPOINT_FORMAT_VERSION__V2)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT,
                        "hs_tensorflow_options.%s: the SaverDef has TensorFlow's checkpoint format V1, but only V2 is "
                        "supported; export the graph with a Saver of write_version V2, or leave graph_saves and "
                        "graph_restores out",
                        option);
}

/* Savers. */

static void release_saver(void *saver)
{
    hs_saver_free(saver);
}

static hs_code add_saver(hs__tf_backend *backend, Hs__Pb__SaverDef *def, hs_bytes packed, hs_error *err)
{
    const float never = 10000; /* TensorFlow's value for "never" */
    bool by_ops = backend->graph_saves || backend->graph_restores;
    hs_code code = by_ops ? check_def(backend, def, err) : HS_OK;
    if (code)
        return code;
    hs_saver_options options =
        HS_INIT(hs_saver_options, .env = &backend->env, .max_to_keep = def->max_to_keep > 0 ? def->max_to_keep : HS_NEVER,
                .saver_def = *def->restore_op_name ? packed : (hs_bytes){NULL, 0},
                .save_variables = backend->graph_saves ? save_variables : NULL,
                .restore_variables = backend->graph_restores ? restore_variables : NULL, .user = def);
    if (def->keep_checkpoint_every_n_hours > 0 && def->keep_checkpoint_every_n_hours < never)
        options.keep_checkpoint_every_n_hours = (double)def->keep_checkpoint_every_n_hours;
    hs_error error = {0};
    hs_saver *saver = hs_saver_new(&options, &error);
    if (!saver)
        return hs__error_copy(err, &error);
    if ((code = hs__tf_add_item(backend, &(hs__tf_item){.key = (char *)HS_SAVERS, .item = saver, .release = release_saver},
                                err)))
        hs_saver_free(saver);
    return code;
}

/* The backend keeps the SaverDef for the saver. */
static hs_code read_def(hs__tf_backend *backend, const void *data, size_t bytes, hs_error *err)
{
    bool no_memory;
    hs_code code = hs__reserve(&backend->env, &backend->saver_defs, &backend->saver_defs_capacity,
                               backend->n_saver_defs + 1, sizeof *backend->saver_defs, err);
    if (code)
        return code;
    ProtobufCMessage *def = hs__proto_unpack(&hs__pb__saver_def__descriptor, &backend->env, data, bytes, &no_memory);
    if (!def)
        return no_memory ? hs__no_memory(err, bytes, "a SaverDef")
                         : hs_error_set(err, HS_DATA_LOSS, "the meta graph has an invalid SaverDef");
    backend->saver_defs[backend->n_saver_defs++] = (Hs__Pb__SaverDef *)def;
    return add_saver(backend, (Hs__Pb__SaverDef *)def, (hs_bytes){data, bytes}, err);
}

void hs__tf_free_saver_defs(hs__tf_backend *backend)
{
    ProtobufCAllocator allocator = hs__proto_allocator(&backend->env);
    for (size_t i = 0; i < backend->n_saver_defs; i++)
        protobuf_c_message_free_unpacked(&backend->saver_defs[i]->base, &allocator);
    hs__free(&backend->env, (void *)backend->saver_defs);
}

hs_code hs__tf_make_savers(hs__tf_backend *backend, hs_error *err)
{
    hs_code code = HS_OK;
    const hs__tf_item *item;
    size_t n = 0;
    for (; !code && (item = hs__tf_find_item(backend, HS_SAVERS, n)); n++)
        code = read_def(backend, item->data, item->bytes, err);
    if (!code && !n && backend->saver_def.size)
        code = read_def(backend, backend->saver_def.data, backend->saver_def.size, err);
    return code;
}

hs_code hs__tf_check_savers(hs__tf_backend *backend, hs_error *err)
{
    if (!backend->graph_saves && !backend->graph_restores)
        return HS_OK;
    const char *option = backend->graph_saves ? "graph_saves" : "graph_restores";
    if (!backend->saver_def.size && !hs__tf_find_item(backend, HS_SAVERS, 0))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_tensorflow_options.%s: the graph has no SaverDef; create a tf.train.Saver before you "
                            "export it as a MetaGraphDef",
                            option);
    backend->made_savers = true;
    return hs__tf_make_savers(backend, err);
}
