/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/graph_saver.h"

#include "backends/raw_session.h"
#include "base/files.h"
#include "base/proto.h"
#include "formats/bundle.h"
#include "formats/bundle_merge.h"

#include <string.h>

/* The SaverDef. */

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

/* Runs the op `name` for the files that begin with `prefix`. */
static hs_code run_op(const hs__graph_saver *graph, hs_raw_session *session, const char *name, const char *prefix,
                      hs_error *err)
{
    const hs_string text = {prefix, strlen(prefix)};
    const char *const names[] = {name, NULL};
    const hs_feed feeds[] = {{graph->def->filename_tensor_name, hs_tensor_of(HS_STRING, HS_SCALAR, &text)}, {.name = NULL}};
    return session->owner_ops->run(session, HS_RUN_ARGS(.names = names, .feeds = feeds), NULL, err);
}

hs_code hs__graph_restore(const hs__graph_saver *graph, hs_raw_session *session, const char *prefix, hs_error *err)
{
    hs_code code = run_op(graph, session, graph->def->restore_op_name, prefix, err);
    if (code)
        hs_error_prefix(err,
                        "the graph's restore op '%s' failed; do not train with this session: variables may be partly "
                        "restored",
                        graph->def->restore_op_name);
    return code;
}

/* Saving. The op writes one temporary bundle, this file writes the states to another one, and one index is made of
 * both. Data files are renamed, not copied. */

typedef struct {
    const hs__graph_saver *graph;
    const hs__save_list *list;
    hs__new_checkpoint *files;
    const hs_env *env;
    char *graph_prefix, *state_prefix; /* of the two bundles */
    hs__bundle_merge merge;
    hs__nonfinite_report *report;
} saving;

/* Verifying the files of the op. */

typedef struct {
    hs__checked checked;
    hs_dtype dtype;
    size_t at;
} scan;

static hs_code scan_piece(void *user, const void *piece, size_t bytes, hs_error *err)
{
    scan *s = user;
    (void)err;
    hs__check_piece(&s->checked, s->dtype, piece, s->at, bytes);
    s->at += bytes;
    return HS_OK;
}

static hs_code report_nonfinite(const saving *s, const char *name, const hs_nonfinite *found, hs_error *err)
{
    if (found->first_index < 0 || s->report->n++)
        return HS_OK;
    s->report->found = *found;
    s->report->name = hs__strdup(s->env, name);
    return s->report->name ? HS_OK : hs__no_memory(err, strlen(name), "a name");
}

/* Of a tensor of a type that this library does not know, only the checksum is verified. */
static hs_code verify_tensor(const saving *s, hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_error cause = {0};
    scan values = {.checked = HS__NOT_CHECKED, .dtype = (hs_dtype)entry->dtype};
    hs_code code = entry->dtype == HS_STRING ? hs__bundle_verify(reader, entry, &cause)
                                             : hs__bundle_stream(reader, entry, scan_piece, &values, &cause);
    if (code == HS_UNIMPLEMENTED)
        code = hs__bundle_verify(reader, entry, &cause);
    if (code == HS_UNIMPLEMENTED)
        return HS_OK;
    return code ? hs__error_copy(err, &cause) : report_nonfinite(s, entry->name, &values.checked.nonfinite, err);
}

static hs_code verify_graph_files(const saving *s, hs_error *err)
{
    hs__bundle_reader reader;
    hs_code code = hs__bundle_reader_open(&reader, s->env, s->graph_prefix, err);
    if (code)
        return code;
    for (size_t i = 0; !code && i < reader.n_entries; i++)
        code = verify_tensor(s, &reader, &reader.entries[i], err);
    hs__bundle_reader_close(&reader);
    return code;
}

static hs_code run_save_op(const saving *s, hs_error *err)
{
    const char *op = s->graph->def->save_tensor_name;
    hs_code code = run_op(s->graph, s->list->session, op, s->graph_prefix, err);
    if (code) {
        hs_error_prefix(err, "the graph's save op '%s'", op);
        return code;
    }
    if ((code = verify_graph_files(s, err)))
        hs_error_prefix(err, "cannot verify what the graph's save op '%s' wrote", op);
    return code;
}

/* States, which the graph does not have. */

/* hs__visit_item_fn */
static hs_code add_item(void *user, const hs__save_item *item, hs_error *err)
{
    return hs__save_item_write(item, user, err);
}

