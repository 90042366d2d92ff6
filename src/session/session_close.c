/* SPDX-License-Identifier: Apache-2.0 */
/* Closing a session. hs_session_close decides which error counts (which_error) and calls the hooks' `end`. hs__close_all
 * then ends everything that was opened, in any state: threads, the hooks' `close`, the backend, memory. */
#include "session/session.h"

#include "checkpoint/stored_states.h"
#include "threads/coordinator.h"

#include <stdio.h>
#include <string.h>

/* The ranks of a group agree on the failures of `end`. Then the last boundary comes, in which the state may be saved. */
static void agree_on_ends(hs_session *session, hs_error *first)
{
    hs_error error = *first;
    bool known = session->stop_boundary.error.code || hs__is_clean(first->code);
    if (hs__agree_on_part(session, 0, known ? HS_OK : first->code, &error))
        *first = error;
}

static void call_last_boundaries(hs_session *session, hs_boundary which, hs_error *first)
{
    const hs__agreement before = session->agreement;
    hs_error error = {0};
    if (hs__is_in_group(session))
        hs__forget_agreed_failure(session);
    if (hs__call_boundaries(session, which, &error)) {
        if (first->code)
            hs_log(&session->env, HS_LOG_ERROR, "%s", error.message);
        else
            *first = error;
    }
    if (!before.settled || session->agreement.broken)
        return;
    session->agreement.settled = true;
    session->agreement.failure = before.failure;
    session->agreement.cause_rank = before.cause_rank;
}

/* The ranks agree on the failures of the boundaries and on the step that the chief has saved. A rank whose boundary fails
 * makes this agreement while others are still in their boundaries, so it is repeated until all ranks have made it.
 * Boundaries of a stop also end if a rank closes its session instead, because its step has failed. */
static void agree_on_boundaries(hs_session *session, uint64_t word, hs_error *error)
{
    hs__agreement *agreement = &session->agreement;
    /* The other ranks know the failure: it is agreed, or was reported after the boundaries of the stop. */
    bool known = agreement->settled || session->stop_boundary.error.code;
    bool waits = true;
    if (agreement->settled &&
        !hs__is_clean(agreement->failure.code)) /* a failure of this rank came later, or is a consequence */
        *error = agreement->failure;
    while (waits) {
        hs__forget_agreed_failure(session);
        hs_code code = hs__agree_on_boundaries(session, word, known ? HS_OK : error->code, error);
        if (code)
            error->code = code;
        known |= code != HS_OK;
        bool another_closes = !(word & HS__WORD_CLOSING) && agreement->word & HS__WORD_CLOSING;
        waits = !agreement->all_ended && !agreement->broken && !another_closes;
    }
}

void hs__call_stop_boundaries(hs_session *session, hs_error *first)
{
    if (hs__is_in_group(session))
        hs__forget_agreed_failure(session);
    session->level = 1; /* raw runs of hooks leave the values of the caller's run valid */
    call_last_boundaries(session, HS_BOUNDARY_STOP, first);
    session->level = 0;
    if (!hs__is_in_group(session))
        return;
    agree_on_boundaries(session, 0, first);
    if (hs__is_clean(first->code)) /* another rank has closed its session */
        hs_error_clear(first);
    hs__forget_agreed_failure(session);
}

static void call_end_callbacks(hs_session *session, hs_error *first)
{
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook *hook = &session->hooks[i];
        hs_error error = {0};
        hs__set_current_hook(session, hook);
        session->callee = hook;
        const char *callback = "after_run";
        hs_code code = hs__act_last(session, hook, &error);
        if (!code || code == HS_STOP) {
            callback = "end";
            code = hook->cold->ops.end && hook->kinds ? hook->cold->ops.end(hook->self, &session->raw, &error) : HS_OK;
        }
        if (!code || code == HS_STOP) /* the session is already stopping */
            continue;
        if (!(code = hs__hook_failed(session, hook, callback, code, &error)))
            continue;
        if (hs__is_in_group(session)) /* other ranks may wait in an agreement of the same hook */
            hs__agree_on_part(session, 0, code, &error);
        if (first->code)
            hs_log(&session->env, HS_LOG_ERROR, "%s", error.message);
        else
            *first = error;
    }
    session->callee = NULL;
    if (hs__is_in_group(session))
        agree_on_ends(session, first);
    call_last_boundaries(session, HS_BOUNDARY_END, first);
}

