/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery: hs__recover creates a lost session again, with a backoff between attempts; hs__create_with_retries does so at
 * the opening. The state to which it returns is the last good one (last_good.h). */
#include "session/session.h"

#include "base/backoff.h"
#include "base/error.h"
#include "threads/coordinator.h"

#include <stdio.h>
#include <string.h>

hs_code hs__recovery_copy_options(struct hs_session *session, const hs_recovery *given, hs_error *err)
{
    hs_recovery *to = &session->recovery.options;
    *to = (hs_recovery)HS_INIT(hs_recovery, .max_attempts = HS_NEVER);
    hs_code code = given ? HS_STRUCT_TAKE(hs_recovery, reserved, to, given, err) : HS_OK;
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
    return hs__may_recover(session) && hs__is_loss(hs_coordinator_error(session->coordinator, why)) &&
           !hs_coordinator_clean_stop(session->coordinator);
}

hs_code hs__find_cause(const struct hs_session *session, hs_code code, hs_error *error)
{
    hs_error thread_error;
    if (!code || session->agreement.settled || !hs_coordinator_error(session->coordinator, &thread_error))
        return code;
    bool thread_lost = hs__is_loss(thread_error.code), run_lost = hs__is_loss(code);
    if (thread_lost == run_lost || (thread_lost && !hs__threads_are_lost(session, NULL)))
        return code;
    *error = thread_error;
    return thread_error.code;
}

int64_t hs_session_recoveries(const hs_session *session)
{
    return session ? session->recovery.completed : 0;
}

/* Recovering. */

/* Recreates the session after the failure *err. Retries until the session is no longer lost. `recovering`: it had been
 * open. *done as of hs__create. */
static hs_code recreate_with_retries(struct hs_session *session, bool recovering, bool *done, hs_error *err)
{
    const char *what = recovering ? "session lost; recovering" : "session not opened; retrying";
    const hs_recovery *options = &session->recovery.options;
    const double max_secs = options->backoff_secs > 60 ? options->backoff_secs : 60;
    hs_error last = *err;
    do {
        if (session->recovery.attempts == options->max_attempts) {
            hs_error_prefix(&last, "no progress after %lld recoveries", (long long)options->max_attempts);
            return hs__error_copy(err, &last);
        }
        session->recovery.attempts++;
        hs_log(&session->env, HS_LOG_WARNING, "%s, attempt %lld of %lld: %s: %s", what,
               (long long)session->recovery.attempts, (long long)options->max_attempts, hs_code_name(last.code),
               last.message);
        bool stopped = false;
        if (session->recovery.attempts > 1) { /* the first attempt does not wait */
            hs__pause(session, hs__backoff_secs(options->backoff_secs, max_secs, session->recovery.attempts - 1));
            stopped = hs__stop_requested(session);
        }
        if (hs__is_in_group(session)) {
            hs_error error = {0};
            hs__forget_agreed_failure(session); /* so that the message is sent */
            if (!hs__is_clean(hs__agree_on_part(session, stopped ? HS__WORD_YES : 0, HS_OK, &error)))
                return hs__error_copy(err, &error);
            stopped = session->agreement.word & HS__WORD_YES; /* on any rank */
            hs__forget_agreed_failure(session);
            if (session->agreement.word & HS__WORD_CLOSING) { /* ranks count their attempts: one may give up earlier */
                hs__error_copy(err, &last);
                hs_error_prefix(err, "another rank closed its session before the recovery");
                return last.code;
            }
        }
        if (stopped) {
            session->recovery.cut_short = true;
            hs__error_copy(err, &last);
            hs_error_prefix(err, "a stop was requested before the next attempt to recover");
            return last.code;
        }
        hs__clear(&last);
        hs_code code = hs__discard_raw(session, &last);
        if (code) /* the other ranks are in hs__create */
            code = hs__agree_on_part(session, 0, code, &last);
        if (!code)
            code = hs__create(session, recovering, done, &last);
        last.code = code;
    } while (hs__is_loss(last.code) && !session->agreement.broken);
    if (last.code) {
        hs__error_copy(err, &last);
        hs_error_prefix(err, "cannot recover");
    } else {
        session->failed_hook[0] = '\0';
    }
    return last.code;
}

hs_code hs__create_with_retries(struct hs_session *session, hs_error *err)
{
    bool *done = &session->already_done;
    hs_code code = hs__create(session, false, done, err);
    if (hs__is_loss(code) && hs__may_recover(session) && !session->agreement.broken) {
        err->code = code;
        code = recreate_with_retries(session, false, done, err);
    }
    session->recovery.attempts = 0;
    if (!code && (code = hs__last_good_copy_state(session, err)))
        hs__agree_on_part(session, 0, code, err); /* the other ranks learn of it in their next message */
    return code;
}

static void log_recovery(struct hs_session *session, int64_t lost_step)
{
    char before[48] = ""; /* a lost backend may not know its step */
    if (lost_step >= 0)
        snprintf(before, sizeof before, " from a failure at step %lld", (long long)lost_step);
    hs_log(&session->env, HS_LOG_INFO, "step %lld: recovered%s%s", (long long)hs_session_global_step(session, NULL), before,
           session->raw.restored_from    ? "" /* the restore has logged the checkpoint */
           : session->last_good.copy     ? ", with a copy of the initial state"
           : session->creation.is_worker ? ", with the chief's state"
                                         : ", initialized again");
}

HS__COLD hs__recovery_end hs__recover(struct hs_session *session, bool caller_repeats, hs_code *code, hs_error *err)
{
    *code = hs__find_cause(session, *code, err);
    if (!hs__is_loss(*code) || !hs__may_recover(session) || session->life == HS__IN_STEP_FUNCTION)
        return HS__NOT_RECOVERED;
    if (hs__is_in_group(session)) { /* all ranks recover, or none */
        *code = hs__agree_on_part(session, 0, *code, err);
        if (!hs__is_loss(*code))
            return HS__NOT_RECOVERED;
        if (session->agreement.broken || session->agreement.word & HS__WORD_CLOSING) { /* a rank that closes does not */
            hs__add_stops(session, HS__STOP_LOST);
            return HS__NOT_RECOVERED;
        }
    }

    int64_t step = hs_session_global_step(session, NULL), saved = session->raw.saved_step;
    int64_t lost_step = step > saved ? step : saved; /* a lost backend may not know its step */
    if (lost_step > session->recovery.furthest) {
        session->recovery.furthest = lost_step;
        session->recovery.attempts = 0;
    }
    bool done = false;
    err->code = *code;
    session->life = HS__CREATING;
    hs__enter(session, HS_PHASE_INIT);
    *code = recreate_with_retries(session, true, &done, err);
    hs__enter(session, HS_PHASE_DATA);
    session->life = HS__READY;
    if (*code) {
        hs__add_stops(session, HS__STOP_LOST);
        return HS__NOT_RECOVERED;
    }
    session->recovery.completed++;
    session->agreement.cause_rank = -1;
    log_recovery(session, lost_step);

    step = hs_session_global_step(session, NULL);
    if (done) { /* the interrupted call had completed the training */
        *code = hs_error_set(err, HS_STOP, "the session was lost and restored at step %lld, where training is already done",
                             (long long)step);
        return HS__RECOVERED_DONE;
    }
    if (caller_repeats) {
        session->repeat_call = true;
        *code = hs_error_set(err, HS_ABORTED,
                             "the session was lost and restored at step %lld; prepare the input of this call again, and "
                             "repeat the call",
                             (long long)step);
        return HS__RECOVERED_REPEAT;
    }
    hs__clear(err);
    return HS__RECOVERED;
}
