/* SPDX-License-Identifier: Apache-2.0 */
/* The hook that saves checkpoints. after_run decides whether a save is due. The boundary calls save_or_skip, which calls
 * save and, if it fails, does what the session decides: repeat, skip or fail. A save in the background ends in
 * poll_pending, in a later run, or in the close of a session that failed. In a group, the other ranks call follow while
 * rank 0 saves. */
#include <hooksess/hooks/checkpoint_saver.h>

#include "base/env.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "hooks/lookup.h"
#include "hooks/make.h"
#include "session/services.h"

#include <stdio.h>
#include <string.h>

/* The listeners, which are called before and after each save. */
typedef struct {
    hs_saver_listener *items;
    hs_saver_listener_ops *ops; /* their functions, complete */
    size_t n;
} listener_list;

/* How long saves take, and whether one fits into the time after a signal (hs__raw_session_grace_secs). If it does not fit,
 * the hook saves more often, so that fewer steps are lost. */
typedef struct {
    int64_t held_ns;  /* how long the last save has held the session's thread */
    int64_t extra_ns; /* interval of the additional saves. 0: none */
    int64_t last_ns;  /* end of the last save; of a failed one, its begin. Valid if extra_ns is set */
    bool reported, fits;
} save_time;

enum { NOT_SAVED = -1 };
static const char name[] = "checkpoint_saver";

typedef struct {
    hs__hook_base base;
    bool first;               /* saves at the creation */
    char *directory, *prefix; /* "DIRECTORY/BASENAME" */
    hs_saver *saver;
    hs_saver *holder; /* holds the directory as long as the session is open */
    hs_scaffold *scaffold;
    listener_list listeners;
    bool no_graph_def;
    bool due, requested;        /* due: in the next boundary; requested: because the program requested it */
    int64_t saved_step;         /* NOT_SAVED: the state in memory was not saved */
    int64_t stopped_step;       /* the step at which a stop took effect: saved there, or never. NOT_SAVED: none */
    int64_t restore_generation; /* hs_raw_session_restores when these two were set */
    hs_save_failure on_failure;
    bool listener_failed; /* in the last save. on_failure does not apply to it */
    save_time time;
    bool background, overlap;
    hs_busy_policy busy;
    int64_t copy_limit, max_to_keep;
    hs__pending_save pending;
    char *metric;
    bool metric_is_tensor;
    bool metric_seen, metric_missed; /* a save found it; a save did not */
    bool unranked;                   /* the last save had no metric */
    hs_summary_writer *writer;
    const hs_env *session_env;
    bool follows; /* rank 0 saves, and this rank takes part */
} checkpoint_saver;

/* Listeners. */

static hs_code copy_listeners(listener_list *to, const hs_env *env, const hs_saver_listener *from, hs_error *err)
{
    size_t n = 0;
    while (from && from[n].ops)
        n++;
    to->items = hs_env_alloc(env, (n + 1) * sizeof *to->items);
    to->ops = hs_env_alloc(env, (n + 1) * sizeof *to->ops);
    if (!to->items || !to->ops)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for %zu listeners", n);
    for (size_t i = 0; i < n; i++) {
        to->items[i] = from[i];
        hs_code code = HS_STRUCT_TAKE(hs_saver_listener_ops, end, &to->ops[i], from[i].ops, err);
        if (code)
            return code;
    }
    to->n = n;
    return HS_OK;
}

/* Adds the listener and the callback to the message. Sets a message if it is empty. */
static void name_failed_listener(hs_code code, size_t index, const char *callback, hs_error *err)
{
    hs__normalize_error(code, "it", err);
    hs_error_prefix(err, "listener %zu, %s", index, callback);
}

static hs_code begin_listeners(const listener_list *all, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < all->n; i++)
        if (all->ops[i].begin && (code = all->ops[i].begin(all->items[i].self, err)))
            name_failed_listener(code, i, "begin", err);
    return code;
}

static hs_code call_before_save(checkpoint_saver *hook, hs_raw_session *session, int64_t step, hs_error *err)
{
    const listener_list *all = &hook->listeners;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < all->n; i++)
        if (all->ops[i].before_save && (code = all->ops[i].before_save(all->items[i].self, session, step, err)))
            name_failed_listener(code, i, "before_save", err);
    hook->listener_failed = code != HS_OK;
    return code;
}

