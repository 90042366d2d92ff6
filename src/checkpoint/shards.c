/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/shards.h"

#include "base/thread.h"

#include <stdlib.h>

/* A tensor that the thread of its file will write. */
typedef struct {
    hs__shard_item tensor; /* its slice, if it has one, is the copy: */
    hs_variable_slice slice;
} queued_item;

struct hs__shard {
    hs__shards *all;
    hs__bundle_writer writer;
    queued_item *queue;
    size_t n_queued, capacity;
    bool immediate; /* the caller writes its tensors when it adds them */
    bool has_thread;
    pthread_t thread;
    hs_error error;
};

hs_code hs__shards_open(hs__shards *shards, const hs_env *env, char *const *paths, int32_t n, int32_t first, int32_t of,
                        hs_error *err)
{
    shards->env = env;
    shards->n = n;
    atomic_init(&shards->failed, false);
    shards->items = hs__alloc(env, (size_t)n, sizeof *shards->items);
    hs_code code = shards->items ? HS_OK : hs__no_memory(err, (size_t)n * sizeof *shards->items, "data files");
    while (!code && shards->opened < n) {
        int32_t i = shards->opened++;
        shards->items[i].all = shards;
        code = hs__bundle_writer_open(&shards->items[i].writer, env, paths[i], first + i, of, err);
    }
    if (!code)
        shards->items[0].immediate = n == 1;
    return code;
}

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

static int32_t least_loaded(const uint64_t *loads, int32_t n)
{
    int32_t least = 0;
    for (int32_t i = 1; i < n; i++)
        if (loads[i] < loads[least])
            least = i;
    return least;
}

/* Largest first, each to the smallest file: the largest file is at most a third larger than with the best assignment. */
static void assign(hs__shards *shards, sized *tensors, size_t n)
{
    uint64_t loads[HS__MOST_SHARDS] = {0};
    qsort(tensors, n, sizeof *tensors, largest_first);
    for (size_t i = 0; i < n; i++) {
        int32_t place = least_loaded(loads, shards->n);
        shards->places[tensors[i].number] = place;
        loads[place] += tensors[i].bytes;
    }
}

hs_code hs__shards_assign(hs__shards *shards, const hs__shard_size *given, size_t n, hs_error *err)
{
    if (shards->n == 1 || !n)
        return HS_OK; /* all go to the first file */
    sized *tensors = hs__alloc(shards->env, n, sizeof *tensors);
    shards->places = hs__alloc(shards->env, n, sizeof *shards->places);
    hs_code code = tensors && shards->places ? HS_OK : hs__no_memory(err, n * sizeof *tensors, "dealing out tensors");
    size_t n_whole = 0; /* slices of one tensor count as one */
    for (size_t i = 0; !code && i < n; i++)
        if (given[i].follows && n_whole)
            tensors[n_whole - 1].bytes += given[i].bytes;
        else
            tensors[n_whole++] = (sized){given[i].bytes, i};
    if (!code) {
        assign(shards, tensors, n_whole);
        for (size_t i = 1; i < n; i++)
            if (given[i].follows)
                shards->places[i] = shards->places[i - 1];
        shards->n_places = n;
    }
    hs__free(shards->env, tensors);
    return code;
}

/* Writing. */

static hs_code write_tensor(hs__shard *shard, const hs__shard_item *tensor, const hs_variable_slice *slice, hs_error *err)
{
    hs_code code = shard->all->check(shard->all->user, err);
    if (code)
        return code;
    shard->writer.ignores_nonfinite = tensor->nonfinite;
    return slice ? hs__bundle_writer_add_slice(&shard->writer, tensor->name, &slice->shape, slice->starts, &tensor->value,
                                               err)
                 : hs__bundle_writer_add(&shard->writer, tensor->name, &tensor->value, err);
}

static hs_code write_queue(hs__shard *shard, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < shard->n_queued && !code && !atomic_load(&shard->all->failed); i++) {
        const queued_item *next = &shard->queue[i];
        code = write_tensor(shard, &next->tensor, next->tensor.slice ? &next->slice : NULL, err);
    }
    shard->n_queued = 0;
    return code;
}

static hs_code enqueue(hs__shard *shard, const hs__shard_item *tensor, hs_error *err)
{
    queued_item last = {.tensor = *tensor};
    if (tensor->slice)
        last.slice = *tensor->slice;
    hs_code code =
        hs__reserve(shard->all->env, &shard->queue, &shard->capacity, shard->n_queued + 1, sizeof *shard->queue, err);
    if (!code)
        shard->queue[shard->n_queued++] = last;
    return code;
}

hs_code hs__shards_add(hs__shards *shards, const hs__shard_item *tensor, bool remains, hs_error *err)
{
    size_t number = shards->added++;
    hs__shard *shard = &shards->items[number < shards->n_places ? shards->places[number] : 0];
    if (remains && !shard->immediate)
        return enqueue(shard, tensor, err);
    shard->immediate = true;
    hs_code code = write_queue(shard, err);
    return code ? code : write_tensor(shard, tensor, tensor->slice, err);
}

static void write_shard(hs__shard *shard)
{
    hs_error error = {0};
    bool more = shard == shard->all->items; /* states and the index are added to the first file later */
    hs_code code = write_queue(shard, &error);
    if (!code && !more && !atomic_load(&shard->all->failed))
        code = hs__bundle_writer_finish_data(&shard->writer, &error);
    if (code)
        atomic_store(&shard->all->failed, true);
    shard->error = error;
    shard->error.code = code;
}

static void *work(void *user)
{
    write_shard(user);
    return NULL;
}

static hs_code collect_results(hs__shards *shards, hs_error *err)
{
    hs_code code = HS_OK;
    for (int32_t i = 0; i < shards->n && !code; i++)
        code = hs__error_copy(err, &shards->items[i].error);
    for (int32_t i = 1; i < shards->n && !code; i++)
        code = hs__bundle_writer_join(&shards->items[0].writer, &shards->items[i].writer, err);
    return code;
}

/* Files whose thread could not be started are written by the caller. */
hs_code hs__shards_write(hs__shards *shards, hs_error *err)
{
    for (int32_t i = 1; i < shards->n; i++)
        shards->items[i].has_thread = !hs__thread_start(&shards->items[i].thread, work, &shards->items[i]);
    for (int32_t i = 0; i < shards->n; i++)
        if (!shards->items[i].has_thread)
            write_shard(&shards->items[i]);
    for (int32_t i = 1; i < shards->n; i++)
        if (shards->items[i].has_thread)
            pthread_join(shards->items[i].thread, NULL);
    return collect_results(shards, err);
}

hs__bundle_writer *hs__shards_first(hs__shards *shards)
{
    return &shards->items[0].writer;
}

void hs__shards_close(hs__shards *shards)
{
    for (int32_t i = 0; i < shards->opened; i++) {
        hs__bundle_writer_close(&shards->items[i].writer);
        hs__free(shards->env, shards->items[i].queue);
    }
    hs__free(shards->env, shards->items);
    hs__free(shards->env, shards->places);
}
