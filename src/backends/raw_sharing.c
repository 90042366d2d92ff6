/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of a raw session that several threads run. */
#include "backends/raw_session.h"

#include "base/error.h"

#include <hooksess/tf1/session_manager.h>

#include <pthread.h>

/* A lock that serves threads in the order of their arrival. With a mutex, a loop that runs the session without a pause
 * could lock out other threads. */
struct hs__sharing {
    pthread_t owner; /* the thread that shared its session */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* of the members below */
    pthread_t holder;
    size_t depth; /* number of enters of the holder; 0: free */
    uint64_t next_ticket, served;
};

hs_code hs_raw_session_share(hs_raw_session *raw, hs_error *err)
{
    hs_error_clear(err);
    if (!raw || !raw->handle || !raw->unhooked)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            raw && raw->handle ? "the raw session of a session with hooks cannot be shared"
                                               : "session is NULL or closed");
    if (raw->sharing)
        return HS_OK;
    struct hs__sharing *sharing = hs__alloc(&raw->env, 1, sizeof *sharing);
    if (!sharing)
        return hs__no_memory(err, sizeof *sharing, "the lock of a session");
    bool locks = pthread_mutex_init(&sharing->lock, NULL) == 0;
    if (!locks || pthread_cond_init(&sharing->changed, NULL) != 0) {
        if (locks)
            pthread_mutex_destroy(&sharing->lock);
        hs__free(&raw->env, sharing);
        return hs__no_memory(err, sizeof *sharing, "the lock of a session");
    }
    sharing->owner = pthread_self();
    raw->sharing = sharing;
    return HS_OK;
}

void hs__raw_session_unshare(hs_raw_session *raw)
{
    if (!raw->sharing)
        return;
    pthread_cond_destroy(&raw->sharing->changed);
    pthread_mutex_destroy(&raw->sharing->lock);
    hs__free(&raw->env, raw->sharing);
    raw->sharing = NULL;
}

void hs_raw_session_enter(hs_raw_session *raw)
{
    struct hs__sharing *sharing = raw ? raw->sharing : NULL;
    if (!sharing)
        return;
    pthread_mutex_lock(&sharing->lock);
    if (!sharing->depth || !pthread_equal(sharing->holder, pthread_self())) {
        uint64_t mine = sharing->next_ticket++;
        while (mine != sharing->served)
            pthread_cond_wait(&sharing->changed, &sharing->lock);
        sharing->holder = pthread_self();
    }
    sharing->depth++;
    pthread_mutex_unlock(&sharing->lock);
}

void hs_raw_session_leave(hs_raw_session *raw)
{
    struct hs__sharing *sharing = raw ? raw->sharing : NULL;
    if (!sharing)
        return;
    pthread_mutex_lock(&sharing->lock);
    if (sharing->depth && pthread_equal(sharing->holder, pthread_self()) && --sharing->depth == 0) {
        sharing->served++;
        pthread_cond_broadcast(&sharing->changed);
    }
    pthread_mutex_unlock(&sharing->lock);
}

bool hs__raw_session_is_borrowed(const hs_raw_session *raw)
{
    return raw->sharing && !pthread_equal(raw->sharing->owner, pthread_self());
}