static hs_code call_after_save(checkpoint_saver *hook, hs_run_context *run, int64_t step, hs_error *err)
{
    const listener_list *all = &hook->listeners;
    hs_raw_session *session = hs_run_context_session(run);
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < all->n; i++) {
        bool stop = false;
        if (all->ops[i].after_save && (code = all->ops[i].after_save(all->items[i].self, session, step, &stop, err)))
            name_failed_listener(code, i, "after_save", err);
        if (stop)
            hs_run_context_request_stop(run);
    }
    hook->listener_failed = code != HS_OK;
    return code;
}

static hs_code end_listeners(const listener_list *all, hs_raw_session *session, int64_t step, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < all->n; i++)
        if (all->ops[i].end && (code = all->ops[i].end(all->items[i].self, session, step, err)))
            name_failed_listener(code, i, "end", err);
    return code;
}

/* True in the boundaries in which a save cannot be left to a later one. */
static bool is_last_save(const hs_run_context *run)
{
    hs_boundary which = hs_run_context_boundary(run);
    return which == HS_BOUNDARY_STOP || which == HS_BOUNDARY_END;
}

/* The time that saves take. */

/* MARGIN  a save fits if the longest one, times this, fits
 * DECAY   factor by which the longest time shrinks with each save
 * SHARE   if a save does not fit, saving takes at most 1/SHARE of the time */
static const double MARGIN = 1.25, DECAY = 0.9;
enum { SHARE = 20 };

/* Logs once that a save takes half of the time or more, and each time it begins or ceases to fit. */
static void report_save_time(save_time *time, const hs_run_context *run)
{
    const hs_raw_session *session = hs_run_context_session(run);
    double grace = hs__raw_session_grace_secs(session), secs = hs_raw_session_save_secs(session);
    if (!(grace > 0) || !(secs > 0))
        return;
    bool fits = secs * MARGIN <= grace;
    time->extra_ns = fits ? 0 : (int64_t)(secs * SHARE * 1e9);
    if (time->reported ? fits == time->fits : secs * 2 < grace)
        return;
    time->reported = true;
    time->fits = fits;
    if (!fits)
        hs_log(hs__session_env(session), HS_LOG_WARNING,
               "a save takes %.3g s, but the process may be killed %.3g s after a signal (signal_grace_secs), so the last "
               "steps may be lost; saving at least every %.3g s until saves are faster",
               secs, grace, secs * SHARE);
    else
        hs_log(hs__session_env(session), HS_LOG_INFO,
               "a save takes %.3g s of the %.3g s that the process has after a signal (signal_grace_secs)", secs, grace);
}

/* The hook. */

static void release_directory(checkpoint_saver *hook)
{
    hs_saver_free(hook->holder);
    hook->holder = NULL;
}

/* On rank 0 of a group (HS__HOOK_BEGINS_ON_CHIEF). */
static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    checkpoint_saver *hook = self;
    const hs_env *env = hs_backend_env(backend);
    hook->writer = NULL;
    hs_code code = hs_backend_check_global_step(backend, err);
    if (code)
        return code;
    if (hook->metric) {
        code = hs_backend_check_tensor(backend, hook->metric, err);
        if (code && code != HS_NOT_FOUND)
            return code;
        hook->metric_is_tensor = !code; /* otherwise it may be a metric of the session's board */
        hook->metric_seen = hook->metric_missed = false;
        hs_error_clear(err);
    }
    /* Refuse a second process before anything is restored. The session's saver may not exist yet, or may serve several
     * sessions, so a separate saver holds the directory. */
    if ((code = hs__make_directories(env, hook->directory, err)))
        return code;
    hs_saver_free(hook->holder);
    if (!(hook->holder = hs_saver_new(HS_SAVER_OPTIONS(.env = env), err)))
        return HS_RESOURCE_EXHAUSTED;
    code = hs_saver_hold(hook->holder, NULL, hook->prefix, err);
    return code ? code : begin_listeners(&hook->listeners, err);
}

static hs_code find_saver(const checkpoint_saver *hook, const hs_raw_session *session, hs_saver **saver, hs_error *err)
{
    size_t n;
    *saver = hs__find_saver(hs_raw_session_backend(session), hook->saver, hook->scaffold, &n);
    if (!*saver)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "neither saver nor scaffold is given, and the graph's collection '%s' has %zu items instead of "
                            "1",
                            HS_SAVERS, n);
    return HS_OK;
}

