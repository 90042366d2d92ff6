/* SPDX-License-Identifier: Apache-2.0 */
/* hs_checkpoint_merge: joins checkpoints to one.
 *
 *   1. The data files are linked or copied to temporary files, synced and verified.
 *   2. The index is written to a temporary file and synced.
 *   3. The data files get their names, and the directory is synced; then the index gets its name, and it is synced again.
 * From here on the merged checkpoint exists.
 *   4. The sources are removed, indexes first.
 *
 * An interrupted merge leaves all sources; after step 3 also the merged checkpoint, with any of the sources. It may leave
 * temporary files. Calling it again completes it. */
#include <hooksess/checkpoint.h>

#include "base/error.h"
#include "base/files.h"
#include "checkpoint/directory.h"
#include "checkpoint/merged_file.h"
#include "checkpoint/state_file.h"
#include "formats/bundle.h"
#include "formats/bundle_merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Location of a checkpoint, for comparing. */
typedef struct {
    char *directory; /* without "." and "//" */
    const char *base;
} place;

typedef struct {
    const hs_env *env;
    const char *const *prefixes;
    const char *merged;
    size_t n;
    place *places;      /* of the prefixes; the last is the merged checkpoint's */
    const char **found; /* the prefixes that have an index, ended by NULL */
    size_t n_found;
    hs__held_directory *held;
    size_t n_held;
    char *index, *index_tmp;
    hs__bundle_merge plan;
    bool naming; /* the rename of the index was tried */
} merge;

static hs_code check_arguments(const char *const *prefixes, const char *merged, hs_error *err)
{
    if (!merged || !*merged || !prefixes || !prefixes[0])
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_merge: %s",
                            merged && *merged ? "prefixes is empty" : "merged is missing");
    for (size_t i = 0; prefixes[i]; i++)
        if (!*prefixes[i])
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_merge: cannot merge '' into '%s'", merged);
    return HS_OK;
}

/* Places. */

static void normalize(char *path)
{
    char *to = path;
    for (const char *at = path; *at;) {
        size_t slashes = strspn(at, "/"), n = strcspn(at + slashes, "/");
        bool counts = n > 0 && !(n == 1 && at[slashes] == '.');
        if (slashes && (at == path || (counts && to > path && to[-1] != '/')))
            *to++ = '/';
        if (counts) {
            memmove(to, at + slashes, n);
            to += n;
        }
        at += slashes + n;
    }
    if (to == path)
        *to++ = '.';
    *to = '\0';
}

static hs_code place_of(const hs_env *env, const char *prefix, place *p, hs_error *err)
{
    p->base = hs__path_base(prefix);
    p->directory = hs__path_directory(env, prefix);
    if (!p->directory)
        return hs__no_memory(err, strlen(prefix), "a path");
    normalize(p->directory);
    return HS_OK;
}

static bool same_place(const place *a, const place *b)
{
    return strcmp(a->base, b->base) == 0 && strcmp(a->directory, b->directory) == 0;
}

static hs_code refuse_own_source(const merge *m, size_t i, hs_error *err)
{
    return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_merge: cannot merge '%s' into '%s'", m->prefixes[i],
                        m->merged);
}

static hs_code find_places(merge *m, hs_error *err)
{
    while (m->prefixes[m->n])
        m->n++;
    m->places = hs__alloc(m->env, m->n + 1, sizeof *m->places);
    m->held = hs__alloc(m->env, m->n + 1, sizeof *m->held);
    m->found = hs__alloc(m->env, m->n + 1, sizeof *m->found);
    m->index = hs__bundle_index_path(m->env, m->merged);
    m->index_tmp = m->index ? hs__format(m->env, "%s.tmp", m->index) : NULL;
    if (!m->places || !m->held || !m->found || !m->index_tmp)
        return hs__no_memory(err, m->n, "a list of checkpoints");
    hs_code code = place_of(m->env, m->merged, &m->places[m->n], err);
    for (size_t i = 0; i < m->n && !code; i++)
        if (!(code = place_of(m->env, m->prefixes[i], &m->places[i], err)) && same_place(&m->places[i], &m->places[m->n]))
            code = refuse_own_source(m, i, err);
    return code;
}

/* Holding. */

