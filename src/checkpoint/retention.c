/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints that a saver keeps, and which of them expire. */
#include "checkpoint/saver.h"

#include "base/files.h"
#include "formats/bundle.h"

#include <math.h>
#include <string.h>

hs_code hs__saver_set_last(hs__saver_directory *directory, const char *path, hs_error *err)
{
    const hs_env *env = &directory->saver->env;
    char *copy = hs__strdup(env, path);
    if (!copy)
        return hs__no_memory(err, strlen(path), "a path");
    hs__free(env, directory->last_path);
    directory->last_path = copy;
    return HS_OK;
}

/* Removes the checkpoints from the list that `leaves` accepts. */
static void filter(hs__saver_directory *directory, bool (*leaves)(const void *user, const char *path), const void *user)
{
    size_t n = 0;
    for (size_t i = 0; i < directory->n_kept; i++) {
        if (leaves(user, directory->kept[i].path))
            hs__free(&directory->saver->env, directory->kept[i].path);
        else
            directory->kept[n++] = directory->kept[i];
    }
    directory->n_kept = n;
}

static bool is_same(const void *user, const char *path)
{
    return hs__path_same(user, path);
}

hs_code hs__saver_keep(hs__saver_directory *directory, const hs__kept_checkpoint *newest, hs_error *err)
{
    const hs_env *env = &directory->saver->env;
    const char *path = newest->path;
    hs_code code =
        hs__reserve(env, &directory->kept, &directory->kept_capacity, directory->n_kept + 1, sizeof *directory->kept, err);
    char *copy = code ? NULL : hs__strdup(env, path);
    if (!copy)
        return code ? code : hs__no_memory(err, strlen(path), "a path");
    filter(directory, is_same, path);
    directory->kept[directory->n_kept] = *newest;
    directory->kept[directory->n_kept++].path = copy;
    return HS_OK;
}

hs_code hs__saver_keep_existing(hs__saver_directory *directory, const char *const *paths, hs_error *err)
{
    const hs_env *env = &directory->saver->env;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && paths[i]; i++) {
        hs_file_stat found = {.bytes = 0};
        char *index = hs__bundle_index_path(env, paths[i]);
        if (!index)
            return hs__no_memory(err, strlen(paths[i]), "a path");
        /* a checkpoint that cannot be examined now may exist, and only this saver would ever delete it */
        if (env->files.ops->stat(env->files.user, index, &found, NULL) != HS_NOT_FOUND)
            code = hs__saver_keep(directory,
                                  &(hs__kept_checkpoint){.path = (char *)paths[i],
                                                         .timestamp = (double)found.modified_ns / 1e9,
                                                         .metric = (double)NAN},
                                  err);
        hs__free(env, index);
    }
    return code;
}

typedef struct {
    const char *base;
    int64_t step;
} series;

static bool is_later(const void *user, const char *path)
{
    const series *s = user;
    const char *name = hs__path_base(path);
    size_t length = strlen(s->base);
    return strncmp(name, s->base, length) == 0 && strrchr(name, '-') == name + length && hs__step_in(name) > s->step;
}

void hs__saver_drop_later(hs__saver_directory *directory, const char *base, int64_t step)
{
    filter(directory, is_later, &(series){base, step});
}

/* Expiry. */

static bool is_better(const hs_saver *saver, double a, double b)
{
    return saver->larger_is_better ? a > b : a < b;
}

/* If two metrics are equal, the later checkpoint is better. A checkpoint without a metric is never among the best. */
static bool is_among_best(const hs__saver_directory *directory, size_t index)
{
    const hs_saver *saver = directory->saver;
    const hs__kept_checkpoint *kept = directory->kept;
    double metric = kept[index].metric;
    int64_t better = 0;
    if (saver->keep_best == 0 || isnan(metric))
        return false;
    for (size_t i = 0; i < directory->n_kept; i++)
        better += is_better(saver, kept[i].metric, metric) || (i > index && kept[i].metric == metric);
    return better < saver->keep_best;
}

/* Returns true if the checkpoint is kept forever: keep_every_secs after the last one. Records it as the last one then. */
static bool preserve(hs__saver_directory *directory, const hs__kept_checkpoint *kept)
{
    double every = directory->saver->keep_every_secs;
    if (every <= 0 || kept->timestamp - every < directory->last_preserved)
        return false;
    directory->last_preserved = kept->timestamp;
    return true;
}

static bool stays(const hs__saver_directory *directory, size_t index, int64_t max_to_keep)
{
    return directory->n_kept - index <= (size_t)max_to_keep || directory->kept[index].pinned ||
           is_among_best(directory, index);
}

static void drop(hs__saver_directory *directory, size_t index)
{
    hs__kept_checkpoint *kept = directory->kept;
    hs__free(&directory->saver->env, kept[index].path);
    directory->n_kept--;
    memmove(kept + index, kept + index + 1, (directory->n_kept - index) * sizeof *kept);
}

size_t hs__expire(hs__saver_directory *directory, int64_t max_to_keep)
{
    hs__kept_checkpoint *list = directory->kept;
    size_t n_expired = 0;
    bool forgets = max_to_keep == HS_NEVER && !directory->saver->lists_all;
    /* As in TensorFlow, nothing is deleted. A manager lists all checkpoints. A saver lists the newest, and the pinned ones,
     * because the state file lists pins. */
    for (size_t i = 0; forgets && i + 1 < directory->n_kept;)
        if (list[i].pinned)
            i++;
        else
            drop(directory, i);
    for (size_t i = 0; i < directory->n_kept; i++)
        list[i].stays = max_to_keep == HS_NEVER || stays(directory, i, max_to_keep);
    for (size_t i = 0; i < directory->n_kept;) {
        hs__kept_checkpoint kept = list[i];
        if (kept.stays) {
            i++;
        } else if (preserve(directory, &kept)) {
            drop(directory, i);
        } else {
            memmove(list + n_expired + 1, list + n_expired, (i - n_expired) * sizeof kept);
            list[n_expired++] = kept;
            i++;
        }
    }
    return n_expired;
}

void hs__delete_expired(hs__saver_directory *directory, size_t n_expired)
{
    const hs_env *env = &directory->saver->env;
    hs__deletion deletion;
    size_t n = 0;
    hs__deletion_begin(&deletion, env);
    for (size_t i = 0; i < directory->n_kept; i++) {
        char *path = directory->kept[i].path;
        if (i < n_expired && hs__deletion_add(&deletion, path))
            hs__free(env, path);
        else
            directory->kept[n++] = directory->kept[i];
    }
    hs__deletion_end(&deletion);
    directory->n_kept = n;
}

hs_code hs__saver_write_state_file(const hs__saver_directory *directory, const char *newest, size_t n_expired,
                                   hs_error *err)
{
    const hs_saver *saver = directory->saver;
    hs__checkpoint_list list = {.newest = newest, .kept = directory->kept, .n = directory->n_kept, .n_expired = n_expired};
    if (saver->keep_every_secs > 0)
        list.last_preserved = directory->last_preserved;
    return hs__checkpoint_state_write(&saver->env, directory->path, directory->state_file, &list, err);
}
