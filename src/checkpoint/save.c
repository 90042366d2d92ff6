/* SPDX-License-Identifier: Apache-2.0 */
/* One save: save_all, at the end, calls the steps of the protocol in saver.h in their order. What comes before writes the
 * temporary files, the data files of them in parallel. */
#include "checkpoint/save.h"

#include <hooksess/backend.h>

#include "base/files.h"
#include "base/thread.h"
#include "checkpoint/commit.h"
#include "formats/bundle.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const hs__save_request *request;
    hs__saver_directory *directory;
    hs_saver *saver;
    const hs__save_list *list;    /* saves the session's values; */
    const hs__snapshot *snapshot; /* not NULL: saves this instead */
    hs__bundle_reader *variables; /* not NULL: saves the tensors of this bundle instead of the list's variables */
    uint64_t needed;              /* estimate in bytes */
    bool (*cancelled)(void *user);
    void *cancel_user;
    const hs_env *env;
    const char *base; /* file name of the prefix, without the step */
    hs__new_checkpoint files;
} save;

static hs_code check_collision(const save *s, hs_error *err)
{
    const hs_save_options *options = &s->request->options;
    const char *state_file = options->state_file ? options->state_file : "checkpoint";
    if (options->no_state_file || strcmp(hs__path_base(s->files.prefix), state_file) != 0)
        return HS_OK;
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "cannot save '%s': the state file, which names the newest checkpoint, has the same name",
                        s->files.prefix);
}

/* Before anything is written: a save that cannot complete would fill the disk. */
static hs_code check_space(const save *s, hs_error *err)
{
    uint64_t free_bytes = hs__free_space(s->env, s->files.directory);
    if (s->needed <= free_bytes)
        return HS_OK;
    return hs_error_set_errno(err, ENOSPC, "cannot save '%s': it needs %llu bytes, but only %llu are free on the disk",
                              s->files.prefix, (unsigned long long)s->needed, (unsigned long long)free_bytes);
}

static hs_code check_wanted(const save *s, hs_error *err)
{
    if (s->cancelled && s->cancelled(s->cancel_user))
        return hs_error_set(err, HS_CANCELLED, "'%s' is not saved: a later save replaces it", s->files.prefix);
    return HS_OK;
}

/* Data files. The caller writes the first file, and one thread writes each other file. The sizes of the tensors alone
 * determine which file a tensor goes to. Within a file they keep their order. */

typedef struct data_file data_file;

typedef struct data_files {
    const save *save;
    data_file *items;
    int32_t n, opened;
    int32_t *places; /* by number of the tensor: its file. NULL: all go to the first file */
    size_t added;
    atomic_bool failed; /* one of the files: the other threads stop */
} data_files;

/* A tensor that the thread of its file will write. */
typedef struct {
    hs__save_item item; /* its slice, if it has one, is the copy: */
    hs_variable_slice slice;
} queued_item;

struct data_file {
    data_files *all;
    hs__bundle_writer writer;
    queued_item *queue;
    size_t n_queued, capacity;
    bool immediate; /* the caller writes its tensors when it adds them */
    bool has_thread;
    pthread_t thread;
    hs_error error;
};

static hs_code open_shards(data_files *shards, hs_error *err)
{
    const hs__new_checkpoint *files = &shards->save->files;
    shards->items = hs__alloc(shards->save->env, (size_t)shards->n, sizeof *shards->items);
    if (!shards->items)
        return hs__no_memory(err, (size_t)shards->n * sizeof *shards->items, "data files");
    shards->items[0].immediate = shards->n == 1;
    hs_code code = HS_OK;
    while (!code && shards->opened < shards->n) {
        int32_t i = shards->opened++;
        shards->items[i].all = shards;
        code = hs__bundle_writer_open(&shards->items[i].writer, shards->save->env, files->data_tmp[i],
                                      files->names.first + i, files->names.of, err);
    }
    return code;
}

/* Frees the memory, and leaves the files. */
static void close_shards(data_files *shards)
{
    const hs_env *env = shards->save->env;
    for (int32_t i = 0; i < shards->opened; i++) {
        hs__bundle_writer_close(&shards->items[i].writer);
        hs__free(env, shards->items[i].queue);
    }
    hs__free(env, shards->items);
    hs__free(env, shards->places);
}

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

