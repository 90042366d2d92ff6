/* SPDX-License-Identifier: Apache-2.0 */
/* Merging checkpoints: data files are renamed, so that nothing is copied, and whatever cuts this short, calling it again
 * goes on where it stopped. Until the index of the merged one has its name, those of the others tell what belongs to it. */
#include <hooksess/checkpoint.h>

#include "base/files.h"
#include "checkpoint/directory.h"
#include "formats/bundle.h"
#include "formats/bundle_merge.h"

#include <string.h>

typedef struct {
    const hs_env *env;
    const char *const *prefixes;
    const char *merged;
    char *directory, *index, *index_aside;
    hs__bundle_merge plan;
    bool *moved; /* which data files have been renamed, by a call before this one too */
    void *lock;
} merge;

static hs_code check_arguments(const char *const *prefixes, const char *merged, hs_error *err)
{
    if (!merged || !*merged || !prefixes || !prefixes[0])
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_merge_checkpoints: %s",
                            merged && *merged ? "there is nothing to merge" : "the merged checkpoint has no name");
    for (size_t i = 0; prefixes[i]; i++)
        if (!*prefixes[i] || strcmp(prefixes[i], merged) == 0)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_merge_checkpoints: '%s' cannot be merged into '%s'",
                                prefixes[i], merged);
    return HS_OK;
}

static hs_code name_files(merge *m, hs_error *err)
{
    m->directory = hs__path_directory(m->env, m->merged);
    m->index = hs__bundle_index_path(m->env, m->merged);
    m->index_aside = m->index ? hs__format(m->env, "%s.tmp", m->index) : NULL;
    m->moved = hs__alloc(m->env, m->plan.n_files, sizeof *m->moved);
    return m->directory && m->index_aside && m->moved ? HS_OK : hs__no_memory(err, strlen(m->merged), "a path");
}

/* One missing level is made, as TensorFlow does. */
static hs_code prepare_directory(const merge *m, hs_error *err)
{
    hs_error cause = {0};
    hs_code code = hs__make_directory(m->env, m->directory, &cause);
    if (code == HS_NOT_FOUND || code == HS_FAILED_PRECONDITION)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "cannot merge into '%s': its parent directory does not exist (%s)",
                            m->merged, cause.message);
    return code ? hs__error_copy(err, &cause) : HS_OK;
}

/* One process at a time writes there. */
static hs_code take_lock(merge *m, hs_error *err)
{
    hs_error cause = {0};
    char *path = hs__path_join(m->env, m->directory, HS__LOCK_NAME);
    if (!path)
        return hs__no_memory(err, strlen(m->directory), "a path");
    hs_code code = hs__lock(m->env, path, &m->lock, &cause);
    hs__free(m->env, path);
    if (code == HS_FAILED_PRECONDITION)
        return hs_error_set(err, code, "cannot merge into '%s', to which another process saves: %s", m->directory,
                            cause.message);
    return code && code != HS_UNIMPLEMENTED ? hs__error_copy(err, &cause) : HS_OK;
}

/* Looking before anything is changed. */

static hs_code find(const merge *m, const char *path, hs_file_stat *found, bool *is_there, hs_error *err)
{
    hs_error cause = {0};
    hs_code code = hs__stat(m->env, path, found, &cause);
    *is_there = !code;
    return code && code != HS_NOT_FOUND ? hs__error_copy(err, &cause) : HS_OK;
}

static hs_code look_at_file(merge *m, size_t i, hs_error *err)
{
    const hs__merged_file *file = &m->plan.files[i];
    hs_file_stat before, after;
    bool is_before, is_after;
    hs_code code = find(m, file->from, &before, &is_before, err);
    if (code || (code = find(m, file->to, &after, &is_after, err)))
        return code;
    if (!is_before && !is_after)
        return hs_error_set(err, HS_NOT_FOUND, "%s: is not there, and is needed for '%s'", file->from, m->merged);
    if (is_before && is_after)
        return hs_error_set(err, HS_ALREADY_EXISTS, "%s: is in the way of %s", file->to, file->from);
    uint64_t bytes = is_before ? before.bytes : after.bytes;
    if (bytes < file->bytes)
        return hs_error_set(err, HS_DATA_LOSS, "%s: has %llu bytes, and its index speaks of %llu",
                            is_before ? file->from : file->to, (unsigned long long)bytes, (unsigned long long)file->bytes);
    m->moved[i] = is_after;
    return HS_OK;
}

static bool all_moved(const merge *m)
{
    for (size_t i = 0; i < m->plan.n_files; i++)
        if (!m->moved[i])
            return false;
    return m->plan.n_files > 0;
}

