/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that fill a queue. All that they need is looked up when they are made, by the thread that has the session;
 * what they use is their own, or counted: a thread that does not end in time outlives the session, and the runner. */
#include "backends/queue_runner.h"
#include "backends/raw_session.h"
#include "threads/coordinated_thread.h"

#include <stdatomic.h>
#include <string.h>

/* One filling of a runner's queue: what hs_queue_runner_create_threads has made threads for. Counted by their work. */
typedef struct hs__filling {
    struct hs__filling *next;
    hs_queue_runner *runner;       /* counted */
    const hs_raw_session *session; /* which session it is for, with `opened`; never looked into */
    uint64_t opened;
    hs_backend_ops ops;
    hs_node close;
    atomic_bool abandoned; /* its threads could not all be started */
    /* under the runner's lock */
    size_t producing; /* enqueue threads that have not come to their end */
    size_t unended;   /* nor done what is to be done then */
    size_t references;
} hs__filling;

/* What one thread does. */
typedef struct {
    hs__filling *filling;
    void *handle; /* its own of the session; NULL: closed */
    hs_node op;
    bool enqueues, coordinated;
    bool ended; /* and what it counts for was settled */
} work;

/* Lists of threads. */

/* A list keeps its environment, which may be gone otherwise when it is freed. */
typedef struct {
    hs_env env;
    hs_thread *items[];
} block;

static hs_code init_threads(hs_threads *threads, const hs_env *env, size_t capacity, hs_error *err)
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

/* Running ops. */

static hs_code run_op(const hs__filling *filling, void *handle, const hs_node *op, hs_error *err)
{
    hs_tensor value = {0};
    hs_backend_call call = {
        .size = sizeof call, .fetches = op, .n_fetches = 1, .values = &value, .end_codes = filling->runner->closed_codes};
    return filling->ops.run(handle, &call, err);
}

/* To close a queue that is closed, or broken, is no failure. */
static void run_close(const hs__filling *filling, void *handle, const hs_node *op)
{
    hs_error error = {0};
    if (hs__settle(run_op(filling, handle, op, &error), filling->runner->name, &error))
        hs_log(&filling->runner->env, HS_LOG_DEBUG, "cannot close queue '%s': %s", filling->runner->name, error.message);
}

/* Counting. */

static bool is_unended(const hs_queue_runner *runner, const hs_raw_session *session, uint64_t opened)
{
    for (const hs__filling *f = runner->fillings; f; f = f->next)
        if (f->session == session && f->opened == opened)
            return true;
    return false;
}

static void unlink_filling(hs__filling *filling)
{
    hs__filling **at = &filling->runner->fillings;
    while (*at && *at != filling)
        at = &(*at)->next;
    if (*at)
        *at = filling->next;
}

/* Is it the last that has produced? */
static bool stop_producing(hs__filling *filling)
{
    pthread_mutex_lock(&filling->runner->lock);
    bool last = --filling->producing == 0;
    pthread_mutex_unlock(&filling->runner->lock);
    return last;
}

static void count_end(hs__filling *filling)
{
    pthread_mutex_lock(&filling->runner->lock);
    if (--filling->unended == 0)
        unlink_filling(filling);
    pthread_mutex_unlock(&filling->runner->lock);
}

static void release_filling(hs__filling *filling)
{
    hs_queue_runner *runner = filling->runner;
    pthread_mutex_lock(&runner->lock);
    bool last = --filling->references == 0;
    if (last)
        unlink_filling(filling);
    pthread_mutex_unlock(&runner->lock);
    if (!last)
        return;
    hs__free(&runner->env, filling);
    hs__queue_runner_release(runner);
}

/* The handle is not kept for whoever keeps the thread's: the backend may be gone by then. */
static void end_work(work *w)
{
    if (w->handle)
        w->filling->ops.close(w->handle, NULL);
    w->handle = NULL;
    w->ended = true;
    if (w->enqueues)
        count_end(w->filling);
}

/* Of a thread that was not started. */
static void drop_work(work *w)
{
    if (w->ended)
        return;
    if (w->enqueues)
        stop_producing(w->filling);
    end_work(w);
}

static void release_work(void *user)
{
    work *w = user;
    hs_env env = w->filling->runner->env;
    drop_work(w);
    release_filling(w->filling);
    hs__free(&env, w);
}

/* The bodies. */

static bool means_closed(const hs_queue_runner *runner, hs_code code)
{
    for (const hs_code *closed = runner->closed_codes; *closed; closed++)
        if (*closed == code)
            return true;
    return false;
}

static void keep_error(hs_queue_runner *runner, const hs_error *error)
{
    hs_log(&runner->env, HS_LOG_ERROR, "queue runner '%s': %s", runner->name, error->message);
    pthread_mutex_lock(&runner->lock);
    if (runner->n_errors < runner->errors_capacity)
        hs__error_copy(&runner->errors[runner->n_errors++], error);
    pthread_mutex_unlock(&runner->lock);
}

