/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a session that can be lost and made anew: the backend's session with its values, and the threads. */
#include "session/session.h"

#include "backends/raw_variables.h"
#include "checkpoint/stored_states.h"
#include "session/manager.h"
#include "threads/coordinator.h"

#include <hooksess/tf1/queue_runner.h>
#include <hooksess/tf1/scaffold.h>

#include <stdio.h>
#include <string.h>

void hs__pause(struct hs_session *session, double secs)
{
    const int64_t slice = 50000000;
    int64_t left = secs < 1e9 ? (int64_t)(secs * 1e9 + 0.5) : INT64_MAX;
    for (; left > 0 && !hs__stop_asked(session); left -= slice)
        hs_env_sleep_ns(&session->env, left < slice ? left : slice);
}

/* The backend's session. */

hs_code hs__open_raw(struct hs_session *session, hs_error *err)
{
    hs_code code = hs__raw_session_open(&session->raw, session->target, session->config, err);
    return code ? code : hs__gather_states(session, err);
}

hs_code hs__close_raw(struct hs_session *session, hs_error *err)
{
    hs_code code = hs__raw_session_close(&session->raw, err);
    hs__states_free(&session->raw.unclaimed, &session->env);
    for (size_t i = 0; i < session->n_frames; i++)
        session->frames[i]->in_use = false; /* what it showed is gone */
    return code;
}

/* Its values. */

static void fill_startup(const struct hs_session *session, hs__startup *startup)
{
    const hs_scaffold *scaffold = session->scaffold;
    const hs__creation *creation = &session->creation;
    *startup = (hs__startup){
        .ready_op = hs_scaffold_ready_op(scaffold),
        .ready_for_local_init_op = hs_scaffold_ready_for_local_init_op(scaffold),
        .local_init_op = hs_scaffold_local_init_op(scaffold),
        .local_init_feeds = hs_scaffold_local_init_feeds(scaffold),
        .init_op = hs_scaffold_init_op(scaffold),
        .init_feeds = hs_scaffold_init_feeds(scaffold),
        .init_fn = hs_scaffold_init_fn(scaffold),
        .user = hs_scaffold_init_user(scaffold),
        .scaffold = scaffold,
        .saver = hs_scaffold_saver(scaffold),
        .checkpoint_prefix = creation->checkpoint_prefix,
        .checkpoint_dir = creation->checkpoint_dir,
        .restore = creation->restore,
        .restore_options = &creation->restore_options,
        .max_wait_secs = creation->max_wait_secs,
        .recovery_wait_secs = creation->recovery_wait_secs,
    };
}

/* Is there a variable that a new session of the graph finds as the old one left it? */
static bool keeps_variables(const struct hs_session *session)
{
    hs_variable variable;
    for (size_t i = 0; hs_backend_variable(session->raw.backend, i, &variable); i++)
        if (variable.flags & HS_VARIABLE_OUTLIVES && !(variable.flags & HS_VARIABLE_LOCAL))
            return true;
    return false;
}

/* As at the opening, but for a session that has come further: nothing of before the opening is restored that was not
 * restored then, and what was there at the opening is there again. */
static hs_code restore_again(struct hs_session *session, hs__startup *startup, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    char *path = NULL;
    bool copied = session->opening && (startup->checkpoint_prefix || hs__leaves_out(startup->restore_options));
    if (!copied && (raw->saved_step >= 0 || startup->restore != HS_RESTORE_NEVER)) {
        startup->restore = HS_RESTORE_IF_PRESENT;
        hs_code code = hs__startup_restore(raw, startup, &path, err);
        hs__free(&raw->env, path);
        if (code || path)
            return code;
    }
    if (!session->opening && keeps_variables(session))
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "cannot recover: no checkpoint exists, and the initial state was not copied "
                            "(hs_recovery.snapshot_limit)");
    hs_code code = hs__startup_initialize(raw, startup, err);
    if (code || session->opening)
        return code ? code : hs_raw_session_restore_copy(raw, session->opening, err);
    hs__raw_session_rolled_back(raw, -1); /* to the first values */
    return HS_OK;
}

