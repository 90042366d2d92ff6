/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_STARTUP_H
#define HS_SESSION_STARTUP_H

#include <hooksess/session.h>

#include "checkpoint/restore.h"

/* How the variables of a session that was just opened get their values, in the order of TensorFlow's SessionManager. */

struct hs_session;

/* What to restore, and how to initialize. All pointers are borrowed. Names NULL: not used. */
typedef struct hs__startup {
    const char *ready_op, *ready_for_local_init_op, *local_init_op;
    const hs_feed *local_init_feeds;

    const char *init_op;
    const hs_feed *init_feeds;
    hs_init_fn init_fn;
    void *user;
    const hs_scaffold *scaffold; /* passed to init_fn */

    hs_saver *saver;                           /* NULL: nothing is restored */
    const char *checkpoint_prefix;             /* restore this checkpoint, */
    const char *checkpoint_dir;                /* or the newest valid one in this directory. NULL or "": neither */
    hs_restore_policy restore;                 /* for checkpoint_dir */
    const hs_restore_options *restore_options; /* complete */
    const hs__acceptance *others;              /* NULL: no group */
    double max_wait_secs, recovery_wait_secs;  /* of hs__startup_wait. INFINITY: no limit */
} hs__startup;

/* Restores the checkpoint that `startup` selects. *path: its path, for hs__free. NULL: no checkpoint was restored. */
hs_code hs__startup_restore(hs_raw_session *session, const hs__startup *startup, char **path, hs_error *err);
/* Restores the checkpoint `path` instead. *damaged as of hs__restore. */
hs_code hs__startup_restore_path(hs_raw_session *session, const hs__startup *startup, const char *path, bool *damaged,
                                 hs_error *err);
/* Runs the init op, then the init function. */
hs_code hs__startup_initialize(hs_raw_session *session, const hs__startup *startup, hs_error *err);
/* Runs the ready check for the local init op, the local init op, and the ready check. HS_FAILED_PRECONDITION: a check found
 * variables that are not initialized. */
hs_code hs__startup_finish(hs_raw_session *session, const hs__startup *startup, hs_error *err);

/* Restores, or initializes if no checkpoint was restored. Then finishes. */
hs_code hs__startup_prepare(hs_raw_session *session, const hs__startup *startup, hs_error *err);
/* For workers: reopens the session until another process has initialized all variables, for at most max_wait_secs
 * (HS_DEADLINE_EXCEEDED). HS_CANCELLED: a stop was requested. */
hs_code hs__startup_wait(struct hs_session *session, const hs__startup *startup, hs_error *err);

#endif
