/* SPDX-License-Identifier: Apache-2.0 */
/* An open session: its requests and its parts. */
#include "session/session.h"

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
    if (hs__is_clean(session->last.code)) /* a failed run has recorded it */
        session->threads_failed_first = !hs__is_clean(code) && hs_coordinator_error(session->coordinator, NULL) != HS_OK;
}

/* Accessors. */

hs_raw_session *hs_session_raw(const hs_session *session)
{
    return session ? &((hs_session *)session)->raw : NULL;
}

int32_t hs_session_rank(const hs_session *session)
{
    return session ? session->agreement.rank : 0;
}

int32_t hs_session_rank_count(const hs_session *session)
{
    return session && hs__is_replica(session) ? session->agreement.rank_count : 1;
}

hs_coordinator *hs_session_coordinator(const hs_session *session)
{
    return session ? session->coordinator : NULL;
}

int64_t hs_session_global_step(hs_session *session, hs_error *err)
{
    return hs_raw_session_global_step(session ? &session->raw : NULL, err);
}
