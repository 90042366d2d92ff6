/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/directory.h"

#include <hooksess/checkpoint.h>

#include "base/files.h"
#include "checkpoint/state_file.h"
#include "formats/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names. */

typedef enum { INDEX, META, DATA, OF_GRAPH, NO_PART } part;

/* A file's name after the prefix of its checkpoint. */
typedef struct {
    part part;
    int shard, shards; /* of data */
    bool tmp;          /* a temporary file */
} ending;

static ending read_ending(const char *text)
{
    enum { DATA_LENGTH = sizeof ".data-00000-of-00001" - 1 };
    ending e = {.part = NO_PART};
    int end = 0;
    if (strncmp(text, HS__GRAPH_TMP, sizeof HS__GRAPH_TMP - 1) == 0)
        return (ending){.part = OF_GRAPH, .tmp = true};
    if (strncmp(text, ".index", 6) == 0) {
        e.part = INDEX;
        text += 6;
    } else if (strncmp(text, ".meta", 5) == 0) {
        e.part = META;
        text += 5;
    } else if (sscanf(text, ".data-%5d-of-%5d%n", &e.shard, &e.shards, &end) == 2 && end == DATA_LENGTH) {
        e.part = DATA;
        text += end;
    }
    e.tmp = strcmp(text, ".tmp") == 0;
    if (*text && !e.tmp)
        e.part = NO_PART;
    return e;
}

/* Returns what follows BASE or BASE-STEP in the name, or NULL. */
static const char *ending_of(const char *name, const char *base)
{
    size_t length = strlen(base);
    if (strncmp(name, base, length) != 0)
        return NULL;
    name += length;
    size_t digits = *name == '-' ? strspn(name + 1, "0123456789") : 0;
    return digits ? name + 1 + digits : name;
}

int64_t hs__step_in(const char *path)
{
    enum { MOST_DIGITS = 18 };
    const char *dash = strrchr(path, '-');
    size_t digits = dash ? strspn(dash + 1, "0123456789") : 0;
    return digits && digits <= MOST_DIGITS && !dash[1 + digits] ? strtoll(dash + 1, NULL, 10) : -1;
}

bool hs__same_series(const char *name, const char *other)
{
    const char *dash = strrchr(name, '-'), *other_dash = strrchr(other, '-');
    return hs__step_in(name) >= 0 && hs__step_in(other) >= 0 && dash - name == other_dash - other &&
           strncmp(name, other, (size_t)(dash - name)) == 0;
}

/* Deleting. */

typedef struct {
    const hs_env *env;
    const char *directory, *base;
    hs__data_range except;
} data_removal;

static bool is_in(ending e, hs__data_range range)
{
    return e.shards == range.of && e.shard >= range.first && e.shard - range.first < range.n;
}

static int remove_data(void *user, const char *name)
{
    const data_removal *removal = user;
    size_t length = strlen(removal->base);
    if (strncmp(name, removal->base, length) != 0)
        return 0;
    ending e = read_ending(name + length);
    if (e.part == DATA && !e.tmp && !is_in(e, removal->except)) {
        char *path = hs__path_join(removal->env, removal->directory, name);
        if (path)
            hs__file_remove(removal->env, path);
        else
            hs__log_undeleted(removal->env, name);
        hs__free(removal->env, path);
    }
    return 0;
}

void hs__delete_stale_data(const hs_env *env, const char *prefix, hs__data_range except)
{
    char *directory = hs__path_directory(env, prefix);
    data_removal removal = {env, directory, hs__path_base(prefix), except};
    hs_error error = {0};
    if (!directory)
        hs__log_undeleted(env, prefix);
    else if (hs__list(env, directory, remove_data, &removal, &error))
        hs_log(env, HS_LOG_WARNING, "%s", error.message);
    hs__free(env, directory);
}

bool hs__delete_checkpoint(const hs_env *env, const char *prefix)
{
    char *index = hs__bundle_index_path(env, prefix), *meta = hs__format(env, "%s.meta", prefix);
    bool gone = false;
    if (index && meta) {
        hs__file_remove(env, index);
        gone = hs__file_missing(env, index);
    } else {
        hs__log_undeleted(env, prefix);
    }
    if (gone) {
        hs__delete_stale_data(env, prefix, (hs__data_range){0, 0, 0});
        hs__file_remove(env, meta);
    }
    hs__free(env, index);
    hs__free(env, meta);
    return gone;
}

/* Sweeping. */

typedef struct {
    const hs_env *env;
    const char *directory, *base;
    char **orphans;
    size_t n, capacity;
} sweep;

bool hs__checkpoint_missing(const hs_env *env, const char *prefix)
{
    char *index = hs__bundle_index_path(env, prefix);
    bool missing = index && hs__file_missing(env, index);
    hs__free(env, index);
    return missing;
}

