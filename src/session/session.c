/* SPDX-License-Identifier: Apache-2.0 */
/* An open session: what the program requests, its parts, and its phase, which any thread may read. */
#include "session/session.h"

#include <pthread.h>

/* The open sessions of this process and, in a forked child, those of its parent. */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hs_session *open_sessions;

void hs__session_opened(struct hs_session *session)
{
    pthread_mutex_lock(&list_lock);
    session->next_open = open_sessions;
    open_sessions = session;
    pthread_mutex_unlock(&list_lock);
}

void hs__session_closed(const struct hs_session *session)
{
    pthread_mutex_lock(&list_lock);
    for (struct hs_session **at = &open_sessions; *at; at = &(*at)->next_open)
        if (*at == session) {
            *at = session->next_open;
            break;
        }
    pthread_mutex_unlock(&list_lock);
}

/* The program returns from main or calls exit. Its memory, such as the graph's variables and a logger, may be gone. */
__attribute__((destructor)) static void warn_of_open_sessions(void)
{
    for (const struct hs_session *session = open_sessions; session; session = session->next_open) {
        const int64_t saved = session->raw.saved_step;
        if (session->env.logger.write != hs_env_default()->logger.write || hs__is_inherited(session->generation))
            continue;
        if (saved < 0)
            hs_log(NULL, HS_LOG_WARNING, "the program ends without hs_session_close; nothing is saved");
        else
            hs_log(NULL, HS_LOG_WARNING, "the program ends without hs_session_close; the newest checkpoint is of step %lld",
                   (long long)saved);
    }
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
