/* SPDX-License-Identifier: Apache-2.0 */
/* hs__background_begin deals with a save in progress, hs__background_save fills the snapshot, and `work`, in the thread,
 * saves it and leaves the result for hs_saver_poll. */
#include "checkpoint/background.h"

#include "base/forks.h"
#include "base/thread.h"
#include "checkpoint/rank_parts.h"
#include "checkpoint/save.h"
#include "checkpoint/snapshot.h"

#include <stdatomic.h>
#include <string.h>

struct hs__background {
    hs_saver *saver;
    unsigned generation; /* of the process that has the thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock. While busy, only the saver's thread changes the fields below, otherwise only the session's */
    bool busy, quit;
    atomic_bool cancel; /* the save in progress is to be replaced */

    hs__snapshot snapshot;
    hs__save_request request;  /* of the last save */
    char *prefix, *state_file; /* of the request */
    hs__rank_sums sums;        /* the same */
    bool replaces;             /* the save replaces another one, and cannot be replaced itself */
    bool cancelled;            /* the last save was: the next one replaces it */
};

/* The result of a save in the directory, for hs_saver_poll. */
static void set_result(hs__saver_directory *directory, int64_t step, int64_t began_ns, const hs_error *error)
{
    directory->result = (hs_save_result){.step = step,
                                         .bytes = directory->last_bytes,
                                         .write_ns = hs_env_monotonic_ns(&directory->saver->env) - began_ns,
                                         .error = *error};
    atomic_store_explicit(&directory->has_result, true, memory_order_release);
}