/* *finished: a call before this one has come as far as the merged index. */
static hs_code look_at_index(const merge *m, bool *finished, hs_error *err)
{
    hs_file_stat found;
    size_t bytes = 0;
    char *data = NULL;
    *finished = false;
    hs_code code = find(m, m->index, &found, finished, err);
    if (code || !*finished)
        return code;
    if (all_moved(m) && !(code = hs__file_contents(m->env, m->index, SIZE_MAX / 2, &data, &bytes, err)) &&
        bytes == m->plan.index.size && memcmp(data, m->plan.index.data, bytes) == 0) {
        hs__free(m->env, data);
        return HS_OK;
    }
    hs__free(m->env, data);
    return code ? code
                : hs_error_set(err, HS_ALREADY_EXISTS, "%s: there is a checkpoint '%s' already", m->index, m->merged);
}

static hs_code look(merge *m, bool *finished, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < m->plan.n_files && !code; i++)
        code = look_at_file(m, i, err);
    return code ? code : look_at_index(m, finished, err);
}

/* Doing it. */

static hs_code sync_file(const hs_env *env, const char *path, hs_error *err)
{
    hs__file file;
    hs_code code = hs__file_open(&file, env, path, HS_OPEN_READ, err);
    if (code)
        return code;
    code = hs__file_sync(&file, err);
    hs_code closed = hs__file_close(&file, code ? NULL : err);
    return code ? code : closed;
}

static void put_back(const merge *m, const bool *moved_before)
{
    for (size_t i = 0; i < m->plan.n_files; i++) {
        const hs__merged_file *file = &m->plan.files[i];
        hs_error error = {0};
        if (m->moved[i] && !moved_before[i] && hs__rename(m->env, file->to, file->from, &error))
            hs_log(m->env, HS_LOG_ERROR, "%s; merging again goes on from there", error.message);
    }
    hs__file_remove(m->env, m->index_aside);
}

static hs_code move_files(merge *m, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < m->plan.n_files && !code; i++)
        if (!m->moved[i] && !(code = hs__rename(m->env, m->plan.files[i].from, m->plan.files[i].to, err)))
            m->moved[i] = true;
    return code;
}

/* The index last: from then on the merged checkpoint exists. */
static hs_code put_in_place(merge *m, hs_error *err)
{
    hs_code code = hs__file_write_synced(m->env, m->index_aside, m->plan.index.data, m->plan.index.size, err);
    for (size_t i = 0; i < m->plan.n_files && !code; i++)
        code = sync_file(m->env, m->moved[i] ? m->plan.files[i].to : m->plan.files[i].from, err);
    if (!code && !(code = move_files(m, err)) && !(code = hs__sync_directory(m->env, m->directory, err)))
        code = hs__rename(m->env, m->index_aside, m->index, err);
    return code;
}

static hs_code carry_out(merge *m, hs_error *err)
{
    bool *before = hs__alloc(m->env, m->plan.n_files, sizeof *before);
    if (!before)
        return hs__no_memory(err, m->plan.n_files, "a list of files");
    if (m->plan.n_files)
        memcpy(before, m->moved, m->plan.n_files * sizeof *before);
    hs_code code = put_in_place(m, err);
    if (code)
        put_back(m, before);
    hs__free(m->env, before);
    return code;
}

/* What is left of the others: their indexes, and data that these did not speak of. */
static void clear_up(const merge *m)
{
    for (size_t i = 0; m->prefixes[i]; i++) {
        char *index = hs__bundle_index_path(m->env, m->prefixes[i]);
        if (index)
            hs__file_remove(m->env, index);
        hs__free(m->env, index);
        hs__delete_stale_data(m->env, m->prefixes[i], (hs__data_range){0, 0, 0});
    }
}

static hs_code run(merge *m, hs_error *err)
{
    bool finished;
    hs_code code = hs__bundle_merge_make(&m->plan, m->env, m->prefixes, m->merged, err);
    if (code || (code = name_files(m, err)) || (code = prepare_directory(m, err)) || (code = take_lock(m, err)) ||
        (code = look(m, &finished, err)))
        return code;
    if (!finished && (code = carry_out(m, err)))
        return code;
    if (!(code = hs__sync_directory(m->env, m->directory, err)))
        clear_up(m);
    return code;
}

hs_code hs_merge_checkpoints(const hs_env *given, const char *const *prefixes, const char *merged, hs_error *err)
{
    hs_env env;
    hs_code code = check_arguments(prefixes, merged, err);
    if (code || (code = hs__env_take(&env, given, err)))
        return code;
    merge m = {.env = &env, .prefixes = prefixes, .merged = merged, .plan = {.env = &env}};
    code = run(&m, err);
    hs__unlock(&env, m.lock);
    hs__bundle_merge_free(&m.plan);
    hs__free(&env, m.directory);
    hs__free(&env, m.index);
    hs__free(&env, m.index_aside);
    hs__free(&env, m.moved);
    if (!code)
        hs_error_clear(err);
    return code;
}
