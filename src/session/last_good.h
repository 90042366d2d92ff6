/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_LAST_GOOD_H
#define HS_SESSION_LAST_GOOD_H

#include <hooksess/checkpoint.h>
#include <hooksess/raw_session.h>

/* The state to return to: the newest checkpoint that no rank finds damaged; before the first save, a copy in memory of the
 * state after the opening. The opening, a recovery and a rollback (services.h) restore it. last_good.c
 * writes the members. */
typedef struct hs__last_good {
    hs_state_copy *copy; /* NULL: none */
    bool is_wanted;      /* by a hook that rolls back; a session that recovers wants it, too */
    bool has_saved;      /* this session has saved a checkpoint, */
    bool in_directory;   /* in checkpoint_dir */
} hs__last_good;

/* At the opening and in a recovery: restores checkpoint_prefix, or the newest checkpoint in checkpoint_dir. *restored is
 * false if the variables have to be initialized. */
hs_code hs__last_good_restore(struct hs_session *session, bool recovering, bool *restored, hs_error *err);
/* In a recovery that uses no checkpoint: initializes, and restores the copy. */
hs_code hs__last_good_initialize(struct hs_session *session, hs_error *err);
/* After the opening: makes the copy, unless it is not wanted, is in a checkpoint, or is too large
 * (hs_recovery.snapshot_limit). Fails only if a hook wants it. */
hs_code hs__last_good_copy_state(struct hs_session *session, hs_error *err);
/* A checkpoint was saved: frees the copy, if the checkpoint replaces it. */
void hs__last_good_saved(struct hs_session *session);
void hs__last_good_free(struct hs_session *session);

#endif