/* Creates a missing directory, but only its last level, as TensorFlow does. */
static hs_code prepare_directory(const merge *m, hs_error *err)
{
    hs_error cause = {0};
    hs_code code = hs__make_directory(m->env, m->places[m->n].directory, &cause);
    if (code == HS_NOT_FOUND || code == HS_FAILED_PRECONDITION)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "cannot merge into '%s': its parent directory does not exist (%s)",
                            m->merged, cause.message);
    return code ? hs__error_copy(err, &cause) : HS_OK;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All directories, without duplicates. A missing directory counts as empty. */
static hs_code hold(merge *m, hs_error *err)
{
    char **paths = hs__alloc(m->env, m->n + 1, sizeof *paths);
    if (!paths)
        return hs__no_memory(err, m->n, "a list of directories");
    for (size_t i = 0; i <= m->n; i++)
        paths[i] = m->places[i].directory;
    qsort(paths, m->n + 1, sizeof *paths, by_path);
    hs_code code = HS_OK;
    for (size_t i = 0; i <= m->n && !code; i++)
        if ((i == 0 || strcmp(paths[i], paths[i - 1]) != 0) && !hs__file_missing(m->env, paths[i]) &&
            !(code = hs__hold_directory(&m->held[m->n_held], m->env, paths[i], NULL, err)))
            m->n_held++;
    hs__free(m->env, paths);
    if (code)
        hs_error_prefix(err, "cannot merge into '%s'", m->merged);
    return code;
}

static hs_code sync_directories(const merge *m, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < m->n_held && !code; i++)
        code = hs__sync_directory(m->env, m->held[i].path, err);
    return code;
}

/* Checks before the first change. */

static hs_code find(const hs_env *env, const char *path, hs_file_stat *found, bool *exists, hs_error *err)
{
    hs_error cause = {0};
    hs_code code = hs__stat(env, path, found, &cause);
    *exists = !code;
    return code && code != HS_NOT_FOUND ? hs__error_copy(err, &cause) : HS_OK;
}

static hs_code find_sources(merge *m, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < m->n && !code; i++) {
        hs_file_stat found;
        bool exists = false;
        char *index = hs__bundle_index_path(m->env, m->prefixes[i]);
        code = index ? find(m->env, index, &found, &exists, err) : hs__no_memory(err, strlen(m->prefixes[i]), "a path");
        if (exists)
            m->found[m->n_found++] = m->prefixes[i];
        hs__free(m->env, index);
    }
    return code;
}

/* A relative and an absolute directory may be the same. */
static bool names(const place *newest, const place *source)
{
    return strcmp(newest->base, source->base) == 0 && (strcmp(newest->directory, source->directory) == 0 ||
                                                       (*newest->directory == '/') != (*source->directory == '/'));
}

/* FAILED_PRECONDITION if a source is the newest checkpoint of the state file. A damaged state file names none. */
static hs_code check_state(const merge *m, const char *directory, hs_error *err)
{
    hs__checkpoint_state state;
    place newest = {0};
    hs_error cause = {0};
    hs_code code = hs__checkpoint_state_read(&state, m->env, directory, NULL, &cause);
    if (code)
        return hs__is_damage(&cause) ? HS_OK : hs__error_copy(err, &cause);
    code = place_of(m->env, state.newest, &newest, err);
    for (size_t i = 0; i < m->n && !code; i++)
        if (names(&newest, &m->places[i]) && !hs__checkpoint_missing(m->env, m->prefixes[i]))
            code = hs_error_set(err, HS_FAILED_PRECONDITION,
                                "cannot merge '%s': the file '%s/checkpoint' names it as the newest; save a later one "
                                "there, or remove that file",
                                m->prefixes[i], directory);
    hs__free(m->env, newest.directory);
    hs__checkpoint_state_free(&state);
    return code;
}

static hs_code check_states(const merge *m, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < m->n_held && !code; i++)
        code = check_state(m, m->held[i].path, err);
    return code;
}

