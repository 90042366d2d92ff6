/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring the newest valid checkpoint of a directory: find_candidates lists the checkpoints in the order in which they
 * are tried, restore_first falls back from damaged ones to older ones, on all ranks of a group, and adopt makes the saver
 * keep them.
 */
#include "checkpoint/restore.h"

#include "base/files.h"
#include "base/map.h"
#include "checkpoint/background.h"
#include "ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

/* A process may have been killed between a checkpoint and its state file (saver.h). Such a checkpoint, a successor, is
 * later than the newest of a state file that was not edited since. It is tried first. */
typedef enum { SUCCESSOR, NAMED, OTHER } source;

typedef struct {
    const char *path;
    source source; /* NAMED: by the state file */
    size_t order;  /* in which it was found */
} candidate;

/* The checkpoints of a directory, in the order in which they are tried. */
typedef struct {
    const hs_env *env;
    const char *directory; /* NULL: one checkpoint is named, or none */
    hs__checkpoint_state state;
    candidate *items;
    size_t n, capacity;
    size_t n_adopted; /* the first ones: those of the state file and their successors */
    hs__map paths;    /* owns them */
    bool failed;      /* out of memory */
} candidates;

static void free_candidates(candidates *all)
{
    hs__checkpoint_state_free(&all->state);
    hs__map_free(&all->paths);
    hs__free(all->env, all->items);
}

static void add_candidate(candidates *all, const char *path, source of)
{
    candidate added = {.source = of, .order = all->n};
    all->failed |= hs__reserve(all->env, &all->items, &all->capacity, all->n + 1, sizeof added, NULL) ||
                   hs__map_add(&all->paths, path, 0, &added.path, NULL);
    if (all->paths.n > all->n)
        all->items[all->n++] = added;
}

/* hs__list: an index may be of a successor. One that is to be deleted is not. */
static int add_file(void *user, const char *name)
{
    candidates *all = user;
    const hs__checkpoint_state *state = &all->state;
    if (!hs__index_stem(name) || strstr(name, HS__ABANDONED ".index"))
        return 0;
    char *path = hs__path_join(all->env, all->directory, name);
    if (!path) {
        all->failed = true;
        return 0;
    }
    path[strlen(path) - strlen(".index")] = '\0';
    const char *stem = hs__path_base(path), *newest = state->unedited ? hs__path_base(state->newest) : "";
    bool is_successor = hs__same_series(stem, newest) && hs__step_in(stem) > hs__step_in(newest);
    for (size_t i = 0; is_successor && i < state->n_expired; i++)
        is_successor = strcmp(hs__path_base(state->expired[i]), stem) != 0;
    add_candidate(all, path, is_successor ? SUCCESSOR : OTHER);
    hs__free(all->env, path);
    return 0;
}