static bool is_of_series(const checkpoint_saver *hook, const char *path)
{
    size_t length = strlen(hook->prefix);
    return path && strncmp(path, hook->prefix, length) == 0 && path[length] == '-';
}

/* Another saver, such as the scaffold's, may have restored from the hook's directory. Then this one must learn which
 * checkpoints exist. HS_NOT_FOUND, the restored checkpoint was deleted since, is not an error. */
static hs_code adopt_directory(const checkpoint_saver *hook, const hs_raw_session *session, hs_saver *saver, hs_error *err)
{
    const char *from = hs_raw_session_restored_from(session), *known = hs_saver_checkpoint(saver, 0);
    if (!is_of_series(hook, from) || is_of_series(hook, known))
        return HS_OK;
    hs_code code = hs_saver_take_over(saver, from, err);
    if (code == HS_NOT_FOUND) {
        hs_error_clear(err);
        code = HS_OK;
    }
    return code;
}

/* Writes the backend's graph to `directory`/graph.pbtxt, and the graph and its meta graph as events. `saver` and
 * `directory` may be NULL. Does nothing if the backend has no graph. */
static hs_code show_graph(hs_backend backend, const hs_saver *saver, const char *directory, hs_summary_writer *writer,
                          int64_t step, hs_error *err)
{
    hs_bytes graph, meta;
    hs_code code = hs_backend_graph_def(backend, &graph, err);
    if (code == HS_UNIMPLEMENTED) {
        hs_error_clear(err);
        return HS_OK;
    }
    if (code || (code = hs_summary_writer_graph(writer, graph, step, err)) ||
        (directory && (code = hs_backend_write_graph(backend, directory, "graph.pbtxt", true, err))) ||
        (code = hs_backend_export_meta_graph(backend, saver, &meta, err)))
        return code;
    code = hs_summary_writer_meta_graph(writer, meta, step, err);
    hs_env_free(hs_backend_env(backend), (void *)meta.data);
    return code;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    checkpoint_saver *hook = self;
    hs_saver *saver;
    hs_backend backend = hs_raw_session_backend(session);
    hs_code code;
    (void)coordinator;
    hook->session_env = hs_backend_env(backend);
    hook->follows = hs_raw_session_rank(session) != 0;
    hook->due = hook->requested = false; /* a recovery cancels a save that was due */
    hook->saved_step = hook->stopped_step = NOT_SAVED;
    hook->restore_generation = hs_raw_session_restores(session);
    hs__raw_session_watch_save(session, &hook->pending);
    const int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0)
        return err->code;
    if (hook->follows)
        return find_saver(hook, session, &saver, err); /* later it could only leave rank 0 waiting */
    if ((code = hs_saver_hold(hook->holder, session, hook->prefix, err)))
        return code;
    if (find_saver(hook, session, &saver, NULL))
        saver = NULL; /* the first save reports it */
    else
        code = adopt_directory(hook, session, saver, err);
    if (!code && !(code = hs_raw_session_summary_writer(session, hook->directory, &hook->writer, err)))
        code = show_graph(backend, saver, hook->no_graph_def ? NULL : hook->directory, hook->writer, step, err);
    return code;
}

/* For a checkpoint that is on disk, and recorded. */
static hs_code finish_save(checkpoint_saver *hook, hs_run_context *run, const hs_save_result *saved, hs_error *err)
{
    hs_raw_session *session = hs_run_context_session(run);
    hook->time.last_ns = hs_env_monotonic_ns(hook->session_env);
    double secs = (double)(hook->time.held_ns + saved->write_ns) / 1e9, before = hs_raw_session_save_secs(session) * DECAY;
    hs__raw_session_set_save_secs(session, secs > before ? secs : before);
    report_save_time(&hook->time, run);
    char bytes_text[HS__NUMBER_TEXT], secs_text[HS__NUMBER_TEXT];
    hs_log(hook->session_env, HS_LOG_INFO, "step %lld: saved %s-%lld (%s, %s)", (long long)saved->step, hook->prefix,
           (long long)saved->step, hs__bytes_text(bytes_text, (uint64_t)saved->bytes), hs__secs_text(secs_text, secs));
    hs_raw_session_report_result(session, name, HS_OK, NULL);
    char *path = hs__format(&hook->base.env, "%s-%lld", hook->prefix, (long long)saved->step);
    if (!path)
        return hs__no_memory(err, strlen(hook->prefix), "a path");
    hs_code code = hs_summary_writer_session_log(hook->writer, HS_SESSION_LOG_CHECKPOINT, path, NULL, saved->step, err);
    hs_env_free(&hook->base.env, path);
    return code ? code : call_after_save(hook, run, saved->step, err);
}

