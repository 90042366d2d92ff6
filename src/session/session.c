/* SPDX-License-Identifier: Apache-2.0 */
/* What a session is asked between its opening and its closing. */
#include "session/session.h"

#include "base/cold.h"

#include <hooksess/tf1/session_manager.h>

void hs__call_abandoned(hs_session *session)
{
    session->call.floor = NULL;
    hs_raw_session_leave(&session->raw);
    session->level = 0;
    session->in_backend = false;
    session->life = HS__READY;
    hs_error_set(&session->last, HS_INTERNAL, "a callback threw an exception or called longjmp instead of returning");
    session->threads_failed_first = false;
    hs__add_stops(session, HS__STOP_FAILED);
    hs__stop_step(session);
    hs__enter(session, HS_PHASE_DATA);
}

/* `frame` is that of a later call. Stacks grow down. */
bool hs__check_abandoned_call(hs_session *session, const void *frame)
{
    bool left = session->call.floor && pthread_equal(session->call.thread, pthread_self()) &&
                (uintptr_t)frame >= (uintptr_t)session->call.floor;
    if (left)
        hs__call_abandoned(session);
    return left;
}

/* Why it may not be run. */
HS__COLD static hs_code refuse(hs_session *session, const void *frame, hs_error *err)
{
    if (session)
        hs__check_abandoned_call(session, frame);
    if (!session)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "session is NULL; it was not opened, or is already closed");
    if (session->life == HS__IN_OWN_STEP)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "a step is in progress; call hs_step_end first, or run the raw session");
    if (session->level || session->in_backend || session->life >= HS__CREATING)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "a session cannot run in its own callbacks; run its raw session");
    if (hs__stops(session) & HS__STOP_LOST)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the session was lost and could not be recovered; it cannot run any more "
                            "(hs_session_should_stop)");
    if (hs__stops(session) & HS__STOP_FAILED)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "an earlier step failed; the session cannot run any more (hs_session_should_stop)");
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "the session was asked to stop%s%s; it cannot run any more (hs_session_should_stop)",
                        session->stop_hook[0] ? " by hook " : "", session->stop_hook);
}

/* Every run passes here. In a step of the caller's own the level is that of callbacks. */
static inline hs_code check_runnable(hs_session *session, const void *frame, hs_error *err)
{
    const unsigned final = HS__STOP_LOST | HS__STOP_FAILED | HS__STOP_HOOK;
    bool busy = !session || session->level || session->in_backend | (session->life > HS__IN_STEP_FUNCTION) ||
                (session->life == HS__IN_STEP_FUNCTION && hs__check_abandoned_call(session, frame));
    return busy || hs__stops(session) & final ? refuse(session, frame, err) : HS_OK;
}

hs_code hs__check_runnable(hs_session *session, const void *frame, hs_error *err)
{
    return check_runnable(session, frame, err);
}

HS__COLD static hs_code failed(hs_session *session, hs_code code, const hs_error *error, hs_error *err)
{
    hs__set_input_ended(session, code == HS_OUT_OF_RANGE);
    if (code == HS_STOP)
        hs__stop_step(session);
    session->last = *error;
    session->last.code = code;
    session->threads_failed_first = !hs__is_clean(code) && hs_coordinator_error(session->coordinator, NULL) != HS_OK;
    return hs__error_copy(err, &session->last);
}

/* Keeps what the run came to. */
static inline hs_code ended(hs_session *session, hs_code code, const hs_error *error, hs_error *err)
{
    if (code)
        return failed(session, code, error, err);
    hs__set_input_ended(session, false);
    session->last.code = HS_OK;
    hs__clear(err);
    return HS_OK;
}

/* The error of a run that failed after a thread had failed. The thread's is the cause if only one of the two says that the
 * session is lost. */
static hs_code blame_threads(const hs_session *session, hs_code code, hs_error *error)
{
    hs_error threads;
    if (!code || !hs_coordinator_error(session->coordinator, &threads))
        return code;
    bool thread_lost = hs__is_preemption(threads.code), run_lost = hs__is_preemption(code);
    if (thread_lost == run_lost || (thread_lost && !hs__threads_are_lost(session, NULL)))
        return code;
    *error = threads;
    return threads.code;
}

