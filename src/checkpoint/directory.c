/* SPDX-License-Identifier: Apache-2.0 */
/* Holding a directory (hs__hold_directory, at the end), and what the holder does with files of other saves: it removes
 * those of interrupted saves, completes deletions, and renames the checkpoints of an abandoned branch. */
#include "checkpoint/directory.h"

#include <hooksess/checkpoint.h>

#include "base/files.h"
#include "checkpoint/session_safetensors.h"
#include "formats/bundle.h"

#include <stdlib.h>
#include <string.h>

/* Files of checkpoints BASE and BASE-STEP, and temporary files of safetensors files. */

typedef struct {
    char *name;
    hs__file_name parsed;
    int64_t step; /* -1: none */
} listed_file;

typedef struct {
    const hs_env *env;
    const char *directory, *base;
    listed_file *files;
    size_t n, capacity;
    bool no_memory;     /* some files are missing */
    hs_log_level level; /* for what hs__abandon_later logs */
} listing;

static int collect(void *user, const char *name)
{
    listing *all = user;
    listed_file file = {.parsed = hs__parse_file_name(name), .step = -1};
    if (hs__is_safetensors_tmp(name))
        file.parsed = (hs__file_name){.stem = strlen(name), .part = HS__NO_PART, .tmp = true};
    else if (file.parsed.part == HS__NO_PART || !hs__is_in_series(name, file.parsed.stem, all->base, &file.step))
        return 0;
    file.name = hs__strdup(all->env, name);
    if (file.name && !hs__reserve(all->env, &all->files, &all->capacity, all->n + 1, sizeof file, NULL)) {
        all->files[all->n++] = file;
    } else {
        hs__free(all->env, file.name);
        all->no_memory = true;
    }
    return 0;
}

/* DIRECTORY/STEM and an ending. NULL: no memory. */
static char *path_of(const listing *all, const listed_file *file, const char *ending)
{
    return hs__format(all->env, "%s/%.*s%s", all->directory, (int)file->parsed.stem, file->name, ending);
}

/* PREFIX.x becomes PREFIX.abandoned.x. */
static char *abandoned_path(const listing *all, const listed_file *file)
{
    const char *ending = file->name + file->parsed.stem;
    return hs__format(all->env, "%s/%.*s" HS__ABANDONED "%s", all->directory, (int)file->parsed.stem, file->name, ending);
}

static void free_listing(listing *all)
{
    for (size_t i = 0; i < all->n; i++)
        hs__free(all->env, all->files[i].name);
    hs__free(all->env, all->files);
}

/* Sweeping. */

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

/* What the directory has of a checkpoint. */
typedef struct {
    const char *name; /* of one of its files. NULL: no checkpoint was examined yet */
    size_t stem;
    bool absent;
    int32_t shards; /* number in its index, if all its data files exist. 0: unknown */
} examined;

static examined examine(const listing *all, const listed_file *file)
{
    examined found = {.name = file->name, .stem = file->parsed.stem};
    hs__bundle_reader reader;
    char *prefix = path_of(all, file, "");
    found.absent = prefix && is_absent(all->env, prefix);
    if (prefix && !found.absent && !hs__bundle_reader_open(&reader, all->env, prefix, NULL)) {
        found.shards = has_data(&reader) ? reader.shards : 0;
        hs__bundle_reader_close(&reader);
    }
    hs__free(all->env, prefix);
    return found;
}

/* Returns true if the file is of an interrupted save. That may have been going to replace the checkpoint: then the name of
 * its data file has another number of shards than the index, whose files exist. `last` was examined last. */
static bool is_orphan(const listing *all, const listed_file *file, examined *last)
{
    const hs__file_name *parsed = &file->parsed;
    if (parsed->tmp || parsed->part == HS__INDEX)
        return parsed->tmp;
    if (!last->name || last->stem != parsed->stem || strncmp(last->name, file->name, parsed->stem) != 0)
        *last = examine(all, file);
    return last->absent || (parsed->part == HS__DATA && last->shards && last->shards != parsed->shards);
}

