/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/graph_saver.h"

#include "backends/raw_session.h"
#include "base/proto.h"

#include <string.h>

static hs_code unpack(hs__graph_saver *graph, hs_bytes def, hs_error *err)
{
    bool no_memory;
    if (!def.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_options.saver_def.data is NULL, but its size is not 0");
    graph->def =
        (Hs__Pb__SaverDef *)hs__proto_unpack(&hs__pb__saver_def__descriptor, graph->env, def.data, def.size, &no_memory);
    if (graph->def)
        return HS_OK;
    return no_memory ? hs__no_memory(err, def.size, "a SaverDef")
                     : hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_options.saver_def is not a SaverDef");
}

static hs_code lacks(const char *option, const char *what, hs_error *err)
{
    return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_options.%s: the SaverDef has no %s", option, what);
}

/* Files of format V1 have neither an index nor checksums. */
static hs_code check_def(const hs__graph_saver *graph, hs_error *err)
{
    const Hs__Pb__SaverDef *def = graph->def;
    const char *option = graph->saves ? "graph_saves" : "graph_restores";
    if (!*def->filename_tensor_name)
        return lacks(option, "filename_tensor_name", err);
    if (graph->saves && !*def->save_tensor_name)
        return lacks(option, "save_tensor_name", err);
    if (graph->restores && !*def->restore_op_name)
        return lacks("graph_restores", "restore_op_name", err);
    if (def->version == HS__PB__SAVER_DEF__CHECKPOINT_FORMAT_VERSION__V2)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT,
                        "hs_saver_options.%s: the SaverDef has TensorFlow's checkpoint format V1, but only V2 is "
                        "supported; export the graph with a Saver of write_version V2, or leave graph_saves and "
                        "graph_restores out",
                        option);
}

hs_code hs__graph_saver_init(hs__graph_saver *graph, const hs_env *env, const hs_saver_options *options, hs_error *err)
{
    *graph = (hs__graph_saver){.env = env, .saves = options->graph_saves, .restores = options->graph_restores};
    bool used = graph->saves || graph->restores;
    const char *option = graph->saves ? "graph_saves" : "graph_restores";
    if (used && !options->saver_def.size)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_options.%s: saver_def is missing", option);
    if (used && (options->variables || options->names))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_saver_options.%s excludes variables and names, because the graph's ops select the "
                            "variables",
                            option);
    hs_code code = options->saver_def.size ? unpack(graph, options->saver_def, err) : HS_OK;
    return !code && used ? check_def(graph, err) : code;
}

void hs__graph_saver_free(hs__graph_saver *graph)
{
    if (!graph->def)
        return;
    ProtobufCAllocator allocator = hs__proto_allocator(graph->env);
    protobuf_c_message_free_unpacked(&graph->def->base, &allocator);
    graph->def = NULL;
}

void hs__graph_saver_pack(const hs__graph_saver *graph, const Hs__Pb__SaverDef *kept, hs__buffer *out)
{
    Hs__Pb__SaverDef def = *graph->def;
    def.max_to_keep = kept->max_to_keep;
    def.keep_checkpoint_every_n_hours = kept->keep_checkpoint_every_n_hours;
    hs__proto_pack(&def.base, out);
}

hs_code hs__graph_saver_run(const hs__graph_saver *graph, hs_raw_session *session, const char *name, const char *prefix,
                            hs_error *err)
{
    const hs_string text = {prefix, strlen(prefix)};
    const char *const names[] = {name, NULL};
    const hs_feed feeds[] = {{graph->def->filename_tensor_name, hs_tensor_of(HS_STRING, HS_SCALAR, &text)}, {.name = NULL}};
    return session->owner_ops->run(session, HS_RUN_ARGS(.names = names, .feeds = feeds), NULL, err);
}

hs_code hs__graph_restore(const hs__graph_saver *graph, hs_raw_session *session, const char *prefix, hs_error *err)
{
    hs_code code = hs__graph_saver_run(graph, session, graph->def->restore_op_name, prefix, err);
    if (code)
        hs_error_prefix(err,
                        "the graph's restore op '%s' failed; do not train with this session: variables may be partly "
                        "restored",
                        graph->def->restore_op_name);
    return code;
}