/* Neither of this format, nor of TensorFlow's format V1, which is one file. */
static bool is_absent(const hs_env *env, const char *prefix)
{
    return hs__checkpoint_missing(env, prefix) && hs__file_missing(env, prefix);
}

static bool has_shard(const hs__bundle_reader *reader, int32_t shard)
{
    char *path = hs__bundle_data_path(reader->env, reader->prefix, shard, reader->shards);
    bool exists = path && hs__file_exists(reader->env, path);
    hs__free(reader->env, path);
    return exists;
}

/* Returns true if all data files of the index exist. */
static bool has_data(const hs__bundle_reader *reader)
{
    bool has = true;
    int32_t looked_at = -1;
    for (size_t i = 0; has && i < reader->n_entries; i++) {
        const hs__bundle_entry *entry = &reader->entries[i];
        if (!entry->slices && entry->shard != looked_at)
            has = has_shard(reader, looked_at = entry->shard);
    }
    for (size_t i = 0; has && i < reader->n_slices; i++)
        has = has_shard(reader, reader->slices[i].entry.shard);
    return has;
}

/* Returns true if the data file belongs to an interrupted save that was to replace this checkpoint: its name has another
 * number of shards than the index, whose files exist. */
static bool is_replaced(const hs_env *env, const char *prefix, ending e)
{
    hs__bundle_reader reader;
    if (hs__bundle_reader_open(&reader, env, prefix, NULL))
        return false;
    bool replaced = reader.shards != e.shards && has_data(&reader);
    hs__bundle_reader_close(&reader);
    return replaced;
}

static bool is_orphan(const hs_env *env, const char *prefix, ending e)
{
    if (e.tmp)
        return true;
    if (e.part != INDEX && is_absent(env, prefix))
        return true;
    return e.part == DATA && is_replaced(env, prefix, e);
}

static int collect_orphan(void *user, const char *name)
{
    sweep *s = user;
    const char *rest = ending_of(name, s->base);
    ending e = rest ? read_ending(rest) : (ending){.part = NO_PART};
    if (e.part == NO_PART)
        return 0;
    char *path = hs__path_join(s->env, s->directory, name);
    char *prefix = path ? hs__strndup(s->env, path, strlen(path) - strlen(rest)) : NULL;
    if (prefix && is_orphan(s->env, prefix, e) &&
        !hs__reserve(s->env, &s->orphans, &s->capacity, s->n + 1, sizeof *s->orphans, NULL)) {
        s->orphans[s->n++] = path;
        path = NULL;
    }
    hs__free(s->env, path);
    hs__free(s->env, prefix);
    return 0;
}

/* Since the state file was written, a checkpoint of that name may have been saved again, or restored. */
static bool is_in_use(const hs__held_directory *held, const hs__checkpoint_state *state, const char *path)
{
    bool used = held->is_kept(held->user, path) || strcmp(path, state->newest) == 0;
    for (size_t i = 0; !used && i < state->n; i++)
        used = strcmp(path, state->kept[i].path) == 0;
    return used;
}

void hs__finish_deleting(hs__held_directory *held, const hs_env *env, const char *state_file)
{
    hs__checkpoint_state state;
    const char *directory = held->path;
    if (held->deletions_finished || hs__lock_is_shared(env, held->lock))
        return;
    held->deletions_finished = true;
    char *tmp = hs__format(env, "%s/%s.tmp", directory, state_file ? state_file : "checkpoint");
    if (tmp && hs__file_exists(env, tmp))
        hs__file_remove(env, tmp);
    hs__free(env, tmp);
    if (hs__checkpoint_state_read(&state, env, directory, state_file, NULL))
        return; /* the restore has logged the reason */
    for (size_t i = 0; i < state.n_expired; i++)
        if (!is_absent(env, state.expired[i]) && !is_in_use(held, &state, state.expired[i])) {
            hs_log(env, HS_LOG_INFO, "deleting '%s', which an earlier process was about to delete", state.expired[i]);
            hs__delete_checkpoint(env, state.expired[i]);
        }
    hs__checkpoint_state_free(&state);
}

/* Removes an orphan. If its checkpoint was being abandoned, renames it as its index was. */
static void remove_orphan(const sweep *s, const char *path)
{
    const char *rest = ending_of(hs__path_base(path), s->base);
    char *index = hs__format(s->env, "%.*s" HS__ABANDONED ".index", (int)(rest - path), path);
    char *abandoned = hs__format(s->env, "%.*s" HS__ABANDONED "%s", (int)(rest - path), path, rest);
    hs_error error = {0};
    if (!index || !abandoned)
        hs__log_undeleted(s->env, path);
    else if (read_ending(rest).part == OF_GRAPH)
        hs__remove_all(s->env, path);
    else if (read_ending(rest).tmp || hs__file_missing(s->env, index) || hs__file_exists(s->env, abandoned))
        hs__file_remove(s->env, path);
    else if (hs__file_exists(s->env, index) && hs__rename(s->env, path, abandoned, &error))
        hs_log(s->env, HS_LOG_WARNING, "%s", error.message);
    hs__free(s->env, index);
    hs__free(s->env, abandoned);
}

