/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints that a saver keeps, and which of them expire. */
#include "checkpoint/saver.h"

#include "base/files.h"
#include "formats/bundle.h"

#include <math.h>
#include <string.h>

hs_code hs__saver_set_last(hs_saver *saver, const char *path, hs_error *err)
{
    char *copy = hs__strdup(&saver->env, path);
    if (!copy)
        return hs__no_memory(err, strlen(path), "a path");
    hs__free(&saver->env, saver->last_path);
    saver->last_path = copy;
    return HS_OK;
}

hs_code hs__saver_keep(hs_saver *saver, const hs__kept_checkpoint *newest, hs_error *err)
{
    const char *path = newest->path;
    hs_code code =
        hs__reserve(&saver->env, &saver->kept, &saver->kept_capacity, saver->n_kept + 1, sizeof *saver->kept, err);
    char *copy = code ? NULL : hs__strdup(&saver->env, path);
    if (!copy)
        return code ? code : hs__no_memory(err, strlen(path), "a path");
    size_t n = 0;
    for (size_t i = 0; i < saver->n_kept; i++) {
        if (hs__path_same(saver->kept[i].path, path))
            hs__free(&saver->env, saver->kept[i].path);
        else
            saver->kept[n++] = saver->kept[i];
    }
    saver->kept[n] = *newest;
    saver->kept[n++].path = copy;
    saver->n_kept = n;
    return HS_OK;
}

hs_code hs__saver_keep_existing(hs_saver *saver, const char *const *paths, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && paths[i]; i++) {
        hs_file_stat found = {.bytes = 0};
        char *index = hs__bundle_index_path(&saver->env, paths[i]);
        if (!index)
            return hs__no_memory(err, strlen(paths[i]), "a path");
        /* a checkpoint that cannot be examined now may exist, and only this saver would ever delete it */
        if (saver->env.files.ops->stat(saver->env.files.user, index, &found, NULL) != HS_NOT_FOUND)
            code = hs__saver_keep(saver,
                                  &(hs__kept_checkpoint){.path = (char *)paths[i],
                                                         .timestamp = (double)found.modified_ns / 1e9,
                                                         .metric = (double)NAN},
                                  err);
        hs__free(&saver->env, index);
    }
    return code;
}

/* Expiry. */

static bool is_better(const hs_saver *saver, double a, double b)
{
    return saver->larger_is_better ? a > b : a < b;
}

/* If two metrics are equal, the later checkpoint is better. A checkpoint without a metric is never among the best. */
static bool is_among_best(const hs_saver *saver, size_t index)
{
    double metric = saver->kept[index].metric;
    int64_t better = 0;
    if (saver->keep_best == 0 || isnan(metric))
        return false;
    for (size_t i = 0; i < saver->n_kept; i++)
        better += is_better(saver, saver->kept[i].metric, metric) || (i > index && saver->kept[i].metric == metric);
    return better < saver->keep_best;
}

/* Returns true if the checkpoint is kept forever: keep_every_secs after the last one. Records it as the last one then. */
static bool preserve(hs_saver *saver, const hs__kept_checkpoint *kept)
{
    if (saver->keep_every_secs <= 0 || kept->timestamp - saver->keep_every_secs < saver->last_preserved)
        return false;
    saver->last_preserved = kept->timestamp;
    return true;
}

static bool stays(const hs_saver *saver, size_t index)
{
    return saver->n_kept - index <= (size_t)saver->max_to_keep || saver->kept[index].pinned || is_among_best(saver, index);
}

static void drop(hs_saver *saver, size_t index)
{
    hs__free(&saver->env, saver->kept[index].path);
    saver->n_kept--;
    memmove(saver->kept + index, saver->kept + index + 1, (saver->n_kept - index) * sizeof *saver->kept);
}

size_t hs__expire(hs_saver *saver)
{
    size_t n_expired = 0;
    /* As in TensorFlow, nothing is deleted. A manager lists all checkpoints. A saver lists the newest, and the pinned ones,
     * because the state file lists pins. */
    for (size_t i = 0; saver->max_to_keep == HS_NEVER && !saver->lists_all && i + 1 < saver->n_kept;)
        if (saver->kept[i].pinned)
            i++;
        else
            drop(saver, i);
    for (size_t i = 0; i < saver->n_kept; i++)
        saver->kept[i].stays = saver->max_to_keep == HS_NEVER || stays(saver, i);
    for (size_t i = 0; i < saver->n_kept;) {
        hs__kept_checkpoint kept = saver->kept[i];
        if (kept.stays) {
            i++;
        } else if (preserve(saver, &kept)) {
            drop(saver, i);
        } else {
            memmove(saver->kept + n_expired + 1, saver->kept + n_expired, (i - n_expired) * sizeof kept);
            saver->kept[n_expired++] = kept;
            i++;
        }
    }
    return n_expired;
}

void hs__delete_expired(hs_saver *saver, size_t n_expired)
{
    size_t n = 0;
    for (size_t i = 0; i < saver->n_kept; i++) {
        char *path = saver->kept[i].path;
        if (i < n_expired && hs__delete_checkpoint(&saver->env, path))
            hs__free(&saver->env, path);
        else
            saver->kept[n++] = saver->kept[i];
    }
    saver->n_kept = n;
}

hs_code hs__saver_write_state_file(const hs_saver *saver, const char *directory, const char *newest, size_t n_expired,
                                   hs_error *err)
{
    hs__checkpoint_list list = {.newest = newest, .kept = saver->kept, .n = saver->n_kept, .n_expired = n_expired};
    if (saver->keep_every_secs > 0)
        list.last_preserved = saver->last_preserved;
    return hs__checkpoint_state_write(&saver->env, directory, saver->state_file, &list, err);
}
