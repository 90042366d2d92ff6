/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_STARTUP_H
#define HS_SESSION_STARTUP_H

#include <hooksess/session.h>

#include "checkpoint/restore.h"

/* Restores the checkpoint checkpoint_prefix, or the newest valid one in checkpoint_dir. *path: its path, for hs__free.
 * NULL: no checkpoint was restored. `policy` is for checkpoint_dir. `others` is NULL without a group. */
hs_code hs__startup_restore(struct hs_session *session, hs_restore_policy policy, const hs__acceptance *others, char **path,
                            hs_error *err);
/* Restores the checkpoint `path` instead. *damaged as of hs__restore. */
hs_code hs__startup_restore_path(struct hs_session *session, const char *path, const hs__acceptance *others, bool *damaged,
                                 hs_error *err);
/* Runs the init op, then the init function. */
hs_code hs__startup_initialize(struct hs_session *session, hs_error *err);
/* Runs the ready check for the local init op, the local init op, and the ready check. HS_FAILED_PRECONDITION: a check found
 * variables that are not initialized. */
hs_code hs__startup_finish(struct hs_session *session, hs_error *err);
/* For workers: reopens the session until another process has initialized all variables, for at most max_wait_secs
 * (HS_DEADLINE_EXCEEDED). HS_CANCELLED: a stop was requested. */
hs_code hs__startup_wait(struct hs_session *session, hs_error *err);

#endif