/* What rank 0 of a group orders the others to do. Each save is an order; one without a save ends the boundary. */
typedef struct {
    bool saves, fetches_metric;
} save_order;

/* A message has failed. This code is not transient: the save is not tried again. */
static hs_code not_saved(const hs_error *why, hs_error *err)
{
    return hs_error_set(err, HS_CANCELLED, "not saved: %s", why->message);
}

/* In a group, all ranks fetch it, because it may depend on a collective op. */
static hs_code fetch_metric(const checkpoint_saver *hook, hs_raw_session *session, double *metric, hs_error *err)
{
    const hs_run_values *values;
    hs_error why;
    bool failed;
    hs_code code = hs_raw_session_run(session, HS_RUN_ARGS(.names = HS_NAMES(hook->metric)), &values, err);
    if (!code)
        *metric = hs_run_values_number(values, 0);
    if (hs_raw_session_any(session, code != HS_OK, &failed, &why) && !code)
        return not_saved(&why, err);
    return failed && !code ? hs_error_set(err, HS_CANCELLED, "not saved: another rank could not fetch the metric") : code;
}

/* Sets the metric of the save from the session's board, if it was set at this step. *fetches: it is a tensor to be fetched
 * instead. */
static void read_metric(checkpoint_saver *hook, hs_run_context *run, int64_t step, hs_save_options *options, bool *fetches)
{
    hs_raw_session *session = hs_run_context_session(run);
    *fetches = false;
    if (hook->metric && (!hook->metric_is_tensor || hs_raw_session_metric(session, hook->metric, NULL, NULL))) {
        int64_t of;
        bool known = hs_raw_session_metric(session, hook->metric, &options->metric, &of);
        hook->metric_seen |= known;
        hook->metric_missed |= !known;
        options->has_metric = known && of == step;
        if (!options->has_metric)
            hs_log(hook->session_env, HS_LOG_DEBUG,
                   "step %lld: saved without the metric '%s', which is not set at this step", (long long)step,
                   hook->metric);
    } else if (hook->metric) {
        *fetches = hs_raw_session_computed_at(session, hook->metric) >= step;
        hook->metric_seen |= *fetches;
        hook->metric_missed |= !*fetches && hs_run_context_boundary(run) == HS_BOUNDARY_RUN;
        if (!*fetches)
            hs_log(hook->session_env, HS_LOG_DEBUG,
                   "step %lld: saved without the metric '%s', which was not computed in this step", (long long)step,
                   hook->metric);
    }
    options->has_metric |= *fetches;
    hook->unranked = !options->has_metric;
}

/* Adds the metric of the last saved step, if it was set after the save: by a program that evaluates between two steps, or
 * at the end, after the save of a stop. */
static hs_code rank_last_save(checkpoint_saver *hook, hs_raw_session *session, hs_error *err)
{
    double metric;
    int64_t of;
    hs_saver *saver;
    if (!hook->metric || !hook->unranked || !hs_raw_session_metric(session, hook->metric, &metric, &of) ||
        of != hook->saved_step)
        return HS_OK;
    hs_code code = find_saver(hook, session, &saver, err);
    char *path = code ? NULL : hs__format(&hook->base.env, "%s-%lld", hook->prefix, (long long)of);
    if (!path)
        return code ? code : hs__no_memory(err, strlen(hook->prefix), "a path");
    hook->unranked = false;
    hook->metric_seen = true;
    if ((code = hs_saver_set_metric(saver, path, metric, err)))
        hs_error_prefix(err, "%s: the metric '%s' is not recorded", path, hook->metric);
    hs_env_free(&hook->base.env, path);
    return hs_raw_session_report_result(session, name, code, err);
}