/* The size of a variable. *follows: it is a slice of the same tensor as the previous one. */
static uint64_t size_of(const save *s, size_t at, bool *follows)
{
    *follows = false;
    if (s->variables)
        return s->variables->entries[at].bytes;
    if (!s->snapshot) {
        *follows = hs__save_list_follows(s->list, at);
        return s->list->variables[at].bytes;
    }
    hs__save_item item = hs__snapshot_item(s->snapshot, at);
    *follows = item.follows;
    return item.value.bytes;
}

/* Assigns the variables to the files, so that these have similar sizes: the largest first, each to the smallest file. The
 * largest file is then at most a third larger than with the best assignment. All slices of a tensor go to the same file. */
static hs_code assign_variables(data_files *shards, hs_error *err)
{
    enum { SAME_AS_PREVIOUS = -1 };
    const save *s = shards->save;
    const size_t n = s->variables ? s->variables->n_entries : s->snapshot ? s->snapshot->n_variables : s->list->n;
    uint64_t loads[HS__MOST_SHARDS] = {0};
    size_t n_whole = 0;
    bool follows;
    if (shards->n == 1 || !n)
        return HS_OK;
    sized *tensors = hs__alloc(s->env, n, sizeof *tensors);
    shards->places = hs__alloc(s->env, n, sizeof *shards->places);
    if (!tensors || !shards->places) {
        hs__free(s->env, tensors);
        return hs__no_memory(err, n * sizeof *tensors, "assigning tensors to files");
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes = size_of(s, i, &follows);
        shards->places[i] = follows ? SAME_AS_PREVIOUS : 0;
        if (follows)
            tensors[n_whole - 1].bytes += bytes;
        else
            tensors[n_whole++] = (sized){bytes, i};
    }
    qsort(tensors, n_whole, sizeof *tensors, largest_first);
    for (size_t i = 0; i < n_whole; i++) {
        int32_t least = 0;
        for (int32_t place = 1; place < shards->n; place++)
            if (loads[place] < loads[least])
                least = place;
        shards->places[tensors[i].number] = least;
        loads[least] += tensors[i].bytes;
    }
    for (size_t i = 1; i < n; i++)
        if (shards->places[i] == SAME_AS_PREVIOUS)
            shards->places[i] = shards->places[i - 1];
    hs__free(s->env, tensors);
    return HS_OK;
}

/* hs__visit_item_fn. Writes a tensor to a file. */
static hs_code write_tensor(void *user, const hs__save_item *item, hs_error *err)
{
    hs__bundle_writer *writer = &((data_file *)user)->writer;
    hs_code code = check_wanted(((data_file *)user)->all->save, err);
    if (code)
        return code;
    writer->ignores_nonfinite = item->nonfinite;
    if (item->copied_from)
        return hs__bundle_writer_add_copy(writer, item->copied_from, hs__bundle_find(item->copied_from, item->name), err);
    if (item->produce)
        return hs__bundle_writer_add_bytes(writer, item->name, item->produce, item->source, err);
    return item->slice ? hs__bundle_writer_add_slice(writer, item->name, &item->slice->shape, item->slice->starts,
                                                     &item->value, err)
                       : hs__bundle_writer_add(writer, item->name, &item->value, err);
}

static hs_code write_queue(data_file *shard, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < shard->n_queued && !code && !atomic_load(&shard->all->failed); i++) {
        queued_item *next = &shard->queue[i];
        next->item.slice = next->item.slice ? &next->slice : NULL;
        code = write_tensor(shard, &next->item, err);
    }
    shard->n_queued = 0;
    return code;
}

/* hs__visit_item_fn. Adds the next variable to its file. It is queued for the file's thread if its memory is valid until
 * write_shards has returned: that of a snapshot, or the backend's view, if the backend keeps views until the next run.
 * Another one is written immediately, after the earlier ones and before the later ones of its file. */
