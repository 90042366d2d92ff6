/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for the threads of a coordinator. Allocates nothing, so that a program without memory can still end normally. */
#include "threads/coordinator_inside.h"
#include "threads/coordinated_thread.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Seconds between calls of the wake functions, and between checks of threads that do not notify this coordinator. */
static const double PERIOD = 0.05;
/* Seconds until the log names the threads that are waited for. */
static const double LOG_AFTER = 1;

typedef struct {
    hs_coordinator *coordinator;
    hs__thread_list *registered; /* retained */
    size_t n;                    /* of the registered threads */
    hs_join_options options;
    hs_thread *const *awaited; /* without a time limit */
    size_t n_awaited;
    size_t n_given; /* of options.threads */
} joining;

/* The awaited threads come first, then the registered, then the given ones. */
static hs_thread *nth(const joining *j, size_t i)
{
    if (i < j->n_awaited)
        return j->awaited[i];
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

static void wake_all(const joining *j)
{
    for (size_t i = 0; i < count(j); i++)
        if (nth(j, i))
            hs__thread_wake(nth(j, i));
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
        wait_for_change(j->coordinator, seen, j->n_given ? hs__deadline(PERIOD) : HS__FOREVER);
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
    size_t n = 0, named = 0, used = 0;
    for (size_t i = 0; i < count(j); i++) {
        hs_thread *thread = nth(j, i);
        if (!hs_thread_alive(thread) || is_duplicate(j, i))
            continue;
        size_t wanted = strlen(hs_thread_name(thread)) + 4;
        if (n++ == named && used + wanted + ROOM < size) {
            used += (size_t)snprintf(text + used, size - used, "%s'%s'", named ? ", " : "", hs_thread_name(thread));
            named++;
        }
    }
    if (n > named)
        snprintf(text + used, size - used, "%s%zu more", named ? " and " : "", n - named);
    return n;
}

/* Explains to the user why the program does not end. */
static void log_waiting(const joining *j)
{
    char names[800] = "", limit[64] = "";
    if (j->options.stop_grace_secs < 1e9)
        snprintf(limit, sizeof limit, " up to %g s", j->options.stop_grace_secs);
    if (name_stragglers(j, names, sizeof names))
        hs_log(&j->coordinator->env, HS_LOG_INFO, "stop requested; waiting%s for these threads: %s", limit, names);
}

static void wait_for_stragglers(const joining *j)
{
    int64_t limit = hs__deadline(j->options.stop_grace_secs), log_at = hs__deadline(LOG_AFTER);
    for (;;) {
        uint64_t seen = changes(j->coordinator);
        if (!any_alive(j, count(j)))
            return;
        wake_all(j);
        if (log_at < limit && hs__deadline(0) >= log_at) {
            log_waiting(j);
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

/* From now on hs_coordinator_request_stop returns errors to its caller, because no join will report them. */
static hs_code end_join(hs_coordinator *coordinator, hs_error *err)
{
    hs__monitor_lock(&coordinator->monitor);
    coordinator->joined = true;
    hs__thread_list *threads = coordinator->threads;
    coordinator->threads = NULL;
    hs_code code = hs__error_copy(err, &coordinator->error);
    hs__monitor_unlock(&coordinator->monitor);
    hs__list_release(&coordinator->env, threads);
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
    j->registered = hs__list_retain(j->coordinator->threads);
    j->n = j->registered ? j->registered->n : 0;
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
    hs__list_release(&coordinator->env, j.registered);
    return n;
}

hs_code hs__coordinator_join(hs_coordinator *coordinator, const hs_join_options *given, hs_thread *const *awaited, size_t n,
                             hs_error *err)
{
    joining j = {.coordinator = coordinator, .awaited = awaited, .n_awaited = n};
    hs_error_clear(err);
    if (!coordinator)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "coordinator is NULL");
    hs_code code = copy_options(&j.options, given, err);
    if (code)
        return code;
    while (j.options.threads && j.options.threads[j.n_given])
        j.n_given++;
    retain_registered(&j);
    wait_for_ends(&j);
    if (hs_coordinator_should_stop(coordinator))
        wait_for_stragglers(&j);
    code = report_stragglers(&j, end_join(coordinator, err), err);
    hs__list_release(&coordinator->env, j.registered);
    return code;
}

hs_code hs_coordinator_join(hs_coordinator *coordinator, const hs_join_options *given, hs_error *err)
{
    return hs__coordinator_join(coordinator, given, NULL, 0, err);
}