/* The named ones in the order of the state file. Of the others, the latest first. */
static int in_order(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    int64_t x_step = hs__step_in(x->path), y_step = hs__step_in(y->path);
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    if (x->source != NAMED && x_step != y_step)
        return x_step > y_step ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Lists the checkpoints in the order in which they are tried: successors, those of the state file, newest first, and the
 * others of the directory. A damaged state file is only a warning. If the directory cannot be listed, that is an error: a
 * training that finds no checkpoint starts again. */
static hs_code find_candidates(candidates *all, const hs_env *env, const char *path, const char *directory, hs_error *err)
{
    *all = (candidates){.env = env, .directory = directory, .state = {.env = env}, .paths = {.env = env}};
    hs__checkpoint_state *state = &all->state;
    hs_error cause = {0};
    if (path)
        add_candidate(all, path, NAMED);
    if (!directory)
        return all->failed ? hs__no_memory(err, sizeof *all->items, "a path") : HS_OK;
    hs_code code = hs__checkpoint_state_read(state, all->env, all->directory, NULL, &cause);
    if (code && !hs__is_damage(&cause))
        return hs__error_copy(err, &cause);
    if (code && code != HS_NOT_FOUND)
        hs_log(all->env, HS_LOG_WARNING, "%s; searching the directory", cause.message);
    if (!code)
        add_candidate(all, state->newest, NAMED);
    for (size_t i = state->n; i-- > 0;)
        add_candidate(all, state->kept[i].path, NAMED);
    hs_file_stat found;
    hs_error_clear(&cause);
    code = hs__stat(all->env, all->directory, &found, &cause);
    if (code && code != HS_NOT_FOUND)
        return hs__error_copy(err, &cause);
    if (!code && found.is_directory && (code = hs__list(all->env, all->directory, add_file, all, err)))
        return code;
    if (all->failed)
        return hs__no_memory(err, all->n * sizeof *all->items, "the list of checkpoints");
    if (all->n)
        qsort(all->items, all->n, sizeof *all->items, in_order);
    while (all->n_adopted < all->n && all->items[all->n_adopted].source != OTHER)
        all->n_adopted++;
    return HS_OK;
}

/* What rank 0 sends before each attempt. */
typedef struct {
    char path[HS__PATH_SIZE]; /* "": none is left. Of fixed size, because memory may be exhausted on one rank */
    uint32_t whole;           /* hs__restore_source.whole */
} attempt;

/* Restores the first of the checkpoints of rank 0 that no rank finds damaged. On the other ranks `all` is empty: they get
 * each path from rank 0. *chosen is its index; HS__NONE: rank 0 has no checkpoint. If a checkpoint is damaged, an older one
 * is tried. If it cannot be read now (no permission, no memory, an I/O error), it may be intact, and its steps must not be
 * lost. */
static hs_code restore_first(hs_saver *saver, hs_raw_session *session, const candidates *all, bool whole,
                             const hs_restore_options *options, size_t *chosen, attempt *now, hs_error *err)
{
    hs_error first = {0};
    *chosen = HS__NONE;
    for (size_t i = 0;; i++) {
        hs_error cause = {0};
        bool damaged = false, damaged_on_any;
        memset(now, 0, sizeof *now);
        now->whole = whole;
        if (all->n && i == all->n && !all->directory)
            return hs__error_copy(err, &first);
        if (all->n && i == all->n)
            return hs_error_set(err, first.code == HS_NOT_FOUND ? HS_NOT_FOUND : HS_DATA_LOSS,
                                "%s: none of its %zu checkpoints can be restored%s; the newest, '%s': %s", all->directory,
                                all->n, session->ranks ? "" : "; nothing was changed", all->items[0].path, first.message);
        if (i < all->n && strlen(all->items[i].path) >= sizeof now->path)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "the path of the checkpoint is longer than %zu bytes",
                                sizeof now->path);
        if (i < all->n)
            memcpy(now->path, all->items[i].path, strlen(all->items[i].path));
        hs_code code = hs__ranks_from_chief(session->ranks, HS__TOPIC_RESTORE, now, sizeof *now, err);
        if (code || !now->path[0])
            return code;
        code = hs__restore(saver, session, now->path, now->whole ? HS_RESTORE_OPTIONS() : options, &damaged, &cause);
        if (code && session->rank) { /* all ranks read the same directory: a missing file is not damage */
            damaged = hs__is_damage_for_all(damaged, &cause);
            hs_log(&saver->env, HS_LOG_WARNING, "cannot restore '%s': %s", now->path, cause.message);
        }
        if (code && !damaged) /* the others wait for the next message of this rank, of its caller or of the close */
            return hs__error_copy(err, &cause);
        if ((code = hs__ranks_any(session->ranks, HS__TOPIC_RESTORE, damaged, &damaged_on_any, err)))
            return code;
        if (!damaged_on_any) {
            *chosen = i;
            return HS_OK;
        }
        if (!damaged) {
            hs_error_set(&cause, HS_DATA_LOSS, "another rank found damage, and logged it");
            hs__report_restore(options, HS_RESTORE_EVENT_REJECTED, now->path, cause.message);
        }
        if (!session->rank)
            hs_log(&saver->env, HS_LOG_WARNING, "checkpoint '%s' skipped: %s", now->path, cause.message);
        if (!first.code)
            first = cause;
    }
}

/* Copies metrics, pins and times from the state file. */
static hs_code copy_attributes(hs__saver_directory *to, const hs__checkpoint_state *state, hs_error *err)
{
    hs__map names;
    hs__map_init(&names, &to->saver->env);
    hs_code code = hs__kept_names(&names, to->kept, to->n_kept, err);
    for (size_t i = 0; !code && i < state->n; i++) {
        const hs__kept_checkpoint *known = &state->kept[i];
        size_t at = hs__map_find(&names, hs__path_base(known->path));
        if (at == HS__NONE)
            continue;
        to->kept[at].metric = known->metric;
        to->kept[at].pinned = known->pinned;
        if (known->timestamp > 0)
            to->kept[at].timestamp = known->timestamp;
    }
    hs__map_free(&names);
    return code;
}

/* The checkpoints of the state file become the saver's list, so that they expire. Damaged ones expire first, so that they
 * do not displace good ones. Other checkpoints in the directory are not deleted: they may be the user's, or kept forever.
 */