/* The data files are complete, and the disk has room for the copies. */
static hs_code check_data(const merge *m, hs_error *err)
{
    uint64_t needed = m->plan.index.size, bytes = 0;
    hs_code code = HS_OK;
    for (size_t i = 0; i < m->plan.n_files && !code; i++) {
        code = hs__merged_file_bytes(m->env, &m->plan.files[i], &bytes, err);
        needed = bytes > UINT64_MAX - needed ? UINT64_MAX : needed + bytes;
    }
    uint64_t free_bytes = code ? 0 : hs__free_space(m->env, m->places[m->n].directory);
    if (code || needed <= free_bytes)
        return code;
    return hs_error_set_errno(err, ENOSPC, "cannot write '%s': it needs %llu bytes, but only %llu are free on the disk",
                              m->merged, (unsigned long long)needed, (unsigned long long)free_bytes);
}

/* Writing. */

static hs_code make_files(const merge *m, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < m->plan.n_files && !code; i++) {
        const hs__merged_file *file = &m->plan.files[i];
        char *tmp = hs__format(m->env, "%s.tmp", file->to);
        code = tmp ? hs__merged_file_make(m->env, file, m->prefixes[file->input], tmp, err)
                   : hs__no_memory(err, strlen(file->to), "a path");
        hs__free(m->env, tmp);
    }
    return code;
}

static hs_code name_files(const merge *m, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < m->plan.n_files && !code; i++) {
        const char *to = m->plan.files[i].to;
        char *tmp = hs__format(m->env, "%s.tmp", to);
        code = tmp ? hs__rename(m->env, tmp, to, err) : hs__no_memory(err, strlen(to), "a path");
        hs__free(m->env, tmp);
    }
    return code;
}

/* On a network file system a rename that failed may have happened. Then these are the data files of the index. */
static void discard(const merge *m)
{
    bool named = m->naming && !hs__file_exists(m->env, m->index_tmp);
    for (size_t i = 0; i < m->plan.n_files && !named; i++) {
        char *tmp = hs__format(m->env, "%s.tmp", m->plan.files[i].to);
        hs__file_remove(m->env, m->plan.files[i].to);
        if (tmp)
            hs__file_remove(m->env, tmp);
        hs__free(m->env, tmp);
    }
    hs__file_remove(m->env, m->index_tmp);
}

/* Existing data files of that name have no index: they are of an interrupted merge. */
static hs_code write_merged(merge *m, hs_error *err)
{
    const char *directory = m->places[m->n].directory;
    hs__delete_stale_data(m->env, m->merged, (hs__data_range){0, 0, 0});
    hs_code code = make_files(m, err);
    if (!code)
        code = hs__file_write_synced(m->env, m->index_tmp, m->plan.index.data, m->plan.index.size, err);
    if (!code && !(code = name_files(m, err)) && !(code = hs__sync_directory(m->env, directory, err))) {
        m->naming = true;
        code = hs__rename(m->env, m->index_tmp, m->index, err);
    }
    if (code)
        discard(m);
    return code ? code : hs__sync_directory(m->env, directory, err);
}

static hs_code make(merge *m, hs_error *err)
{
    hs_code code = hs__bundle_merge_make(&m->plan, m->env, m->prefixes, m->merged, 0, err);
    if (code || (code = check_states(m, err)) || (code = check_data(m, err)))
        return code;
    return write_merged(m, err);
}

/* Completing a merge that was interrupted after the merged index got its name. */

/* A source that is the merged checkpoint under another path (by links) must not be removed. It is detected by a file that
 * is created next to the merged checkpoint, and then exists next to the source. */
static hs_code check_links(const merge *m, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t pass = 0; pass < 2 && !code; pass++) {
        for (size_t i = 0; i < m->n && !code; i++) {
            char *tmp = hs__format(m->env, "%s.index.tmp", m->prefixes[i]);
            if (!tmp)
                code = hs__no_memory(err, strlen(m->prefixes[i]), "a path");
            else if (pass == 0)
                hs__file_remove(m->env, tmp);
            else if (!hs__file_missing(m->env, tmp) && !hs__checkpoint_missing(m->env, m->prefixes[i]))
                code = refuse_own_source(m, i, err);
            hs__free(m->env, tmp);
        }
        if (pass == 0 && !code)
            code = hs__file_write_synced(m->env, m->index_tmp, "", 0, err);
    }
    hs__file_remove(m->env, m->index_tmp);
    return code;
}