static hs_code give_values(struct hs_session *session, bool again, hs_error *err)
{
    hs__startup startup;
    fill_startup(session, &startup);
    if (session->creation.is_worker)
        return hs__startup_wait(session, &startup, err);
    hs_code code = hs__open_raw(session, err);
    if (code)
        return code;
    if (!again)
        return hs__startup_prepare(&session->raw, &startup, err);
    code = restore_again(session, &startup, err);
    return code ? code : hs__startup_finish(&session->raw, &startup, err);
}

/* Its threads. */

/* Those of the session that is made take no notice of a stop that ended the one before; but what the caller asked for
 * stays. */
static hs_code renew_coordinator(struct hs_session *session, hs_error *err)
{
    hs_coordinator *made = hs__coordinator_new(&session->env);
    if (!made)
        return hs__no_memory(err, 1, "a coordinator");
    hs_code code = hs__reserve(&session->env, &session->retired, &session->retired_capacity, session->n_retired + 1,
                               sizeof *session->retired, err);
    if (code) {
        hs_coordinator_free(made);
        return code;
    }
    if (session->coordinator_asked)
        hs_coordinator_request_stop(made, NULL);
    session->retired[session->n_retired++] = session->coordinator; /* somebody may hold it */
    session->coordinator = made;
    return HS_OK;
}

static hs_code start_queues(struct hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    hs_threads threads = {NULL, NULL};
    if (!hs_backend_collection_item(raw->backend, HS_QUEUE_RUNNERS, 0, NULL))
        return HS_OK;
    hs_code code = hs_queue_runners_start(raw, session->coordinator, true, &threads, err);
    raw->runs_queues = true;
    hs_threads_free(&threads);
    return code;
}

void hs__stop_threads(struct hs_session *session)
{
    const hs_join_options options =
        HS_INIT(hs_join_options, .stop_grace_secs = session->creation.stop_grace_secs, .ignore_live_threads = true);
    hs_coordinator_request_stop(session->coordinator, NULL);
    hs_coordinator_join(session->coordinator, &options, NULL);
}

/* All of it. */

static hs_code tell_hooks(struct hs_session *session, hs_error *err)
{
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook *hook = &session->hooks[i];
        if (!hook->rest->ops.after_create_session || hook->rest->back_ns == INT64_MAX)
            continue;
        bool stopped = hs_coordinator_should_stop(session->coordinator);
        hs__does(session, hook);
        hs_code code = hook->rest->ops.after_create_session(hook->self, &session->raw, session->coordinator, err);
        if (code == HS_STOP)
            code = hs_coordinator_request_stop(session->coordinator, NULL);
        hook->rest->uncreated = code != HS_OK;
        if (code) {
            code = hs__hook_failed(session, hook, "after_create_session", code, err);
            if (!hook->rest->best_effort || (code = hs__mute(session, hook, "after_create_session", err)))
                return code;
        } else if (hook->rest->in_a_row) {
            hs__works_again(session, hook, "after_create_session");
        }
        hs__clear(err);
        if (!stopped && hs_coordinator_should_stop(session->coordinator) &&
            !hs_coordinator_error(session->coordinator, NULL)) {
            session->already_done = true;
            if (!session->stop_hook[0])
                snprintf(session->stop_hook, sizeof session->stop_hook, "%s", hook->rest->ops.name);
        }
    }
    hs_code code = hs__recover_late(&session->raw, !session->creation.is_worker, err);
    return code ? code : hs__call_boundaries(session, HS_BOUNDARY_CREATED, err);
}

hs_code hs__create(struct hs_session *session, bool again, hs_error *err)
{
    hs_code code = session->creations++ ? renew_coordinator(session, err) : HS_OK;
    if (!again)
        hs__raw_session_free_late(&session->raw); /* of an attempt that failed: the hooks add them again */
    if (code || (code = give_values(session, again, err)) || (code = start_queues(session, err)))
        return code;
    code = tell_hooks(session, err);
    hs__does(session, NULL);
    return code;
}

hs_code hs__discard(struct hs_session *session, hs_error *err)
{
    hs_error error = {0}, threads;
    session->coordinator_asked = hs__coordinator_asked(session->coordinator);
    hs__stop_threads(session);
    if (hs__close_raw(session, &error))
        hs_log(&session->env, HS_LOG_WARNING, "%s", error.message);
    hs__raw_session_forget_restore(&session->raw);
    hs_code code = hs_coordinator_error(session->coordinator, &threads);
    return code && !hs__is_preemption(code) ? hs__error_copy(err, &threads) : HS_OK;
}
