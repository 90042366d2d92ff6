/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_MANAGER_H
#define HS_SESSION_MANAGER_H

#include <hooksess/session.h>

/* Where first values come from, if not from the init op. */
typedef struct hs__origin {
    const char *path;      /* this checkpoint, */
    const char *directory; /* or the newest valid one of this directory; NULL and "": neither */
    hs_restore_policy policy;
    const hs_restore_options *options; /* complete */
} hs__origin;

/* Gives the variables of a session that was just opened their first values. TensorFlow: SessionManager.prepare_session.
 *
 *   restored from where the origin says, if there is a checkpoint;
 *   otherwise the init op, then the init function;
 *   in both cases: the check for the local init op, the local init op, the check that all is ready. */
hs_code hs__prepare_session(hs_raw_session *session, hs_scaffold *scaffold, const hs__origin *origin, hs_error *err);

#endif
