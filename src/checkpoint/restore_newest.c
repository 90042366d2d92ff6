/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring the newest valid checkpoint of a directory. */
#include "checkpoint/restore.h"

#include "base/files.h"
#include "base/map.h"
#include "checkpoint/background.h"

#include <stdlib.h>
#include <string.h>

/* The checkpoints of a directory, in the order in which they are tried. */
typedef struct {
    const hs_env *env;
    const char *directory;
    char **paths;
    size_t n, capacity;
    size_t named; /* the first ones are those of the state file */
    bool failed;
} candidates;

static void add_candidate(candidates *all, const char *path)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->paths[i], path) == 0)
            return;
    char *copy = hs__strdup(all->env, path);
    if (!copy || hs__reserve(all->env, &all->paths, &all->capacity, all->n + 1, sizeof *all->paths, NULL)) {
        hs__free(all->env, copy);
        all->failed = true;
        return;
    }
    all->paths[all->n++] = copy;
}

static int collect_file(void *user, const char *name)
{
    candidates *all = user;
    size_t length = strlen(name);
    if (length > 6 && strcmp(name + length - 6, ".index") == 0 && !strstr(name, HS__ABANDONED ".index") &&
        !strstr(name, HS__GRAPH_TMP)) {
        char *stem = hs__strndup(all->env, name, length - 6);
        char *path = stem ? hs__path_join(all->env, all->directory, stem) : NULL;
        if (path)
            add_candidate(all, path);
        else
            all->failed = true;
        hs__free(all->env, path);
        hs__free(all->env, stem);
    }
    return 0;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = hs__step_in(*(char *const *)a), y = hs__step_in(*(char *const *)b);
    return (x < y) - (x > y);
}

static bool is_expired(const hs__checkpoint_state *state, const char *path)
{
    for (size_t i = 0; i < state->n_expired; i++)
        if (strcmp(state->expired[i], path) == 0)
            return true;
    return false;
}

/* A process may have been killed between a checkpoint and its state file (saver.h). Such a checkpoint is later than the
 * newest of a state file that was not edited since. It is tried first. */
static void move_unnamed_successors_first(candidates *all, const hs__checkpoint_state *state)
{
    size_t front = 0;
    int64_t step = hs__step_in(state->newest);
    for (size_t i = all->named; state->unedited && step >= 0 && i < all->n; i++) {
        char *path = all->paths[i];
        if (!hs__same_series(hs__path_base(path), hs__path_base(state->newest)) || hs__step_in(path) <= step ||
            is_expired(state, path))
            continue;
        memmove(all->paths + front + 1, all->paths + front, (i - front) * sizeof *all->paths);
        all->paths[front++] = path;
    }
    all->named += front;
}

/* Adds all checkpoints of the directory. If it cannot be listed, that is an error: a training that finds no checkpoint
 * starts again. */
static hs_code search_directory(candidates *all, hs_error *err)
{
    hs_file_stat found;
    hs_error cause = {0};
    hs_code code = hs__stat(all->env, all->directory, &found, &cause);
    if (!code && found.is_directory)
        return hs__list(all->env, all->directory, collect_file, all, err);
    return code == HS_NOT_FOUND ? HS_OK : hs__error_copy(err, &cause);
}

/* Lists the checkpoints of the state file, newest first, then all others. A damaged state file is only a warning. */
static hs_code gather(candidates *all, const char *state_file, hs__checkpoint_state *state, hs_error *err)
{
    hs_error cause = {0};
    hs_code code = hs__checkpoint_state_read(state, all->env, all->directory, state_file, &cause);
    if (code && !hs__is_damage(&cause))
        return hs__error_copy(err, &cause);
    if (code && code != HS_NOT_FOUND)
        hs_log(all->env, HS_LOG_WARNING, "%s; searching the directory", cause.message);
    if (!code) {
        add_candidate(all, state->newest);
        for (size_t i = state->n; i-- > 0;)
            add_candidate(all, state->kept[i].path);
    }
    bool has_state = !code;
    all->named = all->n;
    if ((code = search_directory(all, err)))
        return code;
    if (all->n > all->named)
        qsort(all->paths + all->named, all->n - all->named, sizeof *all->paths, newest_first);
    if (has_state)
        move_unnamed_successors_first(all, state);
    if (all->failed)
        return hs__no_memory(err, all->n * sizeof *all->paths, "the list of checkpoints");
    return HS_OK;
}