/* Removes an orphan. If its checkpoint was being abandoned, renames it as its index was. */
static void remove_orphan(const listing *all, const listed_file *file)
{
    const hs_env *env = all->env;
    char *path = hs__path_join(env, all->directory, file->name);
    char *index = path_of(all, file, HS__ABANDONED ".index"), *abandoned = abandoned_path(all, file);
    hs_error error = {0};
    if (!path || !index || !abandoned)
        hs__log_undeleted(env, file->name);
    else if (file->parsed.part == HS__DIRECTORY)
        hs__remove_all(env, path);
    else if (file->parsed.tmp || hs__file_missing(env, index) || hs__file_exists(env, abandoned))
        hs__file_remove(env, path);
    else if (hs__file_exists(env, index) && hs__rename(env, path, abandoned, &error))
        hs_log(env, HS_LOG_WARNING, "%s", error.message);
    hs__free(env, path);
    hs__free(env, index);
    hs__free(env, abandoned);
}

/* Removes the temporary file of a state file. */
static void remove_state_tmp(const hs_env *env, const char *directory, const char *state_file)
{
    char *tmp = hs__format(env, "%s/%s.tmp", directory, state_file);
    if (tmp && hs__file_exists(env, tmp))
        hs__file_remove(env, tmp);
    hs__free(env, tmp);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const listed_file *)a)->name, ((const listed_file *)b)->name);
}

/* Failures are warnings, and do not fail the save. */
static void sweep_directory(const hs__held_directory *held, const hs_env *env, const char *base)
{
    listing all = {.env = env, .directory = held->path, .base = base};
    examined last = {.name = NULL};
    size_t n = 0;
    hs_error error = {0};
    remove_state_tmp(env, held->path, "checkpoint");
    if (hs__list(env, held->path, collect, &all, &error))
        hs_log(env, HS_LOG_WARNING, "%s", error.message);
    if (all.n)
        qsort(all.files, all.n, sizeof *all.files, by_name); /* the files of one checkpoint follow each other */
    for (size_t i = 0; i < all.n; i++) {
        const listed_file file = all.files[i];
        if (is_orphan(&all, &file, &last)) {
            all.files[i] = all.files[n];
            all.files[n++] = file;
        }
    }
    if (n)
        hs_log(env, HS_LOG_INFO, "%s: removing %zu files of interrupted saves", held->path, n);
    for (size_t i = 0; i < n; i++)
        remove_orphan(&all, &all.files[i]);
    free_listing(&all);
}

void hs__finish_deleting(hs__held_directory *held, const hs_env *env, const char *state_file,
                         const hs__kept_checkpoint *kept, size_t n)
{
    hs__checkpoint_state state;
    hs__map used;
    hs__deletion deletion;
    if (held->deletions_finished || hs__lock_is_shared(env, held->lock))
        return;
    held->deletions_finished = true;
    remove_state_tmp(env, held->path, state_file ? state_file : "checkpoint");
    if (hs__checkpoint_state_read(&state, env, held->path, state_file, NULL))
        return; /* the restore has logged the reason */
    hs__map_init(&used, env);
    hs__deletion_begin(&deletion, env);
    /* since the state file was written, a checkpoint that is to be deleted may have been saved again, or restored */
    const bool unknown = hs__map_add(&used, hs__path_base(state.newest), 0, NULL, NULL) ||
                         hs__kept_names(&used, state.kept, state.n, NULL) || hs__kept_names(&used, kept, n, NULL);
    for (size_t i = 0; i < state.n_expired; i++) {
        const char *prefix = state.expired[i];
        if (is_absent(env, prefix) || hs__map_find(&used, hs__path_base(prefix)) != HS__NONE)
            continue;
        if (unknown) {
            hs__log_undeleted(env, prefix);
            continue;
        }
        hs_log(env, HS_LOG_INFO, "deleting '%s', which an earlier process was about to delete", prefix);
        hs__deletion_add(&deletion, prefix);
    }
    hs__deletion_end(&deletion);
    hs__map_free(&used);
    hs__checkpoint_state_free(&state);
}

/* Abandoning. */

/* Moves the indexes of checkpoints that are later than `step` and not kept to the front, in the order of their steps. Adds
 * the names of these checkpoints to `names`. */
