/* SPDX-License-Identifier: Apache-2.0 */
/* Ends runs that wait for a queue when a stop is requested. TensorFlow can end one run only by its timeout, but a run that
 * waits for a queue ends when the queue is closed. So while a run waits, a thread polls whether a stop was requested, and
 * then closes the graph's queues, as TensorFlow's coordinator does. A graph without queues needs no such thread. */
#include "tensorflow/queue_closers.h"
#include "tensorflow/tf_session.h"

#include <hooksess/coordinator.h>

#include <pthread.h>
#include <stddef.h>

/* Time between polls. */
static const double INTERVAL_SECS = 0.05;

struct hs__tf_watch {
    hs_env env;
    hs__tf_link *link;
    hs__tf_ops_list closers;
    hs_coordinator *coordinator;
    hs_thread *thread;
    pthread_mutex_t lock;
    const hs_backend_call *call; /* the current run; NULL: none. Guarded by `lock` */
};

/* Runs of forks are not watched: a queue runner ends its own. */
static bool is_watched(const hs__tf_session *session, const hs_backend_call *call)
{
    return !session->forked && session->link->watch && call->size > offsetof(hs_backend_call, user) && call->stop_requested;
}

/* Closes each queue in a separate run: if one queue cannot be closed, the others still are. */
static void close_queue(const struct hs__tf_watch *watch, TF_Operation *op)
{
    const hs__tf_api *tf = &watch->link->backend->tf;
    TF_Status *status = tf->NewStatus();
    hs_error error = {0};
    const TF_Operation *closer = op;
    tf->SessionRun(watch->link->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &closer, 1, NULL, status);
    if (hs__tf_check_status(tf, status, &error))
        hs_log(&watch->env, HS_LOG_DEBUG, "cannot close a queue after a stop request: %s", error.message);
    tf->DeleteStatus(status);
}

static hs_code poll_stop(void *user, hs_error *err)
{
    struct hs__tf_watch *watch = user;
    (void)err;
    pthread_mutex_lock(&watch->lock); /* while stop_requested is called, so that the run cannot end meanwhile */
    bool stop = !atomic_load(&watch->link->closed_queues) && watch->call && watch->call->stop_requested(watch->call->user);
    pthread_mutex_unlock(&watch->lock);
    if (!stop)
        return HS_OK;
    atomic_store(&watch->link->closed_queues, true);
    for (size_t i = 0; i < watch->closers.n; i++)
        close_queue(watch, watch->closers.ops[i]);
    return HS_OK;
}

static void free_watch(struct hs__tf_watch *watch)
{
    const hs_env env = watch->env;
    hs_thread_free(watch->thread);
    hs_coordinator_free(watch->coordinator);
    pthread_mutex_destroy(&watch->lock);
    hs__free(&env, watch->closers.ops);
    hs__free(&env, watch);
}

static hs_code start(struct hs__tf_watch *watch, hs_error *err)
{
    hs_error error = {0};
    watch->coordinator = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = &watch->env), &error);
    if (watch->coordinator)
        watch->thread = hs_looper_new(HS_LOOPER_OPTIONS(.coordinator = watch->coordinator, .name = "tensorflow stop",
                                                        .every_n_secs = INTERVAL_SECS, .loop = poll_stop, .user = watch),
                                      &error);
    if (watch->thread)
        hs_thread_start(watch->thread, &error);
    return hs__error_copy(err, &error);
}

hs_code hs__tf_watch_start(hs__tf_link *link, bool remote, hs_error *err)
{
    const hs_env *env = &link->backend->env;
    hs__tf_ops_list closers = {.ops = NULL};
    bool has_queues;
    hs_code code = hs__tf_find_closers(link->backend, remote, &closers, &has_queues, err);
    struct hs__tf_watch *watch = code || !has_queues ? NULL : hs__alloc(env, 1, sizeof *watch);
    if (!watch || pthread_mutex_init(&watch->lock, NULL) != 0) {
        hs__free(env, closers.ops);
        hs__free(env, watch);
        return code || !has_queues ? code : hs__no_memory(err, sizeof *watch, "a session");
    }
    watch->env = *env;
    watch->link = link;
    watch->closers = closers;
    if ((code = start(watch, err)))
        free_watch(watch);
    else
        link->watch = watch;
    return code;
}

void hs__tf_watch_end(hs__tf_link *link)
{
    struct hs__tf_watch *watch = link->watch;
    link->watch = NULL;
    if (!watch)
        return;
    hs_coordinator_request_stop(watch->coordinator, NULL);
    hs_coordinator_join(watch->coordinator, HS_JOIN_OPTIONS(.stop_grace_secs = HS_NEVER), NULL);
    free_watch(watch);
}

static void set_call(struct hs__tf_watch *watch, const hs_backend_call *call)
{
    pthread_mutex_lock(&watch->lock);
    watch->call = call;
    pthread_mutex_unlock(&watch->lock);
}

void hs__tf_run_begins(const hs__tf_session *session, const hs_backend_call *call)
{
    if (is_watched(session, call))
        set_call(session->link->watch, call);
}

hs_code hs__tf_run_ends(const hs__tf_session *session, const hs_backend_call *call, hs_code code, hs_error *err)
{
    if (is_watched(session, call)) {
        set_call(session->link->watch, NULL);
        if ((code == HS_OUT_OF_RANGE || code == HS_CANCELLED) && call->stop_requested(call->user))
            return hs_error_set(err, HS_STOP, "a stop was requested while the run waited for a queue");
    }
    /* A fork that fills a closed queue has reached its end: it returns the code that means so. */
    if (code == HS_CANCELLED && session->forked && atomic_load(&session->link->closed_queues))
        return hs_error_set(err, call->end_codes ? *call->end_codes : HS_OUT_OF_RANGE,
                            "the queue was closed, because a stop was requested");
    /* TensorFlow's message does not have the timeout. */
    if (code == HS_DEADLINE_EXCEEDED && call->options && call->options->timeout_secs > 0)
        hs_error_prefix(err, "the run took longer than timeout_secs (%g s)", call->options->timeout_secs);
    return code;
}
