/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a session that can be lost and recreated: the backend's session, its values, its threads, and what hooks do
 * in after_create_session. hs__create makes these in this order; hs__discard_raw ends them. */
#include "session/session.h"

#include "base/files.h"
#include "checkpoint/stored_states.h"
#include "threads/coordinator.h"

#include <hooksess/queue_runner.h>

#include <stdio.h>

void hs__pause(struct hs_session *session, double secs)
{
    const int64_t slice = 50000000;
    int64_t remaining_ns = secs < 1e9 ? (int64_t)(secs * 1e9 + 0.5) : INT64_MAX;
    for (; remaining_ns > 0 && !hs__stop_requested(session); remaining_ns -= slice)
        hs_env_sleep_ns(&session->env, remaining_ns < slice ? remaining_ns : slice);
}

/* The backend's session. */

hs_code hs__open_raw(struct hs_session *session, hs_error *err)
{
    hs_code code = hs__raw_session_open(&session->raw, session->target, session->config, err);
    return code ? code : hs__add_session_states(session, err);
}

hs_code hs__close_raw(struct hs_session *session, hs_error *err)
{
    hs__late_discard(session); /* which uses memory of the session's values */
    hs_code code = hs__raw_session_close(&session->raw, err);
    hs__states_free(&session->raw.unclaimed, &session->env);
    session->plans[0].in_use = false; /* the values were memory of the closed session */
    return code;
}

/* The values of its variables. */

static hs_code restore_or_initialize(struct hs_session *session, bool recovering, hs_error *err)
{
    const bool has_copy = recovering && session->last_good.copy; /* the same on all ranks that have one */
    bool restored = false, ready;
    if (session->creation.is_worker)
        return hs__startup_wait(session, err);
    hs_code code = hs__agree_on_part(session, 0, hs__open_raw(session, err), err);
    if (!code)
        code = hs__last_good_restore(session, recovering, &restored, err);
    code = hs__agree_on_part(session, 0, code, err);
    if (!code && !restored) { /* all ranks of a group initialize */
        code = recovering ? hs__last_good_initialize(session, err) : hs__startup_initialize(session, err);
        code = hs__agree_on_part(session, has_copy ? 0 : HS__WORD_YES, code, err);
        if (!code && session->agreement.word & HS__WORD_YES)
            code = hs__share_variables(session, err);
    }
    if (code || (code = hs__startup_finish(session, &ready, err)) || ready)
        return code;
    hs_error_prefix(err, "after initialization");
    return HS_FAILED_PRECONDITION;
}

/* The threads. */

/* A recreated session gets a new coordinator, as the previous one stays stopped. A stop that was requested without an error
 * is requested again. */
static hs_code replace_coordinator(struct hs_session *session, hs_error *err)
{
    hs_coordinator *fresh = hs__coordinator_new(&session->env);
    if (!fresh)
        return hs__no_memory(err, 1, "a coordinator");
    hs_code code = hs__reserve(&session->env, &session->attempts.retired_coordinators, &session->attempts.retired_capacity,
                               session->attempts.n_retired + 1, sizeof *session->attempts.retired_coordinators, err);
    if (code) {
        hs_coordinator_free(fresh);
        return code;
    }
    if (session->attempts.stop_was_requested)
        hs_coordinator_request_stop(fresh, NULL);
    session->attempts.retired_coordinators[session->attempts.n_retired++] =
        session->coordinator; /* a caller may still hold it */
    session->coordinator = fresh;
    atomic_store(&session->data_wait.thread_failed_ns, 0);
    return HS_OK;
}

static hs_code start_queues(struct hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    const void *runner;
    hs_code code = HS_OK;
    if (session->creation.no_queue_runners)
        return HS_OK;
    for (size_t i = 0; !code && hs_backend_collection_item(raw->backend, HS_QUEUE_RUNNERS, i, &runner); i++)
        code = hs_queue_runner_create_threads((hs_queue_runner *)runner, raw, session->coordinator, true, NULL, err);
    raw->runs_queues = true;
    return code;
}

