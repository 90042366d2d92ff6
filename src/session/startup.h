/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_STARTUP_H
#define HS_SESSION_STARTUP_H

#include <hooksess/session.h>

/* Runs the init op, then the init function. */
hs_code hs__startup_initialize(struct hs_session *session, hs_error *err);
/* Runs the ready check for the local init op, the local init op, and the ready check. *ready is false if a check found
 * variables that are not initialized. Then `err` has the reason, and the result is HS_OK. */
hs_code hs__startup_finish(struct hs_session *session, bool *ready, hs_error *err);
/* For workers: reopens the session until another process has initialized all variables, for at most max_wait_secs
 * (HS_DEADLINE_EXCEEDED). HS_CANCELLED: a stop was requested. */
hs_code hs__startup_wait(struct hs_session *session, hs_error *err);

#endif