/* *chosen is the index of the restored checkpoint, or HS__NONE if the directory has no checkpoint. If a checkpoint is
 * damaged, an older one is tried. If it cannot be read now (no permission, no memory, an I/O error), it may be intact, and
 * its steps must not be lost. */
static hs_code restore_first(hs_saver *saver, hs_raw_session *session, const candidates *all,
                             const hs_restore_options *options, const hs__acceptance *others, size_t *chosen, hs_error *err)
{
    hs_error first = {0};
    *chosen = HS__NONE;
    for (size_t i = 0; i < all->n; i++) {
        hs_error cause = {0};
        hs__restore_fault fault;
        hs_code code = hs__restore(saver, session, all->paths[i], options, &fault, &cause);
        if (!code && others)
            code = others->accept(others->user, all->paths[i], &fault, &cause);
        if (!code) {
            *chosen = i;
            hs__raw_session_restored_newest(session);
            return HS_OK;
        }
        if (fault == HS__FAULT_OF_THE_MODEL || !hs__is_damage(&cause))
            return hs__error_copy(err, &cause);
        hs__report_restore(options, HS_RESTORE_EVENT_REJECTED, all->paths[i], cause.message);
        hs_log(&saver->env, HS_LOG_WARNING, "checkpoint '%s' skipped: %s", all->paths[i], cause.message);
        if (!first.code)
            first = cause;
    }
    if (all->n == 0)
        return HS_OK;
    return hs_error_set(err, first.code == HS_NOT_FOUND ? HS_NOT_FOUND : HS_DATA_LOSS,
                        "%s: none of its %zu checkpoints can be restored%s; the newest, '%s': %s", all->directory, all->n,
                        others ? "" : "; nothing was changed", all->paths[0], first.message);
}

/* Copies metric, pin and time from the state file. */
static void copy_attributes(hs__saver_directory *to, const hs__kept_checkpoint *known)
{
    for (size_t i = 0; i < to->n_kept; i++) {
        hs__kept_checkpoint *kept = &to->kept[i];
        if (strcmp(hs__path_base(kept->path), hs__path_base(known->path)) != 0)
            continue;
        kept->metric = known->metric;
        kept->pinned = known->pinned;
        if (known->timestamp > 0)
            kept->timestamp = known->timestamp;
    }
}

static void copy_all_attributes(hs__saver_directory *to, const hs__checkpoint_state *state)
{
    for (size_t i = 0; i < state->n; i++)
        copy_attributes(to, &state->kept[i]);
}

/* The checkpoints of the state file become the saver's list, so that they expire. Damaged ones expire first, so that they
 * do not displace good ones. Other checkpoints in the directory are not deleted: they may be the user's, or kept forever.
 */
static hs_code adopt(hs_saver *saver, const candidates *all, const hs__checkpoint_state *state, size_t chosen,
                     hs_error *err)
{
    hs__saver_directory *to = hs__saver_use_directory(saver, all->paths[chosen], err);
    const char **paths = to ? hs__alloc(&saver->env, all->n + 1, sizeof *paths) : NULL;
    if (!paths)
        return to ? hs__no_memory(err, all->n * sizeof *paths, "the list of checkpoints") : HS_RESOURCE_EXHAUSTED;
    size_t n = 0;
    for (size_t i = 0; i < chosen && i < all->named; i++)
        if (hs__path_is_in(all->paths[i], to->path))
            paths[n++] = all->paths[i];
    for (size_t i = all->named; i-- > chosen + 1;)
        if (hs__path_is_in(all->paths[i], to->path))
            paths[n++] = all->paths[i];
    paths[n] = all->paths[chosen];
    hs_code code = hs__saver_keep_existing(to, paths, err);
    hs__free(&saver->env, paths);
    copy_all_attributes(to, state);
    if (state->last_preserved > 0)
        to->last_preserved = state->last_preserved;
    return code;
}

