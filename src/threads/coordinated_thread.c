/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a coordinator: start, registration, the error of the thread. */
#include "threads/coordinated_thread.h"

#include "base/thread.h"
#include "threads/coordinator_inside.h"

/* How a thread ends: it reports its error to the coordinator, releases the coordinator, drops its reference to itself and
 * is ENDED. The last three happen under its lock, so that a caller that has waited for the thread may free what the
 * thread's environment uses. */

typedef enum { FRESH, RUNNING, ENDING, ENDED } stage; /* ENDING: its wake function is not called any more */

struct hs_thread {
    hs_env env;
    char *name;
    hs_thread_fn run;
    void *user;
    void (*wake)(void *user);
    void (*release)(void *user);
    atomic_size_t references;
    atomic_int stage;    /* written with the lock held */
    hs__monitor monitor; /* guards the fields below */
    bool waking;         /* `waker` calls the wake function */
    pthread_t waker;
    hs_error error;
    hs_coordinator *coordinator; /* retained; NULL: not registered, or ended */
};

/* Creating and freeing. */

static hs_thread *new_thread(const hs_thread_options *options, const hs_env *env, hs_error *err)
{
    hs_thread *thread = hs__alloc(env, 1, sizeof *thread);
    char *name = hs__strdup(env, options->name);
    hs_code code = thread && name ? HS_OK : hs__no_memory(err, sizeof *thread, "a thread");
    if (code || hs__monitor_init(&thread->monitor, err)) {
        hs__free(env, name);
        hs__free(env, thread);
        return NULL;
    }
    thread->env = *env;
    thread->name = name;
    thread->run = options->run;
    thread->user = options->user;
    thread->wake = options->wake;
    atomic_init(&thread->references, 1);
    atomic_init(&thread->stage, FRESH);
    return thread;
}

hs_thread *hs__thread_new(const hs_thread_options *given, const hs_env *default_env, void (*release)(void *user),
                          hs_error *err)
{
    hs_thread_options options;
    hs_env env;
    hs_error_clear(err);
    if (HS_STRUCT_TAKE(hs_thread_options, env, &options, given, err) ||
        hs__env_take(&env, options.env ? options.env : default_env, err))
        return NULL;
    if (!options.name || !*options.name) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_thread_options.name is missing; messages about the thread need it");
        return NULL;
    }
    hs_thread *thread = new_thread(&options, &env, err);
    if (thread)
        thread->release = release;
    return thread;
}

hs_thread *hs_thread_new(const hs_thread_options *options, hs_error *err)
{
    return hs__thread_new(options, NULL, NULL, err);
}

static hs_thread *retain_thread(hs_thread *thread)
{
    atomic_fetch_add(&thread->references, 1);
    return thread;
}

static void destroy(hs_thread *thread)
{
    hs_env env = thread->env;
    hs__monitor_lock(&thread->monitor); /* waits, because an ended thread may not have unlocked it yet */
    hs_coordinator *coordinator = thread->coordinator;
    hs__monitor_unlock(&thread->monitor);
    if (coordinator) /* the thread was never started */
        hs__coordinator_release(coordinator);
    if (thread->release)
        thread->release(thread->user);
    hs__monitor_destroy(&thread->monitor);
    hs__free(&env, thread->name);
    hs__free(&env, thread);
}

static void release_thread(hs_thread *thread)
{
    if (atomic_fetch_sub(&thread->references, 1) == 1)
        destroy(thread);
}

void hs_thread_free(hs_thread *thread)
{
    if (!thread)
        return;
    hs_thread_mark_ended(thread); /* a thread that the program runs: without the handle no call could mark it */
    release_thread(thread);
}

/* Ending. */

static bool in_stage(const hs_thread *thread, stage wanted)
{
    return atomic_load_explicit(&((hs_thread *)thread)->stage, memory_order_acquire) == (int)wanted;
}

static void set_stage(hs_thread *thread, stage next)
{
    atomic_store_explicit(&thread->stage, next, memory_order_release);
}

/* Stops calls of the wake function and waits for one in progress. Returns false if the thread was not running. */
static bool begin_end(hs_thread *thread)
{
    hs__monitor_lock(&thread->monitor);
    bool running = in_stage(thread, RUNNING);
    if (running)
        set_stage(thread, ENDING);
    while (running && thread->waking && !pthread_equal(thread->waker, pthread_self()))
        hs__monitor_wait(&thread->monitor, HS__FOREVER);
    hs__monitor_unlock(&thread->monitor);
    return running;
}

static void report(hs_thread *thread, const hs_error *error)
{
    hs__monitor_lock(&thread->monitor);
    hs_coordinator *coordinator = thread->coordinator;
    hs__error_copy(&thread->error, error);
    hs__monitor_unlock(&thread->monitor);
    if (!coordinator || !error->code)
        return;
    hs_error named = *error;
    hs_error_prefix(&named, "thread '%s'", thread->name);
    if (hs_coordinator_request_stop(coordinator, &named))
        hs_log(&thread->env, HS_LOG_ERROR, "thread '%s' failed after it was joined: %s", thread->name, error->message);
}

