/* SPDX-License-Identifier: Apache-2.0 */
/* A session's phase and progress, which any thread may read. */
#include "session/session.h"

void hs__progress_init(struct hs_session *session)
{
    atomic_init(&session->progress.watched, false);
    atomic_init(&session->progress.phase, HS_PHASE_INIT);
    atomic_init(&session->progress.count, 0);
    atomic_init(&session->progress.hook, NULL);
}

const char *hs_phase_name(hs_phase phase)
{
    static const char *const names[] = {"init", "data", "step", "eval", "save", "end"};
    return phase >= HS_PHASE_INIT && phase <= HS_PHASE_END ? names[phase] : "unknown";
}

hs_phase hs_raw_session_enter_phase(hs_raw_session *raw, hs_phase phase)
{
    return raw ? hs__enter(hs__session_of(raw), phase) : HS_PHASE_END;
}

hs_phase hs_raw_session_phase(const hs_raw_session *raw, const char **hook, int64_t *progress)
{
    if (!raw)
        return HS_PHASE_END;
    atomic_store_explicit(&hs__session_of(raw)->progress.watched, true, memory_order_relaxed);
    const hs__hook *current = atomic_load_explicit(&hs__session_of(raw)->progress.hook, memory_order_relaxed);
    if (hook)
        *hook = current ? current->cold->ops.name : "";
    if (progress)
        *progress = atomic_load_explicit(&hs__session_of(raw)->progress.count, memory_order_relaxed);
    return (hs_phase)atomic_load_explicit(&hs__session_of(raw)->progress.phase, memory_order_relaxed);
}
