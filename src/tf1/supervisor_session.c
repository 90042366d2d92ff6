/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions of a supervisor: running them in several threads, preparing, stopping, and the basic train loop. */
#include "tf1/supervisor.h"

#include <hooksess/tf1/queue_runners.h>

#include <math.h>

enum { MAX_WAIT_SECS = 7200 };

static hs_code no_supervisor(hs_error *err)
{
    return hs_error_set(err, HS_INVALID_ARGUMENT, "supervisor is NULL");
}

/* For functions that take locks: a thread of the parent may hold them forever. */
static hs_code check_owner(const hs_supervisor *sv, hs_error *err)
{
    return sv ? hs__supervisor_refuse_inherited(sv, err) : no_supervisor(err);
}

/* Running. */

void hs_supervisor_lock(hs_supervisor *sv)
{
    if (!sv || hs__supervisor_is_inherited(sv))
        return;
    pthread_mutex_lock(&sv->turns.lock);
    if (!sv->turns.depth || !pthread_equal(sv->turns.holder, pthread_self())) {
        const uint64_t mine = sv->turns.next_ticket++;
        while (mine != sv->turns.served)
            pthread_cond_wait(&sv->turns.changed, &sv->turns.lock);
        sv->turns.holder = pthread_self();
    }
    sv->turns.depth++;
    pthread_mutex_unlock(&sv->turns.lock);
}

void hs_supervisor_unlock(hs_supervisor *sv)
{
    if (!sv || hs__supervisor_is_inherited(sv))
        return;
    pthread_mutex_lock(&sv->turns.lock);
    if (sv->turns.depth && pthread_equal(sv->turns.holder, pthread_self()) && --sv->turns.depth == 0) {
        sv->turns.served++;
        pthread_cond_broadcast(&sv->turns.changed);
    }
    pthread_mutex_unlock(&sv->turns.lock);
}

hs_code hs_supervisor_run(hs_supervisor *sv, hs_session *session, const hs_run_args *args, const hs_run_values **values,
                          hs_error *err)
{
    hs_code code = check_owner(sv, err);
    if (code)
        return code;
    hs_supervisor_lock(sv);
    code = hs_raw_session_run(hs_session_raw(session), args, values, err);
    hs_supervisor_unlock(sv);
    return code;
}

/* Preparing. */

/* Reserves the directory for this process before the model is changed. */
static hs_code hold(const hs_supervisor *sv, hs_error *err)
{
    return sv->is_worker || !sv->save_path || !sv->saves ? HS_OK
                                                         : hs_saver_hold(hs_supervisor_saver(sv), NULL, sv->save_path, err);
}

static hs_session *make_session(hs_supervisor *sv, const hs_supervisor_session_options *options, hs_error *err)
{
    const hs_scaffold_options *fields = hs_scaffold_fields(sv->scaffold);
    const hs_session_manager_prepare_options prepare = HS_INIT(
        hs_session_manager_prepare_options, .target = options->target, .config = options->config,
        .max_wait_secs = options->max_wait_secs == 0 ? MAX_WAIT_SECS : options->max_wait_secs, .init_op = fields->init_op,
        .init_feeds = fields->init_feeds, .init_fn = sv->init_fn, .user = sv->user, .saver = hs_supervisor_saver(sv),
        .checkpoint_dir = sv->checkpoint_dir, .wait_for_checkpoint = options->wait_for_checkpoint);
    return (sv->is_worker ? hs_session_manager_wait : hs_session_manager_prepare)(sv->manager, sv->backend, &prepare, err);
}

/* Writes graph.pbtxt and, once a file, the events of the graph. Nothing, if the backend has no definition of it. */
static hs_code show_graph(hs_supervisor *sv, hs_error *err)
{
    hs_summary_writer *writer = sv->graph_written ? NULL : sv->writer;
    hs_bytes graph, meta;
    hs_code code = hs_backend_graph_def(sv->backend, &graph, err);
    sv->graph_written = true;
    if (code == HS_UNIMPLEMENTED) {
        hs_error_clear(err);
        return HS_OK;
    }
    if (code || (writer && (code = hs_summary_writer_graph(writer, graph, 0, err))) ||
        (sv->checkpoint_dir &&
         (code = hs_backend_write_graph(sv->backend, sv->checkpoint_dir, "graph.pbtxt", true, err))) ||
        !writer || (code = hs_backend_export_meta_graph(sv->backend, hs_supervisor_saver(sv), &meta, err)))
        return code;
    code = hs_summary_writer_meta_graph(writer, meta, 0, err);
    hs_env_free(sv->env, (void *)meta.data);
    return code;
}

