/* SPDX-License-Identifier: Apache-2.0 */
/* A session that is lost is made anew. */
#include "session/session.h"

#include "base/backoff.h"
#include "threads/coordinator.h"

#include <stdio.h>
#include <string.h>

hs_code hs__take_recovery(hs_recovery *to, const hs_recovery *given, hs_error *err)
{
    *to = (hs_recovery)HS_INIT(hs_recovery, .max_attempts = HS_NEVER);
    if (!given)
        return HS_OK;
    hs_code code = HS_STRUCT_TAKE(hs_recovery, reserved, to, given, err);
    if (code)
        return code;
    if (to->max_attempts < HS_NEVER || to->snapshot_limit < HS_NEVER || !(to->backoff_secs >= 0 && to->backoff_secs < 1e9))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_recovery: max_attempts is %lld, snapshot_limit is %lld and backoff_secs is %g; all must be "
                            "at least 0, the first two also HS_NEVER",
                            (long long)to->max_attempts, (long long)to->snapshot_limit, to->backoff_secs);
    if (to->max_attempts == 0)
        to->max_attempts = 10;
    if (to->backoff_secs == 0)
        to->backoff_secs = 1;
    if (to->snapshot_limit == 0)
        to->snapshot_limit = (int64_t)1 << 30;
    return HS_OK;
}

bool hs__threads_are_lost(const struct hs_session *session, hs_error *why)
{
    return session->recovery.max_attempts > 0 && hs__is_preemption(hs_coordinator_error(session->coordinator, why)) &&
           !hs__coordinator_asked(session->coordinator);
}

/* The copy that is taken at the opening. */

static bool within_limit(const struct hs_session *session)
{
    hs_variable variable;
    int64_t bytes = 0, limit = session->recovery.snapshot_limit;
    for (size_t i = 0; limit != HS_NEVER && hs_backend_variable(session->raw.backend, i, &variable); i++) {
        int64_t elements = hs_shape_elements(&variable.shape), size = (int64_t)hs_dtype_size(variable.dtype);
        if (variable.flags & HS_VARIABLE_LOCAL || elements <= 0 || size == 0)
            continue;
        if (elements > (limit - bytes) / size)
            return false;
        bytes += elements * size;
    }
    return true;
}

bool hs__leaves_out(const hs_restore_options *options)
{
    return (options->skip && *options->skip) || options->allow_missing;
}

static char *newest_checkpoint(const struct hs_session *session)
{
    const char *directory = session->creation.checkpoint_dir;
    return directory ? hs_checkpoint_latest(&session->env, directory, NULL, NULL) : NULL;
}

/* Would a recovery restore all that there is now from checkpoint_dir? An init function may have restored another one, hooks
 * may have saved elsewhere, and nothing keeps the one of checkpoint_prefix from being deleted. */
static bool is_in_checkpoint(const struct hs_session *session)
{
    if ((!session->raw.restored_from && session->raw.saved_step < 0) || hs__leaves_out(&session->creation.restore_options))
        return false;
    char *newest = newest_checkpoint(session);
    hs_env_free(&session->env, newest);
    return newest != NULL;
}

static void copy_opening(struct hs_session *session)
{
    hs_raw_session *raw = &session->raw;
    hs_error error = {0};
    if (session->recovery.max_attempts < 0 || session->creation.is_worker || !raw->ops.read_variable ||
        !raw->ops.write_variable || is_in_checkpoint(session))
        return;
    if (!within_limit(session))
        hs_log(&session->env, HS_LOG_WARNING,
               "the initial state is larger than hs_recovery.snapshot_limit (%lld bytes) and is not copied; recovery is "
               "impossible until a checkpoint is saved",
               (long long)session->recovery.snapshot_limit);
    else if (hs_raw_session_copy_state(raw, &session->opening, &error))
        hs_log(&session->env, HS_LOG_WARNING,
               "cannot copy the initial state; recovery is impossible until a checkpoint is saved: %s", error.message);
}

void hs__forget_opening(struct hs_session *session)
{
    hs_restore_options *options = &session->creation.restore_options;
    const char *from = session->raw.restored_from;
    char *newest = session->opening || hs__leaves_out(options) ? newest_checkpoint(session) : NULL;
    bool is_new = newest && !(from && strcmp(newest, from) == 0);
    hs_env_free(&session->env, newest);
    if (!is_new)
        return;
    hs_state_copy_free(session->opening);
    session->opening = NULL;
    options->skip = NULL; /* what this session has saved is whole, and has its own names */
    options->names = NULL;
    options->allow_missing = false;
}