static hs_code write_state(const saving *s, hs_error *err)
{
    hs__bundle_writer writer = {.env = s->env};
    char *data = hs__bundle_data_path(s->env, s->state_prefix, 0, 1);
    char *index = hs__bundle_index_path(s->env, s->state_prefix);
    hs_code code = data && index ? HS_OK : hs__no_memory(err, strlen(s->state_prefix), "a path");
    if (!code) {
        if (!(code = hs__bundle_writer_open(&writer, s->env, data, 0, 1, err)) &&
            !(code = hs__save_list_visit_states(s->list, add_item, &writer, err)))
            code = hs__bundle_writer_finish(&writer, index, err);
        hs__bundle_writer_close(&writer);
    }
    hs__free(s->env, data);
    hs__free(s->env, index);
    return code;
}

/* Joining both bundles. */

static hs_code sync_file(const hs_env *env, const char *path, hs_error *err)
{
    hs__file file = {.env = env};
    hs_code code = hs__file_open(&file, env, path, HS_OPEN_APPEND, err);
    if (!code)
        code = hs__file_sync(&file, err);
    hs_code closed = hs__file_close(&file, code ? NULL : err);
    return code ? code : closed;
}

/* Merges the indexes. The result has the data files of both bundles. If an existing checkpoint of the name has the same
 * number of data files, merges again with other names. */
static hs_code merge_indexes(saving *s, hs_error *err)
{
    const char *const prefixes[] = {s->graph_prefix, s->state_prefix, NULL};
    hs_code code = hs__bundle_merge_make(&s->merge, s->env, prefixes, s->files->prefix, 0, err);
    if (code || (code = hs__new_checkpoint_files(s->files, s->merge.n_files ? (int32_t)s->merge.n_files : 1, err)))
        return code;
    if (!s->files->names.first)
        return HS_OK;
    hs__bundle_merge_free(&s->merge);
    return hs__bundle_merge_make(&s->merge, s->env, prefixes, s->files->prefix, s->files->names.first, err);
}

static hs_code rename_files(const saving *s, hs_error *err)
{
    const hs__bundle_merge *merge = &s->merge;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < merge->n_files; i++)
        if (!(code = sync_file(s->env, merge->files[i].from, err)))
            code = hs__rename(s->env, merge->files[i].from, s->files->data_tmp[i], err);
    if (!code && !merge->n_files)
        code = hs__file_write_synced(s->env, s->files->data_tmp[0], "", 0, err);
    return code ? code : hs__file_write_synced(s->env, s->files->index_tmp, merge->index.data, merge->index.size, err);
}

typedef struct {
    const hs_env *env;
    const char *directory, *base;
} clearing;

static int clear_file(void *user, const char *name)
{
    const clearing *c = user;
    size_t length = strlen(c->base);
    if (strncmp(name, c->base, length) != 0 || strncmp(name + length, HS__GRAPH_TMP, sizeof HS__GRAPH_TMP - 1) != 0)
        return 0;
    char *path = hs__path_join(c->env, c->directory, name);
    if (path)
        hs__remove_all(c->env, path);
    else
        hs__log_undeleted(c->env, name);
    hs__free(c->env, path);
    return 0;
}

/* Removes the temporary files of both bundles. */
static void clear_files(const hs_env *env, const char *prefix)
{
    char *directory = hs__path_directory(env, prefix);
    clearing c = {env, directory, hs__path_base(prefix)};
    hs_error error = {0};
    if (!directory)
        hs__log_undeleted(env, c.base);
    else if (hs__list(env, directory, clear_file, &c, &error))
        hs_log(env, HS_LOG_WARNING, "%s", error.message);
    hs__free(env, directory);
}

hs_code hs__graph_save(const hs__graph_saver *graph, const hs__save_list *list, hs__new_checkpoint *files,
                       hs__nonfinite_report *report, hs_error *err)
{
    const hs_env *env = files->env;
    saving s = {.graph = graph, .list = list, .files = files, .env = env, .report = report, .merge = {.env = env}};
    s.graph_prefix = hs__format(env, "%s" HS__GRAPH_TMP, files->prefix);
    s.state_prefix = hs__format(env, "%s" HS__GRAPH_TMP "-state", files->prefix);
    hs_code code = s.graph_prefix && s.state_prefix ? HS_OK : hs__no_memory(err, strlen(files->prefix), "a path");
    if (!code) {
        clear_files(env, files->prefix);
        if (!(code = run_save_op(&s, err)) && !(code = write_state(&s, err)) && !(code = merge_indexes(&s, err)))
            code = rename_files(&s, err);
        hs__bundle_merge_free(&s.merge);
        clear_files(env, files->prefix);
    }
    hs__free(env, s.graph_prefix);
    hs__free(env, s.state_prefix);
    return code;
}
