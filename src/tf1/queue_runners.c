/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/tf1/queue_runners.h>

hs_code hs_queue_runners_start(hs_raw_session *session, hs_coordinator *coordinator, bool start, hs_threads *threads,
                               hs_error *err)
{
    const hs_backend backend = hs_raw_session_backend(session);
    hs_threads made = {0};
    hs_error error = {0};
    const void *runner;
    size_t n = 0;
    if (threads)
        *threads = made;
    if (!hs_raw_session_handle(session))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_queue_runners_start: session is NULL or closed");
    for (; !error.code && hs_backend_collection_item(backend, HS_QUEUE_RUNNERS, n, &runner); n++)
        hs_queue_runner_create_threads((hs_queue_runner *)runner, session, coordinator, start, threads ? &made : NULL,
                                       &error);
    if (!n)
        hs_log(hs_backend_env(backend), HS_LOG_WARNING, "hs_queue_runners_start: the graph has no queue runners");
    if (error.code && coordinator)
        hs_coordinator_request_stop(coordinator, &error);
    if (error.code)
        hs_threads_free(&made);
    else if (threads)
        *threads = made;
    if (err)
        *err = error;
    return error.code;
}
