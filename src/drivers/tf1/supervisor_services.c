/* SPDX-License-Identifier: Apache-2.0 */
/* Services that run concurrently with training: saving, summaries, the step counter. */
#include "drivers/tf1/supervisor.h"

#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The global step. */

hs_code hs__supervisor_step(hs_supervisor *sv, hs_raw_session *session, int64_t *step, hs_error *err)
{
    const double MOST = 9007199254740992; /* a double has each step up to here */
    const char *own = hs_backend_global_step_name(sv->backend);
    const hs_run_values *values;
    hs_error error;
    *step = -1;
    if (!sv->global_step)
        return HS_OK;
    if (own && strcmp(own, sv->global_step) == 0) { /* the backend may read it without a run */
        *step = hs_raw_session_global_step(session, &error);
        return hs__error_copy(err, &error);
    }
    hs_raw_session_enter(session); /* the values stay valid until hs_raw_session_leave */
    hs_code code = hs__run_nested(session, HS_RUN_ARGS(.names = HS_NAMES(sv->global_step)), &values, err);
    double value = code ? 0 : hs_run_values_number(values, 0);
    hs_raw_session_leave(session);
    if (!(value >= 0 && value < MOST))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the global step '%s' is %g, which is not a step", sv->global_step,
                            value);
    *step = (int64_t)value;
    return code;
}

/* The event file. */

hs_code hs__supervisor_open_writer(hs_supervisor *sv, hs_error *err)
{
    hs_error error = {0};
    pthread_mutex_lock(&sv->writing);
    if (!sv->writer && !(sv->writer = sv->given_writer) && !sv->no_writer)
        sv->writer = hs_summary_writer_open(sv->checkpoint_dir, HS_SUMMARY_WRITER_OPTIONS(.env = &sv->env), &error);
    pthread_mutex_unlock(&sv->writing);
    return hs__error_copy(err, &error);
}

hs_code hs__supervisor_end_writer(hs_supervisor *sv, bool logs_stop, hs_error *err)
{
    hs_error error = {0}, late = {0};
    pthread_mutex_lock(&sv->writing);
    hs_summary_writer *writer = sv->writer;
    sv->writer = NULL;
    if (writer && logs_stop)
        hs_summary_writer_session_log(writer, HS_SESSION_LOG_STOP, NULL, NULL, sv->step, &error);
    if (writer && writer == sv->given_writer)
        hs_summary_writer_flush(writer, false, &late);
    else {
        hs_summary_writer_close(writer, &late);
        sv->graph_written = false; /* the next one has another file */
    }
    pthread_mutex_unlock(&sv->writing);
    return hs__error_copy(err, error.code ? &error : &late);
}

/* Locks the writer for an event, until end_event. Returns NULL if no writer is open. */
static hs_summary_writer *begin_event(hs_supervisor *sv)
{
    pthread_mutex_lock(&sv->writing);
    return sv->writer;
}

static void end_event(hs_supervisor *sv, int64_t step)
{
    sv->step = step < 0 ? 0 : step;
    pthread_mutex_unlock(&sv->writing);
}

static hs_code log_session(hs_supervisor *sv, hs_session_log_status status, const char *path, int64_t step, hs_error *err)
{
    if (!sv->global_step)
        return HS_OK;
    hs_summary_writer *writer = begin_event(sv);
    hs_code code = writer ? hs_summary_writer_session_log(writer, status, path, NULL, step, err) : HS_OK;
    end_event(sv, status == HS_SESSION_LOG_START ? step - 1 : step);
    return code;
}

hs_code hs_supervisor_summary_computed(hs_supervisor *sv, hs_raw_session *session, hs_string summary, int64_t step,
                                       hs_error *err)
{
    hs_code code;
    if (!sv || step < -1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_supervisor_summary_computed: %s",
                            sv ? "step is negative; -1 selects the session's step" : "supervisor is NULL");
    if (sv->no_writer) /* as for a worker */
        return hs_error_set(err, HS_FAILED_PRECONDITION, "cannot write a summary: %s",
                            sv->is_worker ? "this is a worker's supervisor; the chief's supervisor writes summaries"
                                          : "there is no summary writer; give the supervisor checkpoint_dir or "
                                            "summary_writer");
    if (step < 0 && (code = hs__supervisor_step(sv, session, &step, err)))
        return code;
    hs_summary_writer *writer = begin_event(sv);
    code = writer ? hs_summary_writer_summary(writer, summary, step < 0 ? 0 : step, err)
                  : hs_error_set(err, HS_FAILED_PRECONDITION,
                                 "the summary writer is not open: preparing a session opens it, and hs_supervisor_stop "
                                 "closes it");
    end_event(sv, step);
    return code;
}

