/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that fill the queues of queue runners. hs_queue_runner_create_threads, in the session's thread, looks up all
 * they need, creates and starts them; their bodies are enqueue and close_on_stop. They use only private or retained
 * objects, because a thread that does not end in time outlives the session and the runner. */
#include "backends/queue_runner.h"
#include "backends/raw_session.h"
#include "threads/coordinated_thread.h"

#include <stdatomic.h>
#include <string.h>

/* The threads that one call has created for a runner. Each thread's work retains the group. */
typedef struct hs__thread_group {
    struct hs__thread_group *next;
    hs_queue_runner *runner;       /* retained */
    const hs_raw_session *session; /* identifies the session, with `opened`; never dereferenced */
    uint64_t opened;
    hs_backend_ops ops;
    hs_node close;
    atomic_bool abandoned; /* one of its threads could not be started */
    /* guarded by the runner's lock */
    size_t enqueuing;  /* enqueue threads that still run their op */
    size_t unfinished; /* enqueue threads for which end_work was not called */
    size_t references;
} hs__thread_group;

/* The work of one thread. */
typedef struct {
    hs__thread_group *group;
    void *handle; /* its own handle of the session; NULL: closed */
    hs_node op;
    bool enqueues, coordinated;
    bool ended; /* end_work was called */
} work;

/* Lists of threads. */

/* A list contains a copy of its environment, because it may outlive the original. */
typedef struct {
    hs_env env;
    hs_thread *items[];
} block;

static size_t count_listed(const hs_threads *threads)
{
    size_t n = 0;
    while (threads->items && threads->items[n])
        n++;
    return n;
}

static void free_list(hs_threads *threads)
{
    if (!threads->env)
        return;
    hs_env env = *threads->env;
    hs__free(&env, (void *)threads->env); /* the block begins with it */
    *threads = (hs_threads){NULL, NULL};
}

/* Makes room for `more` threads at the end of a list. */
static hs_code reserve_threads(hs_threads *threads, const hs_env *env, size_t more, hs_error *err)
{
    const size_t n = count_listed(threads), bytes = sizeof(block) + (n + more + 1) * sizeof(hs_thread *);
    block *made = hs__alloc(env, 1, bytes);
    if (!made)
        return hs__no_memory(err, bytes, "a list of threads");
    made->env = *env;
    for (size_t i = 0; i < n; i++)
        made->items[i] = threads->items[i];
    free_list(threads);
    *threads = (hs_threads){made->items, &made->env};
    return HS_OK;
}

/* Frees the handles from number `first` on. */
static void cut_list(hs_threads *threads, size_t first)
{
    for (size_t i = first; threads->items && threads->items[i]; i++) {
        hs_thread_free(threads->items[i]);
        threads->items[i] = NULL;
    }
}

void hs_threads_free(hs_threads *threads)
{
    if (!threads || !threads->env)
        return;
    cut_list(threads, 0);
    free_list(threads);
}

/* Running ops. */

static hs_code run_op(const hs__thread_group *group, void *handle, const hs_node *op, hs_error *err)
{
    hs_tensor value = {0};
    hs_backend_call call = {
        .size = sizeof call, .fetches = op, .n_fetches = 1, .values = &value, .end_codes = group->runner->closed_codes};
    return group->ops.run(handle, &call, err);
}

/* A failure is only logged: the queue may already be closed or broken. */
static void run_close(const hs__thread_group *group, void *handle, const hs_node *op)
{
    hs_error error = {0};
    if (hs__normalize_error(run_op(group, handle, op, &error), group->runner->name, &error))
        hs_log(&group->runner->env, HS_LOG_DEBUG, "cannot close queue '%s': %s", group->runner->name, error.message);
}

/* Counting. */

static void unlink_group(hs__thread_group *group)
{
    hs__thread_group **at = &group->runner->groups;
    while (*at && *at != group)
        at = &(*at)->next;
    if (*at)
        *at = group->next;
}

