/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that the caller computes between hs_step_begin and hs_step_end. */
#include "session/session.h"

#include <string.h>

/* An error of a loop whose owner looks at none: it is kept, and ends it. */
static hs_code fails(hs_session *session, hs_code code, const hs_error *error, hs_error *err)
{
    session->last = *error;
    session->last.code = code;
    session->step_stop = true;
    return hs__error_copy(err, &session->last);
}

static hs_code begin_step(hs_session *session, hs_error *err)
{
    static const hs_run_args nothing = {HS_RUN_ARGS};
    if (!session->raw.ops.advance_step || !hs_backend_global_step_name(session->raw.backend))
        return hs_error_set(err, HS_UNIMPLEMENTED,
                            "hs_step_begin needs a global step that it can advance, and backend '%s' has none: add one to "
                            "the graph (hs_graph_global_step)",
                            session->raw.ops.name);
    hs_code code = hs__heal(session, err);
    return code ? code : hs__begin_hooked(session, &nothing, &session->own_frame, err);
}

bool hs_step_begin(hs_session *session)
{
    hs_error error = {0};
    if (!session)
        return false;
    hs_code code = hs__check_runnable(session, &error);
    if (code) {
        if (!session->stop && !session->lost) /* a stop is no mistake of the caller's */
            fails(session, code, &error, NULL);
        return false;
    }
    if (hs_session_should_stop(session))
        return false;
    session->failed_hook[0] = '\0';
    session->restored = false;
    code = begin_step(session, &error);
    if (code) {
        fails(session, code, &error, NULL);
        return false;
    }
    session->own_step = true;
    hs__enter(session, HS_PHASE_DATA);
    return true;
}

static hs_code end_step(hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    hs__enter(session, HS_PHASE_STEP);
    hs_code code = hs__settle(raw->ops.advance_step(raw->handle, err), "advancing the global step", err);
    if (!code)
        code = hs__end_hooked(session, session->own_frame, err);
    session->level = 0;
    hs__enter(session, HS_PHASE_DATA);
    return code;
}

hs_code hs_step_end(hs_session *session)
{
    hs_error error = {0};
    if (!session)
        return HS_FAILED_PRECONDITION;
    if (!session->own_step) {
        hs_error_set(&error, HS_FAILED_PRECONDITION, "hs_step_end without an hs_step_begin that returned true");
        return fails(session, error.code, &error, NULL);
    }
    session->own_step = false;
    hs_code code = hs__recover_own(session, end_step(session, &error), &error);
    if (code == HS_ABORTED && session->restored)
        return code; /* the loop goes on from where it was restored */
    if (code)
        return fails(session, code, &error, NULL);
    session->last.code = HS_OK;
    return HS_OK;
}

void hs__leave_own_step(hs_session *session)
{
    session->own_step = false;
    session->level = 0;
    hs_raw_session_refuse_saves(&session->raw,
                                "the session was closed in the middle of a step (hs_step_end was not called)");
}