/* After a failure, `end` is not called, in which hooks wait for their saves. */
static void end_pending_saves(hs_session *session)
{
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__pending_save *pending = session->hooks[i].cold->pending_save;
        hs_save_result result;
        if (!pending)
            continue;
        hs_saver_wait(pending->saver);
        switch (hs__raw_session_poll_save(&session->raw, pending, &result)) {
        case HS__SAVE_PENDING:
            break;
        case HS__SAVE_RECORDED:
        case HS__SAVE_ABANDONED:
            hs_log(&session->env, HS_LOG_INFO, "step %lld: saved %s-%lld", (long long)result.step, pending->prefix,
                   (long long)result.step);
            break;
        case HS__SAVE_FAILED:
            hs_log(&session->env, HS_LOG_ERROR, "step %lld: not saved: %s", (long long)result.step, result.error.message);
            break;
        }
    }
}

static void call_close_callbacks(hs_session *session, const hs_outcome *outcome)
{
    for (size_t i = session->n_hooks; i-- > 0;)
        if (session->hooks[i].cold->begun && session->hooks[i].cold->ops.close) {
            hs__set_current_hook(session, &session->hooks[i]);
            session->callee = &session->hooks[i];
            session->hooks[i].cold->begun = false; /* only one close, also if it throws */
            session->hooks[i].cold->ops.close(session->hooks[i].self, outcome);
        }
    hs__set_current_hook(session, NULL);
    session->callee = NULL;
}

static hs_reason end_reason(const hs_session *session, hs_code last, const hs_error *error)
{
    if (error->code)
        return HS_REASON_FAILED;
    if (last == HS_OUT_OF_RANGE)
        return HS_REASON_END_OF_INPUT;
    if (session->already_done)
        return HS_REASON_ALREADY_DONE;
    return session->end.stops || last == HS_STOP ? HS_REASON_STOPPED : HS_REASON_CLOSED;
}

/* True if the session was stopped before the training was complete. */
static bool is_interrupted(const hs_session *session)
{
    const unsigned stops = session->end.stops;
    if (!stops || session->already_done || stops & HS__STOP_PROGRAM_DONE)
        return false;
    return stops & HS__STOP_HOOK ? !(stops & HS__STOP_HOOK_DONE) : stops & HS__STOP_OUTSIDE && !(stops & HS__STOP_STEP);
}

/* True if a second signal prevented the save of the last step, whatever ended the session. */
static bool is_unsaved_by_signal(const hs_session *session, const hs_outcome *outcome)
{
    return outcome->reason != HS_REASON_FAILED && outcome->reason != HS_REASON_ALREADY_DONE &&
           outcome->step != outcome->last_saved_step && hs__stops(session) & HS__STOP_UNSAVED;
}

/* Returns the step that hooks read, and saved, at the end. Other processes may have advanced it since. */
static int64_t outcome_step(hs_session *session)
{
    const hs_run_context *run = &session->context;
    bool hooks_read_it = session->life == HS__CLOSING && run->after && run->has_step[1] && run->moves == session->raw.moves;
    return hooks_read_it ? run->step[1] : hs_session_global_step(session, NULL);
}

/* A finished session needs no recovery. If threads or the closing backend report that it is lost, it does not fail. If the
 * loss prevents a save, the hook that saves fails. */
static bool is_late_loss(const hs_session *session, hs_code code)
{
    return session->end.finished && hs__is_loss(code);
}

static void log_late_loss(const hs_session *session, const hs_error *error)
{
    hs_log(&session->env, HS_LOG_WARNING, "session lost after training ended: %s", error->message);
}