/* Returns true for the last thread of the group that enqueued. */
static bool stop_enqueuing(hs__thread_group *group)
{
    pthread_mutex_lock(&group->runner->lock);
    bool last = --group->enqueuing == 0;
    pthread_mutex_unlock(&group->runner->lock);
    return last;
}

static void release_group(hs__thread_group *group)
{
    hs_queue_runner *runner = group->runner;
    pthread_mutex_lock(&runner->lock);
    bool last = --group->references == 0;
    if (last)
        unlink_group(group);
    pthread_mutex_unlock(&runner->lock);
    if (!last)
        return;
    hs__free(&runner->env, group);
    hs__queue_runner_release(runner);
}

/* Closes the handle now, because the thread object may be freed after the backend. */
static void end_work(work *w)
{
    if (w->handle)
        w->group->ops.close(w->handle, NULL);
    w->handle = NULL;
    w->ended = true;
    if (!w->enqueues)
        return;
    pthread_mutex_lock(&w->group->runner->lock);
    if (--w->group->unfinished == 0)
        unlink_group(w->group);
    pthread_mutex_unlock(&w->group->runner->lock);
}

static void release_work(void *user)
{
    work *w = user;
    hs_env env = w->group->runner->env;
    if (!w->ended) { /* the thread was not started */
        if (w->enqueues)
            stop_enqueuing(w->group);
        end_work(w);
    }
    release_group(w->group);
    hs__free(&env, w);
}

/* The bodies. */

static bool should_stop(const work *w, const hs_coordinator *coordinator)
{
    return (w->coordinated && hs_coordinator_should_stop(coordinator)) || atomic_load(&w->group->abandoned);
}

/* Runs the enqueue op until it fails or a stop is requested. */
static hs_code enqueue(void *user, hs_coordinator *coordinator, hs_error *err)
{
    work *w = user;
    hs_queue_runner *runner = w->group->runner;
    hs_code code = HS_OK;
    bool is_closed = false; /* the queue or its input has ended, which is not an error */
    while (!code && !should_stop(w, coordinator))
        code = hs__normalize_error(run_op(w->group, w->handle, &w->op, err), runner->name, err);
    for (const hs_code *closed = runner->closed_codes; *closed; closed++)
        is_closed |= code == *closed;
    bool is_cancelled = code == HS_CANCELLED && should_stop(w, coordinator); /* most likely by close_on_stop */
    if (is_closed || is_cancelled) {
        hs_error_clear(err);
        code = HS_OK;
    }
    if (code && !w->coordinated) {
        hs_log(&runner->env, HS_LOG_ERROR, "queue runner '%s': %s", runner->name, err->message);
        pthread_mutex_lock(&runner->lock);
        if (runner->n_errors < runner->errors_capacity)
            hs__error_copy(&runner->errors[runner->n_errors++], err);
        pthread_mutex_unlock(&runner->lock);
    }
    /* After a stop, close_on_stop cancels the queue. Without a coordinator only this thread closes it. */
    if (stop_enqueuing(w->group) && (is_closed || !w->coordinated))
        run_close(w->group, w->handle, &w->group->close);
    end_work(w);
    return code;
}

static hs_code close_on_stop(void *user, hs_coordinator *coordinator, hs_error *err)
{
    work *w = user;
    (void)err;
    hs_coordinator_wait_for_stop(coordinator, HS_NEVER);
    run_close(w->group, w->handle, &w->op);
    end_work(w);
    return HS_OK;
}

/* Creating. */

static hs_code find_op(const hs_queue_runner *runner, hs_raw_session *session, const char *name, hs_node *op, hs_error *err)
{
    hs_code code = hs_backend_find(session->backend, name, op, err);
    if (code)
        hs_error_prefix(err, "queue runner '%s'", runner->name);
    return code;
}

