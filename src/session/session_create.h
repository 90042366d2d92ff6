/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_SESSION_CREATE_H
#define HS_SESSION_SESSION_CREATE_H

#include <hooksess/checkpoint.h>
#include <hooksess/coordinator.h>
#include <hooksess/session.h>

/* What a session is created from, and created again from after a loss. session_open.c writes the members. The first
 * new checkpoint clears the restore options (last_good.c). */
typedef struct hs__creation {
    char *checkpoint_dir, *checkpoint_prefix, *summary_dir; /* NULL: none */
    hs_restore_policy restore;
    hs_restore_options restore_options;
    bool is_worker, no_queue_runners;
    double max_wait_secs, recovery_wait_secs; /* INFINITY: forever */
    double stop_grace_secs;                   /* of hs_join_options. 0: its default */
} hs__creation;

/* Attempts to create the session. session_create.c writes the members. */
typedef struct hs__attempts {
    uint64_t n_created;                    /* the first at the opening; recoveries count theirs in hs__recovery */
    hs_coordinator **retired_coordinators; /* of earlier attempts; a caller may still hold one */
    size_t n_retired, retired_capacity;
    bool stop_was_requested; /* of the last of them, without an error */
} hs__attempts;

/* Sleeps; a stop request ends it. */
void hs__pause(struct hs_session *session, double secs);
hs_code hs__open_raw(struct hs_session *session, hs_error *err);
hs_code hs__close_raw(struct hs_session *session, hs_error *err);
/* Creates the backend's session, initializes or restores its variables, starts the threads and calls
 * after_create_session. `recovering`: the session was lost, so the rules of recovery select the state to restore. Sets
 * *done to true if a hook of any rank reports that the training is complete, and otherwise leaves it unchanged. On failure
 * the caller calls hs__discard_raw or hs__close_all. */
hs_code hs__create(struct hs_session *session, bool recovering, bool *done, hs_error *err);
/* Calls after_create_session of a hook. */
hs_code hs__create_hook(struct hs_session *session, struct hs__hook *hook, hs_error *err);
/* Ends everything that hs__create has created. Returns the error of a thread, unless the thread reported the loss of the
 * session. */
hs_code hs__discard_raw(struct hs_session *session, hs_error *err);
void hs__stop_threads(struct hs_session *session);

/* Frees the coordinators of earlier attempts. */
void hs__attempts_free(struct hs_session *session);

#endif
