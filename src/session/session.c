/* SPDX-License-Identifier: Apache-2.0 */
/* An open session: what the program requests, its parts, and its phase, which any thread may read. */
#include "session/session.h"

#include <stdatomic.h>

/* The open sessions that log to standard error, and the process that has opened them: a forked child has none. */
static atomic_uint n_open, opened_in;

void hs__session_opened(const struct hs_session *session)
{
    if (session->env.logger.write != hs_env_default()->logger.write)
        return;
    if (atomic_exchange(&opened_in, session->generation) != session->generation)
        atomic_store(&n_open, 0);
    atomic_fetch_add(&n_open, 1);
}

void hs__session_closed(const struct hs_session *session)
{
    if (session->env.logger.write == hs_env_default()->logger.write)
        atomic_fetch_sub(&n_open, 1);
}

/* The program returns from main or calls exit. The sessions' memory may be gone. */
__attribute__((destructor)) static void warn_of_open_sessions(void)
{
    if (atomic_load(&n_open) && !hs__is_inherited(atomic_load(&opened_in)))
        hs_log(NULL, HS_LOG_WARNING, "the program ends without hs_session_close, which saves the last steps");
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

/* Accessors. */

hs_raw_session *hs_session_raw(const hs_session *session)
{
    return session ? &((hs_session *)session)->raw : NULL;
}

int32_t hs_session_rank(const hs_session *session)
{
    return session ? session->raw.rank : 0;
}

int32_t hs_session_rank_count(const hs_session *session)
{
    return session ? session->raw.rank_count : 1;
}

hs_coordinator *hs_session_coordinator(const hs_session *session)
{
    return session ? session->coordinator : NULL;
}

int64_t hs_session_global_step(hs_session *session, hs_error *err)
{
    return hs_raw_session_global_step(session ? &session->raw : NULL, err);
}

/* The phase. */

const char *hs_phase_name(hs_phase phase)
{
    static const char *const names[] = {"init", "data", "step", "eval", "save", "end"};
    return phase >= HS_PHASE_INIT && phase <= HS_PHASE_END ? names[phase] : "unknown";
}

hs_phase hs_raw_session_enter_phase(hs_raw_session *raw, hs_phase phase)
{
    return raw ? hs__enter(raw->owner, phase) : HS_PHASE_END;
}

hs_phase hs_raw_session_phase(const hs_raw_session *raw, const char **hook, int64_t *progress)
{
    if (!raw)
        return HS_PHASE_END;
    atomic_store_explicit(&raw->owner->progress.watched, true, memory_order_relaxed);
    const hs__hook *current = atomic_load_explicit(&raw->owner->progress.hook, memory_order_relaxed);
    if (hook)
        *hook = current ? current->cold->ops.name : "";
    if (progress)
        *progress = atomic_load_explicit(&raw->owner->progress.count, memory_order_relaxed);
    return (hs_phase)atomic_load_explicit(&raw->owner->progress.phase, memory_order_relaxed);
}