static hs_code new_group(hs_queue_runner *runner, hs_raw_session *session, hs__thread_group **group, hs_error *err)
{
    hs_node close;
    hs_code code = find_op(runner, session, runner->close_op, &close, err);
    if (code)
        return code;
    *group = hs__alloc(&runner->env, 1, sizeof **group);
    if (!*group)
        return hs__no_memory(err, sizeof **group, "a queue's threads");
    **group = (hs__thread_group){.runner = runner,
                                 .session = session,
                                 .opened = session->opened,
                                 .ops = session->ops,
                                 .close = close,
                                 .references = 1};
    atomic_init(&(*group)->abandoned, false);
    pthread_mutex_lock(&runner->lock);
    runner->references++;
    pthread_mutex_unlock(&runner->lock);
    return HS_OK;
}

static hs_code new_work(hs__thread_group *group, hs_raw_session *session, const char *op, bool enqueues, work **made,
                        hs_error *err)
{
    const hs_env *env = &group->runner->env;
    work w = {.group = group, .enqueues = enqueues};
    hs_code code = find_op(group->runner, session, op, &w.op, err);
    if (code)
        return code;
    if (!(*made = hs__alloc(env, 1, sizeof w)))
        return hs__no_memory(err, sizeof w, "a queue's thread");
    code = hs__normalize_error(group->ops.fork(session->handle, &w.handle, err), group->runner->name, err);
    if (code) {
        hs__free(env, *made);
        return code;
    }
    **made = w;
    pthread_mutex_lock(&group->runner->lock);
    group->references++;
    group->enqueuing += enqueues;
    group->unfinished += enqueues;
    pthread_mutex_unlock(&group->runner->lock);
    return HS_OK;
}

/* Adds thread number `index` of the group: one for each enqueue op, then close_on_stop. */
static hs_code add_thread(hs__thread_group *group, size_t index, hs_raw_session *session, hs_coordinator *coordinator,
                          hs_threads *threads, hs_error *err)
{
    const hs_queue_runner *runner = group->runner;
    const bool enqueues = index < runner->n_ops;
    const char *op = enqueues ? runner->enqueue_ops[index] : runner->cancel_op;
    const char *label = enqueues ? op : "close_on_stop";
    work *w;
    hs_code code = new_work(group, session, op, enqueues, &w, err);
    if (code)
        return code;
    w->coordinated = coordinator != NULL;
    char *name = hs__format(&runner->env, "QueueRunnerThread-%s-%s", runner->name, label);
    hs_thread_options options =
        HS_INIT(hs_thread_options, .name = name, .run = enqueues ? enqueue : close_on_stop, .user = w);
    hs_thread *thread = name ? hs__thread_new(&options, &runner->env, release_work, err) : NULL;
    if (!name)
        hs__no_memory(err, strlen(runner->name), "a thread's name");
    hs__free(&runner->env, name);
    if (!thread) {
        release_work(w);
        return HS_RESOURCE_EXHAUSTED;
    }
    threads->items[count_listed(threads)] = thread;
    return coordinator ? hs_coordinator_register(coordinator, thread, err) : HS_OK;
}

/* Adds the group to the runner, unless the session already has one. Drops errors of earlier threads and makes room for one
 * error of each thread. Call with the lock held. */
static hs_code add_group(hs_queue_runner *runner, hs__thread_group *group, bool *added, hs_error *err)
{
    size_t wanted = runner->n_ops;
    *added = false;
    for (const hs__thread_group *g = runner->groups; g; g = g->next) {
        if (g->session == group->session && g->opened == group->opened)
            return HS_OK;
        wanted += g->unfinished;
    }
    *added = true;
    hs_code code =
        hs__reserve(&runner->env, &runner->errors, &runner->errors_capacity, wanted, sizeof *runner->errors, err);
    if (code)
        return code;
    runner->n_errors = 0;
    group->next = runner->groups;
    runner->groups = group;
    return HS_OK;
}

/* Returns true if the session has started this runner itself, when it was opened. */
static bool is_of_session(const hs_queue_runner *runner, const hs_raw_session *session)
{
    const void *item;
    for (size_t i = 0; session->runs_queues && hs_backend_collection_item(session->backend, HS_QUEUE_RUNNERS, i, &item);
         i++)
        if (item == runner)
            return true;
    return false;
}