static hs_code add_variable(void *user, const hs__save_item *item, hs_error *err)
{
    data_files *shards = user;
    const save *s = shards->save;
    data_file *shard = &shards->items[shards->places ? shards->places[shards->added] : 0];
    const bool remains = s->snapshot || (item->borrowed && (s->list->session->ops.flags & HS_BACKEND_KEEPS_VIEWS) != 0);
    hs_code code;
    shards->added++;
    if (!remains || shard->immediate) {
        shard->immediate = true;
        code = write_queue(shard, err);
        return code ? code : write_tensor(shard, item, err);
    }
    if ((code = hs__reserve(s->env, &shard->queue, &shard->capacity, shard->n_queued + 1, sizeof *shard->queue, err)))
        return code;
    queued_item *last = &shard->queue[shard->n_queued++];
    *last = (queued_item){.item = *item};
    if (item->slice)
        last->slice = *item->slice;
    return HS_OK;
}

static hs_code add_variables(data_files *shards, hs_error *err)
{
    const save *s = shards->save;
    hs_code code = HS_OK;
    if (s->variables) {
        for (size_t i = 0; !code && i < s->variables->n_entries; i++) {
            const hs__save_item item = {
                .name = s->variables->entries[i].name, .variable = HS__NONE, .copied_from = s->variables};
            code = add_variable(shards, &item, err);
        }
    } else if (s->snapshot) {
        for (size_t i = 0; !code && i < s->snapshot->n_variables; i++) {
            const hs__save_item item = hs__snapshot_item(s->snapshot, i);
            code = add_variable(shards, &item, err);
        }
    } else {
        code = hs__save_list_visit_variables(s->list, add_variable, shards, err);
    }
    return code;
}

static void *write_shard(void *user)
{
    data_file *shard = user;
    hs_error error = {0};
    bool more = shard == shard->all->items; /* states and the index are added to the first file later */
    hs_code code = write_queue(shard, &error);
    if (!code && !more && !atomic_load(&shard->all->failed))
        code = hs__bundle_writer_finish_data(&shard->writer, &error);
    if (code)
        atomic_store(&shard->all->failed, true);
    shard->error = error;
    shard->error.code = code;
    return NULL;
}

/* Writes the variables, and finishes all files but the first, whose index then has the tensors of all files. Files whose
 * thread could not be started are written by the caller. Returns the error of the first file that failed. */
static hs_code write_shards(data_files *shards, hs_error *err)
{
    hs_code code = HS_OK;
    for (int32_t i = 1; i < shards->n; i++)
        shards->items[i].has_thread = !hs__thread_start(&shards->items[i].thread, write_shard, &shards->items[i]);
    for (int32_t i = 0; i < shards->n; i++)
        if (!shards->items[i].has_thread)
            write_shard(&shards->items[i]);
    for (int32_t i = 1; i < shards->n; i++)
        if (shards->items[i].has_thread)
            pthread_join(shards->items[i].thread, NULL);
    for (int32_t i = 0; i < shards->n && !code; i++)
        code = hs__error_copy(err, &shards->items[i].error);
    for (int32_t i = 1; i < shards->n && !code; i++)
        code = hs__bundle_writer_join(&shards->items[0].writer, &shards->items[i].writer, err);
    return code;
}

static hs_code check_finite(const save *s, const hs__bundle_writer *writer, hs_error *err)
{
    const hs_nonfinite *found = &writer->nonfinite;
    if (!writer->n_nonfinite || s->saver->allow_nonfinite)
        return HS_OK;
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "'%s' is not saved: '%s' is not finite, first at index %lld (%llu NaN, %llu +infinity, %llu "
                        "-infinity)%s; the previous checkpoint remains the newest",
                        s->files.prefix, writer->nonfinite_name, (long long)found->first_index,
                        (unsigned long long)found->nan, (unsigned long long)found->positive_infinity,
                        (unsigned long long)found->negative_infinity,
                        writer->n_nonfinite > 1 ? ", and other variables are not finite either" : "");
}

