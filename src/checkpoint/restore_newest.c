/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring the newest valid checkpoint of a directory. */
#include "checkpoint/background.h"
#include "checkpoint/restore_plan.h"

#include "base/files.h"
#include "checkpoint/state_file.h"

#include <stdlib.h>
#include <string.h>

/* Candidates of a directory, best first. */
typedef struct {
    const hs_env *env;
    const char *directory;
    char **paths;
    size_t n, capacity;
    size_t named; /* the first of them are those that the state file names */
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

/* A checkpoint that the state file names. Where the file was written with whole paths and the directory then moved or
 * copied, the one that lies beside the file is meant; also where it cannot be looked for, which restoring it will tell. */
static void add_named(candidates *all, const char *path)
{
    char *beside = hs__path_join(all->env, all->directory, hs__path_base(path));
    if (!beside)
        all->failed = true;
    else
        add_candidate(all, hs__checkpoint_missing(all->env, beside) ? path : beside);
    hs__free(all->env, beside);
}

static int found_file(void *user, const char *name)
{
    candidates *all = user;
    size_t length = strlen(name);
    if (length > 6 && strcmp(name + length - 6, ".index") == 0 && !strstr(name, HS__ABANDONED ".index") &&
        !strstr(name, HS__NONFINITE ".index") && !strstr(name, HS__GRAPH_ASIDE)) {
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

static bool is_leaving(const hs__checkpoint_state *state, const char *path)
{
    for (size_t i = 0; i < state->n_leaving; i++)
        if (strcmp(state->leaving[i], path) == 0)
            return true;
    return false;
}

/* A process may have died between a save and the state file that was to tell of it. Such a checkpoint is newer than the
 * newest that is named, in a file that nobody has touched since: by the name it was saved under, it is the one to go on
 * from. */
static void put_unnamed_successors_first(candidates *all, const hs__checkpoint_state *state)
{
    size_t front = 0;
    int64_t step = hs__step_in(state->newest);
    for (size_t i = all->named; state->untouched && step >= 0 && i < all->n; i++) {
        char *path = all->paths[i];
        if (!hs__same_series(hs__path_base(path), hs__path_base(state->newest)) || hs__step_in(path) <= step ||
            is_leaving(state, path))
            continue;
        memmove(all->paths + front + 1, all->paths + front, (i - front) * sizeof *all->paths);
        all->paths[front++] = path;
    }
    all->named += front;
}

/* All that lie in the directory. One that cannot be looked into is an error: that nothing is found there is a reason to
 * begin anew. */
static hs_code look_through(candidates *all, hs_error *err)
{
    hs_file_stat found;
    hs_error cause = {0};
    hs_code code = hs__stat(all->env, all->directory, &found, &cause);
    if (!code && found.is_directory)
        return hs__list(all->env, all->directory, found_file, all, err);
    return code == HS_NOT_FOUND ? HS_OK : hs__error_copy(err, &cause);
}

/* What the state file says comes first, newest first; then whatever else lies there. HS_OK also where the state file is
 * damaged. */
static hs_code gather(candidates *all, const char *state_file, hs__checkpoint_state *state, hs_error *err)
{
    hs_error cause = {0};
    hs_code code = hs__checkpoint_state_read(state, all->env, all->directory, state_file, &cause);
    bool damaged = code == HS_DATA_LOSS || code == HS_INVALID_ARGUMENT;
    if (damaged) {
        hs_log(all->env, HS_LOG_WARNING, "%s; searching the directory", cause.message);
    } else if (code && code != HS_NOT_FOUND) {
        hs__error_copy(err, &cause);
        return code;
    }
    if (!code) {
        add_named(all, state->newest);
        for (size_t i = state->n; i-- > 0;)
            add_named(all, state->kept[i].path);
    }
    bool has_state = !code;
    all->named = all->n;
    if ((code = look_through(all, err)))
        return code;
    if (all->n > all->named)
        qsort(all->paths + all->named, all->n - all->named, sizeof *all->paths, newest_first);
    if (has_state)
        put_unnamed_successors_first(all, state);
    if (all->failed)
        return hs__no_memory(err, all->n * sizeof *all->paths, "the list of checkpoints");
    return HS_OK;
}

/* Is another checkpoint to be tried instead? One that only cannot be read just now (no permission, no memory, a disk that
 * fails) may be whole, and newer steps are not to be thrown away for it. */
static bool is_damage(hs_code code)
{
    return code == HS_NOT_FOUND || code == HS_DATA_LOSS || code == HS_INVALID_ARGUMENT || code == HS_UNIMPLEMENTED;
}

/* *taken is the number of the one that was restored; HS__NONE: there is none. */
static hs_code try_each(hs_saver *saver, hs_raw_session *session, const candidates *all, const hs_restore_options *options,
                        size_t *taken, hs_error *err)
{
    hs_error first = {0};
    *taken = HS__NONE;
    for (size_t i = 0; i < all->n; i++) {
        hs_error cause = {0};
        hs__restore_fault whose;
        hs_code code = hs__restore(saver, session, all->paths[i], options, &whose, &cause);
        if (!code) {
            *taken = i;
            saver->restored =
                false; /* what is later is no history that was left, but damaged, and is deleted in its turn */
            return HS_OK;
        }
        if (whose == HS__FAULT_OF_THE_MODEL || !is_damage(code)) {
            hs__error_copy(err, &cause);
            return code;
        }
        hs__tell(options, HS_RESTORE_EVENT_REJECTED, all->paths[i], cause.message);
        hs_log(&saver->env, HS_LOG_WARNING, "checkpoint '%s' skipped: %s", all->paths[i], cause.message);
        if (!first.code)
            first = cause;
    }
    if (all->n == 0)
        return HS_OK;
    return hs_error_set(err, first.code == HS_NOT_FOUND ? HS_NOT_FOUND : HS_DATA_LOSS,
                        "%s: none of its %zu checkpoints can be restored; nothing was changed; the newest, '%s': %s",
                        all->directory, all->n, all->paths[0], first.message);
}

/* What the state file knows of a checkpoint that is kept. */
static void recall(hs_saver *saver, const hs__kept_checkpoint *known)
{
    for (size_t i = 0; i < saver->n_kept; i++) {
        hs__kept_checkpoint *kept = &saver->kept[i];
        if (strcmp(hs__path_base(kept->path), hs__path_base(known->path)) != 0)
            continue;
        kept->metric = known->metric;
        kept->pinned = known->pinned;
        if (known->timestamp > 0)
            kept->timestamp = known->timestamp;
    }
}

static void recall_all(hs_saver *saver, const hs__checkpoint_state *state)
{
    for (size_t i = 0; i < state->n; i++)
        recall(saver, &state->kept[i]);
}

/* What the state file names stays in the saver's list, so that it is deleted in its turn: first of all those that were
 * passed over, which must not take the place of good ones. Others that lie there may be somebody's own, or were to be kept
 * forever. */
static hs_code adopt(hs_saver *saver, const candidates *all, const hs__checkpoint_state *state, size_t taken, hs_error *err)
{
    const char **paths = hs__alloc(&saver->env, all->n + 1, sizeof *paths);
    if (!paths)
        return hs__no_memory(err, all->n * sizeof *paths, "the list of checkpoints");
    size_t n = 0;
    for (size_t i = 0; i < taken && i < all->named; i++)
        paths[n++] = all->paths[i];
    for (size_t i = all->named; i-- > taken + 1;)
        paths[n++] = all->paths[i];
    paths[n] = all->paths[taken];
    hs_code code = hs__saver_recover(saver, paths, err);
    hs__free(&saver->env, paths);
    recall_all(saver, state);
    if (state->last_preserved > 0)
        saver->last_preserved = state->last_preserved;
    return code;
}

static void free_candidates(candidates *all)
{
    for (size_t i = 0; i < all->n; i++)
        hs__free(all->env, all->paths[i]);
    hs__free(all->env, all->paths);
}

hs_code hs__restore_newest(hs_saver *saver, hs_raw_session *session, const char *directory,
                           const hs_restore_options *options, char **restored, hs_error *err)
{
    candidates all = {.env = &saver->env, .directory = directory};
    hs__checkpoint_state state = {.env = &saver->env};
    size_t taken = HS__NONE;
    *restored = NULL;
    hs__background_wait(saver); /* what is on its way is the newest */
    hs_code code = gather(&all, NULL, &state, err);
    if (!code)
        code = try_each(saver, session, &all, options, &taken, err);
    if (!code && taken != HS__NONE && !(code = adopt(saver, &all, &state, taken, err))) {
        *restored = hs__strdup(&session->env, all.paths[taken]);
        if (!*restored)
            code = hs__no_memory(err, strlen(all.paths[taken]), "a path");
    }
    hs__checkpoint_state_free(&state);
    free_candidates(&all);
    return code;
}

/* The same without the restoring, which another saver has done. */
static hs_code take_over(hs_saver *saver, candidates *all, const char *prefix, hs_error *err)
{
    hs__checkpoint_state state = {.env = &saver->env};
    size_t taken = 0;
    hs_code code = gather(all, NULL, &state, err);
    while (!code && taken < all->n && strcmp(hs__path_base(all->paths[taken]), hs__path_base(prefix)) != 0)
        taken++;
    if (!code && taken == all->n)
        code = hs_error_set(err, HS_NOT_FOUND, "hs_saver_take_over: there is no checkpoint '%s'", prefix);
    if (!code && !(code = adopt(saver, all, &state, taken, err)) && !(code = hs__saver_set_last(saver, prefix, err)))
        saver->restored = true;
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
    hs_code code = take_over(saver, &all, prefix, err);
    free_candidates(&all);
    hs__free(&saver->env, directory);
    return code;
}

/* If the state file cannot be read just now, this is an error: a pin could be lost, and then the checkpoint. */
static hs_code recall_from(hs_saver *saver, const char *newest, hs_error *err)
{
    hs__checkpoint_state state;
    hs_error cause = {0};
    char *directory = hs__path_directory(&saver->env, newest);
    if (!directory)
        return hs__no_memory(err, strlen(newest), "a path");
    hs_code code = hs__checkpoint_state_read(&state, &saver->env, directory, saver->state_file, &cause);
    hs__free(&saver->env, directory);
    if (!code)
        recall_all(saver, &state);
    hs__checkpoint_state_free(&state);
    return is_damage(code) ? HS_OK : hs__error_copy(err, &cause);
}

hs_code hs_saver_recover(hs_saver *saver, const char *const *paths, hs_error *err)
{
    hs_error_clear(err);
    if (!saver)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_recover: saver is NULL");
    hs__background_wait(saver);
    hs_code code = paths ? hs__saver_recover(saver, paths, err) : HS_OK;
    if (!code && saver->n_kept)
        code = recall_from(saver, saver->kept[saver->n_kept - 1].path, err);
    return code;
}
