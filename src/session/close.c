/* SPDX-License-Identifier: Apache-2.0 */
/* Closing a session, from whatever state it is in. */
#include "session/session.h"

#include "checkpoint/stored_states.h"
#include "threads/coordinator.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void call_ends(hs_session *session, hs_error *first)
{
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook *hook = &session->hooks[i];
        hs_error error = {0};
        hs__does(session, hook);
        hs_code code = hook->rest->ops.end && hook->kinds ? hook->rest->ops.end(hook->self, &session->raw, &error) : HS_OK;
        if (!code || code == HS_STOP) /* there is nothing left to stop */
            continue;
        code = hs__hook_failed(session, hook, "end", code, &error);
        if (hook->rest->best_effort && !hs__mute(session, hook, "end", &error))
            continue;
        if (first->code)
            hs_log(&session->env, HS_LOG_ERROR, "%s", error.message);
        else
            *first = error;
    }
    hs_error error = {0};
    if (hs__call_boundaries(session, HS_BOUNDARY_END, &error)) {
        if (first->code)
            hs_log(&session->env, HS_LOG_ERROR, "%s", error.message);
        else
            *first = error;
    }
}

static void call_closes(hs_session *session, const hs_outcome *outcome)
{
    for (size_t i = session->n_hooks; i-- > 0;)
        if (session->hooks[i].rest->begun && session->hooks[i].rest->ops.close) {
            hs__does(session, &session->hooks[i]);
            session->hooks[i].rest->begun = false; /* once, also if it throws */
            session->hooks[i].rest->ops.close(session->hooks[i].self, outcome);
        }
    hs__does(session, NULL);
}

static hs_reason reason_of(const hs_session *session, hs_code last, const hs_error *error)
{
    if (error->code)
        return HS_REASON_FAILED;
    if (last == HS_OUT_OF_RANGE)
        return HS_REASON_END_OF_INPUT;
    if (session->already_done)
        return HS_REASON_ALREADY_DONE;
    return session->stops_at_end || last == HS_STOP ? HS_REASON_STOPPED : HS_REASON_CLOSED;
}

/* Was it stopped from outside, with nobody saying that it was done? */
static bool is_interrupted(const hs_session *session)
{
    const unsigned stops = session->stops_at_end;
    if (!stops || session->already_done || stops & HS__STOP_PROGRAM_DONE)
        return false;
    return stops & HS__STOP_HOOK ? !(stops & HS__STOP_HOOK_DONE) : stops & HS__STOP_OUTSIDE && !(stops & HS__STOP_STEP);
}

/* Has a second signal kept the last step from being saved, whatever the session was closed for? */
static bool is_cut_off(const hs_session *session, const hs_outcome *outcome)
{
    return outcome->reason != HS_REASON_FAILED && outcome->reason != HS_REASON_ALREADY_DONE &&
           outcome->step != outcome->last_saved_step &&
           hs__stops(session) & HS__STOP_UNSAVED;
}

/* What the training got over. */
static void count_failures(const hs_session *session, hs_outcome *outcome)
{
    outcome->failing_hooks = (int32_t)session->n_failures;
    outcome->failures = 0;
    for (size_t i = 0; i < session->n_failures; i++)
        outcome->failures += session->failures[i].failures;
}

/* At the end it is the step that the hooks have seen, and saved: in a cluster others may have gone on since. */
static int64_t step_of(hs_session *session)
{
    const hs_run_context *run = &session->context;
    bool seen = session->life == HS__CLOSING && run->after && run->has_step[1] && run->moves == session->raw.moves;
    return seen ? run->step[1] : hs_session_global_step(session, NULL);
}

/* Records why the session ends. A stop that is requested later is too late. */
static void note_end(hs_session *session, hs_code last)
{
    const unsigned ends = HS__STOP_HOOK | HS__STOP_STEP | HS__STOP_OUTSIDE;
    session->stops_at_end = hs__stop_causes(session);
    session->finished = session->stops_at_end & ends || session->already_done ||
                        last == HS_OUT_OF_RANGE || last == HS_STOP || session->recovery.max_attempts > 0 ||
                        !hs__is_preemption(hs_coordinator_error(session->coordinator, NULL));
}