/* A background save is pending on return, unless it was skipped because one is pending (HS_BUSY_SKIP). */
static hs_code save(checkpoint_saver *hook, hs_run_context *run, int64_t step, bool background, hs_error *err)
{
    hs_raw_session *session = hs_run_context_session(run);
    hs_save_options options = HS_INIT(hs_save_options, .no_meta_graph = hook->no_graph_def, .background = background,
                                      .overlap = background && hook->overlap, .busy = hook->busy,
                                      .copy_limit = hook->copy_limit, .max_to_keep = hook->max_to_keep);
    hs_saver *saver;
    int64_t began_ns = hs_env_monotonic_ns(hook->session_env);
    hook->time.last_ns = began_ns; /* in case the save fails */
    hook->listener_failed = false;
    hs_code code = find_saver(hook, session, &saver, err);
    if (code)
        return code;
    if (background && hook->busy == HS_BUSY_SKIP && hook->pending.saver) {
        hs_log(hook->session_env, HS_LOG_INFO, "step %lld: not saved: the previous save is still being written",
               (long long)step);
        return HS_OK;
    }
    if ((!hook->writer && (code = hs_raw_session_summary_writer(session, hook->directory, &hook->writer, err))) ||
        (code = call_before_save(hook, session, step, err)))
        return code;
    if ((code = rank_last_save(hook, session, err)))
        return code;
    save_order order = {.saves = true};
    hs_error why;
    read_metric(hook, run, step, &options, &order.fetches_metric);
    if (hs_raw_session_from_chief(session, &order, sizeof order, &why)) /* the other ranks follow */
        return not_saved(&why, err);
    if (order.fetches_metric && (code = fetch_metric(hook, session, &options.metric, err)))
        return code;
    if ((code = hs_saver_save(saver, session, hook->prefix, step, &options, err)))
        return code;
    hook->time.held_ns = hs_env_monotonic_ns(hook->session_env) - began_ns;
    if (background) {
        hook->pending = (hs__pending_save){saver, hook->prefix, step, hs_raw_session_restores(session)};
        return HS_OK;
    }
    const hs_save_result saved = {.step = step, .bytes = hs_saver_last_bytes(saver)};
    hook->saved_step = step;
    hs_raw_session_record_save(session, step);
    return finish_save(hook, run, &saved, err);
}

/* True if the session was restored from this hook's checkpoint of `step`. */
static bool is_restored_from_step(const checkpoint_saver *hook, const hs_raw_session *session, int64_t step)
{
    const char *from = hs_raw_session_restored_from(session);
    size_t length = strlen(hook->prefix);
    char suffix[32];
    snprintf(suffix, sizeof suffix, "-%lld", (long long)step);
    return from && strncmp(from, hook->prefix, length) == 0 && strcmp(from + length, suffix) == 0;
}

/* Handles the result of the pending save, if it is complete. */
static hs_code poll_pending(checkpoint_saver *hook, hs_run_context *run, hs_error *err)
{
    hs_save_result result;
    hs_raw_session *session = hs_run_context_session(run);
    switch (hs__raw_session_poll_save(session, &hook->pending, &result)) {
    case HS__SAVE_PENDING:
        return HS_OK;
    case HS__SAVE_RECORDED:
        hook->saved_step = result.step;
        return finish_save(hook, run, &result, err);
    case HS__SAVE_ABANDONED:
        return finish_save(hook, run, &result, err);
    case HS__SAVE_FAILED:
        break;
    }
    const hs__remedy remedy =
        hs__raw_session_save_failed(session, result.step, (int)hook->on_failure, false, &result.error);
    return remedy == HS__REMEDY_FAIL ? hs__error_copy(err, &result.error) : HS_OK;
}

/* Asks the session to call the hook in each run, not only when a save is due. */
static void watch_runs(const checkpoint_saver *hook, hs_run_context *run)
{
    hs_raw_session *session = hs_run_context_session(run);
    const bool watches = hook->due || hook->pending.saver || hook->time.extra_ns || hs__raw_session_saves_fail(session);
    hs_raw_session_due_from(session, watches ? 0 : HS_NEVER);
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    checkpoint_saver *hook = self;
    (void)values;
    hs_code code = poll_pending(hook, run, err);
    if (code)
        return code;
    if (hook->follows) /* rank 0 decides */
        return HS_OK;
    hook->requested |= hs__run_context_is_requested(run);
    bool fires = hook->requested || hs__raw_session_may_save(hs_run_context_session(run), hs__run_context_is_due(run));
    if (!fires && hook->time.extra_ns) /* a save after a signal would not fit */
        fires = hs_run_context_now(run) - hook->time.last_ns >= hook->time.extra_ns;
    hook->due |= fires; /* remains set if another hook fails before the boundary */
    if (hook->due)
        hs_run_context_request_boundary(run);
    watch_runs(hook, run);
    return HS_OK;
}

