/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the data files of a checkpoint, its shards. hs__shards_write, at the end, assigns each variable to a shard. A
 * variable is written by the caller, or queued for the thread of its shard. The states and the index follow in the first
 * shard.
 *
 * The sizes of the tensors alone determine which shard a tensor goes to. Within a shard they keep their order. */
#include "checkpoint/shards.h"

#include "base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct shard shard;

typedef struct {
    const hs__new_checkpoint *files;
    shard *items;
    int32_t n, opened;
    int32_t *places;    /* with several shards, by number of the variable: its shard */
    atomic_bool failed; /* one of the shards: the other threads stop */
} shards;

/* A variable that the thread of its shard will write. */
typedef struct {
    hs__save_item item; /* its slice, if it has one, is the copy: */
    hs_variable_slice slice;
} queued_item;

struct shard {
    shards *all;
    hs__bundle_writer writer;
    queued_item *queue;
    size_t n_queued, capacity;
    bool immediate; /* the caller has written a variable: it writes the next ones, too */
    bool has_thread;
    pthread_t thread;
    hs_error error;
};

/* Assigning. */

typedef struct {
    uint64_t bytes;
    size_t number;
} sized;

static int largest_first(const void *a, const void *b)
{
    const sized *first = a, *second = b;
    if (first->bytes != second->bytes)
        return first->bytes < second->bytes ? 1 : -1;
    return (first->number > second->number) - (first->number < second->number);
}

/* Assigns the variables to the shards, so that these have similar sizes: the largest first, each to the smallest shard. The
 * largest shard is then at most a third larger than with the best assignment. All slices of a tensor go to the same shard.
 */
static hs_code assign_variables(shards *all, const hs__item_source *source, hs_error *err)
{
    enum { SAME_AS_PREVIOUS = -1 };
    const hs_env *env = all->files->env;
    const size_t n = source->n;
    uint64_t loads[HS__MOST_SHARDS] = {0};
    size_t n_whole = 0;
    sized *tensors = hs__alloc(env, n, sizeof *tensors);
    all->places = hs__alloc(env, n, sizeof *all->places);
    if (!tensors || !all->places) {
        hs__free(env, tensors);
        return hs__no_memory(err, n * sizeof *tensors, "assigning tensors to files");
    }
    for (size_t i = 0; i < n; i++) {
        bool follows;
        uint64_t bytes = source->size(source->self, i, &follows);
        all->places[i] = follows ? SAME_AS_PREVIOUS : 0;
        if (follows)
            tensors[n_whole - 1].bytes += bytes;
        else
            tensors[n_whole++] = (sized){bytes, i};
    }
    qsort(tensors, n_whole, sizeof *tensors, largest_first);
    for (size_t i = 0; i < n_whole; i++) {
        int32_t least = 0;
        for (int32_t place = 1; place < all->n; place++)
            if (loads[place] < loads[least])
                least = place;
        all->places[tensors[i].number] = least;
        loads[least] += tensors[i].bytes;
    }
    for (size_t i = 1; i < n; i++)
        if (all->places[i] == SAME_AS_PREVIOUS)
            all->places[i] = all->places[i - 1];
    hs__free(env, tensors);
    return HS_OK;
}

/* Writing. */

/* hs__visit_item_fn. Writes an item to a shard. */
static hs_code write_item(void *user, const hs__save_item *item, hs_error *err)
{
    shard *to = user;
    hs__bundle_writer *writer = &to->writer;
    hs_code code = hs__new_checkpoint_check_cancel(to->all->files, err);
    if (code)
        return code;
    writer->ignores_nonfinite = item->nonfinite;
    if (item->copied_from)
        return hs__bundle_writer_add_copy(writer, item->copied_from, hs__bundle_find(item->copied_from, item->name), err);
    if (item->produce)
        return hs__bundle_writer_add_from(writer, item->name, HS_UINT8, NULL, item->produce, item->source, err);
    return item->slice ? hs__bundle_writer_add_slice(writer, item->name, &item->slice->shape, item->slice->starts,
                                                     &item->value, err)
                       : hs__bundle_writer_add(writer, item->name, &item->value, err);
}

static hs_code write_queue(shard *to, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < to->n_queued && !code && !atomic_load(&to->all->failed); i++) {
        queued_item *next = &to->queue[i];
        next->item.slice = next->item.slice ? &next->slice : NULL;
        code = write_item(to, &next->item, err);
    }
    to->n_queued = 0;
    return code;
}

/* With several shards: queues a variable for the shard's thread if its memory stays valid. Another one is written
 * immediately, after the earlier ones and before the later ones of its shard. */
