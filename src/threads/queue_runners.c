/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of threads, and all runners of a backend at once. */
#include "threads/queue_filling.h"

/* A list keeps its environment, which may be gone otherwise when it is freed. */
typedef struct {
    hs_env env;
    hs_thread *items[];
} block;

hs_code hs__threads_init(hs_threads *threads, const hs_env *env, size_t capacity, hs_error *err)
{
    size_t bytes = sizeof(block) + (capacity + 1) * sizeof(hs_thread *);
    block *made = hs__alloc(env, 1, bytes);
    if (!made)
        return hs__no_memory(err, bytes, "a list of threads");
    made->env = *env;
    *threads = (hs_threads){made->items, &made->env};
    return HS_OK;
}

void hs_threads_free(hs_threads *threads)
{
    if (!threads || !threads->env)
        return;
    hs_env env = *threads->env;
    for (hs_thread **thread = threads->items; *thread; thread++)
        hs_thread_free(*thread);
    hs__free(&env, (void *)threads->env); /* the block begins with it */
    *threads = (hs_threads){NULL, NULL};
}

hs_thread *hs_threads_item(const hs_threads *threads, size_t index)
{
    if (!threads || !threads->items)
        return NULL;
    for (size_t i = 0; i < index; i++)
        if (!threads->items[i])
            return NULL;
    return threads->items[index];
}

hs_code hs__threads_give(hs_threads *threads, hs_threads *to, const hs_error *error, hs_error *err)
{
    if (error->code)
        hs__drop_filling(threads);
    if (to && !error->code && hs_threads_item(threads, 0))
        *to = *threads;
    else
        hs_threads_free(threads);
    return hs__error_copy(err, error);
}

static hs_code fill_all(hs_queue_runner *const *runners, size_t n, hs_raw_session *session, hs_coordinator *coordinator,
                        hs_threads *threads, hs_error *err)
{
    size_t capacity = 0;
    for (size_t i = 0; i < n; i++)
        capacity += hs__filling_threads(runners[i], coordinator);
    hs_code code = hs__threads_init(threads, &session->env, capacity, err);
    for (size_t i = 0; !code && i < n; i++)
        code = hs__fill(runners[i], session, coordinator, threads, err);
    return code;
}

static hs_code take_runners(hs_raw_session *session, hs_queue_runner ***runners, size_t *n, hs_error *err)
{
    const void *item;
    *n = hs__collection_size(session->backend, HS_QUEUE_RUNNERS);
    *runners = hs__alloc(&session->env, *n + 1, sizeof **runners);
    if (!*runners)
        return hs__no_memory(err, *n * sizeof **runners, "the queue runners");
    for (size_t i = 0; i < *n && hs_backend_collection_item(session->backend, HS_QUEUE_RUNNERS, i, &item); i++)
        (*runners)[i] = (hs_queue_runner *)item;
    return HS_OK;
}

hs_code hs_queue_runners_start(hs_raw_session *session, hs_coordinator *coordinator, bool start, hs_threads *threads,
                               hs_error *err)
{
    hs_threads made = {0};
    hs_error error = {0};
    hs_queue_runner **runners = NULL;
    size_t n = 0;
    if (threads)
        *threads = made;
    if (!session || !session->handle)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_queue_runners_start: session is NULL or closed");
    hs_error_clear(err);
    if (session->runs_queues)
        return HS_OK;
    if (!take_runners(session, &runners, &n, &error) && !n)
        hs_log(&session->env, HS_LOG_WARNING, "hs_queue_runners_start: the graph has no queue runners");
    if (!error.code && n && !fill_all(runners, n, session, coordinator, &made, &error) && start)
        hs__start_filling(&made, session, coordinator, &error);
    hs__free(&session->env, runners);
    return hs__threads_give(&made, threads, &error, err);
}
