/* SPDX-License-Identifier: Apache-2.0 */
/* Why a session stops: the requests and their causes. What happens where a stop takes effect. */
#include "session/session.h"

#include <signal.h>
#include <stdio.h>

unsigned hs__own_stop_causes(const struct hs_session *session)
{
    bool by_threads = hs_coordinator_should_stop(session->coordinator) && !hs__threads_are_lost(session, NULL);
    return hs__stops(session) | (by_threads ? HS__STOP_THREADS : 0);
}

unsigned hs__stop_causes(const struct hs_session *session)
{
    return hs__is_in_group(session) ? hs__final_stops(session) : hs__own_stop_causes(session);
}

bool hs_session_should_stop(const hs_session *session)
{
    /* if the session itself has a cause, a poll does not take the coordinator's lock */
    return !session || hs__is_inherited(session->generation) || hs__final_stops(session) || hs__stop_causes(session);
}

bool hs__stop_requested(const struct hs_session *session)
{
    const unsigned requested = HS__STOP_HOOK | HS__STOP_STEP | HS__STOP_OUTSIDE;
    return hs__stops(session) & requested || hs_coordinator_clean_stop(session->coordinator);
}

void hs__stop_step(struct hs_session *session)
{
    if (!(hs__stops(session) & HS__STOP_OUTSIDE))
        hs__add_stops(session, HS__STOP_STEP);
}

void hs__stop_by_hook(struct hs_session *session, const char *hook, hs__stop how)
{
    if (session->life == HS__CLOSING || (hs__stops(session) & HS__STOP_HOOK) >= (unsigned)how)
        return; /* the session closes, or a hook has already requested this stop or a stronger one */
    if (!session->already_done)
        snprintf(session->stop_hook, sizeof session->stop_hook, "%s", hook);
    hs__add_stops(session, how);
}

void hs_session_interrupt(hs_session *session)
{
    if (session)
        hs__add_stops(session, HS__STOP_REQUESTED);
}

void hs_session_request_stop(hs_session *session)
{
    if (session)
        hs__add_stops(session, HS__STOP_PROGRAM_DONE | HS__STOP_REQUESTED);
}

/* Where a stop takes effect. */

/* In a group, only what all ranks have agreed on. The end of the input of a run is not a stop: the program may begin
 * another epoch. */
static unsigned stops_in_effect(const struct hs_session *session)
{
    unsigned stops = hs__is_in_group(session) ? session->agreement.stops : hs__own_stop_causes(session);
    return stops & ~(unsigned)HS__STOP_INPUT_ENDED;
}

void hs__log_stop_signal(const struct hs_session *session, unsigned stops)
{
    int number = stops & HS__STOP_OUTSIDE ? hs__signals_first(session) : 0;
    if (number)
        hs_log(&session->env, HS_LOG_INFO, "%s: stopping after step %lld",
               number == SIGTERM  ? "SIGTERM"
               : number == SIGINT ? "SIGINT"
               : number == SIGHUP ? "SIGHUP"
                                  : "signal",
               (long long)hs_session_global_step((hs_session *)session, NULL));
}

void hs__reach_stop_boundary(struct hs_session *session)
{
    const unsigned never = HS__STOP_FAILED | HS__STOP_LOST | HS__STOP_CLOSED; /* the last two: nothing can be saved */
    const unsigned stops = stops_in_effect(session);
    hs_error error = {0};
    bool failed = !hs__is_clean(session->last.code) || !hs__is_clean(session->fail.code);
    if (!stops || (stops | hs__stops(session)) & never || failed || session->stop_boundary.reached ||
        session->life != HS__READY)
        return;
    session->stop_boundary.reached = true;
    hs__log_stop_signal(session, stops);
    hs__call_stop_boundaries(session, &error);
    session->stop_boundary.error = error;
}
