/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a coordinator: a thread and its end; the list in which a coordinator has its threads; and
 * hs_coordinator_join, which waits until they have ended (wait_for_ends), after a stop within a time limit
 * (wait_for_stragglers). */
#include "threads/coordinated_thread.h"

#include "base/c_locale.h"
#include "base/text.h"
#include "base/thread.h"
#include "threads/coordinator_inside.h"

#include <math.h>
#include <string.h>

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
    unsigned generation; /* of the process that started it */
    hs__monitor monitor; /* guards the fields below */
    bool waking;         /* a thread calls the wake function */
    hs_error error;
    hs_coordinator *coordinator; /* retained; NULL: not registered, or ended */
};

/* Creating and freeing. */

hs_thread *hs__thread_new(const hs_thread_options *given, const hs_env *default_env, void (*release)(void *user),
                          hs_error *err)
{
    hs_thread_options options;
    hs_env env;
    hs_error_clear(err);
    if (HS_STRUCT_TAKE(hs_thread_options, env, &options, given, err) ||
        hs__env_copy(&env, options.env ? options.env : default_env, err))
        return NULL;
    if (!options.name || !*options.name) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_thread_options.name is missing; messages about the thread need it");
        return NULL;
    }
    if (!options.run) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_thread_options.run is NULL");
        return NULL;
    }
    hs_thread *thread = hs__alloc(&env, 1, sizeof *thread);
    char *name = hs__strdup(&env, options.name);
    hs_code code = thread && name ? HS_OK : hs__no_memory(err, sizeof *thread, "a thread");
    if (code || hs__monitor_init(&thread->monitor, err)) {
        hs__free(&env, name);
        hs__free(&env, thread);
        return NULL;
    }
    thread->env = env;
    thread->name = name;
    thread->run = options.run;
    thread->user = options.user;
    thread->wake = options.wake;
    thread->release = release;
    atomic_init(&thread->references, 1);
    atomic_init(&thread->stage, FRESH);
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

static void release_user(hs_thread *thread)
{
    if (thread->release)
        thread->release(thread->user);
    thread->release = NULL;
}

static void destroy(hs_thread *thread)
{
    hs_env env = thread->env;
    hs__monitor_lock(&thread->monitor); /* waits, because an ended thread may not have unlocked it yet */
    hs_coordinator *coordinator = thread->coordinator;
    hs__monitor_unlock(&thread->monitor);
    if (coordinator) /* the thread was never started */
        hs__coordinator_release(coordinator);
    release_user(thread);
    hs__monitor_destroy(&thread->monitor);
    hs__free(&env, thread->name);
    hs__free(&env, thread);
}

static void release_thread(hs_thread *thread)
{
    if (atomic_fetch_sub(&thread->references, 1) == 1)
        destroy(thread);
}

static bool in_stage(const hs_thread *thread, stage wanted)
{
    return atomic_load_explicit(&((hs_thread *)thread)->stage, memory_order_acquire) == (int)wanted;
}

void hs_thread_free(hs_thread *thread)
{
    if (!thread)
        return;
    if (in_stage(thread, FRESH)) /* no caller can start it any more, but a coordinator may retain it */
        release_user(thread);
    release_thread(thread);
}

/* Ending. */

static void set_stage(hs_thread *thread, stage next)
{
    atomic_store_explicit(&thread->stage, next, memory_order_release);
}

/* Stops calls of the wake function and waits for one in progress. */
static void begin_end(hs_thread *thread)
{
    hs__monitor_lock(&thread->monitor);
    set_stage(thread, ENDING);
    while (thread->waking)
        hs__monitor_wait(&thread->monitor, HS__FOREVER);
    hs__monitor_unlock(&thread->monitor);
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
        thread->generation = hs__fork_generation();
        set_stage(thread, RUNNING);
    }
    hs__monitor_unlock(&thread->monitor);
    if (!fresh)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "thread '%s' was already started", thread->name);
    pthread_t id;
    int result = hs__thread_start(&id, run_body, thread);
    if (!result) {
        pthread_detach(id); /* hs_thread_wait waits for its stage instead */
        return HS_OK;
    }
    hs_error_set_errno(err, result, "cannot start thread '%s'", thread->name);
    if (err)
        err->code = HS_RESOURCE_EXHAUSTED;
    undo_start(thread);
    return HS_RESOURCE_EXHAUSTED;
}

