/* SPDX-License-Identifier: Apache-2.0 */
/* The backend's graph as files: graph.pbtxt, and what goes into a .meta file. */
#include <hooksess/checkpoint.h>

#include "graph.pb-c.h"

#include "base/files.h"
#include "checkpoint/saver.h"
#include "formats/proto_text.h"

static hs_code graph_text(const hs_env *env, hs_bytes graph, hs__buffer *text, hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(env);
    bool no_memory;
    ProtobufCMessage *def = hs__proto_unpack(&hs__pb__graph_def__descriptor, env, graph.data, graph.size, &no_memory);
    if (!def)
        return no_memory ? hs__no_memory(err, graph.size, "the backend's graph")
                         : hs_error_set(err, HS_INTERNAL, "the backend's graph is no GraphDef");
    hs__proto_text(def, text);
    protobuf_c_message_free_unpacked(def, &allocator);
    return hs__buffer_check(text, "the graph's text", err);
}

hs_code hs_write_graph(hs_backend backend, const char *directory, const char *name, bool as_text, hs_error *err)
{
    hs_env env;
    hs_bytes graph;
    hs_code code = hs__env_take(&env, hs_backend_env(backend), err);
    if (code || (code = hs_backend_graph_def(backend, &graph, err)))
        return code;
    if (!directory || !name || !*name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_write_graph: directory or name is missing");
    hs__buffer text;
    hs__buffer_init(&text, &env);
    char *path = hs__path_join(&env, directory, name);
    if (!path)
        code = hs__no_memory(err, 1, "a path");
    if (!code && as_text && !(code = graph_text(&env, graph, &text, err)))
        graph = (hs_bytes){text.data, text.size};
    if (!code && (!*directory || !(code = hs__make_directories(&env, directory, err))))
        code = hs__file_replace(&env, path, graph.data, graph.size, err);
    hs__buffer_free(&text);
    hs__free(&env, path);
    if (!code)
        hs_error_clear(err);
    return code;
}

/* For whoever makes a Saver of it. */
static Hs__Pb__SaverDef describe(const hs_saver *saver)
{
    const float NEVER_HOURS = 10000; /* as TensorFlow writes it; with 0 its Saver deletes nothing any more */
    Hs__Pb__SaverDef def = HS__PB__SAVER_DEF__INIT;
    def.version = HS__PB__SAVER_DEF__CHECKPOINT_FORMAT_VERSION__V2;
    def.sharded = saver->shards > 1;
    if (saver->max_to_keep != HS_NEVER)
        def.max_to_keep = (int32_t)(saver->max_to_keep < INT32_MAX ? saver->max_to_keep : INT32_MAX);
    def.keep_checkpoint_every_n_hours = saver->keep_every_secs > 0 ? (float)(saver->keep_every_secs / 3600) : NEVER_HOURS;
    return def;
}

hs_code hs_export_meta_graph(hs_backend backend, const hs_saver *saver, hs_bytes *out, hs_error *err)
{
    hs_env env;
    hs_bytes graph;
    if (!out)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_export_meta_graph: no place for the graph");
    *out = (hs_bytes){NULL, 0};
    hs_code code = hs__env_take(&env, hs_backend_env(backend), err);
    if (code || (code = hs_backend_graph_def(backend, &graph, err)))
        return code;
    Hs__Pb__MetaGraphDef__MetaInfoDef info = HS__PB__META_GRAPH_DEF__META_INFO_DEF__INIT;
    Hs__Pb__SaverDef saver_def = HS__PB__SAVER_DEF__INIT;
    Hs__Pb__MetaGraphDef meta = HS__PB__META_GRAPH_DEF__INIT;
    meta.meta_info_def = &info;
    if (saver) {
        saver_def = describe(saver);
        meta.saver_def = &saver_def;
    }
    hs__buffer bytes;
    hs__buffer_init(&bytes, &env);
    hs__proto_pack(&meta.base, &bytes);
    hs__proto_put_bytes(&bytes, 2, graph.data, graph.size); /* MetaGraphDef.graph_def */
    if ((code = hs__buffer_check(&bytes, "the meta graph", err))) {
        hs__buffer_free(&bytes);
        return code;
    }
    *out = (hs_bytes){bytes.data, bytes.size};
    hs_error_clear(err);
    return HS_OK;
}