/* A finished session needs no recovery: if threads or the closing backend report that it is lost, it has not failed. If
 * the loss keeps its state from being saved, the hook that saves fails. */
static bool is_late_loss(const hs_session *session, hs_code code)
{
    return session->finished && hs__is_preemption(code);
}

static void log_late_loss(const hs_session *session, const hs_error *error)
{
    hs_log(&session->env, HS_LOG_WARNING, "session lost after training ended: %s", error->message);
}

static void threads_error(const hs_session *session, hs_error *error)
{
    if (is_late_loss(session, hs_coordinator_error(session->coordinator, error)))
        hs__clear(error);
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
    hs_outcome outcome = {
        .reason = reason_of(session, last, error), .step = step_of(session), .last_saved_step = session->raw.saved_step};
    count_failures(session, &outcome);
    bool cut_off = is_cut_off(session, &outcome);
    if (cut_off)
        outcome.reason = HS_REASON_STOPPED;
    bool may_be = outcome.reason == HS_REASON_STOPPED ||
                  (outcome.reason == HS_REASON_FAILED && (hs__is_clean(last) || session->cut_short));
    outcome.interrupted = cut_off || (may_be && is_interrupted(session));
    outcome.signal = outcome.interrupted && (cut_off || session->stops_at_end & HS__STOP_OUTSIDE) ? atomic_load(&session->signal) : 0;
    const char *hook = outcome.reason == HS_REASON_FAILED ? session->failed_hook : session->stop_hook;
    memcpy(outcome.hook, hook, strlen(hook) + 1);
    outcome.error = *error;
    return outcome;
}

static void free_frames(hs_session *session)
{
    for (size_t i = 0; i < session->n_frames; i++) {
        hs__frame_free(session->frames[i]);
        hs__free(&session->env, session->frames[i]);
    }
    hs__free(&session->env, session->frames);
}

void hs__session_free(hs_session *session)
{
    hs_env env = session->env;
    if (session->owns_scaffold)
        hs_scaffold_free(session->scaffold);
    hs__raw_session_free(&session->raw);
    hs__states_free(&session->raw.unclaimed, &env);
    hs__free_metrics(session);
    hs__fragments_free(&session->fragments);
    free_frames(session);
    hs_coordinator_free(session->coordinator);
    for (size_t i = 0; i < session->n_retired; i++)
        hs_coordinator_free(session->retired[i]);
    hs__free(&env, session->retired);
    hs_state_copy_free(session->opening);
    hs__free(&env, session->failures);
    hs__free(&env, session->spans);
    hs__free(&env, session->creation.checkpoint_dir);
    hs__free(&env, session->creation.checkpoint_prefix);
    hs__free(&env, session->creation.summary_dir);
    hs__free(&env, session->hooks);
    hs__free(&env, session->rests);
    hs__free(&env, session->given_hooks);
    hs__free(&env, session->target);
    hs__free(&env, (void *)session->config.data);
    hs__free(&env, session);
}

hs_outcome hs__shut(hs_session *session, hs_code last, hs_error *error)
{
    hs_error late = {0};
    if (hs__writer_cache_flush(&session->writers, hs__report_writer, session, &late) && !error->code)
        *error = late;
    hs__enter(session, HS_PHASE_END);
    join_threads(session, error);
    hs_outcome outcome = make_outcome(session, last, error);
    call_closes(session, &outcome);
    if (hs__writer_cache_close(&session->writers, hs__report_writer, session, &late) && !error->code)
        *error = late;
    count_failures(session, &outcome);
    hs__tell_failures(session);
    close_backend(session, error);
    if (session->finalized_graph)
        session->raw.ops.finalize(session->raw.backend.self, false, NULL);
    hs_hooks_free(session->given_hooks);
    hs__signals_end(session);
    hs__session_free(session);
    if (error->code && !outcome.error.code) {
        outcome.reason = HS_REASON_FAILED;
        outcome.error = *error;
        outcome.hook[0] = '\0'; /* it may have stopped the session, but did not fail */
    }
    return outcome;
}