static void free_candidates(candidates *all)
{
    for (size_t i = 0; i < all->n; i++)
        hs__free(all->env, all->paths[i]);
    hs__free(all->env, all->paths);
}

hs_code hs__restore_newest(hs_saver *saver, hs_raw_session *session, const char *directory,
                           const hs_restore_options *options, const hs__acceptance *others, char **restored, hs_error *err)
{
    candidates all = {.env = &saver->env, .directory = directory};
    hs__checkpoint_state state = {.env = &saver->env};
    size_t chosen = HS__NONE;
    *restored = NULL;
    hs__background_wait(saver); /* the one in progress will be the newest */
    hs_code code = gather(&all, NULL, &state, err);
    if (!code)
        code = restore_first(saver, session, &all, options, others, &chosen, err);
    if (!code && chosen != HS__NONE && !(code = adopt(saver, &all, &state, chosen, err))) {
        *restored = hs__strdup(&session->env, all.paths[chosen]);
        if (!*restored)
            code = hs__no_memory(err, strlen(all.paths[chosen]), "a path");
    }
    hs__checkpoint_state_free(&state);
    free_candidates(&all);
    return code;
}

/* The same for a checkpoint that another saver has restored. */
static hs_code adopt_restored(hs_saver *saver, candidates *all, const char *prefix, hs_error *err)
{
    hs__checkpoint_state state = {.env = &saver->env};
    size_t chosen = 0;
    hs_code code = gather(all, NULL, &state, err);
    while (!code && chosen < all->n && strcmp(hs__path_base(all->paths[chosen]), hs__path_base(prefix)) != 0)
        chosen++;
    if (!code && chosen == all->n)
        code = hs_error_set(err, HS_NOT_FOUND, "hs_saver_take_over: checkpoint '%s' does not exist", prefix);
    if (!code && !(code = adopt(saver, all, &state, chosen, err)))
        code = hs__saver_set_last(saver->directories, prefix, err);
    hs__checkpoint_state_free(&state);
    return code;
}

hs_code hs_saver_take_over(hs_saver *saver, const char *prefix, hs_error *err)
{
    hs_error_clear(err);
    if (!saver || !prefix || !*prefix)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_take_over: %s",
                            saver ? "prefix is missing" : "saver is NULL");
    char *directory = hs__path_directory(&saver->env, prefix);
    if (!directory)
        return hs__no_memory(err, strlen(prefix), "a path");
    candidates all = {.env = &saver->env, .directory = directory};
    hs_code code = adopt_restored(saver, &all, prefix, err);
    free_candidates(&all);
    hs__free(&saver->env, directory);
    return code;
}

/* A state file that cannot be read now is an error: a pin could be lost, and then the checkpoint. */
static hs_code read_attributes(hs__saver_directory *to, hs_error *err)
{
    hs__checkpoint_state state;
    hs_error cause = {0};
    hs_code code = hs__checkpoint_state_read(&state, &to->saver->env, to->path, to->state_file, &cause);
    if (!code)
        copy_all_attributes(to, &state);
    hs__checkpoint_state_free(&state);
    return code && !hs__is_damage(&cause) ? hs__error_copy(err, &cause) : HS_OK;
}

hs_code hs_saver_recover(hs_saver *saver, const char *const *paths, hs_error *err)
{
    hs_error_clear(err);
    if (!saver)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_recover: saver is NULL");
    hs__background_wait(saver);
    hs_code code = HS_OK;
    for (size_t i = 0; !code && paths && paths[i]; i++) {
        hs__saver_directory *to = hs__saver_use_directory(saver, paths[i], err);
        code = to ? hs__saver_keep_existing(to, HS_NAMES(paths[i]), err) : HS_RESOURCE_EXHAUSTED;
    }
    if (!code && saver->directories && saver->directories->n_kept)
        code = read_attributes(saver->directories, err);
    return code;
}
