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

typedef enum { INDEX, META, DATA, NO_PART } part;

/* What of a checkpoint a file is, by its name after the prefix. */
typedef struct {
    part part;
    int shard, shards; /* of data */
    bool aside;        /* being written: ".tmp" is behind it */
} ending;

static ending read_ending(const char *text)
{
    enum { DATA_LENGTH = sizeof ".data-00000-of-00001" - 1 };
    ending e = {.part = NO_PART};
    int end = 0;
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
    e.aside = strcmp(text, ".tmp") == 0;
    if (*text && !e.aside)
        e.part = NO_PART;
    return e;
}

/* The ending of a file of BASE or BASE-STEP, or NULL. */
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
    int shard, shards; /* this one stays; shards 0: none does */
} data_removal;

static int remove_data(void *user, const char *name)
{
    const data_removal *removal = user;
    size_t length = strlen(removal->base);
    if (strncmp(name, removal->base, length) != 0)
        return 0;
    ending e = read_ending(name + length);
    if (e.part == DATA && !e.aside && (e.shard != removal->shard || e.shards != removal->shards)) {
        char *path = hs__path_join(removal->env, removal->directory, name);
        if (path)
            hs__file_remove(removal->env, path);
        hs__free(removal->env, path);
    }
    return 0;
}

void hs__delete_stale_data(const hs_env *env, const char *prefix, int shard, int shards)
{
    char *directory = hs__path_directory(env, prefix);
    data_removal removal = {env, directory, hs__path_base(prefix), shard, shards};
    hs_error error = {0};
    if (directory && hs__list(env, directory, remove_data, &removal, &error))
        hs_log(env, HS_LOG_WARNING, "%s", error.message);
    hs__free(env, directory);
}

void hs__delete_checkpoint(const hs_env *env, const char *prefix)
{
    char *index = hs__bundle_index_path(env, prefix), *meta = hs__format(env, "%s.meta", prefix);
    if (index && meta) {
        hs__file_remove(env, index);
        hs__delete_stale_data(env, prefix, 0, 0);
        hs__file_remove(env, meta);
    }
    hs__free(env, index);
    hs__free(env, meta);
}

/* Sweeping. */

typedef struct {
    const hs_env *env;
    const char *directory, *base;
    char **orphans;
    size_t n, capacity;
} sweep;

/* Is `prefix` certainly no checkpoint, nor one of TensorFlow's first format, which is one file? */
static bool is_no_checkpoint(const hs_env *env, const char *prefix)
{
    char *index = hs__bundle_index_path(env, prefix);
    bool none = index && hs__file_missing(env, index) && hs__file_missing(env, prefix);
    hs__free(env, index);
    return none;
}

/* Data that lie beside those that the index speaks of: a save over a checkpoint was cut short. Both names are then there,
 * 0 of 1 and 1 of 2. */
static bool is_replaced(const hs_env *env, const char *prefix, ending e)
{
    if (e.shards > 2 || e.shard != e.shards - 1)
        return false;
    char *other = hs__bundle_data_path(env, prefix, e.shards == 1 ? 1 : 0, e.shards == 1 ? 2 : 1);
    bool both = other && hs__file_exists(env, other);
    hs__free(env, other);
    hs__bundle_reader reader;
    if (!both || hs__bundle_reader_open(&reader, env, prefix, NULL))
        return false;
    bool replaced = reader.shards != e.shards;
    hs__bundle_reader_close(&reader);
    return replaced;
}

static bool is_orphan(const hs_env *env, const char *prefix, ending e)
{
    if (e.aside)
        return true;
    if (e.part != INDEX && is_no_checkpoint(env, prefix))
        return true;
    return e.part == DATA && is_replaced(env, prefix, e);
}

static int note_orphan(void *user, const char *name)
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

/* The state file's own temporary file, and the checkpoints that it was about to have deleted. */
static void finish_deleting(const hs_env *env, const char *directory, const char *state_file)
{
    hs__checkpoint_state state;
    char *aside = hs__format(env, "%s/%s.tmp", directory, state_file ? state_file : "checkpoint");
    if (aside && hs__file_exists(env, aside))
        hs__file_remove(env, aside);
    hs__free(env, aside);
    if (hs__checkpoint_state_read(&state, env, directory, state_file, NULL))
        return; /* restoring has told why */
    for (size_t i = 0; i < state.n_leaving; i++)
        if (!is_no_checkpoint(env, state.leaving[i])) {
            hs_log(env, HS_LOG_INFO, "deleting '%s', which was to be deleted when the process before this one ended",
                   state.leaving[i]);
            hs__delete_checkpoint(env, state.leaving[i]);
        }
    hs__checkpoint_state_free(&state);
}

