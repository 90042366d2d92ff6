/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints stay. */
#include "checkpoint/saver.h"

#include <math.h>
#include <string.h>

static bool is_better(const hs_saver *saver, double a, double b)
{
    return saver->larger_is_better ? a > b : a < b;
}

/* Is it among the best? Of equals the later counts as better. One without a metric never is. */
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

/* Is it one of those that are kept forever, every so many hours? */
static bool is_preserved(hs_saver *saver, const hs__kept_checkpoint *kept)
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

static void let_go(hs_saver *saver, size_t index)
{
    hs__free(&saver->env, saver->kept[index].path);
    saver->n_kept--;
    memmove(saver->kept + index, saver->kept + index + 1, (saver->n_kept - index) * sizeof *saver->kept);
}

size_t hs__retain(hs_saver *saver)
{
    size_t leaving = 0;
    /* as TensorFlow: nothing is deleted, and the list has the newest alone; with its pins, which the state file needs */
    for (size_t i = 0; saver->max_to_keep == HS_NEVER && i + 1 < saver->n_kept;)
        if (saver->kept[i].pinned)
            i++;
        else
            let_go(saver, i);
    for (size_t i = 0; i < saver->n_kept; i++)
        saver->kept[i].stays = saver->max_to_keep == HS_NEVER || stays(saver, i);
    for (size_t i = 0; i < saver->n_kept;) {
        hs__kept_checkpoint kept = saver->kept[i];
        if (kept.stays) {
            i++;
        } else if (is_preserved(saver, &kept)) {
            let_go(saver, i);
        } else {
            memmove(saver->kept + leaving + 1, saver->kept + leaving, (i - leaving) * sizeof kept);
            saver->kept[leaving++] = kept;
            i++;
        }
    }
    return leaving;
}

void hs__delete_leaving(hs_saver *saver, size_t leaving)
{
    size_t n = 0;
    for (size_t i = 0; i < saver->n_kept; i++) {
        char *path = saver->kept[i].path;
        if (i < leaving && hs__delete_checkpoint(&saver->env, path))
            hs__free(&saver->env, path);
        else
            saver->kept[n++] = saver->kept[i];
    }
    saver->n_kept = n;
}
