/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_MANAGER_H
#define HS_SESSION_MANAGER_H

#include <hooksess/scaffold.h>

/* Gives the variables of a session that was just opened their first values. TensorFlow: SessionManager.prepare_session.
 *
 *   restored from `path`, or from the newest valid checkpoint of `directory`, if there is one;
 *   otherwise the init op, then the init function;
 *   in both cases: the check for the local init op, the local init op, the check that all is ready. */
hs_code hs__prepare_session(hs_raw_session *session, hs_scaffold *scaffold, const char *directory, const char *path,
                            hs_error *err);

#endif
