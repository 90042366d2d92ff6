/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes a cluster's session with a time limit. If a task is lost, TensorFlow waits in both calls until the task
 * is back, and ignores its timeouts. So a thread makes the call. If the call takes too long, the caller returns, and the
 * thread continues alone. */
#include "tensorflow/tf_session.h"

#include "base/thread.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { OPENING_SECS = 60, CLOSING_SECS = 10 };

typedef hs_code (*link_call)(const hs__tf_link *link, hs_error *err);

/* A call in a thread. If the caller stops waiting, the thread frees it. */
typedef struct {
    hs__tf_link *link; /* holds a reference */
    link_call call;
    link_call undo; /* called after it if the caller stopped waiting; NULL: nothing */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, abandoned;
    hs_error error;
} job;

static void free_job(job *j)
{
    hs__tf_link *link = j->link;
    pthread_cond_destroy(&j->changed);
    pthread_mutex_destroy(&j->lock);
    hs__free(&link->backend->env, j);
    hs__tf_release_link(link);
}

static void *work(void *user)
{
    job *j = user;
    hs_error error = {0};
    j->call(j->link, &error);
    pthread_mutex_lock(&j->lock);
    j->error = error;
    j->done = true;
    bool abandoned = j->abandoned;
    pthread_cond_signal(&j->changed);
    pthread_mutex_unlock(&j->lock);
    if (abandoned && j->undo)
        j->undo(j->link, &error);
    if (abandoned)
        free_job(j);
    return NULL;
}

static job *start_job(hs__tf_link *link, link_call call, link_call undo, hs_error *err)
{
    job *j = hs__alloc(&link->backend->env, 1, sizeof *j);
    pthread_condattr_t attributes;
    if (!j) {
        hs__no_memory(err, sizeof *j, "a thread's work");
        return NULL;
    }
    atomic_fetch_add(&link->references, 1);
    j->link = link;
    j->call = call;
    j->undo = undo;
    pthread_mutex_init(&j->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&j->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    int failed = hs__thread_start(&j->thread, work, j);
    if (!failed)
        return j;
    free_job(j);
    hs_error_set_errno(err, failed, "cannot start a thread for a session");
    return NULL;
}

/* Waits for the call. Returns false if it takes longer than `ms`: the thread owns the job from then on. */
static bool await_job(job *j, int64_t ms, hs_error *err)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&j->lock);
    while (!j->done && pthread_cond_timedwait(&j->changed, &j->lock, &until) != ETIMEDOUT)
        ;
    bool done = j->done;
    pthread_t thread = j->thread;
    j->abandoned = !done;
    pthread_mutex_unlock(&j->lock);
    if (!done) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    hs__error_copy(err, &j->error);
    free_job(j);
    return true;
}

static hs_code close_session(const hs__tf_link *link, hs_error *err)
{
    const hs__tf_api *tf = &link->backend->tf;
    TF_Status *status = tf->NewStatus();
    tf->CloseSession(link->session, status);
    hs_code code = hs__tf_check_status(tf, status, err);
    tf->DeleteStatus(status);
    return code;
}

/* Returns an op without side effects. NULL: the graph has no constant. */
static const TF_Operation *find_constant(const hs__tf_backend *backend)
{
    size_t at = 0;
    TF_Operation *op;
    while ((op = backend->tf.GraphNextOperation(backend->graph, &at)))
        if (strcmp(backend->tf.OperationOpType(op), "Const") == 0 && backend->tf.OperationNumControlInputs(op) == 0)
            break;
    return op;
}

/* Makes a first run: it is then that TensorFlow creates the session on the cluster and sends the graph. */
static hs_code make_session(const hs__tf_link *link, hs_error *err)
{
    const hs__tf_api *tf = &link->backend->tf;
    const TF_Operation *constant = find_constant(link->backend);
    if (!constant)
        return HS_OK;
    TF_Status *status = tf->NewStatus();
    tf->SessionRun(link->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &constant, 1, NULL, status);
    hs_code code = hs__tf_check_status(tf, status, err);
    tf->DeleteStatus(status);
    return code;
}

hs_code hs__tf_link_close(hs__tf_link *link, hs_error *err)
{
    const hs_env *env = &link->backend->env;
    hs_error error = {0};
    if (!link->peers.n_tasks)
        return close_session(link, err);
    bool answers = hs__tf_probe_tasks(&link->peers, &error) != HS_UNAVAILABLE;
    if (!answers)
        hs_log(env, HS_LOG_WARNING, "session abandoned: the cluster cannot close it: %s", error.message);
    job *j = start_job(link, close_session, NULL, &error);
    if (j && !await_job(j, answers ? CLOSING_SECS * 1000 : 0, &error) && answers)
        hs_log(env, HS_LOG_WARNING, "session abandoned: the cluster did not close it within %d s", CLOSING_SECS);
    else if (answers && error.code)
        hs_log(env, HS_LOG_WARNING, "cannot close the session: %s", error.message);
    hs__clear(err);
    return HS_OK;
}

hs_code hs__tf_link_open(hs__tf_link *link, hs_error *err)
{
    int64_t ms = link->backend->timeout_ms ? link->backend->timeout_ms : OPENING_SECS * 1000;
    hs_error error = {0};
    if (!link->peers.n_tasks)
        return HS_OK;
    job *j = start_job(link, make_session, close_session, &error);
    bool abandoned = j && !await_job(j, ms, &error);
    if (abandoned || error.code == HS_DEADLINE_EXCEEDED)
        hs_error_set(&error, HS_UNAVAILABLE, "the cluster did not open a session within %g s", (double)ms / 1e3);
    if (j && !abandoned && error.code)
        hs__tf_link_close(link, NULL); /* the cluster may have created it */
    return error.code ? hs__error_copy(err, &error) : HS_OK;
}