/* Makes the session anew, if that is what there is to do about a failure; HS_OK: the call is to be made again, unless it is
 * the caller who makes it. */
static hs_code recover_for(hs_session *session, hs_code code, bool by_caller, hs_error *error)
{
    if (!hs__is_preemption(code) || !hs__recovers(session))
        return code;
    bool done_before = session->already_done;
    session->already_done = false;
    error->code = code;
    code = hs__recover(session, error, error);
    bool done = session->already_done;
    session->already_done = done_before;
    if (!code && done) /* the call that was interrupted had brought it there */
        return hs_error_set(error, HS_STOP,
                            "the session was lost and restored at step %lld, where training is already done",
                            (long long)hs_session_global_step(session, NULL));
    if (code || !by_caller)
        return code;
    session->repeat_call = true;
    return hs_error_set(error, HS_ABORTED,
                        "the session was lost and restored at step %lld; prepare the input of this call again, and repeat "
                        "the call",
                        (long long)hs_session_global_step(session, NULL));
}

static hs_code recover(hs_session *session, hs_code code, hs_error *error)
{
    return recover_for(session, code, session->recovery.options.return_aborted, error);
}

hs_code hs__recover_lost_own(hs_session *session, hs_code code, hs_error *error)
{
    return recover_for(session, blame_threads(session, code, error), true, error);
}

hs_code hs__recover_lost(hs_session *session, hs_error *error)
{
    hs_error threads;
    if (!hs__threads_are_lost(session, &threads))
        return HS_OK;
    *error = threads;
    return recover(session, threads.code, error);
}

static hs_code run_args(hs_session *session, const hs_run_args *args, const hs_run_values **values, hs_error *error)
{
    hs_code code = hs__recover_if_lost(session, error);
    while (!code) {
        session->failed_hook[0] = '\0';
        if (!(code = hs__run_hooked(session, args, values, error)) ||
            (code = recover(session, blame_threads(session, code, error), error)))
            break;
    }
    return code;
}

hs_code hs_session_run_args(hs_session *session, const hs_run_args *given, const hs_run_values **values, hs_error *err)
{
    static const hs_run_args nothing = HS_INIT(hs_run_args);
    hs_run_args copy;
    const hs_run_args *args;
    if (values)
        *values = NULL;
    hs_code code = check_runnable(session, __builtin_frame_address(0), err);
    if (code)
        return code;
    HS__CALL(call, session);
    hs_error *error = &session->last;
    hs__clear(error);
    hs__set_input_ended(session, false);
    session->failed_hook[0] = '\0';
    session->repeat_call = false;
    if (!(code = hs__copy_args(&copy, given ? given : &nothing, &args, error))) {
        if (args->kind < HS_RUN_TRAIN || args->kind > HS_RUN_AUX)
            code = hs_error_set(error, HS_INVALID_ARGUMENT, "hs_run_args.kind is %d, not an hs_run_kind", (int)args->kind);
        else
            code = run_args(session, args, values, error);
    }
    hs__call_end(&call);
    return ended(session, code, error, err);
}

HS__COLD static hs_code refuse_no_op(hs_session *session, const void *frame, hs_error *err)
{
    hs_error error;
    hs_code code = check_runnable(session, frame, err);
    if (code)
        return code;
    session->failed_hook[0] = '\0';
    session->repeat_call = false;
    return ended(session, hs_error_set(&error, HS_INVALID_ARGUMENT, "hs_session_run: op is NULL"), &error, err);
}

hs_code hs_session_run(hs_session *session, const char *op, hs_error *err)
{
    if (!op)
        return refuse_no_op(session, __builtin_frame_address(0), err);
    return hs_session_run_args(session, HS_RUN_ARGS(.names = HS_NAMES(op)), NULL, err);
}

struct hs_step_context {
    hs_session *session;
    bool stop;
};