static bool should_stop(const work *w, const hs_coordinator *coordinator)
{
    return (w->coordinated && hs_coordinator_should_stop(coordinator)) || atomic_load(&w->filling->abandoned);
}

/* What an enqueue op came to, and whether that is an error. */
static hs_code produce(const work *w, const hs_coordinator *coordinator, bool *closed, hs_error *err)
{
    const hs_queue_runner *runner = w->filling->runner;
    hs_code code = HS_OK;
    while (!code && !should_stop(w, coordinator))
        code = hs__settle(run_op(w->filling, w->handle, &w->op, err), runner->name, err);
    *closed = code && means_closed(runner, code);
    bool cancelled = code == HS_CANCELLED && should_stop(w, coordinator); /* by close_on_stop, most likely */
    if (!*closed && !cancelled)
        return code;
    hs_error_clear(err);
    return HS_OK;
}

static hs_code enqueue(void *user, hs_coordinator *coordinator, hs_error *err)
{
    work *w = user;
    bool closed, last;
    hs_code code = produce(w, coordinator, &closed, err);
    if (code && !w->coordinated)
        keep_error(w->filling->runner, err);
    last = stop_producing(w->filling);
    /* Where a coordinator was stopped, the queue is cancelled; without one nobody else would close it. */
    if (last && (closed || !w->coordinated))
        run_close(w->filling, w->handle, &w->filling->close);
    end_work(w);
    return code;
}

static hs_code close_on_stop(void *user, hs_coordinator *coordinator, hs_error *err)
{
    work *w = user;
    (void)err;
    hs_coordinator_wait_for_stop(coordinator, HS_NEVER);
    run_close(w->filling, w->handle, &w->op);
    end_work(w);
    return HS_OK;
}

/* Making them. */

static hs_code find_op(const hs_queue_runner *runner, hs_raw_session *session, const char *name, hs_node *op, hs_error *err)
{
    hs_code code = hs_backend_find(session->backend, name, op, err);
    if (code)
        hs_error_prefix(err, "queue runner '%s'", runner->name);
    return code;
}

static hs_code new_filling(hs_queue_runner *runner, hs_raw_session *session, hs__filling **filling, hs_error *err)
{
    hs_node close;
    hs_code code = find_op(runner, session, runner->close_op, &close, err);
    if (code)
        return code;
    *filling = hs__alloc(&runner->env, 1, sizeof **filling);
    if (!*filling)
        return hs__no_memory(err, sizeof **filling, "a queue's threads");
    **filling = (hs__filling){.runner = runner,
                              .session = session,
                              .opened = session->opened,
                              .ops = session->ops,
                              .close = close,
                              .references = 1};
    atomic_init(&(*filling)->abandoned, false);
    pthread_mutex_lock(&runner->lock);
    runner->references++;
    pthread_mutex_unlock(&runner->lock);
    return HS_OK;
}

static hs_code new_work(hs__filling *filling, hs_raw_session *session, const char *op, bool enqueues, work **made,
                        hs_error *err)
{
    const hs_env *env = &filling->runner->env;
    work w = {.filling = filling, .enqueues = enqueues};
    hs_code code = find_op(filling->runner, session, op, &w.op, err);
    if (code)
        return code;
    if (!(*made = hs__alloc(env, 1, sizeof w)))
        return hs__no_memory(err, sizeof w, "a queue's thread");
    code = hs__settle(filling->ops.fork(session->handle, &w.handle, err), filling->runner->name, err);
    if (code) {
        hs__free(env, *made);
        return code;
    }
    **made = w;
    pthread_mutex_lock(&filling->runner->lock);
    filling->references++;
    filling->producing += enqueues;
    filling->unended += enqueues;
    pthread_mutex_unlock(&filling->runner->lock);
    return HS_OK;
}

static void append(hs_threads *threads, hs_thread *thread)
{
    hs_thread **end = threads->items;
    while (*end)
        end++;
    *end = thread;
}

static hs_code add_thread(hs__filling *filling, hs_raw_session *session, const char *op, const char *label,
                          hs_coordinator *coordinator, hs_threads *threads, hs_error *err)
{
    const hs_queue_runner *runner = filling->runner;
    bool enqueues = label == op;
    work *w;
    hs_code code = new_work(filling, session, op, enqueues, &w, err);
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
    append(threads, thread);
    return coordinator ? hs_coordinator_register(coordinator, thread, err) : HS_OK;
}

static hs_code add_threads(hs__filling *filling, hs_raw_session *session, hs_coordinator *coordinator, hs_threads *threads,
                           hs_error *err)
{
    const hs_queue_runner *runner = filling->runner;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < runner->n_ops; i++)
        code = add_thread(filling, session, runner->enqueue_ops[i], runner->enqueue_ops[i], coordinator, threads, err);
    if (!code && coordinator)
        code = add_thread(filling, session, runner->cancel_op, "close_on_stop", coordinator, threads, err);
    return code;
}