static hs_code find_later(listing *all, int64_t step, const hs__kept_checkpoint *kept, size_t n, hs__map *names,
                          hs_error *err)
{
    hs__map kept_names;
    hs__map_init(&kept_names, all->env);
    hs_code code = hs__kept_names(&kept_names, kept, n, err);
    for (size_t i = 0; !code && i < all->n; i++) {
        const listed_file file = all->files[i];
        if (file.parsed.part != HS__INDEX || file.parsed.tmp || file.step <= step ||
            hs__map_find_bytes(&kept_names, file.name, file.parsed.stem) != HS__NONE)
            continue;
        all->files[i] = all->files[names->n];
        all->files[names->n] = file;
        code = hs__map_add_bytes(names, file.name, file.parsed.stem, 0, NULL, err);
    }
    hs__map_free(&kept_names);
    return code;
}

static int earliest_first(const void *a, const void *b)
{
    int64_t x = ((const listed_file *)a)->step, y = ((const listed_file *)b)->step;
    return (x > y) - (x < y);
}

static hs_code rename_file(const listing *all, const listed_file *file, hs_error *err)
{
    const hs_env *env = all->env;
    char *from = hs__path_join(env, all->directory, file->name), *to = abandoned_path(all, file);
    hs_code code = from && to ? hs__rename(env, from, to, err) : hs__no_memory(err, strlen(file->name), "a path");
    hs__free(env, from);
    hs__free(env, to);
    return code;
}

/* Deletes checkpoints that were abandoned under the same names before, so that files of two checkpoints do not mix. */
static hs_code free_names(const listing *all, size_t n, hs_error *err)
{
    hs__deletion deletion;
    bool changed = false;
    hs_code code = HS_OK;
    hs__deletion_begin(&deletion, all->env);
    for (size_t i = 0; !code && i < n; i++) {
        char *prefix = path_of(all, &all->files[i], HS__ABANDONED);
        if (!prefix) {
            code = hs__no_memory(err, strlen(all->files[i].name), "a path");
        } else if (!hs__checkpoint_missing(all->env, prefix)) {
            hs_log(all->env, all->level, "deleting '%s' to reuse its name", prefix);
            hs__deletion_add(&deletion, prefix);
            changed = true;
        }
        hs__free(all->env, prefix);
    }
    hs__deletion_end(&deletion);
    return changed && !code ? hs__sync_directory(all->env, all->directory, err) : code;
}

/* Renames the checkpoints `names`, whose indexes are the first files. If this is interrupted, the latest checkpoint still
 * exists, or none of them does, and each index has its data. The next sweep renames the files that belong to a renamed
 * index. */
static hs_code abandon(const listing *all, const hs__map *names, hs_error *err)
{
    const size_t n = names->n;
    hs_code code = free_names(all, n, err);
    for (size_t i = 0; !code && i < n; i++) {
        if (i && i == n - 1)
            code = hs__sync_directory(all->env, all->directory, err);
        if (!code)
            code = rename_file(all, &all->files[i], err);
    }
    if (!code)
        code = hs__sync_directory(all->env, all->directory, err);
    for (size_t i = n; !code && i < all->n; i++)
        if (hs__map_find_bytes(names, all->files[i].name, all->files[i].parsed.stem) != HS__NONE)
            code = rename_file(all, &all->files[i], err);
    for (size_t i = 0; !code && i < n; i++) {
        const listed_file *file = &all->files[i];
        const int stem = (int)file->parsed.stem;
        hs_log(all->env, all->level,
               "checkpoint '%s/%.*s' is later than the step being saved; renamed to '%.*s" HS__ABANDONED "'",
               all->directory, stem, file->name, stem, file->name);
    }
    return code;
}

hs_code hs__abandon_later(const hs__held_directory *held, const hs_env *env, const char *base, int64_t step,
                          const hs__kept_checkpoint *kept, size_t n, hs_log_level level, hs_error *err)
{
    listing all = {.env = env, .directory = held->path, .base = base, .level = level};
    hs__map names;
    hs__map_init(&names, env);
    hs_code code = hs__list(env, held->path, collect, &all, err);
    if (!code && all.no_memory)
        code = hs__no_memory(err, all.n * sizeof *all.files, "the list of checkpoints");
    if (!code && !(code = find_later(&all, step, kept, n, &names, err)) && names.n) {
        qsort(all.files, names.n, sizeof *all.files, earliest_first);
        code = abandon(&all, &names, err);
    }
    hs__map_free(&names);
    free_listing(&all);
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
    *held = (hs__held_directory){.path = NULL};
}