/* Failures are warnings, and do not fail the save. */
static void sweep_directory(const hs__held_directory *held, const hs_env *env, const char *base)
{
    const char *directory = held->path;
    sweep s = {.env = env, .directory = directory, .base = base};
    hs_error error = {0};
    if (hs__list(env, directory, collect_orphan, &s, &error))
        hs_log(env, HS_LOG_WARNING, "%s", error.message);
    if (s.n)
        hs_log(env, HS_LOG_INFO, "%s: removing %zu files of interrupted saves", directory, s.n);
    for (size_t i = 0; i < s.n; i++) {
        remove_orphan(&s, s.orphans[i]);
        hs__free(env, s.orphans[i]);
    }
    hs__free(env, s.orphans);
}

/* Abandoning. */

typedef struct {
    const hs_env *env;
    const char *directory, *series; /* a name BASE-STEP */
    int64_t step;
    const hs__held_directory *held;
    char **paths; /* of the checkpoints */
    size_t n, capacity;
    bool no_memory;
} later;

static int collect_later(void *user, const char *name)
{
    later *l = user;
    const char *dot = strstr(name, ".index");
    if (!dot || dot[sizeof ".index" - 1])
        return 0;
    char *stem = hs__strndup(l->env, name, (size_t)(dot - name));
    char *path = stem ? hs__path_join(l->env, l->directory, stem) : NULL;
    l->no_memory |= !path;
    if (path && hs__same_series(stem, l->series) && hs__step_in(stem) > l->step && !l->held->is_kept(l->held->user, path)) {
        l->no_memory |= hs__reserve(l->env, &l->paths, &l->capacity, l->n + 1, sizeof *l->paths, NULL) != HS_OK;
        if (!l->no_memory) {
            l->paths[l->n++] = path;
            path = NULL;
        }
    }
    hs__free(l->env, stem);
    hs__free(l->env, path);
    return 0;
}

typedef struct {
    const hs_env *env;
    const char *directory, *base; /* of the checkpoint */
    hs_code code;
    hs_error *err;
} renaming;

/* PREFIX.x becomes PREFIX.abandoned.x. */
static int rename_part(void *user, const char *name)
{
    renaming *r = user;
    size_t length = strlen(r->base);
    if (strncmp(name, r->base, length) != 0 || read_ending(name + length).part == NO_PART)
        return 0;
    char *from = hs__path_join(r->env, r->directory, name);
    char *to = hs__format(r->env, "%s/%s" HS__ABANDONED "%s", r->directory, r->base, name + length);
    r->code = from && to ? hs__rename(r->env, from, to, r->err) : hs__no_memory(r->err, length, "a path");
    hs__free(r->env, from);
    hs__free(r->env, to);
    return r->code;
}

static hs_code rename_index(const hs_env *env, const char *prefix, hs_error *err)
{
    char *from = hs__bundle_index_path(env, prefix), *to = hs__format(env, "%s" HS__ABANDONED ".index", prefix);
    hs_code code = from && to ? hs__rename(env, from, to, err) : hs__no_memory(err, strlen(prefix), "a path");
    hs__free(env, from);
    hs__free(env, to);
    return code;
}

static hs_code rename_rest(const hs_env *env, const char *directory, const char *prefix, hs_error *err)
{
    renaming r = {.env = env, .directory = directory, .base = hs__path_base(prefix), .err = err};
    hs_code code = hs__list(env, directory, rename_part, &r, err);
    if (!code && !(code = r.code))
        hs_log(env, HS_LOG_WARNING, "checkpoint '%s' is later than the step being saved; renamed to '%s" HS__ABANDONED "'",
               prefix, r.base);
    return code;
}

static int earliest_first(const void *a, const void *b)
{
    int64_t x = hs__step_in(*(char *const *)a), y = hs__step_in(*(char *const *)b);
    return (x > y) - (x < y);
}

/* Deletes checkpoints that were abandoned under the same names before, so that files of two checkpoints do not mix. */
static hs_code free_names(const later *l, hs_error *err)
{
    bool changed = false;
    for (size_t i = 0; i < l->n; i++) {
        char *prefix = hs__format(l->env, "%s" HS__ABANDONED, l->paths[i]);
        if (!prefix)
            return hs__no_memory(err, strlen(l->paths[i]), "a path");
        if (!hs__checkpoint_missing(l->env, prefix)) {
            hs_log(l->env, HS_LOG_WARNING, "deleting '%s' to reuse its name", prefix);
            hs__delete_checkpoint(l->env, prefix);
            changed = true;
        }
        hs__free(l->env, prefix);
    }
    return changed ? hs__sync_directory(l->env, l->directory, err) : HS_OK;
}