/* Best effort: what is in the way of it is not in the way of saving. */
static void sweep_directory(const hs_env *env, const char *directory, const char *base, const char *state_file)
{
    sweep s = {.env = env, .directory = directory, .base = base};
    hs_error error = {0};
    finish_deleting(env, directory, state_file);
    if (hs__list(env, directory, note_orphan, &s, &error))
        hs_log(env, HS_LOG_WARNING, "%s", error.message);
    if (s.n)
        hs_log(env, HS_LOG_INFO, "%s: removing %zu files of saves that were cut short", directory, s.n);
    for (size_t i = 0; i < s.n; i++) {
        hs__file_remove(env, s.orphans[i]);
        hs__free(env, s.orphans[i]);
    }
    hs__free(env, s.orphans);
}

/* Abandoning. */

typedef struct {
    const hs_env *env;
    const char *directory, *series; /* some name BASE-STEP */
    int64_t step;
    bool (*is_kept)(void *user, const char *path);
    void *user;
    char **files; /* indexes first */
    size_t n, capacity;
    bool no_memory;
} later;

static int note_later(void *user, const char *name)
{
    later *l = user;
    const char *dot = strstr(name, ".index");
    if (!dot || dot[sizeof ".index" - 1])
        return 0;
    char *stem = hs__strndup(l->env, name, (size_t)(dot - name));
    char *path = stem ? hs__path_join(l->env, l->directory, stem) : NULL;
    l->no_memory |= !path;
    if (path && hs__same_series(stem, l->series) && hs__step_in(stem) > l->step && !l->is_kept(l->user, path)) {
        l->no_memory |= hs__reserve(l->env, &l->files, &l->capacity, l->n + 1, sizeof *l->files, NULL) != HS_OK;
        if (!l->no_memory) {
            l->files[l->n++] = path;
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

/* The index goes first: whenever this is cut short, no index is without its data. */
static hs_code abandon(const hs_env *env, const char *directory, const char *prefix, hs_error *err)
{
    char *from = hs__bundle_index_path(env, prefix), *to = hs__format(env, "%s" HS__ABANDONED ".index", prefix);
    hs_code code = from && to ? hs__rename(env, from, to, err) : hs__no_memory(err, strlen(prefix), "a path");
    hs__free(env, from);
    hs__free(env, to);
    renaming r = {.env = env, .directory = directory, .base = hs__path_base(prefix), .err = err};
    if (!code && !(code = hs__list(env, directory, rename_part, &r, err)))
        code = r.code;
    if (!code)
        hs_log(env, HS_LOG_WARNING, "checkpoint '%s' is later than what is saved now, and is kept as '%s" HS__ABANDONED "'",
               prefix, hs__path_base(prefix));
    return code;
}

hs_code hs__abandon_later(const hs_env *env, const char *directory, const char *base, int64_t step,
                          bool (*is_kept)(void *user, const char *path), void *user, hs_error *err)
{
    char *series = hs__format(env, "%s-0", base);
    later l = {.env = env, .directory = directory, .series = series, .step = step, .is_kept = is_kept, .user = user};
    hs_code code = series ? hs__list(env, directory, note_later, &l, err) : hs__no_memory(err, strlen(base), "a name");
    if (!code && l.no_memory)
        code = hs__no_memory(err, l.n * sizeof *l.files, "the list of checkpoints");
    for (size_t i = 0; i < l.n; i++) {
        if (!code)
            code = abandon(env, directory, l.files[i], err);
        hs__free(env, l.files[i]);
    }
    hs__free(env, l.files);
    hs__free(env, series);
    return code;
}

/* Holding. */

static hs_code take_lock(hs__held_directory *held, const hs_env *env, const char *directory, hs_error *err)
{
    char *path = hs__path_join(env, directory, HS__LOCK_NAME);
    if (!path)
        return hs__no_memory(err, strlen(directory), "a path");
    hs_error cause = {0};
    hs_code code = hs__lock(env, path, &held->lock, &cause);
    if (code == HS_UNIMPLEMENTED) {
        if (!held->path)
            hs_log(env, HS_LOG_WARNING, "%s; nothing keeps another process from saving there too", cause.message);
        code = HS_OK;
    } else if (code == HS_FAILED_PRECONDITION) {
        hs_error_set(err, code,
                     "cannot save to '%s', to which another process saves: %s. Stop that one, or name another "
                     "directory",
                     directory, cause.message);
    } else if (code) {
        hs__error_copy(err, &cause);
    }
    hs__free(env, path);
    return code;
}

hs_code hs__hold_directory(hs__held_directory *held, const hs_env *env, const char *directory, const char *base,
                           const char *state_file, hs_error *err)
{
    if (held->path && strcmp(held->path, directory) == 0)
        return take_lock(held, env, directory, err);
    hs__release_directory(held, env);
    hs_code code = take_lock(held, env, directory, err);
    if (code)
        return code;
    if (!(held->path = hs__strdup(env, directory))) {
        hs__release_directory(held, env);
        return hs__no_memory(err, strlen(directory), "a path");
    }
    sweep_directory(env, directory, base, state_file);
    return HS_OK;
}

void hs__release_directory(hs__held_directory *held, const hs_env *env)
{
    hs__unlock(env, held->lock);
    hs__free(env, held->path);
    *held = (hs__held_directory){.path = NULL};
}
