/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints that a saver keeps, and which of them expire. hs__saver_keep adds a new one to the list, hs__expire
 * chooses those to delete, hs__saver_write_state_file lists them, and hs__delete_expired deletes them. */
#include "checkpoint/saver.h"

#include "base/paths.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

hs_code hs__saver_keep(hs__saver_directory *directory, const hs__kept_checkpoint *newest, size_t n, hs_error *err)
{
    const hs_env *env = &directory->saver->env;
    const size_t before = directory->n_kept;
    size_t added = 0;
    hs__map names;
    hs__map_init(&names, env);
    hs_code code = hs__reserve(env, &directory->kept, &directory->kept_capacity, before + n, sizeof *newest, err);
    for (size_t i = n; !code && i-- > 0;)
        code = hs__map_add(&names, hs__path_base(newest[i].path), i, NULL, err);
    for (size_t i = 0; !code && i < n; i++) {
        if (hs__map_find(&names, hs__path_base(newest[i].path)) != i)
            continue; /* a later one has the same name */
        hs__kept_checkpoint *copy = &directory->kept[before + added++];
        *copy = newest[i];
        if (!(copy->path = hs__strdup(env, newest[i].path)))
            code = hs__no_memory(err, strlen(newest[i].path), "a path");
    }
    if (!code) {
        size_t kept = 0;
        for (size_t i = 0; i < before; i++)
            if (hs__map_find(&names, hs__path_base(directory->kept[i].path)) != HS__NONE)
                hs__free(env, directory->kept[i].path);
            else
                directory->kept[kept++] = directory->kept[i];
        memmove(directory->kept + kept, directory->kept + before, added * sizeof *newest);
        directory->n_kept = kept + added;
    }
    while (code && added)
        hs__free(env, directory->kept[before + --added].path);
    hs__map_free(&names);
    return code;
}

hs_code hs__saver_keep_existing(hs__saver_directory *directory, const char *const *paths, size_t n, hs_error *err)
{
    const hs_env *env = &directory->saver->env;
    hs__kept_checkpoint *existing = hs__alloc(env, n, sizeof *existing);
    size_t n_existing = 0;
    hs_code code = existing ? HS_OK : hs__no_memory(err, n * sizeof *existing, "the list of checkpoints");
    for (size_t i = 0; !code && i < n; i++) {
        hs_file_stat found = {.bytes = 0};
        hs_error cause = {0};
        const hs_code result = hs__checkpoint_stat(env, paths[i], &found, &cause);
        /* a checkpoint that cannot be examined now may exist, and only this saver would ever delete it */
        if (result == HS_RESOURCE_EXHAUSTED && !cause.os_error) /* for the path */
            code = hs__error_copy(err, &cause);
        else if (result != HS_NOT_FOUND)
            existing[n_existing++] = (hs__kept_checkpoint){
                .path = (char *)paths[i], .timestamp = (double)found.modified_ns / 1e9, .metric = (double)NAN};
    }
    if (!code && n_existing)
        code = hs__saver_keep(directory, existing, n_existing, err);
    hs__free(env, existing);
    return code;
}

void hs__saver_drop_later(hs__saver_directory *directory, const char *base, int64_t step)
{
    const size_t before = directory->n_kept;
    directory->n_kept = 0;
    for (size_t i = 0; i < before; i++) {
        const char *name = hs__path_base(directory->kept[i].path);
        int64_t of_name;
        if (hs__is_in_series(name, strlen(name), base, &of_name) && of_name > step)
            hs__free(&directory->saver->env, directory->kept[i].path);
        else
            directory->kept[directory->n_kept++] = directory->kept[i];
    }
}

/* Expiry. */

/* If two metrics are equal, the later checkpoint is better. Checkpoints without a metric come last. */
static int by_metric(const hs__kept_checkpoint *x, const hs__kept_checkpoint *y, bool larger_is_better)
{
    if (isnan(x->metric) || isnan(y->metric))
        return (isnan(x->metric) != 0) - (isnan(y->metric) != 0);
    if (x->metric != y->metric)
        return (x->metric > y->metric) == larger_is_better ? -1 : 1;
    return (x->order < y->order) - (x->order > y->order);
}

static int smallest_first(const void *a, const void *b)
{
    return by_metric(a, b, false);
}

static int largest_first(const void *a, const void *b)
{
    return by_metric(a, b, true);
}

static int expired_first(const void *a, const void *b)
{
    const hs__kept_checkpoint *x = a, *y = b;
    return x->stays != y->stays ? x->stays - y->stays : (x->order > y->order) - (x->order < y->order);
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

/* With HS_NEVER, as in TensorFlow, nothing is deleted. A manager lists all checkpoints. A saver lists the newest, and the
 * pinned ones, because the state file lists pins. */
size_t hs__expire(hs__saver_directory *directory, int64_t max_to_keep)
{
    const hs_saver *saver = directory->saver;
    const bool forgets = max_to_keep == HS_NEVER && !saver->lists_all;
    const size_t n = directory->n_kept;
    const size_t n_newest = forgets ? 1 : max_to_keep == HS_NEVER ? n : (size_t)max_to_keep;
    hs__kept_checkpoint *list = directory->kept;
    size_t n_expired = 0;
    for (size_t i = 0; i < n; i++) {
        list[i].order = i;
        list[i].stays = n - i <= n_newest || list[i].pinned;
    }
    if (saver->keep_best && !forgets) {
        qsort(list, n, sizeof *list, saver->larger_is_better ? largest_first : smallest_first);
        for (size_t i = 0; i < n && (int64_t)i < saver->keep_best && !isnan(list[i].metric); i++)
            list[i].stays = true;
    }
    qsort(list, n, sizeof *list, expired_first);
    directory->n_kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (!list[i].stays && (forgets || preserve(directory, &list[i]))) {
            hs__free(&saver->env, list[i].path);
        } else {
            n_expired += !list[i].stays;
            list[directory->n_kept++] = list[i];
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