/* If this is interrupted, the latest checkpoint still exists, or none of them does, and each index has its data. The next
 * sweep renames the files that belong to a renamed index. */
static hs_code abandon(const later *l, hs_error *err)
{
    hs_code code = free_names(l, err);
    for (size_t i = 0; !code && i < l->n; i++) {
        if (i && i == l->n - 1)
            code = hs__sync_directory(l->env, l->directory, err);
        if (!code)
            code = rename_index(l->env, l->paths[i], err);
    }
    if (!code)
        code = hs__sync_directory(l->env, l->directory, err);
    for (size_t i = 0; !code && i < l->n; i++)
        code = rename_rest(l->env, l->directory, l->paths[i], err);
    return code;
}

hs_code hs__abandon_later(const hs__held_directory *held, const hs_env *env, const char *base, int64_t step, hs_error *err)
{
    char *series = hs__format(env, "%s-0", base);
    later l = {.env = env, .directory = held->path, .series = series, .step = step, .held = held};
    hs_code code = series ? hs__list(env, held->path, collect_later, &l, err) : hs__no_memory(err, strlen(base), "a name");
    if (!code && l.no_memory)
        code = hs__no_memory(err, l.n * sizeof *l.paths, "the list of checkpoints");
    if (!code && l.n) {
        qsort(l.paths, l.n, sizeof *l.paths, earliest_first);
        code = abandon(&l, err);
    }
    for (size_t i = 0; i < l.n; i++)
        hs__free(env, l.paths[i]);
    hs__free(env, l.paths);
    hs__free(env, series);
    return code;
}

/* Holding. */

static hs_code acquire_lock(hs__held_directory *held, const hs_env *env, const char *directory, hs_error *err)
{
    char *path = hs__path_join(env, directory, HS_CHECKPOINT_LOCK);
    if (!path)
        return hs__no_memory(err, strlen(directory), "a path");
    hs_error cause = {0};
    hs_code code = hs__lock(env, path, &held->lock, &cause);
    if (code == HS_UNIMPLEMENTED) {
        if (!held->path)
            hs_log(env, HS_LOG_WARNING, "%s; another process could save to this directory at the same time", cause.message);
        code = HS_OK;
    } else if (code == HS_FAILED_PRECONDITION && !cause.os_error) {
        hs_error_set(err, code,
                     "cannot save to '%s': another process saves there: %s; stop that process, or use another directory",
                     directory, cause.message);
    } else if (code) {
        hs__error_copy(err, &cause);
    }
    hs__free(env, path);
    return code;
}

/* An earlier process may have been killed between a rename and its sync. All that follows, such as removing files, relies
 * on the names that are visible now, so these are synced first. */
static hs_code sync_names(const hs_env *env, const char *directory, hs_error *err)
{
    hs_error cause = {0};
    char *parent = hs__path_directory(env, directory);
    if (!parent)
        return hs__no_memory(err, strlen(directory), "a path");
    hs_code code = hs__sync_directory(env, parent, &cause);
    if (code && code != HS_PERMISSION_DENIED) /* a parent without permission is not the program's */
        hs_log(env, HS_LOG_WARNING, "%s; a power failure may lose '%s'", cause.message, directory);
    hs__free(env, parent);
    return hs__sync_directory(env, directory, err);
}

hs_code hs__hold_directory(hs__held_directory *held, const hs_env *env, const char *directory, const char *base,
                           hs_error *err)
{
    bool before = held->path && strcmp(held->path, directory) == 0;
    if (!before)
        hs__release_directory(held, env);
    hs_code code = acquire_lock(held, env, directory, err);
    if (code || (before && !held->needs_sweep))
        return code;
    if (!(code = sync_names(env, directory, err)) && !before && !(held->path = hs__strdup(env, directory)))
        code = hs__no_memory(err, strlen(directory), "a path");
    if (!code) {
        /* another saver of this process has swept; temporary files may belong to its save in progress */
        if (base && !hs__lock_is_shared(env, held->lock))
            sweep_directory(held, env, base);
        held->needs_sweep = !base;
    } else if (!before) {
        hs__release_directory(held, env);
    }
    return code;
}

void hs__release_directory(hs__held_directory *held, const hs_env *env)
{
    hs__unlock(env, held->lock);
    hs__free(env, held->path);
    *held = (hs__held_directory){.is_kept = held->is_kept, .user = held->user};
}