static hs_code adopt(hs_saver *saver, const candidates *all, size_t chosen, hs_error *err)
{
    hs__saver_directory *to = hs__saver_use_directory(saver, all->items[chosen].path, err);
    const char **paths = to ? hs__alloc(&saver->env, all->n + 1, sizeof *paths) : NULL;
    if (!paths)
        return to ? hs__no_memory(err, all->n * sizeof *paths, "the list of checkpoints") : HS_RESOURCE_EXHAUSTED;
    size_t n = 0;
    for (size_t i = 0; i < chosen && i < all->n_adopted; i++)
        if (hs__path_is_in(all->items[i].path, to->path))
            paths[n++] = all->items[i].path;
    for (size_t i = all->n_adopted; i-- > chosen + 1;)
        if (hs__path_is_in(all->items[i].path, to->path))
            paths[n++] = all->items[i].path;
    paths[n++] = all->items[chosen].path;
    hs_code code = hs__saver_keep_existing(to, paths, n, err);
    hs__free(&saver->env, paths);
    if (!code)
        code = copy_attributes(to, &all->state, err);
    if (all->state.last_preserved > 0)
        to->last_preserved = all->state.last_preserved;
    return code;
}

hs_code hs__restore_from(hs_saver *saver, hs_raw_session *session, const hs__restore_source *from,
                         const hs_restore_options *options, char **restored, hs_error *err)
{
    const hs__restore_source mine = session->rank ? (hs__restore_source){.path = NULL} : *from;
    candidates all;
    size_t chosen = HS__NONE;
    attempt last;
    *restored = NULL;
    hs__background_wait(saver); /* the one in progress will be the newest */
    hs_code code = find_candidates(&all, &saver->env, mine.path, mine.directory, err);
    if (!code)
        code = restore_first(saver, session, &all, from->whole, options, &chosen, &last, err);
    if (!code && chosen != HS__NONE) {
        hs__raw_session_returned(session, mine.directory);
        code = mine.directory ? adopt(saver, &all, chosen, err) : HS_OK;
    }
    if (!code && chosen != HS__NONE && !(*restored = hs__strdup(&session->env, last.path)))
        code = hs__no_memory(err, strlen(last.path), "a path");
    free_candidates(&all);
    return code;
}

hs_code hs__restore_newest(hs_saver *saver, hs_raw_session *session, const char *directory,
                           const hs_restore_options *options, char **restored, hs_error *err)
{
    return hs__restore_from(saver, session, &(hs__restore_source){.directory = directory}, options, restored, err);
}

hs_code hs_saver_take_over(hs_saver *saver, const char *prefix, hs_error *err)
{
    hs_error_clear(err);
    if (!saver || !prefix || !*prefix)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_take_over: %s",
                            saver ? "prefix is missing" : "saver is NULL");
    hs__background_wait(saver);
    char *directory = hs__path_directory(&saver->env, prefix);
    if (!directory)
        return hs__no_memory(err, strlen(prefix), "a path");
    candidates all;
    size_t chosen = 0;
    hs_code code = find_candidates(&all, &saver->env, NULL, directory, err);
    while (!code && chosen < all.n && strcmp(hs__path_base(all.items[chosen].path), hs__path_base(prefix)) != 0)
        chosen++;
    if (!code && chosen == all.n)
        code = hs_error_set(err, HS_NOT_FOUND, "hs_saver_take_over: checkpoint '%s' does not exist", prefix);
    if (!code && !(code = adopt(saver, &all, chosen, err)))
        code = hs__saver_set_text(saver, &saver->directories->last_path, prefix, err);
    free_candidates(&all);
    hs__free(&saver->env, directory);
    return code;
}

hs_code hs_saver_recover(hs_saver *saver, const char *const *paths, hs_error *err)
{
    hs_error_clear(err);
    if (!saver)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_recover: saver is NULL");
    hs__background_wait(saver);
    hs_code code = HS_OK;
    for (size_t i = 0, n; !code && paths && paths[i]; i += n) {
        hs__saver_directory *to = hs__saver_use_directory(saver, paths[i], err);
        for (n = 1; to && paths[i + n] && hs__path_is_in(paths[i + n], to->path);)
            n++;
        code = to ? hs__saver_keep_existing(to, paths + i, n, err) : HS_RESOURCE_EXHAUSTED;
    }
    hs__saver_directory *last = saver->directories;
    if (code || !last || !last->n_kept)
        return code;

    /* a state file that cannot be read now is an error: a pin could be lost, and then the checkpoint */
    hs__checkpoint_state state;
    hs_error cause = {0};
    if (!(code = hs__checkpoint_state_read(&state, &saver->env, last->path, last->state_file, &cause)))
        code = copy_attributes(last, &state, &cause);
    hs__checkpoint_state_free(&state);
    return code && !hs__is_damage(&cause) ? hs__error_copy(err, &cause) : HS_OK;
}