static void join_threads(hs_session *session, hs_error *first)
{
    hs_error error;
    hs__stop_threads(session);
    if (is_late_loss(session, hs_coordinator_error(session->coordinator, &error)))
        log_late_loss(session, &error);
    else if (!first->code)
        hs__error_copy(first, &error);
}

static void close_backend(hs_session *session, hs_error *first)
{
    hs_error error = {0};
    hs_code code = hs__close_raw(session, &error);
    if (is_late_loss(session, code))
        log_late_loss(session, &error);
    else if (code && !first->code)
        *first = error;
}

static hs_outcome make_outcome(hs_session *session, hs_code last, const hs_error *error)
{
    hs_outcome outcome = {.reason = end_reason(session, last, error),
                          .step = outcome_step(session),
                          .last_saved_step = session->raw.saved_step,
                          .rank = session->raw.rank,
                          .cause_rank = error->code ? session->agreement.cause_rank : -1};
    hs__count_failures(session, &outcome);
    bool unsaved_by_signal = is_unsaved_by_signal(session, &outcome);
    if (unsaved_by_signal)
        outcome.reason = HS_REASON_STOPPED;
    bool may_be_interrupted = outcome.reason == HS_REASON_STOPPED ||
                              (outcome.reason == HS_REASON_FAILED && (hs__is_clean(last) || session->recovery.cut_short));
    may_be_interrupted &= !session->agreement.broken; /* only some of the other ranks may know of the stop */
    outcome.interrupted = unsaved_by_signal || (may_be_interrupted && is_interrupted(session));
    outcome.signal = outcome.interrupted && (unsaved_by_signal || session->end.stops & HS__STOP_OUTSIDE)
                         ? hs__signals_first(session)
                         : 0;
    const char *hook = outcome.reason == HS_REASON_FAILED ? session->failed_hook : session->stop_hook;
    memcpy(outcome.hook, hook, strlen(hook) + 1);
    outcome.error = *error;
    return outcome;
}

void hs__session_free(hs_session *session)
{
    hs_env env = session->env;
    if (session->owns_scaffold)
        hs_scaffold_free(session->scaffold);
    hs__raw_session_free(&session->raw);
    hs__states_free(&session->raw.unclaimed, &env);
    hs__metrics_free(session);
    hs__requests_free(&session->requests);
    hs__free(&session->env, session->common_fetches.items);
    hs__run_plan_free(&session->plans[0]);
    hs__run_plan_free(&session->plans[1]);
    hs_coordinator_free(session->coordinator);
    hs__attempts_free(session);
    hs__last_good_free(session);
    hs__failures_free(session);
    hs__callback_timing_free(session);
    hs__free(&env, session->creation.checkpoint_dir);
    hs__free(&env, session->creation.checkpoint_prefix);
    hs__free(&env, session->creation.summary_dir);
    hs__schedule_free(session);
    hs__free(&env, session->hooks);
    hs__free(&env, session->cold);
    hs__free(&env, session->given_hooks);
    hs__free(&env, session->target);
    hs__free(&env, (void *)session->config.data);
    hs__free(&env, session);
}

/* The outcome of a call that closes nothing. */
static hs_outcome refuse_close(const hs_error *error)
{
    return (hs_outcome){.reason = HS_REASON_FAILED, .step = -1, .last_saved_step = -1, .cause_rank = -1, .error = *error};
}