/* Recovering. */

bool hs__one_more(const hs_recovery *recovery, int64_t *attempts, const hs_env *env, const char *what, hs_error *error)
{
    if (*attempts == recovery->max_attempts) {
        hs_error_prefix(error, "no progress after %lld recoveries", (long long)recovery->max_attempts);
        return false;
    }
    ++*attempts;
    hs_log(env, HS_LOG_WARNING, "%s, attempt %lld of %lld: %s: %s", what, (long long)*attempts,
           (long long)recovery->max_attempts, hs_code_name(error->code), error->message);
    return true;
}

double hs__backoff(const hs_recovery *recovery, int64_t attempt)
{
    const double most = recovery->backoff_secs > 60 ? recovery->backoff_secs : 60;
    return attempt > 1 ? hs__backoff_secs(recovery->backoff_secs, most, attempt - 1) : 0;
}

static bool wait_before(struct hs_session *session, int64_t attempt)
{
    hs__pause(session, hs__backoff(&session->recovery, attempt));
    return attempt == 1 || !hs__stop_asked(session);
}

/* Makes attempts, after one that failed with `why`, until one succeeds or fails otherwise. */
static hs_code attempt(struct hs_session *session, bool again, const hs_error *why, hs_error *err)
{
    const char *what = again ? "session lost; recovering" : "session not opened; retrying";
    hs_error last = *why;
    do {
        if (!hs__one_more(&session->recovery, &session->attempts, &session->env, what, &last))
            return hs__error_copy(err, &last);
        if (!wait_before(session, session->attempts)) {
            session->cut_short = true;
            hs__error_copy(err, &last);
            hs_error_prefix(err, "a stop was requested before the next attempt to recover");
            return last.code;
        }
        hs__clear(&last);
        hs_code code = hs__discard(session, &last);
        if (!code)
            code = hs__create(session, again, &last);
        last.code = code;
    } while (hs__is_preemption(last.code));
    if (last.code) {
        hs__error_copy(err, &last);
        hs_error_prefix(err, "cannot recover");
    } else {
        session->failed_hook[0] = '\0';
    }
    return last.code;
}

hs_code hs__open_created(struct hs_session *session, hs_error *err)
{
    hs_code code = hs__create(session, false, err);
    if (hs__is_preemption(code) && session->recovery.max_attempts > 0) {
        hs_error why = *err;
        why.code = code;
        code = attempt(session, false, &why, err);
    }
    session->attempts = 0;
    if (!code)
        copy_opening(session);
    return code;
}

static void tell_recovery(struct hs_session *session, int64_t lost)
{
    char before[48] = ""; /* a lost backend may not know its step */
    if (lost >= 0)
        snprintf(before, sizeof before, " from a failure at step %lld", (long long)lost);
    hs_log(&session->env, HS_LOG_INFO, "step %lld: recovered%s%s", (long long)hs_session_global_step(session, NULL), before,
           session->raw.restored_from    ? "" /* the line of the restore names the checkpoint */
           : session->opening            ? ", with a copy of the initial state"
           : session->creation.is_worker ? ", with the chief's state"
                                         : ", initialized again");
}

hs_code hs__recover(struct hs_session *session, const hs_error *why, hs_error *err)
{
    hs_error cause = *why;
    int64_t step = hs_session_global_step(session, NULL), saved = session->raw.saved_step;
    int64_t reached = step > saved ? step : saved; /* what is lost may not tell its step any more */
    if (reached > session->furthest) {
        session->furthest = reached;
        session->attempts = 0;
    }
    session->life = HS__CREATING;
    hs__enter(session, HS_PHASE_INIT);
    hs_code code = attempt(session, true, &cause, err);
    hs__enter(session, HS_PHASE_DATA);
    session->life = HS__READY;
    if (code) {
        hs__add_stops(session, HS__STOP_LOST);
        return code;
    }
    session->recoveries++;
    atomic_store(&session->failed_ns, 0);
    tell_recovery(session, reached);
    hs__clear(err);
    return HS_OK;
}