/* True if the session refuses saves, as after a NaN. Logs the reason. */
static bool is_refused(const hs_run_context *run, int64_t step)
{
    const hs_raw_session *session = hs_run_context_session(run);
    hs_error why;
    if (!hs_raw_session_save_refusal(session, &why))
        return false;
    hs_log(hs__session_env(session), HS_LOG_WARNING, "step %lld: not saved: %s", (long long)step, why.message);
    return true;
}

/* Before a save: waits for the pending one, or cancels it, and handles its end. With HS_BUSY_SKIP it may go on, unless the
 * next save was requested. */
static hs_code end_pending(checkpoint_saver *hook, hs_run_context *run, hs_error *err)
{
    if (hook->busy == HS_BUSY_SKIP && !hook->requested)
        return HS_OK;
    if (hook->busy == HS_BUSY_REPLACE)
        hs__cancel_save(&hook->pending);
    hs_saver_wait(hook->pending.saver);
    hs_code code = poll_pending(hook, run, err);
    hook->pending.saver = NULL; /* also of a cancelled one, which has no result */
    return code;
}

/* For a save during training or at its end. After a failed save, the next ones run in the foreground. */
static hs_code save_or_skip(checkpoint_saver *hook, hs_run_context *run, int64_t step, hs_error *err)
{
    hs_raw_session *session = hs_run_context_session(run);
    hs_error error = {0};
    const bool is_pending =
        hook->pending.saver && hook->pending.step == step && hook->pending.restores == hs_raw_session_restores(session);
    if (step == hook->saved_step || step == hook->stopped_step || is_pending || is_refused(run, step))
        return HS_OK;
    hs_code code = end_pending(hook, run, err);
    if (code)
        return code;
    const bool again = hs__raw_session_saves_fail(session);
    bool background = hook->background && !again && !is_last_save(run);
    while ((code = save(hook, run, step, background, &error))) {
        const hs__remedy remedy = hook->listener_failed
                                      ? HS__REMEDY_FAIL
                                      : hs__raw_session_save_failed(session, step, (int)hook->on_failure, true, &error);
        if (remedy == HS__REMEDY_FAIL)
            return hs__error_copy(err, &error);
        if (remedy == HS__REMEDY_CONTINUE)
            return HS_OK;
        background = false;
    }
    if (again) /* the intervals begin with the late save */
        hs__run_context_acted(run, true);
    return HS_OK;
}

static bool is_listed(const hs_trigger *when, int64_t step)
{
    bool found = false;
    for (const int64_t *at = when->at_steps; at && *at != -1; at++)
        found |= *at == step;
    return found;
}

static hs_code save_after_creation(checkpoint_saver *hook, hs_run_context *run, int64_t step, hs_error *err)
{
    hs_code code = HS_OK;
    bool restored = is_restored_from_step(hook, hs_run_context_session(run), step);
    bool requested = hs__run_context_is_requested(run);
    bool saves = !restored && (hook->first || requested || is_listed(&hook->base.when, step));
    report_save_time(&hook->time, run);
    if (restored)
        hook->saved_step = step;
    else if (saves && !hook->follows)
        code = save(hook, run, step, false, err);
    if (!code && (restored || saves)) /* otherwise a restored schedule continues */
        hs__run_context_acted(run, false);
    return code;
}

static void warn_of_metric(const checkpoint_saver *hook, const hs_raw_session *session)
{
    static const char effect[] = "keep_best ignores the checkpoints of this session";
    if (hook->metric_is_tensor)
        hs_log(hook->session_env, HS_LOG_WARNING,
               "%s: metric '%s' was computed in none of the saved steps (hs_session_wants)", effect, hook->metric);
    else
        hs__raw_session_warn_of_unset_metric(session, effect, hook->metric);
}