/* Writes the graph and starts the threads that run concurrently with the session. */
static hs_code begin(hs_supervisor *sv, hs_session *session, bool services, hs_error *err)
{
    hs_code code = sv->is_worker ? HS_OK : show_graph(sv, err);
    if (!code && !sv->is_worker && services)
        code = hs_supervisor_start_standard_services(sv, session, err);
    if (!code && services && hs_backend_collection_item(sv->backend, HS_QUEUE_RUNNERS, 0, NULL))
        code = hs_supervisor_start_queue_runners(sv, session, NULL, err);
    return code;
}

static hs_code copy_options(hs_supervisor_session_options *to, const hs_supervisor_session_options *given, hs_error *err)
{
    return given ? HS_STRUCT_TAKE(hs_supervisor_session_options, recovery, to, given, err) : HS_OK;
}

static hs_code check(const hs_supervisor *sv, const hs_supervisor_session_options *options, hs_error *err)
{
    hs_code code = check_owner(sv, err);
    if (code)
        return code;
    if (options->wait_for_checkpoint && !sv->is_worker && !(sv->checkpoint_dir && sv->saves))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "wait_for_checkpoint is set, but the supervisor has no %s",
                            sv->checkpoint_dir ? "saver" : "checkpoint_dir");
    if (hs__supervisor_serves(sv))
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the services of an earlier session still run; call hs_supervisor_stop first");
    return HS_OK;
}

hs_session *hs_supervisor_prepare_or_wait_for_session(hs_supervisor *sv, const hs_supervisor_session_options *given,
                                                      hs_error *err)
{
    hs_supervisor_session_options options = HS_INIT(hs_supervisor_session_options);
    hs_error error = {0};
    hs_session *session = NULL;
    if (!copy_options(&options, given, &error) && !check(sv, &options, &error)) {
        hs_coordinator_clear_stop(sv->coordinator);
        sv->left_open = false;
        if (!hold(sv, &error) && !hs__supervisor_open_writer(sv, &error))
            session = make_session(sv, &options, &error);
        if (!session || begin(sv, session, !options.no_standard_services, &error)) {
            hs_error why = error;
            hs_supervisor_leave(sv, session, error.code, NULL, &why);
            session = NULL;
        }
    }
    if (!err && error.code)
        hs_log(sv ? sv->env : NULL, HS_LOG_ERROR, "session not opened: %s", error.message);
    hs__supervisor_report(err, &error);
    return session;
}

hs_session *hs_supervisor_managed_session(hs_supervisor *sv, const hs_supervisor_session_options *options, hs_error *err)
{
    return hs_supervisor_prepare_or_wait_for_session(sv, options, err);
}

/* Threads. */

hs_code hs_supervisor_start_queue_runners(hs_supervisor *sv, hs_session *session, hs_threads *threads, hs_error *err)
{
    hs_code code = check_owner(sv, err);
    if (code)
        return code;
    hs_supervisor_lock(sv); /* only a thread that has locked the session may fork it */
    code = hs_queue_runners_start(hs_session_raw(session), sv->coordinator, true, threads, err);
    hs_supervisor_unlock(sv);
    return code;
}

hs_code hs_supervisor_request_stop(hs_supervisor *sv, const hs_error *why)
{
    hs_code code = check_owner(sv, NULL);
    return code ? code : hs_coordinator_request_stop(sv->coordinator, why);
}

bool hs_supervisor_should_stop(const hs_supervisor *sv)
{
    return !sv || hs_coordinator_should_stop(sv->coordinator);
}

/* Stopping. */

/* `patiently`: waits for the services without a limit. *live: the number of threads that did not end. */
static hs_code stop(hs_supervisor *sv, const hs_supervisor_stop_options *given, bool patiently, size_t *live, hs_error *err)
{
    hs_supervisor_stop_options options = HS_INIT(hs_supervisor_stop_options);
    hs_error error = {0}, late = {0};
    hs_coordinator_request_stop(sv->coordinator, NULL);
    if (given) /* invalid options are an error, but all threads are joined */
        HS_STRUCT_TAKE(hs_supervisor_stop_options, n_live_threads, &options, given, &error);
    const hs_join_options join = HS_INIT(hs_join_options, .threads = options.threads,
                                         .stop_grace_secs = sv->stop_grace_secs, .awaited = patiently ? sv->services : NULL,
                                         .ignore_live_threads = options.ignore_live_threads, .n_live_threads = live);
    hs_coordinator_join(sv->coordinator, &join, error.code ? NULL : &error);
    if (options.n_live_threads)
        *options.n_live_threads = *live;
    if (!options.no_summary_writer_close && hs__supervisor_end_writer(sv, true, &late) && error.code)
        hs_log(sv->env, HS_LOG_WARNING, "%s", late.message);
    return hs__supervisor_report(err, error.code ? &error : &late);
}

hs_code hs_supervisor_stop(hs_supervisor *sv, const hs_supervisor_stop_options *options, hs_error *err)
{
    size_t live = 0;
    hs_code code = check_owner(sv, err);
    return code ? code : stop(sv, options, false, &live, err);
}