static void *work(void *user)
{
    hs__background *b = user;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (!b->busy && !b->quit)
            pthread_cond_wait(&b->changed, &b->lock);
        if (!b->busy)
            break;
        pthread_mutex_unlock(&b->lock);
        hs_error error = {0};
        int64_t began_ns = hs_env_monotonic_ns(&b->saver->env);
        hs_code code = hs__snapshot_complete(&b->snapshot, &error);
        const hs__item_source source = hs__snapshot_source(&b->snapshot);
        if (!code)
            code = hs__save(&b->request, &source, &error);
        hs__snapshot_release(&b->snapshot);
        hs__normalize_error(code, "the save", &error);
        pthread_mutex_lock(&b->lock);
        b->busy = false;
        /* without a request to cancel, CANCELLED is an error of the file system or the graph */
        b->cancelled = code == HS_CANCELLED && atomic_load(&b->cancel);
        if (!b->cancelled)
            set_result(b->request.directory, b->request.step, began_ns, &error);
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static void free_parts(hs__background *b)
{
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    hs__free(&b->saver->env, b->prefix);
    hs__free(&b->saver->env, b->state_file);
    hs__rank_sums_free(&b->sums);
    hs__snapshot_free(&b->snapshot);
}

static hs_code start(hs_saver *saver, hs_error *err)
{
    hs__background *b = hs__alloc(&saver->env, 1, sizeof *b);
    if (!b)
        return hs__no_memory(err, sizeof *b, "saving in the background");
    b->saver = saver;
    b->generation = hs__fork_generation();
    atomic_init(&b->cancel, false);
    int result = hs__snapshot_init(&b->snapshot, &saver->env);
    if (!result && (result = pthread_mutex_init(&b->lock, NULL))) {
        hs__snapshot_free(&b->snapshot);
    } else if (!result && (result = pthread_cond_init(&b->changed, NULL))) {
        pthread_mutex_destroy(&b->lock);
        hs__snapshot_free(&b->snapshot);
    } else if (!result && (result = hs__thread_start(&b->thread, work, b))) {
        free_parts(b);
    }
    if (result) {
        hs__free(&saver->env, b);
        return hs_error_set_errno(err, result, "cannot start the thread of a background save");
    }
    saver->background = b;
    return HS_OK;
}

bool hs__background_is_inherited(const hs_saver *saver)
{
    return saver->background && hs__is_inherited(saver->background->generation);
}

void hs__background_wait(const hs_saver *saver)
{
    hs__background *b = saver->background;
    if (!b || hs__background_is_inherited(saver))
        return;
    pthread_mutex_lock(&b->lock);
    while (b->busy)
        pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

void hs__background_free(hs_saver *saver)
{
    hs__background *b = saver->background;
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->quit = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    free_parts(b);
    hs__free(&saver->env, b);
    saver->background = NULL;
}

static bool is_busy(hs__background *b)
{
    pthread_mutex_lock(&b->lock);
    const bool busy = b->busy;
    pthread_mutex_unlock(&b->lock);
    return busy;
}

void hs__background_cancel(hs_saver *saver, const char *prefix)
{
    hs__background *b = saver->background;
    if (!b || hs__background_is_inherited(saver))
        return;
    if (is_busy(b) && b->request.directory == hs__saver_find_directory(saver, prefix) && !b->replaces)
        atomic_store_explicit(&b->cancel, true, memory_order_relaxed);
    hs__background_wait(saver);
}

hs_code hs__background_begin(hs_saver *saver, const char *prefix, hs_busy_policy policy, hs_error *err)
{
    hs__saver_directory *directory = hs__saver_find_directory(saver, prefix);
    hs_code code;
    if (!saver->background && (code = start(saver, err)))
        return code;
    hs__background *b = saver->background;
    if (policy == HS_BUSY_SKIP && is_busy(b) && b->request.directory == directory)
        return hs_error_set(err, HS_CANCELLED, "'%s-%lld' is still being saved; this save is skipped", b->prefix,
                            (long long)b->request.step);
    if (policy == HS_BUSY_REPLACE)
        hs__background_cancel(saver, prefix);
    hs__background_wait(saver);
    b->replaces = b->cancelled;
    b->cancelled = false;
    if (!directory || !atomic_load(&directory->has_result) || !directory->result.error.code)
        return HS_OK;
    atomic_store(&directory->has_result, false); /* the caller has not polled it */
    code = hs__error_copy(err, &directory->result.error);
    hs_error_prefix(err, "the previous save, of step %lld", (long long)directory->result.step);
    return code;
}

hs_code hs__background_save(const hs__save_request *request, hs__save_list *list, hs_error *err)
{
    const hs_save_options *options = &request->options;
    hs__saver_directory *directory = request->directory;
    const hs_saver *saver = directory->saver;
    hs__background *b = saver->background;
    bool fit;
    hs_code code = hs__rank_parts_fit(list->session->rank_parts, &fit, err);
    if (code)
        return code;
    if (!fit || saver->save_variables || (options->copy_limit > 0 && list->bytes > (uint64_t)options->copy_limit)) {
        const hs__item_source source = hs__save_list_source(list); /* in the foreground */
        if (!(code = hs__save(request, &source, err))) /* it polls a save that took no further time: it has waited */
            set_result(directory, request->step, hs_env_monotonic_ns(&saver->env), &(hs_error){0});
        return code;
    }

    if ((code = hs__saver_set_text(saver, &b->prefix, request->prefix, err)) ||
        (code = hs__saver_set_text(saver, &b->state_file, options->state_file, err)))
        return code;
    b->request = *request;
    b->request.prefix = b->prefix;
    b->request.options.state_file = b->state_file;
    b->request.cancel = &b->cancel;
    if ((request->sums && (code = hs__rank_sums_gather(request->sums, err))) ||
        (code = hs__snapshot_take(&b->snapshot, list, options->overlap || list->session->guards_updates, err)))
        return code;
    hs__rank_sums_free(&b->sums);
    if (request->sums) {
        b->sums = *request->sums;
        *request->sums = (hs__rank_sums){.env = NULL};
        b->request.sums = &b->sums;
    }

    pthread_mutex_lock(&b->lock);
    b->busy = true;
    atomic_store(&b->cancel, false);
    atomic_store(&directory->has_result, false); /* no result yet */
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return HS_OK;
}

bool hs_saver_poll(hs_saver *saver, const char *prefix, hs_save_result *result)
{
    if (!saver || !saver->background || hs__background_is_inherited(saver))
        return false;
    hs__saver_directory *directory = prefix ? hs__saver_find_directory(saver, prefix) : saver->directories;
    while (!prefix && directory && !atomic_load_explicit(&directory->has_result, memory_order_acquire))
        directory = directory->next;
    if (!directory || !atomic_load_explicit(&directory->has_result, memory_order_acquire))
        return false;
    if (result)
        *result = directory->result;
    atomic_store(&directory->has_result, false);
    return true;
}

void hs_saver_wait(hs_saver *saver)
{
    if (saver)
        hs__background_wait(saver);
}