/* The filling is there from now on, unless there is one already; what was kept of those before is forgotten. There is room
 * for an error of each thread. Under the lock. */
static hs_code enter(hs_queue_runner *runner, hs__filling *filling, bool *entered, hs_error *err)
{
    *entered = !is_unended(runner, filling->session, filling->opened);
    if (!*entered)
        return HS_OK;
    size_t wanted = runner->n_ops;
    for (const hs__filling *f = runner->fillings; f; f = f->next)
        wanted += f->unended;
    hs_code code =
        hs__reserve(&runner->env, &runner->errors, &runner->errors_capacity, wanted, sizeof *runner->errors, err);
    if (code)
        return code;
    runner->n_errors = 0;
    filling->next = runner->fillings;
    runner->fillings = filling;
    return HS_OK;
}

static size_t count_threads(const hs_queue_runner *runner, const hs_coordinator *coordinator)
{
    return runner->n_ops + (coordinator != NULL);
}

static hs_code fill(hs_queue_runner *runner, hs_raw_session *session, hs_coordinator *coordinator, hs_threads *threads,
                    hs_error *err)
{
    hs__filling *filling;
    if (!session->ops.fork)
        return hs_error_set(err, HS_UNIMPLEMENTED,
                            "queue runner '%s': backend '%s' cannot run ops concurrently with training", runner->name,
                            session->ops.name ? session->ops.name : "?");
    bool entered;
    hs_code code = new_filling(runner, session, &filling, err);
    if (code)
        return code;
    pthread_mutex_lock(&runner->lock);
    code = enter(runner, filling, &entered, err);
    pthread_mutex_unlock(&runner->lock);
    if (!code && entered)
        code = add_threads(filling, session, coordinator, threads, err);
    release_filling(filling); /* the threads' from now on */
    return code;
}

static void drop_filling(hs_threads *threads)
{
    for (size_t i = 0; hs_threads_item(threads, i); i++)
        if (!hs__thread_was_started(threads->items[i]))
            drop_work(hs__thread_user(threads->items[i]));
}

/* Starting them. */

static void abandon(hs__filling *filling, hs_raw_session *session)
{
    hs_node cancel;
    void *handle;
    atomic_store(&filling->abandoned, true);
    if (hs_backend_find(session->backend, filling->runner->cancel_op, &cancel, NULL) ||
        filling->ops.fork(session->handle, &handle, NULL))
        return;
    run_close(filling, handle, &cancel);
    filling->ops.close(handle, NULL);
}

static hs_code start_filling(hs_threads *threads, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && threads->items[i]; i++)
        code = hs_thread_start(threads->items[i], err);
    if (code && coordinator)
        hs_coordinator_request_stop(coordinator, err);
    for (size_t i = 0; code && threads->items[i]; i++) {
        const work *w = hs__thread_user(threads->items[i]);
        if (!atomic_load(&w->filling->abandoned))
            abandon(w->filling, session);
    }
    return code;
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

static hs_code give_threads(hs_threads *threads, hs_threads *to, const hs_error *error, hs_error *err)
{
    if (error->code)
        drop_filling(threads);
    if (to && !error->code && hs_threads_item(threads, 0))
        *to = *threads;
    else
        hs_threads_free(threads);
    return hs__error_copy(err, error);
}

hs_code hs_queue_runner_create_threads(hs_queue_runner *runner, hs_raw_session *session, hs_coordinator *coordinator,
                                       bool start, hs_threads *threads, hs_error *err)
{
    hs_threads made = {0};
    hs_error error = {0};
    if (threads)
        *threads = made;
    if (!runner || !session || !session->handle)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_queue_runner_create_threads: %s is NULL",
                            runner ? "session" : "runner");
    if (!init_threads(&made, &runner->env, count_threads(runner, coordinator), &error) &&
        !fill(runner, session, coordinator, &made, &error) && start)
        start_filling(&made, session, coordinator, &error);
    return give_threads(&made, threads, &error, err);
}

static hs_code fill_all(hs_queue_runner *const *runners, size_t n, hs_raw_session *session, hs_coordinator *coordinator,
                        hs_threads *threads, hs_error *err)
{
    size_t capacity = 0;
    for (size_t i = 0; i < n; i++)
        capacity += count_threads(runners[i], coordinator);
    hs_code code = init_threads(threads, &session->env, capacity, err);
    for (size_t i = 0; !code && i < n; i++)
        code = fill(runners[i], session, coordinator, threads, err);
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
        start_filling(&made, session, coordinator, &error);
    hs__free(&session->env, runners);
    return give_threads(&made, threads, &error, err);
}