static hs_code complete(const merge *m, hs_error *err)
{
    bool is_in = false;
    hs_code code = hs__bundle_merge_is_in(m->env, m->found, m->merged, m->n_found < m->n, &is_in, err);
    if (!code && !is_in)
        code = hs_error_set(err, HS_ALREADY_EXISTS, "%s: a different checkpoint '%s' already exists", m->index, m->merged);
    if (code || (code = check_links(m, err)) || (code = check_states(m, err)))
        return code;
    return hs__verify_checkpoint(m->env, m->merged, err);
}

/* Removing the sources. */

static hs_code remove_file(const hs_env *env, const char *path, hs_error *err)
{
    hs_error cause = {0};
    hs_code code = hs__file_result(env->files.ops->remove(env->files.user, path, &cause), path, &cause);
    return code && code != HS_NOT_FOUND ? hs__error_copy(err, &cause) : HS_OK;
}

static hs_code remove_indexes(const merge *m, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < m->n && !code; i++) {
        char *index = hs__bundle_index_path(m->env, m->prefixes[i]);
        code = index ? remove_file(m->env, index, err) : hs__no_memory(err, strlen(m->prefixes[i]), "a path");
        hs__free(m->env, index);
    }
    return code;
}

typedef struct {
    const hs_env *env;
    const place *of;
    hs_code code;
    hs_error *err;
} data_removal;

static int remove_one(void *user, const char *name)
{
    enum { LENGTH = sizeof ".data-00000-of-00001" - 1 };
    data_removal *r = user;
    size_t n = strlen(r->of->base);
    int shard, shards, end = 0;
    if (strncmp(name, r->of->base, n) != 0 || sscanf(name + n, ".data-%5d-of-%5d%n", &shard, &shards, &end) != 2 ||
        end != LENGTH || name[n + LENGTH])
        return 0;
    char *path = hs__path_join(r->env, r->of->directory, name);
    r->code = path ? remove_file(r->env, path, r->err) : hs__no_memory(r->err, strlen(name), "a path");
    hs__free(r->env, path);
    return r->code;
}

/* All data files with the name, including data files that the index does not list. */
static hs_code remove_data(const merge *m, size_t i, hs_error *err)
{
    data_removal removal = {.env = m->env, .of = &m->places[i], .err = err};
    if (hs__file_missing(m->env, removal.of->directory))
        return HS_OK;
    hs_code code = hs__list(m->env, removal.of->directory, remove_one, &removal, err);
    return removal.code ? removal.code : code;
}

/* Indexes first, so that each index always has its data. */
static hs_code remove_sources(const merge *m, hs_error *err)
{
    hs_code code = remove_indexes(m, err);
    if (!code)
        code = sync_directories(m, err);
    for (size_t i = 0; i < m->n && !code; i++)
        code = remove_data(m, i, err);
    return code ? code : sync_directories(m, err);
}

static hs_code run(merge *m, hs_error *err)
{
    hs_file_stat found;
    bool done = false;
    hs_code code = find_places(m, err);
    if (code || (code = prepare_directory(m, err)) || (code = hold(m, err)) || (code = find_sources(m, err)) ||
        (code = find(m->env, m->index, &found, &done, err)) || (code = done ? complete(m, err) : make(m, err)))
        return code;
    return remove_sources(m, err);
}

static void release(merge *m)
{
    for (size_t i = 0; i < m->n_held; i++)
        hs__release_directory(&m->held[i], m->env);
    for (size_t i = 0; m->places && i <= m->n; i++)
        hs__free(m->env, m->places[i].directory);
    hs__bundle_merge_free(&m->plan);
    hs__free(m->env, m->places);
    hs__free(m->env, m->held);
    hs__free(m->env, m->found);
    hs__free(m->env, m->index);
    hs__free(m->env, m->index_tmp);
}

hs_code hs_checkpoint_merge(const hs_env *given, const char *const *prefixes, const char *merged, hs_error *err)
{
    hs_env env;
    hs_code code = check_arguments(prefixes, merged, err);
    if (code || (code = hs__env_copy(&env, given, err)))
        return code;
    merge m = {.env = &env, .prefixes = prefixes, .merged = merged, .plan = {.env = &env}};
    code = run(&m, err);
    release(&m);
    if (!code)
        hs_error_clear(err);
    return code;
}