static hs_code write_states(const save *s, data_file *first, hs_error *err)
{
    hs_code code = HS_OK;
    if (!s->snapshot)
        return hs__save_list_visit_states(s->list, write_tensor, first, err);
    for (size_t i = s->snapshot->n_variables; !code && i < s->snapshot->n; i++) {
        const hs__save_item item = hs__snapshot_item(s->snapshot, i);
        code = write_tensor(first, &item, err);
    }
    return code;
}

/* The data files and the index. */
static hs_code write_files(save *s, hs_error *err)
{
    hs_code code = hs__new_checkpoint_files(&s->files, s->saver->shards, err);
    if (code)
        return code;
    data_files shards = {.save = s, .n = s->files.names.n};
    atomic_init(&shards.failed, false);
    if (!(code = open_shards(&shards, err)) && !(code = assign_variables(&shards, err)) &&
        !(code = add_variables(&shards, err)) && !(code = write_shards(&shards, err)) &&
        !(code = check_finite(s, &shards.items[0].writer, err)) && !(code = write_states(s, &shards.items[0], err)))
        code = hs__bundle_writer_finish(&shards.items[0].writer, s->files.index_tmp, err);
    close_shards(&shards);
    return code;
}

/* The same if the program writes the variables: to a bundle in a temporary directory, from which they are copied. */
static hs_code write_by_program(save *s, hs_error *err)
{
    const hs_saver *saver = s->saver;
    hs__bundle_reader bundle;
    char *directory = hs__format(s->env, "%s" HS__VARIABLES_TMP, s->files.prefix);
    char *prefix = directory ? hs__path_join(s->env, directory, "variables") : NULL;
    hs_code code = prefix ? HS_OK : hs__no_memory(err, strlen(s->files.prefix), "a path");
    if (!code) {
        hs__remove_all(s->env, directory); /* of a failed save. What remains would be taken for what the program writes */
        const hs_file_system *files = &s->env->files;
        code = hs__file_result(files->ops->make_directory(files->user, directory, err), directory, err);
        if (code == HS_ALREADY_EXISTS && !files->ops->remove_directory) {
            hs__clear(err); /* it is empty */
            code = HS_OK;
        }
    }
    if (!code) {
        code = saver->save_variables(saver->user, s->list->session, prefix, err);
        code = hs__normalize_error(code, "save_variables", err);
        if (!code && !(code = hs__bundle_reader_open(&bundle, s->env, prefix, err))) {
            s->variables = &bundle;
            code = write_files(s, err);
            hs__bundle_reader_close(&bundle);
        }
        hs__remove_all(s->env, directory);
    }
    hs__free(s->env, directory);
    hs__free(s->env, prefix);
    return code;
}

static hs_code write_meta(save *s, hs_error *err)
{
    hs_bytes meta = {NULL, 0};
    if (s->snapshot) {
        s->files.has_meta = s->snapshot->meta.data != NULL;
        return s->files.has_meta
                   ? hs__file_write_synced(s->env, s->files.meta_tmp, s->snapshot->meta.data, s->snapshot->meta.size, err)
                   : HS_OK;
    }
    hs_backend backend = s->list->session->backend;
    hs_code code = hs_backend_export_meta_graph(backend, s->saver, &meta, err);
    if (code == HS_UNIMPLEMENTED) {
        hs_error_clear(err);
        return HS_OK; /* the backend has no graph */
    }
    if (code)
        return code;
    s->files.has_meta = true;
    code = hs__file_write_synced(s->env, s->files.meta_tmp, meta.data, meta.size, err);
    hs_env_free(hs_backend_env(backend), (void *)meta.data);
    return code;
}

static hs_code record_state_file(hs__saver_directory *directory, const char *name, hs_error *err)
{
    const hs_env *env = &directory->saver->env;
    char *copy = hs__strdup(env, name ? name : "checkpoint");
    if (!copy)
        return hs__no_memory(err, 1, "a name");
    hs__free(env, directory->state_file);
    directory->state_file = copy;
    return HS_OK;
}

/* The checkpoint exists. The saver deletes it when it expires, even if the rest of the save fails. Checkpoints of an
 * abandoned branch leave the list, so that step 4 renames them. */