hs_outcome hs__close_all(hs_session *session, hs_code last, hs_error *error)
{
    hs_error late = {0};
    if (hs__is_inherited(session->generation)) { /* a callback of the opening has forked */
        hs__refuse_inherited("session", error);
        return refuse_close(error);
    }
    if (hs__writer_cache_flush(&session->writers, &late) && !error->code)
        *error = late;
    hs__enter(session, HS_PHASE_END);
    join_threads(session, error);
    end_pending_saves(session);
    if (hs__is_in_group(session) && session->life == HS__CLOSING) {
        agree_on_boundaries(session, HS__WORD_CLOSING, error);
        hs__agree_on_last_call(session, error);
    }
    hs_outcome outcome = make_outcome(session, last, error);
    outcome.opening = session->life != HS__CLOSING;
    if (hs__is_in_group(session))
        hs__refuse_abandon(session);
    call_close_callbacks(session, &outcome);
    if (hs__writer_cache_close(&session->writers, &late) && !error->code)
        *error = late;
    hs__count_failures(session, &outcome);
    hs__log_failures(session);
    close_backend(session, error);
    if (session->finalized_graph)
        session->raw.ops.finalize(session->raw.backend.self, false, NULL);
    hs_hooks_free(session->given_hooks);
    hs__signals_end(session);
    if (hs__is_in_group(session))
        hs__group_report_exit(&session->agreement.ranks.group, error);
    hs__session_free(session);
    if (error->code && !outcome.error.code) {
        outcome.reason = HS_REASON_FAILED;
        outcome.error = *error;
        outcome.hook[0] = '\0'; /* this hook requested the stop, but did not fail */
    }
    return outcome;
}

/* For callers without `err`. A hook's error already contains the step. */
static void log_failure(const hs_env *env, const hs_outcome *outcome)
{
    char at[48] = "";
    if (outcome->step >= 0 && !outcome->hook[0])
        snprintf(at, sizeof at, "step %lld: ", (long long)outcome->step);
    hs_log(env, HS_LOG_ERROR, "%ssession failed: %s", at, outcome->error.message);
}

/* Logs where the training continues when the program is started again. */
static void log_interruption(const hs_env *env, const hs_outcome *outcome)
{
    if (outcome->last_saved_step < 0)
        return;
    if (outcome->last_saved_step == outcome->step)
        hs_log(env, HS_LOG_INFO, "saved step %lld; start again to continue", (long long)outcome->step);
    else
        hs_log(env, HS_LOG_WARNING, "step %lld is not saved; start again to continue from step %lld",
               (long long)outcome->step, (long long)outcome->last_saved_step);
}

/* How a session has ended when hs_session_close begins. */
typedef struct {
    hs_code last;    /* result of the last run, or what counts instead. A failure: the hooks' `end` is not called */
    hs_error error;  /* HS_OK: none yet */
    bool is_by_hook; /* session->failed_hook has failed; otherwise the outcome names no hook */
    bool finished;   /* hs_session.end.finished */
} ending;

/* Decides which of several errors counts: that of the first row that is true.
 *
 *   what has happened                                             error            failed hook
 *   a thread failed, then the last run, or the program failed     the thread's     none
 *   the program failed: it passed a failure to hs_session_fail    the program's    none
 *   the last run failed                                           the run's        session->failed_hook
 *   a thread failed; but a loss does not fail a finished session  the thread's     none
 *   the boundaries of the stop failed                             the boundary's   session->failed_hook
 *
 * If the loop stopped before it repeated a call (HS_ABORTED), the last run has not failed. */
static ending which_error(const hs_session *session)
{
    const unsigned ends = HS__STOP_HOOK | HS__STOP_STEP | HS__STOP_OUTSIDE;
    const hs_error *program = &session->fail, *boundary = &session->stop_boundary.error;
    const bool awaits_repeat = session->repeat_call && hs_session_should_stop(session);
    const hs_code run = awaits_repeat ? HS_OK : session->last.code;
    const bool by_program = program->code && (!hs__is_clean(program->code) || hs__is_clean(run));
    ending end = {.last = by_program ? program->code : run};
    hs_error thread;
    hs_coordinator_error(session->coordinator, &thread);
    const bool is_lost = hs__is_loss(thread.code);
    end.finished = !is_lost || hs__may_recover(session) || session->already_done || end.last == HS_OUT_OF_RANGE ||
                   end.last == HS_STOP || hs__stop_causes(session) & ends;
    if (!hs__is_clean(end.last)) {
        if (thread.code && session->threads_failed_first) {
            end.last = thread.code;
            end.error = thread;
        } else {
            end.error = by_program ? *program : session->last;
            end.is_by_hook = !by_program;
        }
    } else if (thread.code && !(is_lost && end.finished)) {
        end.error = thread;
    } else {
        end.error = *boundary;
        end.is_by_hook = boundary->code != HS_OK;
    }
    return end;
}

