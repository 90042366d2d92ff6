/* SPDX-License-Identifier: Apache-2.0 */
/* Makes hs_savers from the graph's SaverDefs. */
#include "tensorflow/tf_backend.h"

#include <hooksess/checkpoint.h>

#include "graph.pb-c.h"

#include "base/proto.h"

static void release_saver(void *saver)
{
    hs_saver_free(saver);
}

static hs_code add_saver(hs__tf_backend *backend, const Hs__Pb__SaverDef *def, hs_bytes packed, hs_error *err)
{
    const float never = 10000; /* TensorFlow's value for "never" */
    hs_saver_options options =
        HS_INIT(hs_saver_options, .env = &backend->env, .max_to_keep = def->max_to_keep > 0 ? def->max_to_keep : HS_NEVER,
                .saver_def = *def->restore_op_name ? packed : (hs_bytes){NULL, 0}, .graph_saves = backend->graph_saves,
                .graph_restores = backend->graph_restores);
    if (def->keep_checkpoint_every_n_hours > 0 && def->keep_checkpoint_every_n_hours < never)
        options.keep_checkpoint_every_n_hours = (double)def->keep_checkpoint_every_n_hours;
    hs_error error = {0};
    hs_saver *saver = hs_saver_new(&options, &error);
    hs_code code = saver ? HS_OK : hs__error_copy(err, &error);
    if (!code && (code = hs__tf_add_item(
                      backend, &(hs__tf_item){.key = (char *)HS_SAVERS, .item = saver, .release = release_saver}, err)))
        hs_saver_free(saver);
    return code;
}

static hs_code read_def(hs__tf_backend *backend, const void *data, size_t bytes, hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(&backend->env);
    bool no_memory;
    ProtobufCMessage *def = hs__proto_unpack(&hs__pb__saver_def__descriptor, &backend->env, data, bytes, &no_memory);
    if (!def)
        return no_memory ? hs__no_memory(err, bytes, "a SaverDef")
                         : hs_error_set(err, HS_DATA_LOSS, "the meta graph has an invalid SaverDef");
    hs_code code = add_saver(backend, (const void *)def, (hs_bytes){data, bytes}, err);
    protobuf_c_message_free_unpacked(def, &allocator);
    return code;
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