static hs_code add_variable(shard *to, const hs__save_item *item, hs_error *err)
{
    hs_code code;
    if (!item->stays || to->immediate) {
        to->immediate = true;
        code = write_queue(to, err);
        return code ? code : write_item(to, item, err);
    }
    code = hs__reserve(to->all->files->env, &to->queue, &to->capacity, to->n_queued + 1, sizeof *to->queue, err);
    if (code)
        return code;
    queued_item *last = &to->queue[to->n_queued++];
    *last = (queued_item){.item = *item};
    if (item->slice)
        last->slice = *item->slice;
    return HS_OK;
}

/* In a thread, or for the first shard in the caller's. */
static void *write_shard(void *user)
{
    shard *to = user;
    hs_error error = {0};
    const bool more = to == to->all->items; /* states and the index are added to the first shard later */
    hs_code code = write_queue(to, &error);
    if (!code && !more && !atomic_load(&to->all->failed))
        code = hs__bundle_writer_finish(&to->writer, NULL, &error);
    if (code)
        atomic_store(&to->all->failed, true);
    to->error = error;
    to->error.code = code;
    return NULL;
}

/* Writes the queued variables, and finishes all shards but the first, whose index then has the tensors of all. Shards whose
 * thread could not be started are written by the caller. Returns the error of the first shard that failed. */
static hs_code write_queues(shards *all, hs_error *err)
{
    hs_code code = HS_OK;
    for (int32_t i = 1; i < all->n; i++)
        all->items[i].has_thread = !hs__thread_start(&all->items[i].thread, write_shard, &all->items[i]);
    for (int32_t i = 0; i < all->n; i++)
        if (!all->items[i].has_thread)
            write_shard(&all->items[i]);
    for (int32_t i = 1; i < all->n; i++)
        if (all->items[i].has_thread)
            pthread_join(all->items[i].thread, NULL);
    for (int32_t i = 0; i < all->n && !code; i++)
        code = hs__error_copy(err, &all->items[i].error);
    for (int32_t i = 1; i < all->n && !code; i++)
        code = hs__bundle_writer_join(&all->items[0].writer, &all->items[i].writer, err);
    return code;
}

static hs_code refuse_nonfinite(const hs__bundle_writer *writer, const char *prefix, hs_error *err)
{
    const hs_nonfinite *found = &writer->nonfinite;
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "'%s' is not saved: '%s' is not finite, first at index %lld (%llu NaN, %llu +infinity, %llu "
                        "-infinity)%s; the previous checkpoint remains the newest",
                        prefix, writer->nonfinite_name, (long long)found->first_index, (unsigned long long)found->nan,
                        (unsigned long long)found->positive_infinity, (unsigned long long)found->negative_infinity,
                        writer->n_nonfinite > 1 ? ", and other variables are not finite either" : "");
}

hs_code hs__shards_write(const hs__new_checkpoint *files, const hs__item_source *source, hs__rank_sums *sums,
                         bool allow_nonfinite, hs_error *err)
{
    const hs_env *env = files->env;
    const hs__data_range names = files->names;
    shards all = {.files = files, .n = names.n};
    hs_code code = HS_OK;
    atomic_init(&all.failed, false);
    if (!(all.items = hs__alloc(env, (size_t)all.n, sizeof *all.items)))
        return hs__no_memory(err, (size_t)all.n * sizeof *all.items, "data files");
    shard *first = &all.items[0];
    while (!code && all.opened < all.n) {
        const int32_t i = all.opened++;
        all.items[i].all = &all;
        code = hs__bundle_writer_open(&all.items[i].writer, env, files->data_tmp[i], names.first + i, names.of, err);
    }

    const bool several = all.n > 1;
    if (!code && several && source->n)
        code = assign_variables(&all, source, err);
    for (size_t i = 0; !code && i < source->n; i++) {
        hs__save_item item;
        if (!(code = source->variable(source->self, i, &item, err)))
            code = several ? add_variable(&all.items[all.places[i]], &item, err) : write_item(first, &item, err);
    }
    if (!code && several)
        code = write_queues(&all, err);
    if (!code && first->writer.n_nonfinite && !allow_nonfinite)
        code = refuse_nonfinite(&first->writer, files->prefix, err);
    if (!code && sums && !(code = hs__rank_sums_gather(sums, err)))
        code = hs__rank_sums_check(sums, &first->writer, err);
    if (!code)
        code = source->visit_states(source->self, write_item, first, err);
    if (!code)
        code = hs__bundle_writer_finish(&first->writer, files->index_tmp, err);

    for (int32_t i = 0; i < all.opened; i++) {
        hs__bundle_writer_close(&all.items[i].writer);
        hs__free(env, all.items[i].queue);
    }
    hs__free(env, all.items);
    hs__free(env, all.places);
    return code;
}
