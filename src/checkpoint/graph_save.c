/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint whose variables are written by the graph's own save op. The graph writes a bundle aside, the state of hooks
 * and program becomes another one, and one index is made of both. The data files are not copied: they get their names. */
#include "checkpoint/graph_saver.h"

#include "base/files.h"
#include "checkpoint/save_list.h"
#include "formats/bundle_inside.h"
#include "formats/bundle_merge.h"

#include <string.h>

typedef struct {
    const hs_saver *saver;
    hs_raw_session *session;
    hs__new_checkpoint *files;
    const hs_env *env;
    char *graph, *state; /* the prefixes of the two */
    hs__bundle_merge merge;
    hs__poison *poison;
} saving;

/* Verifying what the graph has written. */

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

static hs_code note_poison(const saving *s, const char *name, const hs_nonfinite *found, hs_error *err)
{
    if (found->first_index < 0 || s->poison->n++)
        return HS_OK;
    s->poison->found = *found;
    s->poison->name = hs__strdup(s->env, name);
    return s->poison->name ? HS_OK : hs__no_memory(err, strlen(name), "a name");
}

/* What is of no type that we know has no checksum that can be found. */
static hs_code verify_tensor(const saving *s, hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_error cause = {0};
    scan values = {.checked = HS__NOT_CHECKED, .dtype = (hs_dtype)entry->dtype};
    hs_code code = entry->dtype == HS_STRING ? hs__bundle_verify(reader, entry, &cause)
                                             : hs__bundle_stream(reader, entry, scan_piece, &values, &cause);
    if (code == HS_UNIMPLEMENTED)
        return HS_OK;
    return code ? hs__error_copy(err, &cause) : note_poison(s, entry->name, &values.checked.nonfinite, err);
}

static hs_code verify_graph_files(const saving *s, hs_error *err)
{
    hs__bundle_reader reader;
    hs_code code = hs__bundle_reader_open(&reader, s->env, s->graph, err);
    if (code)
        return code;
    for (size_t i = 0; !code && i < reader.n_entries; i++)
        code = verify_tensor(s, &reader, &reader.entries[i], err);
    hs__bundle_reader_close(&reader);
    return code;
}

static hs_code let_graph_write(const saving *s, hs_error *err)
{
    const hs__graph_saver *graph = &s->saver->graph;
    hs_code code = hs__graph_saver_run(graph, s->session, graph->def->save_tensor_name, s->graph, err);
    if (code) {
        hs_error_prefix(err, "the graph's save op '%s'", graph->def->save_tensor_name);
        return code;
    }
    if ((code = verify_graph_files(s, err)))
        hs_error_prefix(err, "cannot verify what the graph's save op '%s' wrote", graph->def->save_tensor_name);
    return code;
}

/* State, and the variables that the graph does not know. */

static hs_code add_state(void *user, const hs__saved *saved, hs_error *err)
{
    return hs__saved_write(saved, user, err);
}

static hs_code write_state(const saving *s, hs_error *err)
{
    hs__bundle_writer writer = {.env = s->env};
    char *data = hs__bundle_data_path(s->env, s->state, 0, 1), *index = hs__bundle_index_path(s->env, s->state);
    hs_code code = data && index ? HS_OK : hs__no_memory(err, strlen(s->state), "a path");
    if (!code) {
        if (!(code = hs__bundle_writer_open(&writer, s->env, data, 0, 1, err)) &&
            !(code = hs__each_state(s->saver, s->session, add_state, &writer, err)) &&
            !(code = hs__each_late_variable(s->saver, s->session, add_state, &writer, err)) &&
            !(code = writer.n_nonfinite ? note_poison(s, writer.nonfinite_name, &writer.nonfinite, err) : HS_OK))
            code = hs__bundle_writer_finish(&writer, index, err);
        hs__bundle_writer_close(&writer);
    }
    hs__free(s->env, data);
    hs__free(s->env, index);
    return code;
}

