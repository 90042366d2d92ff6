/* SPDX-License-Identifier: Apache-2.0 */
/* One save: calls the steps of the protocol in saver.h in their order. */
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

/* Data files: they are written in parallel. The caller writes the first file, and one thread writes each other
 * file. The sizes of the tensors alone determine which file a tensor goes to. Within a file they keep their order. */

typedef struct hs__shard hs__shard;

typedef struct hs__shards {
    const hs_env *env;
    hs__shard *items;
    int32_t n, opened;
    int32_t *places; /* by number of the tensor: its file */
    size_t n_places, added;
    hs_code (*check)(void *user, hs_error *err); /* an error cancels the writing; called by all threads */
    void *user;
    atomic_bool failed; /* one of the files: the other threads stop */
} hs__shards;

typedef struct hs__shard_size {
    uint64_t bytes;
    bool follows; /* slice of the same tensor as the previous one: it goes to the same file */
} hs__shard_size;

/* A tensor that the thread of its file will write. */
typedef struct {
    hs__save_item item; /* its slice, if it has one, is the copy: */
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

/* Opens n files with the shard numbers from `first` on, of `of` shards. Before the call, `check` and `user` are set and the
 * rest is zero. Call shards_close in any case. */
static hs_code shards_open(hs__shards *shards, const hs_env *env, char *const *paths, int32_t n, int32_t first, int32_t of,
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

/* Assigns n tensors to the files, so that the files have similar sizes. */
static hs_code shards_assign(hs__shards *shards, const hs__shard_size *given, size_t n, hs_error *err)
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

static hs_code write_tensor(hs__shard *shard, const hs__save_item *item, hs_error *err)
{
    hs_code code = shard->all->check(shard->all->user, err);
    return code ? code : hs__save_item_write(item, &shard->writer, err);
}

static hs_code write_queue(hs__shard *shard, hs_error *err)
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

static hs_code enqueue(hs__shard *shard, const hs__save_item *item, hs_error *err)
{
    queued_item last = {.item = *item};
    if (item->slice)
        last.slice = *item->slice;
    hs_code code =
        hs__reserve(shard->all->env, &shard->queue, &shard->capacity, shard->n_queued + 1, sizeof *shard->queue, err);
    if (!code)
        shard->queue[shard->n_queued++] = last;
    return code;
}

/* Adds the next tensor. `remains`: name and value are valid for all threads until shards_write has returned. A tensor
 * that does not remain is written immediately, after the earlier ones and before the later ones of its file. */
static hs_code shards_add(hs__shards *shards, const hs__save_item *item, bool remains, hs_error *err)
{
    size_t number = shards->added++;
    hs__shard *shard = &shards->items[number < shards->n_places ? shards->places[number] : 0];
    if (remains && !shard->immediate)
        return enqueue(shard, item, err);
    shard->immediate = true;
    hs_code code = write_queue(shard, err);
    return code ? code : write_tensor(shard, item, err);
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

/* Writes the tensors, and finishes all files but the first. Files whose thread could not be started are written by the
 * caller. Returns the error of the first file that failed. */
static hs_code shards_write(hs__shards *shards, hs_error *err)
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

/* The first file, for more tensors after shards_write. Its index has the tensors of all files. */
static hs__bundle_writer *shards_first(hs__shards *shards)
{
    return &shards->items[0].writer;
}

/* Frees the memory, and leaves the files. */
static void shards_close(hs__shards *shards)
{
    for (int32_t i = 0; i < shards->opened; i++) {
        hs__bundle_writer_close(&shards->items[i].writer);
        hs__free(shards->env, shards->items[i].queue);
    }
    hs__free(shards->env, shards->items);
    hs__free(shards->env, shards->places);
}

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

/* hs__shards.check */
static hs_code check_shard_wanted(void *user, hs_error *err)
{
    return check_wanted(user, err);
}

static size_t count_variables(const save *s)
{
    if (s->variables)
        return s->variables->n_entries;
    return s->snapshot ? s->snapshot->n_variables : s->list->n;
}

static hs__shard_size size_of(const save *s, size_t at)
{
    if (s->variables)
        return (hs__shard_size){s->variables->entries[at].bytes, false};
    if (!s->snapshot)
        return (hs__shard_size){s->list->variables[at].bytes, hs__save_list_follows(s->list, at)};
    hs__save_item item = hs__snapshot_item(s->snapshot, at);
    return (hs__shard_size){item.value.bytes, item.follows};
}

static hs_code assign_shards(const save *s, hs__shards *shards, hs_error *err)
{
    size_t n = count_variables(s);
    if (shards->n == 1)
        return HS_OK;
    hs__shard_size *sizes = hs__alloc(s->env, n, sizeof *sizes);
    if (!sizes)
        return hs__no_memory(err, n * sizeof *sizes, "the sizes of variables");
    for (size_t i = 0; i < n; i++)
        sizes[i] = size_of(s, i);
    hs_code code = shards_assign(shards, sizes, n, err);
    hs__free(s->env, sizes);
    return code;
}

typedef struct {
    hs__shards *shards;
    bool is_snapshot;
    bool keeps_views; /* the backend's views of variables are valid until the next run */
} variable_writing;

/* hs__visit_item_fn */
static hs_code add_variable(void *user, const hs__save_item *item, hs_error *err)
{
    const variable_writing *w = user;
    return shards_add(w->shards, item, w->is_snapshot || (w->keeps_views && item->borrowed), err);
}

static hs_code add_variables(const save *s, hs__shards *shards, hs_error *err)
{
    variable_writing w = {.shards = shards, .is_snapshot = s->snapshot != NULL};
    hs_code code = HS_OK;
    if (s->variables) {
        for (size_t i = 0; !code && i < s->variables->n_entries; i++) {
            const hs__bundle_entry *entry = &s->variables->entries[i];
            code = add_variable(
                &w, &(hs__save_item){.name = entry->name, .variable = HS__NONE, .copied_from = s->variables}, err);
        }
        return code;
    }
    if (!s->snapshot) {
        w.keeps_views = (s->list->session->ops.flags & HS_BACKEND_KEEPS_VIEWS) != 0;
        return hs__save_list_visit_variables(s->list, add_variable, &w, err);
    }
    for (size_t i = 0; !code && i < s->snapshot->n_variables; i++) {
        const hs__save_item item = hs__snapshot_item(s->snapshot, i);
        code = add_variable(&w, &item, err);
    }
    return code;
}

static hs_code write_variables(const save *s, hs__shards *shards, hs_error *err)
{
    hs_code code;
    if ((code = assign_shards(s, shards, err)) || (code = add_variables(s, shards, err)))
        return code;
    return shards_write(shards, err);
}

typedef struct {
    const save *s;
    hs__bundle_writer *writer;
} state_writing;

static hs_code write_state(void *user, const hs__save_item *item, hs_error *err)
{
    const state_writing *w = user;
    hs_code code = check_wanted(w->s, err);
    return code ? code : hs__save_item_write(item, w->writer, err);
}

static hs_code write_states(const save *s, hs__bundle_writer *writer, hs_error *err)
{
    state_writing w = {s, writer};
    hs_code code = HS_OK;
    if (!s->snapshot)
        return hs__save_list_visit_states(s->list, write_state, &w, err);
    for (size_t i = s->snapshot->n_variables; !code && i < s->snapshot->n; i++) {
        hs__save_item item = hs__snapshot_item(s->snapshot, i);
        code = write_state(&w, &item, err);
    }
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

static hs_code write_tensors(const save *s, hs__shards *shards, hs_error *err)
{
    hs__bundle_writer *first = shards_first(shards);
    hs_code code;
    if ((code = write_variables(s, shards, err)) || (code = check_finite(s, first, err)) ||
        (code = write_states(s, first, err)))
        return code;
    return hs__bundle_writer_finish(first, s->files.index_tmp, err);
}

static hs_code write_files(save *s, hs_error *err)
{
    const hs__data_range *names = &s->files.names;
    hs__shards shards = {.env = s->env, .check = check_shard_wanted, .user = s};
    hs_code code = hs__new_checkpoint_files(&s->files, s->saver->shards, err);
    if (!code)
        code = shards_open(&shards, s->env, s->files.data_tmp, names->n, names->first, names->of, err);
    if (!code)
        code = write_tensors(s, &shards, err);
    shards_close(&shards);
    return code;
}

/* Lets the program write the variables to a bundle in a temporary directory, and copies that. */
static hs_code write_by_program(save *s, hs_error *err)
{
    const hs_saver *saver = s->saver;
    hs__bundle_reader bundle;
    char *directory = hs__format(s->env, "%s" HS__VARIABLES_TMP, s->files.prefix);
    char *prefix = directory ? hs__path_join(s->env, directory, "variables") : NULL;
    hs_code code = prefix ? HS_OK : hs__no_memory(err, strlen(s->files.prefix), "a path");
    if (!code && !(code = hs__make_directory(s->env, directory, err))) {
        code =
            hs__normalize_error(saver->save_variables(saver->user, s->list->session, prefix, err), "save_variables", err);
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

static hs_code write_bundle(save *s, hs_error *err)
{
    return s->saver->save_variables ? write_by_program(s, err) : write_files(s, err);
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

/* Steps 5 and 6. */
static hs_code make_newest(const save *s, hs_error *err)
{
    const hs_save_options *options = &s->request->options;
    hs_code code = record_state_file(s->directory, options->state_file, err);
    if (code)
        return code;
    size_t n_expired = hs__expire(s->directory, options->max_to_keep ? options->max_to_keep : s->saver->max_to_keep);
    if (!(code = hs__saver_write_state_file(s->directory, s->files.prefix, n_expired, err)))
        hs__delete_expired(s->directory, n_expired);
    return code;
}

/* Steps 1 to 3. */
static hs_code write_checkpoint(save *s, hs_error *err)
{
    hs_code code;
    if (!(code = write_bundle(s, err)) && (s->request->options.no_meta_graph || !(code = write_meta(s, err))) &&
        !(code = check_wanted(s, err)) && !(code = hs__new_checkpoint_commit(&s->files, err)))
        return HS_OK;
    hs__new_checkpoint_discard(&s->files);
    return code;
}

static hs_code save_all(save *s, hs_error *err)
{
    const hs_save_options *options = &s->request->options;
    hs_code code;
    if ((code = check_collision(s, err)) || (code = hs__make_directory_for(s->env, s->files.prefix, err)) ||
        (code = hs__saver_hold_directory(s->directory, s->base, s->request->session, err)))
        return code;
    if (!options->no_state_file)
        hs__finish_deleting(&s->directory->held, s->env, options->state_file, s->directory->kept, s->directory->n_kept);
    if ((code = check_space(s, err)))
        return code;
    code = write_checkpoint(s, err);
    if (s->files.named && !options->no_state_file) {
        hs_code kept = keep(s, code ? NULL : err);
        code = code ? code : kept;
    }
    if (code || (code = hs__saver_set_last(s->directory, s->files.prefix, err)))
        return code;
    s->directory->last_bytes = s->request->bytes;
    if (options->no_state_file || (code = abandon_branch(s, err)))
        return code;
    return make_newest(s, err);
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