/* Creates and registers the threads of a runner and appends them to the list. Creates none if the session's earlier threads
 * have not finished. After a failure the list may have some of them. */
static hs_code create_threads(hs_queue_runner *runner, hs_raw_session *session, hs_coordinator *coordinator,
                              hs_threads *threads, hs_error *err)
{
    hs__thread_group *group;
    if (!session->ops.fork)
        return hs_error_set(err, HS_UNIMPLEMENTED,
                            "queue runner '%s': backend '%s' cannot run ops concurrently with training", runner->name,
                            session->ops.name ? session->ops.name : "?");
    if (is_of_session(runner, session))
        return HS_OK;
    bool added;
    const size_t n = runner->n_ops + (coordinator ? 1 : 0); /* without a coordinator no stop is requested */
    hs_code code = reserve_threads(threads, &runner->env, n, err);
    if (code || (code = new_group(runner, session, &group, err)))
        return code;
    pthread_mutex_lock(&runner->lock);
    code = add_group(runner, group, &added, err);
    pthread_mutex_unlock(&runner->lock);
    for (size_t i = 0; !code && added && i < n; i++)
        code = add_thread(group, i, session, coordinator, threads, err);
    release_group(group); /* its threads retain it */
    return code;
}

/* Starting. */

/* Stops the group's started threads and cancels the queue, as close_on_stop may not have been started. */
static void abandon(hs__thread_group *group, hs_raw_session *session)
{
    hs_node cancel;
    void *handle;
    atomic_store(&group->abandoned, true);
    if (hs_backend_find(session->backend, group->runner->cancel_op, &cancel, NULL) ||
        group->ops.fork(session->handle, &handle, NULL))
        return;
    run_close(group, handle, &cancel);
    group->ops.close(handle, NULL);
}

/* Returns the number of the first thread of the list that was not started. */
static size_t find_unstarted(const hs_threads *threads)
{
    size_t i = 0;
    while (threads->items && threads->items[i] && hs__thread_was_started(threads->items[i]))
        i++;
    return i;
}

/* Starts the threads of the list from number `first` on. If one cannot be started, requests a stop and ends the others. */
static void start_threads(hs_threads *threads, size_t first, hs_raw_session *session, hs_coordinator *coordinator,
                          hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = first; !code && threads->items && threads->items[i]; i++)
        if (!hs__thread_was_started(threads->items[i]))
            code = hs_thread_start(threads->items[i], err);
    if (code && coordinator)
        hs_coordinator_request_stop(coordinator, err);
    for (size_t i = first; code && threads->items[i]; i++) {
        const work *w = hs__thread_user(threads->items[i]);
        if (!atomic_load(&w->group->abandoned))
            abandon(w->group, session);
    }
}

/* The public functions. */

bool hs_queue_runner_error(hs_queue_runner *runner, size_t index, hs_error *out)
{
    if (!runner)
        return false;
    pthread_mutex_lock(&runner->lock);
    bool found = index < runner->n_errors;
    if (found)
        hs__error_copy(out, &runner->errors[index]);
    pthread_mutex_unlock(&runner->lock);
    return found;
}

hs_code hs_queue_runner_create_threads(hs_queue_runner *runner, hs_raw_session *session, hs_coordinator *coordinator,
                                       bool start, hs_threads *threads, hs_error *err)
{
    hs_threads unlisted = {0};
    hs_error error = {0};
    if (!runner || !session || !session->handle)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_queue_runner_create_threads: %s is NULL",
                            runner ? "session" : "runner");
    if (!threads)
        threads = &unlisted;
    size_t first = count_listed(threads);
    if (!create_threads(runner, session, coordinator, threads, &error) && start)
        start_threads(threads, first = find_unstarted(threads), session, coordinator, &error);
    if (error.code)
        cut_list(threads, first);
    if (!count_listed(threads))
        free_list(threads);
    hs_threads_free(&unlisted);
    return hs__error_copy(err, &error);
}