/* How the last run ended. The caller's own word counts, but for one that would make a failed run a good end. */
static hs_code last_code(const hs_session *session, bool *own)
{
    *own = session->fail.code && (!hs__is_clean(session->fail.code) || hs__is_clean(session->last.code));
    return *own ? session->fail.code : session->last.code;
}

hs_outcome hs_session_outcome(hs_session *session)
{
    bool own;
    hs_error error = {0};
    if (!session)
        return hs_outcome_from_error(NULL);
    hs_code last = last_code(session, &own);
    if (session->life != HS__CLOSING)
        note_end(session, last);
    if (!hs__is_clean(last))
        error = own ? session->fail : session->last;
    else
        threads_error(session, &error);
    return make_outcome(session, last, &error);
}

/* For a caller without `err`. A hook's error names its step. */
static void log_failure(const hs_env *env, const hs_outcome *outcome)
{
    char at[48] = "";
    if (outcome->step >= 0 && !outcome->hook[0])
        snprintf(at, sizeof at, "step %lld: ", (long long)outcome->step);
    hs_log(env, HS_LOG_ERROR, "%ssession failed: %s", at, outcome->error.message);
}

/* Once, when it is closed: a signal handler logs nothing. */
static void log_signal(const hs_session *session)
{
    int number = session->stops_at_end & HS__STOP_OUTSIDE ? atomic_load(&((hs_session *)session)->signal) : 0;
    if (number)
        hs_log(&session->env, HS_LOG_INFO, "%s: stopping after step %lld",
               number == SIGTERM  ? "SIGTERM"
               : number == SIGINT ? "SIGINT"
                                  : "signal",
               (long long)hs_session_global_step((hs_session *)session, NULL));
}

/* Where it continues if it is started again. */
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

hs_outcome hs_session_close(hs_session *session, hs_error *err)
{
    if (!session) {
        hs_outcome none = hs_outcome_from_error(err);
        hs__error_copy(err, &none.error);
        return none;
    }
    hs__notice_left_call(session, __builtin_frame_address(0));
    if (session->life == HS__IN_OWN_STEP && !session->in_backend)
        hs__leave_own_step(session);
    if (session->level || session->in_backend || session->life != HS__READY) {
        hs_outcome refused = {.reason = HS_REASON_FAILED, .step = -1, .last_saved_step = -1};
        hs_error_set(&refused.error, HS_FAILED_PRECONDITION,
                     "a session cannot be closed from its own callbacks; after a longjmp out of a callback, close it in "
                     "the function that called setjmp");
        hs__error_copy(err, &refused.error);
        return refused;
    }
    HS__CALL(call, session);
    hs__check_own_step(session);
    session->life = HS__CLOSING;
    hs__enter(session, HS_PHASE_END);
    if (session->restored && hs_session_should_stop(session))
        session->last.code = HS_OK; /* but for the stop, the call would be made again */
    bool own;
    hs_code last = last_code(session, &own);
    hs_error error = {0}, threads = {0};
    note_end(session, last);
    if (!hs__is_clean(last)) {
        hs_coordinator_error(session->coordinator, &threads);
        error = session->threads_failed_first ? threads : own ? session->fail : session->last;
        if (session->threads_failed_first || own)
            session->failed_hook[0] = '\0'; /* it is no hook's error */
    } else {
        log_signal(session);
        session->failed_hook[0] = '\0'; /* a good run has made up for it */
        threads_error(session, &threads);
        error = threads;
        call_ends(session, &error);
        if (threads.code)
            session->failed_hook[0] = '\0';
    }
    hs__tell_costs(session);
    hs_env env = session->env;
    hs_outcome outcome = hs__shut(session, last, &error);
    call = NULL; /* it is freed */
    if (outcome.reason != HS_REASON_FAILED && outcome.interrupted)
        log_interruption(&env, &outcome);
    if (outcome.reason == HS_REASON_FAILED && !err)
        log_failure(&env, &outcome);
    hs__error_copy(err, &outcome.error);
    return outcome;
}
