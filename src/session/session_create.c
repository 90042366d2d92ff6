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
    hs_code code = hs__raw_session_close(&session->raw, err);
    hs__states_free(&session->raw.unclaimed, &session->env);
    session->plans[0].in_use = false; /* the values were memory of the closed session */
    return code;
}

/* The values of its variables. */

/* True if saved variables are in the program's memory. Then a new session of the backend has the values of the lost one. */
static bool has_outliving_variables(const struct hs_session *session)
{
    hs_variable variable;
    for (size_t i = 0; hs_backend_variable(session->raw.backend, i, &variable); i++)
        if (variable.flags & HS_VARIABLE_OUTLIVES && !(variable.flags & HS_VARIABLE_LOCAL))
            return true;
    return false;
}

/* True if a lost session returns to its state at the opening: a checkpoint that the opening skipped, or restored in part,
 * is not used, unless this session has saved since. */
static bool restores_from_copy(const struct hs_session *session)
{
    const hs__creation *creation = &session->creation;
    if (session->recovery.initial && (creation->checkpoint_prefix || hs__restores_partly(&creation->restore_options)))
        return true;
    return session->raw.saved_step < 0 && creation->restore == HS_RESTORE_NEVER;
}

/* Returns a lost session without a checkpoint to its state at the opening. */
static hs_code reinitialize(struct hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    if (!session->recovery.initial && has_outliving_variables(session))
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "cannot recover: no checkpoint exists, and the initial state was not copied "
                            "(hs_recovery.snapshot_limit)");
    hs_code code = hs__startup_initialize(session, err);
    if (code || session->recovery.initial)
        return code ? code : hs_raw_session_restore_copy(raw, session->recovery.initial, err);
    hs__raw_session_reinitialized(raw);
    return HS_OK;
}

/* In a group the chief finds the checkpoint, and all ranks restore it. If one of them finds damage, the chief tries the
 * next one. Without a checkpoint all ranks initialize, and the chief sends its values. */

/* Ends the restore of a checkpoint, which had the result `code` on this rank. Sets *damaged to true on all ranks if it is
 * true on one. */
static hs_code agree_on_restore(struct hs_session *session, hs_code code, bool *damaged, hs_error *err)
{
    code = hs__agree_on_part(session, *damaged ? HS__WORD_YES : 0, *damaged ? HS_OK : code, err);
    *damaged = session->agreement.word & HS__WORD_YES;
    return code;
}

/* hs__acceptance.accept */
static hs_code restore_followers(void *user, const char *path, bool *damaged, hs_error *err)
{
    hs_code code = hs__send_path(user, HS_OK, path, err);
    *damaged = false;
    if (code || (code = agree_on_restore(user, HS_OK, damaged, err)) || !*damaged)
        return code;
    return hs_error_set(err, HS_DATA_LOSS, "another rank found damage, and logged it");
}

static hs_code restore_chief(struct hs_session *session, bool recovering, bool *restored, hs_error *err)
{
    const hs__acceptance others = {restore_followers, session};
    char *path = NULL;
    const hs_restore_policy policy = recovering ? HS_RESTORE_IF_PRESENT : session->creation.restore;
    hs_code code = HS_OK;
    if (!(recovering && restores_from_copy(session)))
        code = hs__startup_restore(session, policy, &others, &path, err);
    *restored = path != NULL;
    hs__free(&session->env, path);
    return *restored ? code : hs__send_path(session, code, "", err);
}

static hs_code restore_follower(struct hs_session *session, bool *restored, hs_error *err)
{
    char path[HS__PATH_SIZE];
    bool damaged;
    for (;;) {
        hs_error why = {0};
        hs_code code = hs__receive_path(session, path, err);
        *restored = path[0];
        if (code || !*restored)
            return code;
        code = hs__startup_restore_path(session, path, NULL, &damaged, &why);
        damaged = hs__is_damage_for_all(damaged, &why);
        if (code)
            hs_log(&session->env, HS_LOG_WARNING, "cannot restore '%s': %s", path, why.message);
        hs__error_copy(err, &why);
        if ((code = agree_on_restore(session, code, &damaged, err)) || !damaged)
            return code;
    }
}

static hs_code initialize_rank(struct hs_session *session, bool recovering, hs_error *err)
{
    hs_code code = recovering ? reinitialize(session, err) : hs__startup_initialize(session, err);
    bool has_copy = recovering && session->recovery.initial; /* of the same values on all ranks that have one */
    if ((code = hs__agree_on_part(session, has_copy ? 0 : HS__WORD_YES, code, err)))
        return code;
    return session->agreement.word & HS__WORD_YES ? hs__send_variables(session, err) : HS_OK;
}

static hs_code restore_group(struct hs_session *session, bool recovering, hs_error *err)
{
    bool restored = false;
    hs_code code = hs__open_raw(session, err);
    if (!(code = hs__agree_on_part(session, 0, code, err)))
        code = hs__is_chief(session) ? restore_chief(session, recovering, &restored, err)
                                     : restore_follower(session, &restored, err);
    if (!(code = hs__agree_on_part(session, 0, code, err)) && !restored)
        code = initialize_rank(session, recovering, err);
    return code ? code : hs__startup_finish(session, err);
}

static hs_code restore_or_initialize(struct hs_session *session, bool recovering, hs_error *err)
{
    if (hs__is_replica(session))
        return restore_group(session, recovering, err);
    if (session->creation.is_worker)
        return hs__startup_wait(session, err);
    const hs_restore_policy policy = recovering ? HS_RESTORE_IF_PRESENT : session->creation.restore;
    char *path = NULL;
    hs_code code = hs__open_raw(session, err);
    if (!code && !(recovering && restores_from_copy(session)))
        code = hs__startup_restore(session, policy, NULL, &path, err);
    if (!code && !path)
        code = recovering ? reinitialize(session, err) : hs__startup_initialize(session, err);
    hs__free(&session->env, path);
    return code ? code : hs__startup_finish(session, err);
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

/* The ranks of a group agree whether a hook of one of them has reported that the training is complete. */
static hs_code agree_on_created(struct hs_session *session, hs_code code, bool *done, hs_error *err)
{
    code = hs__agree_on_part(session, *done ? HS__WORD_ALREADY_DONE : 0, code, err);
    if (code || !(session->agreement.word & HS__WORD_ALREADY_DONE))
        return code;
    *done = true;
    return hs_coordinator_request_stop(session->coordinator, NULL);
}

hs_code hs__create(struct hs_session *session, bool recovering, bool *done, hs_error *err)
{
    const bool in_group = hs__is_replica(session);
    session->agreement.input_ended = false; /* a restore may return to an earlier position */
    hs__schedule_restart(session);
    if (in_group)
        hs__restart_agreements(session);
    hs_code code = session->attempts.n++ ? replace_coordinator(session, err) : HS_OK;
    if (in_group)
        code = hs__agree_on_part(session, 0, code, err);
    if (!code && !(code = restore_or_initialize(session, recovering, err))) {
        hs__session_forget_values(session); /* ops that initialize may have written some */
        if (!(code = start_queues(session, err)))
            code = call_after_create(session, done, err);
    }
    if (in_group)
        code = agree_on_created(session, code, done, err);
    if (!code)
        code = hs__call_boundaries(session, HS_BOUNDARY_CREATED, err);
    hs__set_current_hook(session, NULL);
    return in_group ? hs__agree_on_part(session, 0, code, err) : code;
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
    return code && !hs__is_preemption(code) ? hs__error_copy(err, &threads) : HS_OK;
}