/* Checkpoints. */

/* Enters the session and locks the saver. A thread with the saver never waits to enter, as a thread that waits for the
 * saver may have entered already. A thread that waits here for the saver leaves the session first, because the other may be
 * writing to the disk. */
static void enter_with_saver(hs_supervisor *sv, hs_raw_session *session)
{
    hs_raw_session_enter(session);
    while (pthread_mutex_trylock(&sv->saving) != 0) {
        hs_raw_session_leave(session);
        pthread_mutex_lock(&sv->saving); /* waits until it is unlocked */
        pthread_mutex_unlock(&sv->saving);
        hs_raw_session_enter(session);
    }
}

hs_code hs_supervisor_save(hs_supervisor *sv, hs_raw_session *session, hs_error *err)
{
    const hs_save_options options = HS_INIT(hs_save_options, .background = true);
    hs_saver *saver = hs_supervisor_saver(sv);
    hs_error error = {0};
    hs_save_result result;
    int64_t step;
    if (!sv || !session)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_supervisor_save: %s is NULL", sv ? "session" : "supervisor");
    if (sv->is_worker || !sv->save_path || !saver)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "cannot save a checkpoint: %s",
                            sv->is_worker    ? "this is a worker's supervisor; the chief's supervisor saves"
                            : !sv->save_path ? "checkpoint_dir is missing"
                                             : "the supervisor has no saver, or the graph has no variables to save");
    enter_with_saver(sv, session);
    if (!hs__supervisor_step(sv, session, &step, &error))
        hs_saver_save(saver, session, sv->save_path, step, &options, &error);
    hs_raw_session_leave(session); /* the save has its copy of the state */
    hs_saver_wait(saver);
    if (!error.code && hs_saver_poll(saver, &result))
        error = result.error;
    if (!error.code)
        log_session(sv, HS_SESSION_LOG_CHECKPOINT, hs_saver_last_path(saver), step, &error);
    pthread_mutex_unlock(&sv->saving);
    return hs__error_copy(err, &error);
}

/* The services' loops. */

static hs_code save_checkpoint(void *user, hs_error *err)
{
    hs_supervisor *sv = user;
    return hs_supervisor_save(sv, sv->session, err);
}

/* Drops the summary if the writer is already closed. */
static hs_code write_summary(hs_supervisor *sv, const hs_tensor *value, int64_t step, hs_error *err)
{
    if (!value || value->dtype != HS_STRING || value->memory || value->bytes < sizeof(hs_string))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary op '%s' does not return a string (a serialized Summary)",
                            hs_supervisor_summary_op(sv));
    const hs_string *summary = value->data;
    hs_summary_writer *writer = begin_event(sv);
    hs_code code = HS_OK;
    if (writer && summary->bytes)
        code = hs_summary_writer_summary(writer, *summary, step < 0 ? 0 : step, err);
    end_event(sv, step);
    return code;
}

static hs_code compute_summary(void *user, hs_error *err)
{
    hs_supervisor *sv = user;
    const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES(hs_supervisor_summary_op(sv)), .kind = HS_RUN_AUX);
    const hs_run_values *values;
    int64_t step;
    hs_raw_session_enter(sv->session);
    hs_code code = hs__supervisor_step(sv, sv->session, &step, err);
    if (!code && !(code = hs_raw_session_run(sv->session, &args, &values, err)))
        code = write_summary(sv, hs_run_values_tensor(values, 0), step, err);
    hs_raw_session_leave(sv->session);
    return code;
}