hs_code hs_supervisor_leave(hs_supervisor *sv, hs_session *session, hs_code code, const hs_supervisor_stop_options *options,
                            hs_error *err)
{
    hs_error error = {0}, own = {0}, late = {0};
    size_t live = 0;
    if (!sv)
        return code ? code : no_supervisor(err);
    if (hs__supervisor_is_inherited(sv))
        return hs__supervisor_refuse_inherited(sv, err);
    if (code) {
        hs_error_set(&own, code, "%s",
                     err && err->code == code && err->message[0] ? err->message
                                                                 : "the caller reported a failure without a message");
        if (!hs_coordinator_request_stop(sv->coordinator, &own))
            hs_error_clear(&own); /* the coordinator keeps it, and the join reports it */
    }
    if (!stop(sv, options, true, &live, &error))
        error = own;
    hs__supervisor_await_services(sv);
    if (live && session) { /* a thread may still run it */
        sv->left_open = true;
        hs_log(sv->env, HS_LOG_WARNING, "the session stays open, because threads still run; close it after they end");
        if (error.code)
            hs_error_prefix(&error, "the session stays open, because threads still run (%zu)", live);
    } else if (session && (hs_session_close(session, &late), late.code))
        hs_log(sv->env, HS_LOG_WARNING, "%s", late.message);
    return hs__supervisor_report(err, &error);
}

/* The loop. */

static hs_code copy_recovery(hs_recovery *to, const hs_recovery *given, hs_error *err)
{
    hs_code code = given ? HS_STRUCT_TAKE(hs_recovery, reserved, to, given, err) : HS_OK;
    if (code)
        return code;
    if (to->max_attempts < HS_NEVER || !(to->backoff_secs >= 0 && to->backoff_secs < 1e9))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_recovery: max_attempts is %lld and backoff_secs is %g; both must be at least 0, or "
                            "max_attempts HS_NEVER",
                            (long long)to->max_attempts, to->backoff_secs);
    if (to->max_attempts == 0)
        to->max_attempts = 10;
    if (to->backoff_secs == 0)
        to->backoff_secs = 1;
    return HS_OK;
}

/* Returns true if the loop opens another session, after a pause before the second attempt and the following ones. */
static bool opens_another(hs_supervisor *sv, const hs_recovery *recovery, int64_t *attempts, hs_error *error)
{
    const double max_secs = fmax(recovery->backoff_secs, 60);
    if (error->code != HS_ABORTED || recovery->max_attempts < 0 || sv->left_open ||
        hs_coordinator_clean_stop(sv->coordinator))
        return false;
    if (*attempts == recovery->max_attempts) {
        hs_error_prefix(error, "no progress after %lld recoveries", (long long)*attempts);
        return false;
    }
    ++*attempts;
    hs_log(sv->env, HS_LOG_WARNING, "session lost; opening another, attempt %lld of %lld: %s: %s", (long long)*attempts,
           (long long)recovery->max_attempts, hs_code_name(error->code), error->message);
    hs_coordinator_clear_stop(sv->coordinator); /* a stop request during the pause counts */
    return *attempts == 1 ||
           !hs_coordinator_wait_for_stop(
               sv->coordinator, fmin(ldexp(recovery->backoff_secs, (int)fmin((double)*attempts - 2, 1000)), max_secs));
}

/* Calls the step function. On failure `err` has the returned code and a message. */
static hs_code run_step(hs_supervisor_step_fn step, void *user, hs_session *session, hs_error *err)
{
    hs_code code = step(user, session, err);
    if (code && (!err->code || !err->message[0]))
        return hs_error_set(err, code, "the step function failed with %s", hs_code_name(code));
    err->code = code;
    return code;
}

hs_code hs_basic_train_loop(hs_supervisor *sv, const hs_supervisor_session_options *options, hs_supervisor_step_fn step,
                            void *user, hs_error *err)
{
    hs_supervisor_session_options o = HS_INIT(hs_supervisor_session_options);
    hs_recovery recovery = HS_INIT(hs_recovery);
    hs_error error = {0};
    int64_t begun, furthest = -1, attempts = 0; /* attempts since a session began at a later step than all before */
    if (!sv || !step)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_basic_train_loop: %s is NULL", sv ? "step" : "supervisor");
    if (copy_options(&o, options, &error) || copy_recovery(&recovery, o.recovery, &error))
        return hs__supervisor_report(err, &error);
    do {
        hs_error_clear(&error);
        hs_session *session = hs_supervisor_managed_session(sv, &o, &error);
        hs_code code = error.code;
        if (!code && !hs__supervisor_step(sv, session, &begun, NULL) && begun > furthest) {
            furthest = begun;
            attempts = 0;
        }
        while (!code && !hs_supervisor_should_stop(sv))
            code = run_step(step, user, session, &error);
        hs_supervisor_leave(sv, session, code, NULL, &error);
    } while (opens_another(sv, &recovery, &attempts, &error));
    return hs__supervisor_report(err, &error);
}