static hs_code save_at_end(checkpoint_saver *hook, hs_run_context *run, int64_t step, hs_error *err)
{
    hs_code code = save_or_skip(hook, run, step, err);
    if (!code)
        code = rank_last_save(hook, hs_run_context_session(run), err);
    if (hook->metric && hook->metric_missed && !hook->metric_seen)
        warn_of_metric(hook, hs_run_context_session(run));
    return code ? code : end_listeners(&hook->listeners, hs_run_context_session(run), step, err);
}

/* On the other ranks: takes part in the saves of rank 0, as many as it makes in this boundary. The last order comes from
 * handle_boundary. Rank 0 has the options, and handles failures. The end of a background save reaches this rank with the
 * next report of the ranks. */
static hs_code follow(const checkpoint_saver *hook, hs_run_context *run, int64_t step, hs_error *err)
{
    hs_raw_session *session = hs_run_context_session(run);
    bool may_be_pending = hook->background && hs_run_context_boundary(run) == HS_BOUNDARY_RUN;
    double metric;
    hs_saver *saver;
    for (;;) {
        save_order order;
        hs_error error = {0};
        hs_code code = hs_raw_session_from_chief(session, &order, sizeof order, err);
        if (code || !order.saves || (code = find_saver(hook, session, &saver, err)))
            return code;
        if (order.fetches_metric && (code = fetch_metric(hook, session, &metric, err)) == HS_CANCELLED)
            continue; /* another rank has failed to fetch it, and rank 0 decides what that means */
        if (code)
            return code;
        if (!hs_saver_save(saver, session, hook->prefix, step, NULL, &error) && !may_be_pending)
            hs_raw_session_record_save(session, step);
    }
}

static hs_code handle_boundary(checkpoint_saver *hook, hs_run_context *run, hs_error *err)
{
    hs_raw_session *session = hs_run_context_session(run);
    const hs_boundary which = hs_run_context_boundary(run);
    int64_t step = hs_run_context_global_step(run, err);
    if (step < 0)
        return err->code;
    int64_t restores = hs_raw_session_restores(session);
    if (restores != hook->restore_generation) { /* earlier saves are not of the state in memory */
        hook->restore_generation = restores;
        hook->saved_step = is_restored_from_step(hook, session, step) ? step : NOT_SAVED;
        hook->stopped_step = NOT_SAVED;
        if (which != HS_BOUNDARY_CREATED) /* a rollback: its step needs no save */
            hs__run_context_acted(run, false);
    }
    if (is_last_save(run))
        hs_saver_wait(hook->pending.saver);
    hs_error earlier = {0};
    hs_code code = poll_pending(hook, run, &earlier);
    if (code && which != HS_BOUNDARY_STOP)
        return hs__error_copy(err, &earlier);
    bool due = true;
    if (which == HS_BOUNDARY_RUN && (code = hs_raw_session_any(session, hook->due, &due, err)))
        return code;
    if (!due)
        return HS_OK;
    code = hook->follows ? follow(hook, run, step, err) : HS_OK;
    if (!code && which == HS_BOUNDARY_CREATED) {
        if (step == hook->saved_step || !is_refused(run, step))
            code = save_after_creation(hook, run, step, err);
    } else if (!code && !hook->follows) {
        code = which == HS_BOUNDARY_END ? save_at_end(hook, run, step, err) : save_or_skip(hook, run, step, err);
        if (which == HS_BOUNDARY_STOP) /* the program may change the state, so a failed save is not repeated at the end */
            hook->stopped_step = step;
    }
    if (which == HS_BOUNDARY_RUN)
        hook->due = hook->requested = false;
    if (!code && !hook->follows)
        code = hs_raw_session_from_chief(session, &(save_order){.saves = false}, sizeof(save_order), err);
    if (earlier.code) { /* the state of a stop was saved in spite of it, as it may change before the close */
        if (code)
            hs_log(hook->session_env, HS_LOG_ERROR, "%s", err->message);
        return hs__error_copy(err, &earlier);
    }
    return code;
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    hs_phase before = hs_raw_session_enter_phase(hs_run_context_session(run), HS_PHASE_SAVE);
    hs_code code = handle_boundary(self, run, err);
    watch_runs(self, run);
    hs_raw_session_enter_phase(hs_run_context_session(run), before);
    return code;
}

static void close_hook(void *self, const hs_outcome *outcome)
{
    (void)outcome;
    release_directory(self);
}

