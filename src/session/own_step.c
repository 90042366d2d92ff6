/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that the caller computes between hs_step_begin and hs_step_end. */
#include "session/session.h"

#include "base/cold.h"

#include <string.h>

/* An error of a loop whose owner looks at none: the first is kept, and ends it. */
static hs_code fails(hs_session *session, hs_code code, const hs_error *error)
{
    if (hs__stops(session) & HS__STOP_FAILED)
        return session->last.code;
    hs__error_copy(&session->last, error);
    session->last.code = code;
    hs__note_end_of_input(session, code == HS_OUT_OF_RANGE);
    hs__stop_step(session);
    if (!hs__is_clean(code))
        hs__add_stops(session, HS__STOP_FAILED);
    session->threads_failed_first = !hs__is_clean(code) && hs_coordinator_error(session->coordinator, NULL) != HS_OK;
    return code;
}

/* A callback, an op or a step function has no steps of its own. That is its mistake, not the loop's. */
static bool is_callback(hs_session *session, const char *function)
{
    bool free = session->life == HS__READY && !session->level;
    bool inside = session->in_backend || !(free || session->life == HS__IN_OWN_STEP);
    if (inside)
        hs_log(&session->env, HS_LOG_ERROR, "%s was called from a callback, where it has no effect", function);
    return inside;
}

/* It was recovered from what happened: nothing of the step has been made yet, so that it may begin as if nothing had. */
static hs_code made_good(hs_session *session, hs_code code, hs_error *err)
{
    if (code != HS_ABORTED || !session->restored)
        return code;
    session->restored = false;
    hs__clear(err);
    return HS_OK;
}

static hs_code advance_step(hs_raw_session *raw, int64_t by, hs_error *err)
{
    return hs__normalize_error(raw->ops.advance_step(raw->handle, by, err), "advancing the global step", err);
}

/* Before the first of them: are there such steps here? */
HS__COLD static hs_code check_backend(const hs_session *session, hs_error *err)
{
    if (!session->raw.ops.advance_step)
        return hs_error_set(err, HS_UNIMPLEMENTED,
                            "hs_step_begin: backend '%s' cannot advance the global step; only its ops do",
                            session->raw.ops.name);
    if (!hs_backend_global_step_name(session->raw.backend))
        return hs_error_set(err, HS_UNIMPLEMENTED,
                            "hs_step_begin: the graph has no global step; add one with hs_graph_global_step");
    return HS_OK;
}

static hs_code begin_step(hs_session *session, hs_error *err)
{
    static const hs_run_args nothing = HS_INIT(hs_run_args);
    hs_code code = session->own_begun ? HS_OK : check_backend(session, err);
    if (!code)
        code = made_good(session, hs__heal(session, err), err);
    while (!code) {
        session->failed_hook[0] = '\0';
        if ((code = advance_step(&session->raw, 0, err)) ||
            !(code = hs__begin_hooked(session, &nothing, &session->own_frame, err)))
            break;
        code = made_good(session, hs__recover_own(session, code, err), err);
    }
    return code;
}

bool hs_step_begin(hs_session *session)
{
    hs_error error; /* large: it is not cleared to its end in each step */
    if (!session || is_callback(session, "hs_step_begin"))
        return false;
    hs__clear(&error);
    if (session->life == HS__IN_OWN_STEP) {
        hs_code refused = hs__check_runnable(session, __builtin_frame_address(0), &error);
        if (session->life == HS__IN_OWN_STEP) /* still: no jump has left it */
            fails(session, refused, &error);
        return false;
    }
    if (hs_session_should_stop(session))
        return false;
    session->restored = false;
    HS__CALL(call, session);
    hs_code code = begin_step(session, &error);
    hs__call_returns(&call);
    if (code) {
        fails(session, code, &error);
        return false;
    }
    session->own_begun = true;
    session->life = HS__IN_OWN_STEP;
    hs__enter(session, HS_PHASE_DATA);
    return true;
}

/* From here on the caller writes into the variables, of which nobody hears: who copies them beside the runs is done now. */
static void give_memory_back(hs_raw_session *raw)
{
    if (raw->ops.guard)
        raw->ops.guard(raw->handle, (hs_write_guard){NULL, NULL, NULL});
}

static hs_code end_step(hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    hs__enter(session, HS_PHASE_STEP);
    hs_code code = advance_step(raw, 1, err);
    if (!code)
        code = hs__end_hooked(session, session->own_frame, err);
    give_memory_back(raw);
    session->level = 0;
    hs__enter(session, HS_PHASE_DATA);
    return code;
}

hs_code hs_step_end(hs_session *session)
{
    hs_error error;
    if (!session || is_callback(session, "hs_step_end"))
        return HS_FAILED_PRECONDITION;
    hs__clear(&error);
    if (session->life != HS__IN_OWN_STEP) {
        hs_error_set(&error, HS_FAILED_PRECONDITION, "hs_step_end was called without an hs_step_begin that returned true");
        return fails(session, error.code, &error);
    }
    session->life = HS__READY;
    HS__CALL(call, session);
    hs_code code = hs__recover_own(session, end_step(session, &error), &error);
    hs__call_returns(&call);
    if (code == HS_ABORTED && session->restored)
        return code; /* the loop goes on from where it was restored */
    if (code || hs__stops(session) & HS__STOP_FAILED)
        return fails(session, code, &error);
    session->last.code = HS_OK;
    hs__note_end_of_input(session, false);
    return HS_OK;
}

void hs__check_own_step(hs_session *session)
{
    hs_error error = {0};
    if (session->own_begun && session->raw.handle && hs__is_clean(session->last.code) &&
        advance_step(&session->raw, 0, &error))
        fails(session, error.code, &error);
}

void hs__leave_own_step(hs_session *session)
{
    session->life = HS__READY;
    session->level = 0;
    hs_log(&session->env, HS_LOG_WARNING, "step %lld discarded: the session was closed before hs_step_end",
           (long long)hs_session_global_step(session, NULL) + 1);
    hs__clear_stop(session, HS__STOP_PROGRAM_DONE);
    hs__stop_by_hook(session, "", HS__STOP_HOOK_INTERRUPTED); /* what it was at is not done */
    hs_error why;
    hs_error_set(&why, HS_FAILED_PRECONDITION, "the session was closed before hs_step_end");
    hs_raw_session_refuse_saves(&session->raw, &why);
}