void hs__stop_threads(struct hs_session *session)
{
    const hs_join_options options =
        HS_INIT(hs_join_options, .stop_grace_secs = session->creation.stop_grace_secs, .ignore_live_threads = true);
    hs_coordinator_request_stop(session->coordinator, NULL);
    hs_coordinator_join(session->coordinator, &options, NULL);
}

void hs__attempts_free(struct hs_session *session)
{
    for (size_t i = 0; i < session->attempts.n_retired; i++)
        hs_coordinator_free(session->attempts.retired_coordinators[i]);
    hs__free(&session->env, session->attempts.retired_coordinators);
}

/* Creating and discarding the session. */

hs_code hs__create_hook(struct hs_session *session, hs__hook *hook, hs_error *err)
{
    session->callee = hook;
    hs_code code = hook->cold->ops.after_create_session(hook->self, &session->raw, session->coordinator, err);
    if (code == HS_STOP)
        code = hs_coordinator_request_stop(session->coordinator, NULL);
    hook->cold->create_pending = code != HS_OK;
    if (code)
        return hs__hook_failed(session, hook, "after_create_session", code, err);
    hs__hook_succeeded(session, hook, "after_create_session");
    return HS_OK;
}

/* Sets *done if a hook reports that the training is complete. */
static hs_code call_after_create(struct hs_session *session, bool *done, hs_error *err)
{
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook *hook = &session->hooks[i];
        if (!hook->cold->ops.after_create_session || hs__is_disabled(hook))
            continue;
        bool was_stopped = hs_coordinator_should_stop(session->coordinator);
        hs__set_current_hook(session, hook);
        hs_code code = hs__create_hook(session, hook, err);
        if (code)
            return code;
        hs__clear(err);
        if (!was_stopped && hs_coordinator_should_stop(session->coordinator) &&
            !hs_coordinator_error(session->coordinator, NULL)) {
            *done = true;
            if (!session->stop_hook[0])
                snprintf(session->stop_hook, sizeof session->stop_hook, "%s", hook->cold->ops.name);
        }
    }
    return HS_OK;
}

hs_code hs__create(struct hs_session *session, bool recovering, bool *done, hs_error *err)
{
    session->callee = NULL; /* in a recovery, a hook of the run that failed */
    hs__schedule_restart(session);
    hs__forget_agreed_failure(session);
    hs_code code = session->attempts.n_created++ ? replace_coordinator(session, err) : HS_OK;
    code = hs__agree_on_part(session, 0, code, err);
    if (!code && !(code = restore_or_initialize(session, recovering, err))) {
        hs__session_forget_values(session); /* ops that initialize may have written some */
        if (!(code = start_queues(session, err)))
            code = call_after_create(session, done, err);
    }
    session->callee = NULL;
    code = hs__agree_on_part(session, *done ? HS__WORD_ALREADY_DONE : 0, code, err);
    if (!code && session->agreement.word & HS__WORD_ALREADY_DONE) { /* as a hook of some rank has reported */
        *done = true;
        code = hs_coordinator_request_stop(session->coordinator, NULL);
    }
    if (!code)
        code = hs__call_boundaries(session, HS_BOUNDARY_CREATED, err);
    hs__set_current_hook(session, NULL);
    code = hs__agree_on_part(session, 0, code, err);
    hs__agreement_restart(session);
    return code;
}

hs_code hs__discard_raw(struct hs_session *session, hs_error *err)
{
    hs_error error = {0}, threads;
    session->attempts.stop_was_requested = hs_coordinator_clean_stop(session->coordinator);
    hs__stop_threads(session);
    if (hs__close_raw(session, &error))
        hs_log(&session->env, HS_LOG_WARNING, "%s", error.message);
    hs__raw_session_forget_restore(&session->raw);
    hs_code code = hs_coordinator_error(session->coordinator, &threads);
    return code && !hs__is_loss(code) ? hs__error_copy(err, &threads) : HS_OK;
}
