/* SPDX-License-Identifier: Apache-2.0 */
/* Starts all queue runners of a graph, or none: creates the threads of each runner, and starts them with the last one. */
#include <hooksess/tf1/queue_runners.h>

static size_t count_listed(const hs_threads *threads)
{
    size_t n = 0;
    while (threads->items && threads->items[n])
        n++;
    return n;
}

/* Frees the handles from number `first` on. Threads that were not started close their handles of the session. */
static void cut_list(hs_threads *threads, size_t first)
{
    for (size_t i = first; threads->items && threads->items[i]; i++) {
        hs_thread_free(threads->items[i]);
        threads->items[i] = NULL;
    }
    if (first == 0)
        hs_threads_free(threads);
}

hs_code hs_queue_runners_start(hs_raw_session *session, hs_coordinator *coordinator, bool start, hs_threads *threads,
                               hs_error *err)
{
    const hs_backend backend = hs_raw_session_backend(session);
    hs_threads unlisted = {0};
    hs_threads *list = threads ? threads : &unlisted;
    hs_error error = {0};
    const void *runner;
    size_t n = 0;
    if (!hs_raw_session_handle(session))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_queue_runners_start: session is NULL or closed");
    const size_t first = count_listed(list);
    for (; !error.code && hs_backend_collection_item(backend, HS_QUEUE_RUNNERS, n, &runner); n++) {
        const bool last = !hs_backend_collection_item(backend, HS_QUEUE_RUNNERS, n + 1, NULL);
        hs_queue_runner_create_threads((hs_queue_runner *)runner, session, coordinator, start && last, list, &error);
    }
    if (!n)
        hs_log(hs_backend_env(backend), HS_LOG_WARNING, "hs_queue_runners_start: the graph has no queue runners");
    if (error.code && coordinator)
        hs_coordinator_request_stop(coordinator, &error);
    if (error.code)
        cut_list(list, first);
    hs_threads_free(&unlisted);
    if (err)
        *err = error;
    return error.code;
}