/* Calls the thread's wake function, if it has one, unless the thread has ended or another thread is calling it. */
static void thread_wake(hs_thread *thread)
{
    hs__monitor_lock(&thread->monitor);
    bool wakes = thread->wake && in_stage(thread, RUNNING) && !thread->waking;
    if (wakes) {
        thread->waking = true;
        hs__monitor_unlock(&thread->monitor);
        thread->wake(thread->user);
        hs__monitor_lock(&thread->monitor);
        thread->waking = false;
        hs__monitor_changed(&thread->monitor);
    }
    hs__monitor_unlock(&thread->monitor);
}

/* Queries. */

/* In a forked child no thread of its parent is. */
static bool is_alive(const hs_thread *thread)
{
    return (in_stage(thread, RUNNING) || in_stage(thread, ENDING)) && !hs__is_inherited(thread->generation);
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

/* Registered threads. A list is reference-counted and retains its threads. Its items never change, and new threads are
 * appended. So hs_coordinator_join can retain a list and read its first items without a lock and without allocating. */
typedef struct hs__thread_list {
    atomic_size_t references;
    size_t n, capacity;
    hs_thread *items[];
} hs__thread_list;

static void list_release(const hs_env *env, hs__thread_list *list)
{
    if (!list || atomic_fetch_sub(&list->references, 1) != 1)
        return;
    for (size_t i = 0; i < list->n; i++)
        release_thread(list->items[i]);
    hs__free(env, list);
}

/* Replaces the list by a longer one without the ended threads: a program may start short threads forever. */
static hs_code grow_list(const hs_env *env, hs__thread_list **list, hs__thread_list **old, hs_error *err)
{
    size_t living = 0;
    for (size_t i = 0; *list && i < (*list)->n; i++)
        living += !in_stage((*list)->items[i], ENDED);
    size_t capacity = living < 4 ? 8 : 2 * living;
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

/* A coordinator's threads. */

/* Adds a thread to the coordinator's list, unless the list contains it. `binds`: the thread gets a reference to the
 * coordinator. Call with the thread's lock held. */
static hs_code add_thread(hs_coordinator *coordinator, hs_thread *thread, bool binds, hs_error *err)
{
    hs_code code = HS_OK;
    hs__thread_list **list = &coordinator->threads, *old = NULL;
    hs__monitor_lock(&coordinator->monitor);
    bool adds = !coordinator->released;
    for (size_t i = 0; adds && *list && i < (*list)->n; i++)
        adds = (*list)->items[i] != thread;
    if (adds && (!*list || (*list)->n == (*list)->capacity))
        code = grow_list(&coordinator->env, list, &old, err);
    if (adds && !code)
        (*list)->items[(*list)->n++] = retain_thread(thread);
    if (!code && binds)
        coordinator->references++;
    hs__monitor_unlock(&coordinator->monitor);
    list_release(&coordinator->env, old); /* without the lock, as freeing a thread may need it */
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

hs_code hs_coordinator_start_thread(hs_coordinator *coordinator, const hs_thread_options *options, hs_error *err)
{
    hs_error error = {0};
    if (!coordinator)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_coordinator_start_thread: coordinator is NULL");
    hs_thread *thread = hs__thread_new(options, &coordinator->env, NULL, &error);
    if (thread && !hs_coordinator_register(coordinator, thread, &error))
        hs_thread_start(thread, &error);
    hs_thread_free(thread);
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
    list_release(&coordinator->env, threads); /* may free threads that were not started */
    hs__coordinator_release(coordinator);
}

/* Waits for the threads of a coordinator. Allocates nothing, so that a program without memory can still end normally. */

/* Seconds between calls of the wake functions, and between checks of threads that do not notify this coordinator. */
static const double PERIOD = 0.05;
/* Seconds until the log names the threads that are waited for. */
static const double LOG_AFTER = 1;

typedef struct {
    hs_coordinator *coordinator;
    hs__thread_list *registered; /* retained */
    size_t n;                    /* of the registered threads */
    hs_join_options options;
    size_t n_awaited; /* options.awaited: without a time limit */
    size_t n_given;   /* of options.threads */
} joining;

/* The awaited threads come first, then the registered, then the given ones. */
static hs_thread *nth(const joining *j, size_t i)
{
    if (i < j->n_awaited)
        return j->options.awaited[i];
    i -= j->n_awaited;
    return i < j->n ? j->registered->items[i] : j->options.threads[i - j->n];
}

static size_t count(const joining *j)
{
    return j->n_awaited + j->n + j->n_given;
}

/* Returns true if one of the first n threads is alive. */
static bool any_alive(const joining *j, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (hs_thread_alive(nth(j, i)))
            return true;
    return false;
}

static uint64_t changes(hs_coordinator *coordinator)
{
    hs__monitor_lock(&coordinator->monitor);
    uint64_t value = coordinator->changes;
    hs__monitor_unlock(&coordinator->monitor);
    return value;
}

static void wait_for_change(hs_coordinator *coordinator, uint64_t seen, int64_t deadline)
{
    hs__monitor_lock(&coordinator->monitor);
    while (coordinator->changes == seen && hs__monitor_wait(&coordinator->monitor, deadline))
        continue;
    hs__monitor_unlock(&coordinator->monitor);
}

/* Waits until all threads have ended or a stop is requested. */
static void wait_for_ends(const joining *j)
{
    for (;;) {
        uint64_t seen = changes(j->coordinator);
        if (hs_coordinator_should_stop(j->coordinator) || !any_alive(j, count(j)))
            return;
        wait_for_change(j->coordinator, seen, j->n_given || j->n_awaited ? hs__deadline(PERIOD) : HS__FOREVER);
    }
}

/* True if the thread at `at` also occurs earlier: the caller has passed a registered thread, or a thread twice. */
static bool is_duplicate(const joining *j, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (nth(j, i) == nth(j, at))
            return true;
    return false;
}

/* Writes the names of live threads as "'a', 'b' and 3 more". Returns their number. */
static size_t name_stragglers(const joining *j, char *text, size_t size)
{
    const size_t ROOM = 24; /* for " and N more" */
    size_t n = 0, named = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count(j); i++) {
        hs_thread *thread = nth(j, i);
        if (!hs_thread_alive(thread) || is_duplicate(j, i))
            continue;
        size_t wanted = strlen(hs_thread_name(thread)) + 4;
        if (n++ == named && strlen(text) + wanted + ROOM < size) {
            hs__append(text, size, "%s'%s'", named ? ", " : "", hs_thread_name(thread));
            named++;
        }
    }
    if (n > named)
        hs__append(text, size, "%s%zu more", named ? " and " : "", n - named);
    return n;
}

/* After a stop: calls the wake functions and waits until all threads have ended, up to stop_grace_secs. */
static void wait_for_stragglers(const joining *j)
{
    int64_t limit = hs__deadline(j->options.stop_grace_secs), log_at = hs__deadline(LOG_AFTER);
    for (;;) {
        uint64_t seen = changes(j->coordinator);
        if (!any_alive(j, count(j)))
            return;
        for (size_t i = 0; i < count(j); i++)
            if (nth(j, i))
                thread_wake(nth(j, i));
        if (log_at < limit && hs__deadline(0) >= log_at) { /* explain to the user why the program does not end */
            char names[800] = "", up_to[64] = "";
            if (j->options.stop_grace_secs < 1e9)
                hs__snprintf(up_to, sizeof up_to, " up to %g s", j->options.stop_grace_secs);
            if (name_stragglers(j, names, sizeof names))
                hs_log(&j->coordinator->env, HS_LOG_INFO, "stop requested; waiting%s for these threads: %s", up_to, names);
            log_at = limit; /* never again */
        }
        bool late = hs__deadline(0) >= limit;
        if (late && !any_alive(j, j->n_awaited))
            return;
        int64_t next = hs__deadline(PERIOD);
        wait_for_change(j->coordinator, seen, late || next < limit ? next : limit);
    }
}

static hs_code report_stragglers(const joining *j, hs_code failed, hs_error *err)
{
    char names[800] = "";
    size_t n = name_stragglers(j, names, sizeof names);
    if (j->options.n_live_threads)
        *j->options.n_live_threads = n;
    if (!n)
        return failed;
    if (failed || j->options.ignore_live_threads) {
        hs_log(&j->coordinator->env, HS_LOG_WARNING,
               "a stop was requested, but these threads still run and are abandoned: %s", names);
        return failed;
    }
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "a stop was requested, but these threads still run: %s; let them check hs_coordinator_should_stop, "
                        "or give them a function that wakes them",
                        names);
}

/* After this, hs_coordinator_request_stop returns errors to its caller, because no join will report them. */
static hs_code end_join(hs_coordinator *coordinator, hs_error *err)
{
    hs__monitor_lock(&coordinator->monitor);
    coordinator->joined = true;
    hs__thread_list *threads = coordinator->threads;
    coordinator->threads = NULL;
    hs_code code = hs__error_copy(err, &coordinator->error);
    hs__monitor_unlock(&coordinator->monitor);
    list_release(&coordinator->env, threads);
    return code;
}

static hs_code copy_options(hs_join_options *options, const hs_join_options *given, hs_error *err)
{
    *options = (hs_join_options)HS_INIT(hs_join_options);
    hs_code code = given ? HS_STRUCT_TAKE(hs_join_options, n_live_threads, options, given, err) : HS_OK;
    if (code)
        return code;
    if (options->n_live_threads)
        *options->n_live_threads = 0;
    double grace = options->stop_grace_secs;
    if (!(grace >= 0) && grace != HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_join_options.stop_grace_secs is %g; it must be at least 0, or HS_NEVER for no limit",
                            grace);
    options->stop_grace_secs = grace > 0 ? grace : grace < 0 ? (double)INFINITY : 120;
    return HS_OK;
}

static void retain_registered(joining *j)
{
    hs__monitor_lock(&j->coordinator->monitor);
    if ((j->registered = j->coordinator->threads)) {
        atomic_fetch_add(&j->registered->references, 1);
        j->n = j->registered->n;
    }
    hs__monitor_unlock(&j->coordinator->monitor);
}

size_t hs_coordinator_live_threads(hs_coordinator *coordinator, char *text, size_t size)
{
    char none[1];
    joining j = {.coordinator = coordinator};
    if (size)
        text[0] = '\0';
    if (!coordinator)
        return 0;
    retain_registered(&j);
    size_t n = name_stragglers(&j, size ? text : none, size ? size : sizeof none);
    list_release(&coordinator->env, j.registered);
    return n;
}

hs_code hs_coordinator_join(hs_coordinator *coordinator, const hs_join_options *given, hs_error *err)
{
    joining j = {.coordinator = coordinator};
    hs_error_clear(err);
    if (!coordinator)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "coordinator is NULL");
    hs_code code = copy_options(&j.options, given, err);
    if (code)
        return code;
    while (j.options.threads && j.options.threads[j.n_given])
        j.n_given++;
    while (j.options.awaited && j.options.awaited[j.n_awaited])
        j.n_awaited++;
    retain_registered(&j);
    wait_for_ends(&j);
    if (hs_coordinator_should_stop(coordinator))
        wait_for_stragglers(&j);
    code = report_stragglers(&j, end_join(coordinator, err), err);
    list_release(&coordinator->env, j.registered);
    return code;
}