hs_raw_session *hs_step_context_session(const hs_step_context *step)
{
    return step ? &step->session->raw : NULL;
}

hs_code hs_step_context_run_with_hooks(hs_step_context *step, const hs_run_args *args, const hs_run_values **values,
                                       hs_error *err)
{
    if (values)
        *values = NULL;
    if (step && hs__stops(step->session) &
                    HS__STOP_HOOK) /* a hook of an earlier run of this step asked for it: that is no mistake of its */
        return hs_error_set(err, HS_STOP, "the session was asked to stop by hook '%s'", step->session->stop_hook);
    return hs_session_run_args(step ? step->session : NULL, args, values, err);
}

hs_code hs_step_context_request_stop(hs_step_context *step)
{
    if (step)
        step->stop = true;
    return HS_STOP;
}

/* Calls a step function once. */
static hs_code call_step(hs_session *session, hs_session_run_step_fn step, void *user, hs_error *error)
{
    hs_step_context context = {.session = session};
    hs__life outer = session->life;
    hs__clear(error);
    session->life = HS__IN_STEP_FUNCTION;
    hs_code code = step(user, &context, error);
    session->life = outer;
    if (context.stop && !code)
        code = HS_STOP;
    if (code == HS_STOP) {
        hs__stop_step(session);
        hs_error_set(error, code, "the step function requested a stop");
    } else if (code && !error->message[0]) {
        hs_error_set(error, code, "the step function failed with %s", hs_code_name(code));
    }
    return blame_threads(session, code, error);
}

hs_code hs_session_run_step(hs_session *session, hs_session_run_step_fn step, void *user, hs_error *err)
{
    hs_code code = check_runnable(session, __builtin_frame_address(0), err);
    if (code)
        return code;
    hs_error error = {0};
    session->failed_hook[0] = '\0';
    session->repeat_call = false;
    if (!step)
        return ended(session, hs_error_set(&error, HS_INVALID_ARGUMENT, "hs_session_run_step: step is NULL"), &error, err);
    HS__CALL(call, session);
    code = hs__recover_if_lost(session, &error);
    while (!code && (code = call_step(session, step, user, &error)))
        if ((code = recover(session, code, &error)))
            break;
    hs__call_end(&call);
    return ended(session, code, &error, err);
}

void hs_session_request_save(hs_session *session)
{
    if (session)
        atomic_fetch_add_explicit(&session->save_requests, 1, memory_order_relaxed);
}

bool hs_session_poll(hs_session *session)
{
    return hs_raw_session_stop_requested(session ? &session->raw : NULL);
}

void hs_session_fail(hs_session *session, const hs_error *why)
{
    const hs_code code = why ? why->code : HS_UNKNOWN;
    if (!session)
        return;
    hs_error_set(&session->fail, code, "%s", !code ? "" : why && why->message[0] ? why->message : "the caller gave up");
    session->fail.os_error = why ? why->os_error : 0;
    if (hs__is_clean(session->last.code)) /* of a run that failed it is known already */
        session->threads_failed_first = !hs__is_clean(code) && hs_coordinator_error(session->coordinator, NULL) != HS_OK;
}

/* Accessors. */

bool hs__repeats_call(const hs_session *session)
{
    return session->repeat_call;
}

hs_raw_session *hs_session_raw(const hs_session *session)
{
    return session ? &((hs_session *)session)->raw : NULL;
}

hs_backend hs_session_backend(const hs_session *session)
{
    return session ? session->raw.backend : (hs_backend){NULL, NULL};
}

hs_coordinator *hs_session_coordinator(const hs_session *session)
{
    return session ? session->coordinator : NULL;
}

hs_scaffold *hs_session_scaffold(const hs_session *session)
{
    return session ? session->scaffold : NULL;
}

hs_bytes hs_session_config(const hs_session *session)
{
    return session ? session->config : (hs_bytes){NULL, 0};
}

int64_t hs_session_global_step(hs_session *session, hs_error *err)
{
    return hs_raw_session_global_step(session ? &session->raw : NULL, err);
}
