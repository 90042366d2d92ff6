/* SPDX-License-Identifier: Apache-2.0 */
/* Saving variables by the graph's own op. The op writes one temporary bundle, this file writes states and late variables to
 * another one, and one index is made of both. Data files are renamed, not copied. */
#include "checkpoint/graph_saver.h"

#include "base/files.h"
#include "formats/bundle_inside.h"
#include "formats/bundle_merge.h"

#include <string.h>

typedef struct {
    const hs__graph_saver *graph;
    const hs__selection *selection;
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

/* A tensor of a type that this library does not know is not verified. */
static hs_code verify_tensor(const saving *s, hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_error cause = {0};
    scan values = {.checked = HS__NOT_CHECKED, .dtype = (hs_dtype)entry->dtype};
    hs_code code = entry->dtype == HS_STRING ? hs__bundle_verify(reader, entry, &cause)
                                             : hs__bundle_stream(reader, entry, scan_piece, &values, &cause);
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
    hs_code code = hs__graph_saver_run(s->graph, s->list->session, op, s->graph_prefix, err);
    if (code) {
        hs_error_prefix(err, "the graph's save op '%s'", op);
        return code;
    }
    if ((code = verify_graph_files(s, err)))
        hs_error_prefix(err, "cannot verify what the graph's save op '%s' wrote", op);
    return code;
}

/* States, and late variables, which the graph does not have. */

/* hs__visit_item_fn */
static hs_code add_item(void *user, const hs__save_item *item, hs_error *err)
{
    return hs__save_item_write(item, user, err);
}

/* Lists the late variables again, because a provider of state may have added one. */
static hs_code add_late_variables(const saving *s, hs__bundle_writer *writer, hs_error *err)
{
    hs_raw_session *session = s->list->session;
    hs__save_list late;
    if (!session->n_late)
        return HS_OK;
    hs_code code = hs__save_list_make(&late, s->env, s->selection, session, session->late_from, err);
    if (!code)
        code = hs__save_list_visit_variables(&late, add_item, writer, err);
    hs__save_list_free(&late);
    return code;
}

static hs_code write_state(const saving *s, hs_error *err)
{
    hs__bundle_writer writer = {.env = s->env};
    char *data = hs__bundle_data_path(s->env, s->state_prefix, 0, 1);
    char *index = hs__bundle_index_path(s->env, s->state_prefix);
    hs_code code = data && index ? HS_OK : hs__no_memory(err, strlen(s->state_prefix), "a path");
    if (!code) {
        if (!(code = hs__bundle_writer_open(&writer, s->env, data, 0, 1, err)) &&
            !(code = hs__save_list_visit_states(s->list, add_item, &writer, err)) &&
            !(code = add_late_variables(s, &writer, err)) &&
            !(code = writer.n_nonfinite ? report_nonfinite(s, writer.nonfinite_name, &writer.nonfinite, err) : HS_OK))
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

/* As many data files as both bundles have. If an existing checkpoint of the name has as many, the names differ. */
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

/* Removes the temporary files of both bundles. */
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

hs_code hs__graph_save(const hs__graph_saver *graph, const hs__selection *selection, const hs__save_list *list,
                       hs__new_checkpoint *files, hs__nonfinite_report *report, hs_error *err)
{
    const hs_env *env = files->env;
    saving s = {.graph = graph,
                .selection = selection,
                .list = list,
                .files = files,
                .env = env,
                .report = report,
                .merge = {.env = env}};
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