void hs_session_fail(hs_session *session, const hs_error *why)
{
    const hs_code code = why ? why->code : HS_UNKNOWN;
    if (!session)
        return;
    hs_error_set(&session->fail, code, "%s", !code ? "" : why && why->message[0] ? why->message : "the caller gave up");
    session->fail.os_error = why ? why->os_error : 0;
    if (hs__is_clean(session->last.code)) /* a failed run has recorded it */
        session->threads_failed_first = !hs__is_clean(code) && hs_coordinator_error(session->coordinator, NULL) != HS_OK;
}

/* All ranks of a group end for the same reason, which replaces that of this rank. */
static void agree_to_close(hs_session *session)
{
    const hs__agreement *agreement = &session->agreement;
    const unsigned stops = hs__stops(session);
    ending own = which_error(session);
    hs_error error = {0};
    if (!hs__is_clean(own.last)) {
        error = own.error;
        if (!own.is_by_hook) /* the other ranks are told the hook, too */
            session->failed_hook[0] = '\0';
    } else if (agreement->settled && !hs__is_clean(agreement->failure.code)) {
        error = agreement->failure; /* of the gate of a step that the program has left */
        own.last = error.code;
    } else if (own.last == HS_STOP && stops & HS__STOP_CLOSED && !(stops & HS__STOP_STEP)) {
        own.last = HS_OK; /* at the gate: another rank has closed its session */
    }
    const hs_code agreed = hs__agree_to_close(session, own.last, &error);
    if (hs__is_clean(agreed))
        hs__forget_agreed_failure(session);
    session->last = error;
    session->last.code = agreed;
    session->fail.code = HS_OK;
    session->repeat_call = session->threads_failed_first = false;
}

hs_outcome hs_session_close(hs_session *session, hs_error *err)
{
    if (!session) {
        hs_outcome outcome = hs_outcome_from_error(err);
        hs__error_copy(err, &outcome.error);
        return outcome;
    }
    hs_error error = {0};
    if (hs__is_inherited(session->generation)) {
        hs__refuse_inherited("session", &error);
        hs__error_copy(err, &error);
        return refuse_close(&error);
    }
    if (session->life == HS__IN_OWN_STEP && !session->in_backend)
        hs__discard_own_step(session);
    if (session->level || session->in_backend || session->life != HS__READY) {
        hs_error_set(&error, HS_FAILED_PRECONDITION, "a session cannot be closed from its own callbacks");
        hs__error_copy(err, &error);
        return refuse_close(&error);
    }
    hs__session_closed(session);
    atomic_store(&session->signals.next_step, 0);
    HS__CALL(call, session);
    hs__check_own_step(session);
    session->life = HS__CLOSING;
    hs__enter(session, HS_PHASE_END);
    if (hs__is_in_group(session))
        agree_to_close(session);
    ending end = which_error(session);
    const bool by_no_hook = end.error.code && !end.is_by_hook;
    session->end.stops = hs__stop_causes(session) & ~(unsigned)HS__STOP_CLOSED; /* no cause: the program ends the loop */
    session->end.finished = end.finished;
    if (!end.is_by_hook) /* a later run succeeded, or the error is not a hook's */
        session->failed_hook[0] = '\0';
    if (hs__is_clean(end.last)) {
        if (!session->stop_boundary.reached)
            hs__log_stop_signal(session, session->end.stops);
        call_end_callbacks(session, &end.error);
        if (by_no_hook)
            session->failed_hook[0] = '\0';
    }
    hs__log_costs(session);
    hs_env env = session->env;
    hs_outcome outcome = hs__close_all(session, end.last, &end.error);
    call = NULL; /* the session is freed */
    if (outcome.reason != HS_REASON_FAILED && outcome.interrupted)
        log_interruption(&env, &outcome);
    if (outcome.reason == HS_REASON_FAILED && !err)
        log_failure(&env, &outcome);
    hs__error_copy(err, &outcome.error);
    return outcome;
}