static hs_code keep(const save *s, hs_error *err)
{
    const hs__save_request *request = s->request;
    hs__kept_checkpoint newest = {.path = s->files.prefix,
                                  .timestamp = (double)hs_env_realtime_ns(s->env) / 1e9,
                                  .metric = request->options.has_metric ? request->options.metric : (double)NAN};
    if (request->branch_step >= 0) {
        hs__saver_drop_later(s->directory, s->base, request->branch_step);
        s->directory->held.branch_clear = false;
    }
    s->directory->opened = request->opened;
    s->directory->restores = request->restores;
    return hs__saver_keep(s->directory, &newest, 1, err);
}

/* Step 4. Once for each lock, as no other process saves there meanwhile; and once after a restore. */
static hs_code abandon_branch(const save *s, hs_error *err)
{
    hs__held_directory *held = &s->directory->held;
    int64_t from = s->request->branch_step, step = s->request->step;
    if (step < 0 || (held->branch_clear && from < 0))
        return HS_OK;
    hs_code code = hs__abandon_later(held, s->env, s->base, from >= 0 && from < step ? from : step, s->directory->kept,
                                     s->directory->n_kept, err);
    held->branch_clear = !code;
    held->needs_sweep = code;
    return code;
}

static hs_code save_all(save *s, hs_error *err)
{
    const hs__save_request *request = s->request;
    const hs_save_options *options = &request->options;
    hs__saver_directory *directory = s->directory;
    hs_code code;

    /* Step 0. */
    if ((code = check_collision(s, err)) || (code = hs__make_directory_for(s->env, s->files.prefix, err)) ||
        (code = hs__saver_hold_directory(directory, s->base, request->session, err)))
        return code;
    if (!options->no_state_file)
        hs__finish_deleting(&directory->held, s->env, options->state_file, directory->kept, directory->n_kept);
    if ((code = check_space(s, err)))
        return code;

    /* Step 1. */
    code = s->saver->save_variables ? write_by_program(s, err) : write_files(s, err);
    if (!code && !options->no_meta_graph)
        code = write_meta(s, err);
    if (!code)
        code = check_wanted(s, err);

    /* Steps 2 and 3. */
    if (!code)
        code = hs__new_checkpoint_commit(&s->files, err);
    if (code)
        hs__new_checkpoint_discard(&s->files);
    if (s->files.named && !options->no_state_file) {
        hs_code kept = keep(s, code ? NULL : err);
        code = code ? code : kept;
    }
    if (code || (code = hs__saver_set_last(directory, s->files.prefix, err)))
        return code;
    directory->last_bytes = request->bytes;
    if (options->no_state_file)
        return HS_OK;

    /* Step 4. */
    if ((code = abandon_branch(s, err)))
        return code;

    /* Steps 5 and 6. */
    if ((code = record_state_file(directory, options->state_file, err)))
        return code;
    size_t n_expired = hs__expire(directory, options->max_to_keep ? options->max_to_keep : s->saver->max_to_keep);
    if (!(code = hs__saver_write_state_file(directory, s->files.prefix, n_expired, err)))
        hs__delete_expired(directory, n_expired);
    return code;
}

static hs_code save_to(save *s, hs_error *err)
{
    const hs__save_request *request = s->request;
    s->directory = request->directory;
    s->saver = s->directory->saver;
    s->env = &s->saver->env;
    s->base = hs__path_base(request->prefix);
    hs_code code = hs__new_checkpoint_begin(&s->files, s->env, request->prefix, request->step, err);
    if (!code)
        code = save_all(s, err);
    hs__new_checkpoint_free(&s->files);
    return code;
}

hs_code hs__save_session(const hs__save_request *request, const hs__save_list *list, hs_error *err)
{
    const bool twice = request->directory->saver->save_variables != NULL;
    save s = {.request = request, .list = list, .needed = list->bytes * (twice ? 2 : 1)};
    return save_to(&s, err);
}

hs_code hs__save_snapshot(const hs__save_request *request, const hs__snapshot *snapshot, bool (*cancelled)(void *user),
                          void *user, hs_error *err)
{
    save s = {
        .request = request, .snapshot = snapshot, .needed = snapshot->bytes, .cancelled = cancelled, .cancel_user = user};
    return save_to(&s, err);
}
