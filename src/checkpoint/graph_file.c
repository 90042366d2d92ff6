/* SPDX-License-Identifier: Apache-2.0 */
/* Files with the backend's graph: graph.pbtxt, and the contents of .meta files. */
#include <hooksess/checkpoint.h>

#include "graph.pb-c.h"

#include "backends/backend.h"
#include "base/files.h"
#include "base/proto.h"
#include "checkpoint/saver.h"
#include "formats/proto_text.h"

static hs_code graph_text(const hs_env *env, hs_bytes graph, hs__buffer *text, hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(env);
    bool no_memory;
    ProtobufCMessage *def = hs__proto_unpack(&hs__pb__graph_def__descriptor, env, graph.data, graph.size, &no_memory);
    if (!def)
        return no_memory ? hs__no_memory(err, graph.size, "the backend's graph")
                         : hs_error_set(err, HS_INTERNAL, "the backend's graph is not a GraphDef");
    hs__proto_text(def, text);
    protobuf_c_message_free_unpacked(def, &allocator);
    return hs__buffer_check(text, "the graph's text", err);
}

hs_code hs_backend_write_graph(hs_backend backend, const char *directory, const char *name, bool as_text, hs_error *err)
{
    hs_env env;
    hs_bytes graph;
    hs_code code = hs__env_copy(&env, hs_backend_env(backend), err);
    if (code || (code = hs_backend_graph_def(backend, &graph, err)))
        return code;
    if (!directory || !name || !*name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_backend_write_graph: directory or name is missing");
    hs__buffer text;
    hs__buffer_init(&text, &env);
    char *path = hs__path_join(&env, directory, name);
    if (!path)
        code = hs__no_memory(err, 1, "a path");
    if (!code && as_text && !(code = graph_text(&env, graph, &text, err)))
        graph = (hs_bytes){text.data, text.size};
    if (!code && (!*directory || !(code = hs__make_directories(&env, directory, err))))
        code = hs__file_replace(&env, path, graph.data, graph.size, true, err);
    hs__buffer_free(&text);
    hs__free(&env, path);
    if (!code)
        hs_error_clear(err);
    return code;
}

/* For a program that imports the meta graph into TensorFlow, and makes a Saver of it. A SaverDef without ops is omitted if
 * TensorFlow can run the graph: the program that imports it makes a Saver itself. */
static void put_saver_def(const hs_saver *saver, bool runs_elsewhere, hs__buffer *out)
{
    const uint32_t FIELD = 3;        /* MetaGraphDef.saver_def */
    const float NEVER_HOURS = 10000; /* TensorFlow's "never"; with 0 its Saver would delete nothing */
    Hs__Pb__SaverDef def = HS__PB__SAVER_DEF__INIT;
    if (saver->saver_def.size) {
        hs__proto_put_bytes(out, FIELD, saver->saver_def.data, saver->saver_def.size);
        return;
    }
    if (runs_elsewhere)
        return;
    def.version = HS__PB__SAVER_DEF__CHECKPOINT_FORMAT_VERSION__V2;
    def.sharded = saver->shards > 1;
    if (saver->max_to_keep != HS_NEVER)
        def.max_to_keep = (int32_t)(saver->max_to_keep < INT32_MAX ? saver->max_to_keep : INT32_MAX);
    def.keep_checkpoint_every_n_hours = saver->keep_every_secs > 0 ? (float)(saver->keep_every_secs / 3600) : NEVER_HOURS;
    hs__proto_put_message(out, FIELD, &def.base);
}

hs_code hs__meta_graph(const hs_env *env, hs_backend backend, const hs_saver *saver, hs_bytes *out, hs_error *err)
{
    const uint32_t META_INFO_DEF = 1, GRAPH_DEF = 2; /* fields of MetaGraphDef */
    Hs__Pb__MetaGraphDef__MetaInfoDef info = HS__PB__META_GRAPH_DEF__META_INFO_DEF__INIT;
    hs__buffer bytes;
    hs_bytes graph, rest;
    hs_code code = hs__backend_meta_graph(backend, &rest, err);
    const bool has_rest = !code;
    hs__buffer_init(&bytes, env);
    if (!code || code == HS_UNIMPLEMENTED) {
        hs__proto_put_message(&bytes, META_INFO_DEF, &info.base); /* `rest` may have more of it */
        if (has_rest)
            hs__buffer_append(&bytes, rest.data, rest.size);
        if (saver)
            put_saver_def(saver, has_rest, &bytes);
        if (!(code = hs_backend_graph_def(backend, &graph, err))) {
            hs__proto_put_bytes(&bytes, GRAPH_DEF, graph.data, graph.size);
            code = hs__buffer_check(&bytes, "the meta graph", err);
        }
    }
    if (code)
        hs__buffer_free(&bytes);
    else
        hs_error_clear(err);
    *out = code ? (hs_bytes){NULL, 0} : (hs_bytes){bytes.data, bytes.size};
    return code;
}

hs_code hs_backend_export_meta_graph(hs_backend backend, const hs_saver *saver, hs_bytes *out, hs_error *err)
{
    hs_env env;
    if (!out)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_backend_export_meta_graph: out is NULL");
    *out = (hs_bytes){NULL, 0};
    hs_code code = hs__env_copy(&env, hs_backend_env(backend), err);
    return code ? code : hs__meta_graph(&env, backend, saver, out, err);
}