static void destroy(void *self)
{
    checkpoint_saver *hook = self;
    const hs_env *env = &hook->base.env;
    release_directory(hook);
    hs_env_free(env, hook->directory);
    hs_env_free(env, hook->prefix);
    hs_env_free(env, hook->metric);
    hs_env_free(env, hook->listeners.items);
    hs_env_free(env, hook->listeners.ops);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = name, .begin = begin, .after_create_session = after_create_session, .after_run = after_run,
            .boundary = boundary, .close = close_hook, .destroy = destroy, .rank_identity = hs__hook_rank_identity);

static hs_code check(const void *given, hs_error *err)
{
    const hs_checkpoint_saver_options *options = given;
    const char *basename = options->checkpoint_basename;
    if (!options->checkpoint_dir || !*options->checkpoint_dir)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "checkpoint_dir is missing");
    if (basename && (!*basename || strchr(basename, '/')))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "checkpoint_basename '%s' is not a file name", basename);
    if (options->saver && options->scaffold)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "both saver and scaffold are given; give at most one of the two");
    if (options->busy < HS_BUSY_WAIT || options->busy > HS_BUSY_REPLACE)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "busy is %d, not an hs_busy_policy", (int)options->busy);
    if (options->on_failure < HS_SAVE_FAILURE_SKIP || options->on_failure > HS_SAVE_FAILURE_FAIL)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "on_failure is %d, not an hs_save_failure", (int)options->on_failure);
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    checkpoint_saver *hook = self;
    const hs_checkpoint_saver_options *options = given;
    const char *basename = options->checkpoint_basename ? options->checkpoint_basename : "model.ckpt";
    size_t length = strlen(options->checkpoint_dir);
    while (length > 1 && options->checkpoint_dir[length - 1] == '/')
        length--;
    const hs__when_options when = {
        .secs = options->every_n_secs, .steps = options->every_n_steps, .when = options->when, .first = true};
    hs_code code = hs__hook_when(hook, &when, err);
    if (code)
        return code;
    hook->first = hook->base.when.first;
    hook->base.when.last = false; /* the boundary of the end saves */
    hook->base.when.on_request = true;
    hook->base.flags = HS_HOOK_ALL_RANKS | HS__HOOK_BEGINS_ON_CHIEF;
    hook->saver = options->saver;
    hook->scaffold = options->scaffold;
    hook->no_graph_def = options->no_graph_def;
    hook->on_failure = options->on_failure;
    hook->background = options->background;
    hook->overlap = options->overlap;
    hook->busy = options->busy;
    hook->copy_limit = options->copy_limit;
    hook->max_to_keep = options->max_to_keep;
    size_t bytes = length + strlen(basename) + 2;
    if (!(hook->directory = hs__hook_text(hook, options->checkpoint_dir, err)))
        return HS_RESOURCE_EXHAUSTED;
    if (options->metric && !(hook->metric = hs__hook_text(hook, options->metric, err)))
        return HS_RESOURCE_EXHAUSTED;
    if (!(hook->prefix = hs_env_alloc(&hook->base.env, bytes)))
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a path");
    snprintf(hook->prefix, bytes, "%.*s%s%s", (int)length, hook->directory, hook->directory[length - 1] == '/' ? "" : "/",
             basename);
    return copy_listeners(&hook->listeners, &hook->base.env, options->listeners, err);
}

static const hs__rank_option same[] = {
    HS__RANK_OPTION(hs_checkpoint_saver_options, checkpoint_dir),
    HS__RANK_OPTION(hs_checkpoint_saver_options, checkpoint_basename),
    HS__RANK_OPTION(hs_checkpoint_saver_options, metric),
    HS__RANK_OPTION(hs_checkpoint_saver_options, on_failure),
    HS__RANK_OPTION(hs_checkpoint_saver_options, busy),
    HS__RANK_OPTION(hs_checkpoint_saver_options, copy_limit),
    HS__RANK_OPTION(hs_checkpoint_saver_options, max_to_keep),
    HS__RANK_OPTION(hs_checkpoint_saver_options, background),
    HS__RANK_OPTION(hs_checkpoint_saver_options, overlap),
    HS__RANK_OPTION(hs_checkpoint_saver_options, no_graph_def),
    {0},
};

hs_hook hs_checkpoint_saver_hook(const hs_checkpoint_saver_options *given)
{
    return HS__HOOK_MAKE(&ops, checkpoint_saver, hs_checkpoint_saver_options, reserved, check, fill, same, given);
}
