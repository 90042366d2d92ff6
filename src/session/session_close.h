/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_SESSION_CLOSE_H
#define HS_SESSION_SESSION_CLOSE_H

#include <hooksess/session.h>

/* Closes everything that was opened, after the hooks' `end`, and frees the session. `error` holds the first error, or
 * receives it. */
hs_outcome hs__close_all(struct hs_session *session, hs_code last, hs_error *error);
/* Calls the boundaries of a stop. `first` receives the first error. In a group, all ranks call it. */
void hs__call_stop_boundaries(struct hs_session *session, hs_error *first);
/* Frees a session with nothing opened. */
void hs__session_free(struct hs_session *session);

#endif