static void finish_end(hs_thread *thread)
{
    hs__monitor_lock(&thread->monitor);
    if (thread->coordinator)
        hs__coordinator_release(thread->coordinator);
    thread->coordinator = NULL;
    bool last = atomic_fetch_sub(&thread->references, 1) == 1;
    if (!last) { /* else no caller can see it */
        set_stage(thread, ENDED);
        hs__monitor_changed(&thread->monitor);
    }
    hs__monitor_unlock(&thread->monitor);
    if (last)
        destroy(thread);
}

void hs_thread_mark_ended(hs_thread *thread)
{
    if (thread && !thread->run && begin_end(thread))
        finish_end(thread);
}

/* Running. */

static void *run_body(void *user)
{
    hs_thread *thread = user;
    hs_error error = {0};
    hs__monitor_lock(&thread->monitor);
    hs_coordinator *coordinator = thread->coordinator;
    hs__monitor_unlock(&thread->monitor);
    if (!hs__normalize_error(thread->run(thread->user, coordinator, &error), thread->name, &error))
        hs_error_clear(&error);
    begin_end(thread);
    report(thread, &error);
    finish_end(thread);
    return NULL;
}

static hs_code start_body(hs_thread *thread, hs_error *err)
{
    pthread_t id;
    int result = hs__thread_start(&id, run_body, thread);
    if (result) {
        hs_error_set_errno(err, result, "cannot start thread '%s'", thread->name);
        if (err)
            err->code = HS_RESOURCE_EXHAUSTED;
        return HS_RESOURCE_EXHAUSTED;
    }
    pthread_detach(id); /* hs_thread_wait waits for its stage instead */
    return HS_OK;
}

static void undo_start(hs_thread *thread)
{
    hs__monitor_lock(&thread->monitor);
    set_stage(thread, FRESH);
    hs__monitor_changed(&thread->monitor);
    if (thread->coordinator)
        hs__coordinator_notify(thread->coordinator);
    hs__monitor_unlock(&thread->monitor);
    release_thread(thread);
}

hs_code hs_thread_start(hs_thread *thread, hs_error *err)
{
    hs_error_clear(err);
    if (!thread)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "thread is NULL");
    hs__monitor_lock(&thread->monitor);
    bool fresh = in_stage(thread, FRESH);
    if (fresh) {
        retain_thread(thread); /* the thread's own reference, before it can end */
        set_stage(thread, RUNNING);
    }
    hs__monitor_unlock(&thread->monitor);
    if (!fresh)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "thread '%s' was already started", thread->name);
    hs_code code = thread->run ? start_body(thread, err) : HS_OK;
    if (code)
        undo_start(thread);
    return code;
}

void hs__thread_wake(hs_thread *thread)
{
    hs__monitor_lock(&thread->monitor);
    bool wakes = thread->wake && in_stage(thread, RUNNING) && !thread->waking;
    if (wakes) {
        thread->waking = true;
        thread->waker = pthread_self();
        hs__monitor_unlock(&thread->monitor);
        thread->wake(thread->user);
        hs__monitor_lock(&thread->monitor);
        thread->waking = false;
        hs__monitor_changed(&thread->monitor);
    }
    hs__monitor_unlock(&thread->monitor);
}

/* Queries. */

static bool is_alive(const hs_thread *thread)
{
    return in_stage(thread, RUNNING) || in_stage(thread, ENDING);
}

bool hs_thread_alive(const hs_thread *thread)
{
    hs_thread *locked = (hs_thread *)thread;
    if (!thread)
        return false;
    hs__monitor_lock(&locked->monitor);
    bool alive = is_alive(thread);
    hs__monitor_unlock(&locked->monitor);
    return alive;
}

bool hs__thread_was_started(const hs_thread *thread)
{
    return !in_stage(thread, FRESH);
}

bool hs_thread_wait(hs_thread *thread, double timeout_secs)
{
    if (!thread)
        return true;
    int64_t deadline = hs__deadline(timeout_secs);
    hs__monitor_lock(&thread->monitor);
    while (is_alive(thread) && hs__monitor_wait(&thread->monitor, deadline))
        continue;
    bool alive = is_alive(thread);
    hs__monitor_unlock(&thread->monitor);
    return !alive;
}

hs_code hs_thread_error(const hs_thread *thread, hs_error *err)
{
    hs_thread *locked = (hs_thread *)thread;
    if (!thread)
        return hs__error_copy(err, NULL);
    hs__monitor_lock(&locked->monitor);
    hs_code code = hs__error_copy(err, in_stage(thread, ENDED) ? &locked->error : NULL);
    hs__monitor_unlock(&locked->monitor);
    return code;
}

const char *hs_thread_name(const hs_thread *thread)
{
    return thread ? thread->name : NULL;
}

void *hs__thread_user(const hs_thread *thread)
{
    return thread->user;
}

/* Lists of threads. */

static bool list_has(const hs__thread_list *list, const hs_thread *thread)
{
    for (size_t i = 0; list && i < list->n; i++)
        if (list->items[i] == thread)
            return true;
    return false;
}