/* Putting both together. */

static hs_code sync_file(const hs_env *env, const char *path, hs_error *err)
{
    hs__file file = {.env = env};
    hs_code code = hs__file_open(&file, env, path, HS_OPEN_APPEND, err);
    if (!code)
        code = hs__file_sync(&file, err);
    hs_code closed = hs__file_close(&file, code ? NULL : err);
    return code ? code : closed;
}

/* As many names as there are files; where a checkpoint of the name has as many, others. */
static hs_code merge_indexes(saving *s, hs_error *err)
{
    const char *const prefixes[] = {s->graph, s->state, NULL};
    hs_code code = hs__bundle_merge_make(&s->merge, s->env, prefixes, s->files->prefix, 0, err);
    if (code || (code = hs__new_checkpoint_files(s->files, s->merge.n_files ? (int32_t)s->merge.n_files : 1, err)))
        return code;
    if (!s->files->names.first)
        return HS_OK;
    hs__bundle_merge_free(&s->merge);
    return hs__bundle_merge_make(&s->merge, s->env, prefixes, s->files->prefix, s->files->names.first, err);
}

static hs_code put_aside(const saving *s, hs_error *err)
{
    const hs__bundle_merge *merge = &s->merge;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < merge->n_files; i++)
        if (!(code = sync_file(s->env, merge->files[i].from, err)))
            code = hs__rename(s->env, merge->files[i].from, s->files->data_aside[i], err);
    if (!code && !merge->n_files)
        code = hs__file_write_synced(s->env, s->files->data_aside[0], "", 0, err);
    return code ? code : hs__file_write_synced(s->env, s->files->index_aside, merge->index.data, merge->index.size, err);
}

hs_code hs__graph_save(const hs_saver *saver, hs_raw_session *session, hs__new_checkpoint *files, hs__poison *poison,
                       hs_error *err)
{
    const hs_env *env = files->env;
    saving s = {.saver = saver, .session = session, .files = files, .env = env, .poison = poison, .merge = {.env = env}};
    s.graph = hs__format(env, "%s" HS__GRAPH_ASIDE, files->prefix);
    s.state = hs__format(env, "%s" HS__GRAPH_ASIDE "-state", files->prefix);
    hs_code code = s.graph && s.state ? HS_OK : hs__no_memory(err, strlen(files->prefix), "a path");
    if (!code) {
        hs__graph_save_clear(env, files->prefix);
        if (!(code = let_graph_write(&s, err)) && !(code = write_state(&s, err)) && !(code = merge_indexes(&s, err)))
            code = put_aside(&s, err);
        hs__bundle_merge_free(&s.merge);
        hs__graph_save_clear(env, files->prefix);
    }
    hs__free(env, s.graph);
    hs__free(env, s.state);
    return code;
}

/* Clearing. */

typedef struct {
    const hs_env *env;
    const char *directory, *base;
} clearing;

static int clear_one(void *user, const char *name)
{
    const clearing *c = user;
    size_t length = strlen(c->base);
    if (strncmp(name, c->base, length) != 0 || strncmp(name + length, HS__GRAPH_ASIDE, sizeof HS__GRAPH_ASIDE - 1) != 0)
        return 0;
    char *path = hs__path_join(c->env, c->directory, name);
    if (path)
        hs__remove_all(c->env, path);
    else
        hs__log_undeleted(c->env, name);
    hs__free(c->env, path);
    return 0;
}

void hs__graph_save_clear(const hs_env *env, const char *prefix)
{
    char *directory = hs__path_directory(env, prefix);
    clearing c = {env, directory, hs__path_base(prefix)};
    hs_error error = {0};
    if (!directory)
        hs__log_undeleted(env, c.base);
    else if (hs__list(env, directory, clear_one, &c, &error))
        hs_log(env, HS_LOG_WARNING, "%s", error.message);
    hs__free(env, directory);
}