static hs_code count_steps(void *user, hs_error *err)
{
    hs_supervisor *sv = user;
    int64_t step;
    hs_code code = hs__supervisor_step(sv, sv->session, &step, err);
    int64_t now = hs_env_monotonic_ns(&sv->env);
    double secs = (double)(now - sv->rate_ns) / 1e9, steps = (double)(step - sv->rate_step);
    char tag[512];
    if (code || !(secs > 0)) /* the clock has not advanced: the next call counts these steps too */
        return code;
    sv->rate_step = step;
    sv->rate_ns = now;
    snprintf(tag, sizeof tag, "%s/sec", sv->global_step);
    hs_log(&sv->env, HS_LOG_INFO, "step %lld: %.4g steps/s", (long long)step, steps / secs);
    hs_summary_writer *writer = begin_event(sv);
    if (writer)
        code = hs_summary_writer_scalar(writer, tag, steps / secs, step, err);
    end_event(sv, step);
    return code;
}

/* Threads. */

static hs_thread *start_looper(hs_supervisor *sv, const char *name, double secs, hs_code (*loop)(void *user, hs_error *err),
                               void *user, hs_error *err)
{
    const hs_looper_options options = HS_INIT(hs_looper_options, .coordinator = hs_supervisor_coordinator(sv), .name = name,
                                              .every_n_secs = secs, .loop = loop, .user = user);
    hs_thread *thread = hs_looper_new(&options, err);
    if (!thread || !hs_thread_start(thread, err))
        return thread;
    hs_thread_free(thread);
    return NULL;
}

hs_thread *hs_supervisor_loop(hs_supervisor *sv, double interval_secs, hs_code (*fn)(void *user, hs_error *err), void *user,
                              hs_error *err)
{
    return start_looper(sv, "loop", interval_secs, fn, user, err);
}

/* Starts a service that calls `loop` every `secs` seconds. 0: starts nothing. */
static hs_code start_service(hs_supervisor *sv, const char *name, double secs, hs_code (*loop)(void *user, hs_error *err),
                             hs_error *err)
{
    if (secs > 0 && (sv->services[sv->n_services] = start_looper(sv, name, secs, loop, sv, err)))
        sv->n_services++;
    return err->code;
}

static void start_services(hs_supervisor *sv, hs_error *err)
{
    const double events = sv->no_writer ? 0 : sv->save_summaries_secs;
    if (!start_service(sv, "summaries", hs_supervisor_summary_op(sv) ? events : 0, compute_summary, err) &&
        !start_service(sv, "step counter", sv->global_step ? events : 0, count_steps, err))
        start_service(sv, "checkpoints", sv->saves ? sv->save_model_secs : 0, save_checkpoint, err);
}

bool hs__supervisor_serves(const hs_supervisor *sv)
{
    for (size_t i = 0; i < sv->n_services; i++)
        if (hs_thread_alive(sv->services[i]))
            return true;
    return false;
}

void hs__supervisor_await_services(hs_supervisor *sv)
{
    for (size_t i = 0; i < sv->n_services; i++) {
        hs_thread_wait(sv->services[i], HS_NEVER);
        hs_thread_free(sv->services[i]);
    }
    sv->n_services = 0;
    sv->session = NULL;
}

hs_code hs_supervisor_start_standard_services(hs_supervisor *sv, hs_raw_session *session, hs_error *err)
{
    hs_error error = {0};
    int64_t step;
    if (!sv || !session)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_supervisor_start_standard_services: %s is NULL",
                            sv ? "session" : "supervisor");
    if (sv->is_worker)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "this is a worker's supervisor; only the chief's supervisor starts the standard services");
    if (hs__supervisor_serves(sv))
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the standard services already run; call hs_supervisor_stop first");
    hs__supervisor_await_services(sv); /* they have ended: frees them */
    if (!sv->checkpoint_dir) {
        hs_log(&sv->env, HS_LOG_WARNING, "standard services not started: checkpoint_dir is missing");
        return hs__error_copy(err, NULL);
    }
    sv->session = session;
    if (!hs_raw_session_share(session, &error) && !hs__supervisor_open_writer(sv, &error) &&
        !hs__supervisor_step(sv, session, &step, &error) &&
        /* TensorBoard drops the events of an earlier run from the next step on */
        !log_session(sv, HS_SESSION_LOG_START, NULL, step + 1, &error)) {
        sv->rate_step = step;
        sv->rate_ns = hs_env_monotonic_ns(&sv->env);
        start_services(sv, &error);
    }
    return hs__error_copy(err, &error);
}

hs_thread *hs_supervisor_service(const hs_supervisor *sv, size_t index)
{
    return sv && index < sv->n_services ? sv->services[index] : NULL;
}