hs__thread_list *hs__list_retain(hs__thread_list *list)
{
    if (list)
        atomic_fetch_add(&list->references, 1);
    return list;
}

void hs__list_release(const hs_env *env, hs__thread_list *list)
{
    if (!list || atomic_fetch_sub(&list->references, 1) != 1)
        return;
    for (size_t i = 0; i < list->n; i++)
        release_thread(list->items[i]);
    hs__free(env, list);
}

static size_t count_living(const hs__thread_list *list)
{
    size_t n = 0;
    for (size_t i = 0; list && i < list->n; i++)
        n += !in_stage(list->items[i], ENDED);
    return n;
}

/* Replaces the list by a longer one without the ended threads: a program may start short threads forever. */
static hs_code grow(const hs_env *env, hs__thread_list **list, hs__thread_list **old, hs_error *err)
{
    size_t capacity = 2 * count_living(*list);
    if (capacity < 8)
        capacity = 8;
    size_t bytes = sizeof **list + capacity * sizeof *(*list)->items;
    hs__thread_list *grown = hs__alloc(env, 1, bytes);
    if (!grown)
        return hs__no_memory(err, bytes, "the coordinator's threads");
    atomic_init(&grown->references, 1);
    grown->capacity = capacity;
    for (size_t i = 0; *list && i < (*list)->n && grown->n < capacity; i++)
        if (!in_stage((*list)->items[i], ENDED))
            grown->items[grown->n++] = retain_thread((*list)->items[i]);
    *old = *list;
    *list = grown;
    return HS_OK;
}

/* Appends a thread. Call with the lock held that guards *list (NULL: empty). If *old is not NULL afterwards, release it
 * without that lock, as freeing a thread may need the lock. */
static hs_code list_add(const hs_env *env, hs__thread_list **list, hs_thread *thread, hs__thread_list **old, hs_error *err)
{
    *old = NULL;
    if (!*list || (*list)->n == (*list)->capacity) {
        hs_code code = grow(env, list, old, err);
        if (code)
            return code;
    }
    (*list)->items[(*list)->n++] = retain_thread(thread);
    return HS_OK;
}

/* A coordinator's threads. */

/* Call with the thread's lock held. `binds`: the thread gets a reference to the coordinator. */
static hs_code add_thread(hs_coordinator *coordinator, hs_thread *thread, bool binds, hs_error *err)
{
    hs_code code = HS_OK;
    hs__thread_list *old = NULL;
    hs__monitor_lock(&coordinator->monitor);
    if (!coordinator->released && !list_has(coordinator->threads, thread))
        code = list_add(&coordinator->env, &coordinator->threads, thread, &old, err);
    if (!code && binds)
        coordinator->references++;
    hs__monitor_unlock(&coordinator->monitor);
    hs__list_release(&coordinator->env, old);
    return code;
}

hs_code hs_coordinator_register(hs_coordinator *coordinator, hs_thread *thread, hs_error *err)
{
    hs_error_clear(err);
    if (!coordinator || !thread)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_coordinator_register: %s is NULL",
                            thread ? "coordinator" : "thread");
    hs_code code = HS_OK;
    hs__monitor_lock(&thread->monitor);
    if (thread->coordinator && thread->coordinator != coordinator)
        code =
            hs_error_set(err, HS_FAILED_PRECONDITION, "thread '%s' is registered with another coordinator", thread->name);
    else if (!in_stage(thread, ENDED))
        code = add_thread(coordinator, thread, !thread->coordinator, err);
    if (!code && !in_stage(thread, ENDED))
        thread->coordinator = coordinator;
    hs__monitor_unlock(&thread->monitor);
    return code;
}

static hs_code start_thread(hs_coordinator *coordinator, const hs_thread_options *given, hs_error *err)
{
    hs_thread_options options;
    hs_code code = HS_STRUCT_TAKE(hs_thread_options, env, &options, given, err);
    if (code)
        return code;
    if (!coordinator || !options.run)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_coordinator_start_thread: %s is NULL",
                            coordinator ? "hs_thread_options.run" : "coordinator");
    hs_thread *thread = hs__thread_new(&options, &coordinator->env, NULL, err);
    if (thread && !hs_coordinator_register(coordinator, thread, err))
        hs_thread_start(thread, err);
    hs_thread_free(thread);
    return err->code;
}

hs_code hs_coordinator_start_thread(hs_coordinator *coordinator, const hs_thread_options *options, hs_error *err)
{
    hs_error error = {0};
    start_thread(coordinator, options, &error);
    return hs__error_copy(err, &error);
}

void hs_coordinator_free(hs_coordinator *coordinator)
{
    if (!coordinator)
        return;
    hs__monitor_lock(&coordinator->monitor);
    coordinator->released = true;
    hs__thread_list *threads = coordinator->threads;
    coordinator->threads = NULL;
    hs__monitor_unlock(&coordinator->monitor);
    hs__list_release(&coordinator->env, threads); /* may free threads that were not started */
    hs__coordinator_release(coordinator);
}
