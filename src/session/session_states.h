/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_SESSION_STATES_H
#define HS_SESSION_SESSION_STATES_H

#include <hooksess/state.h>

/* State in checkpoints that is not in variables. */

struct hs_session;
struct hs__hook;

/* A hook's state as a provider. Fails if the hook's callbacks and names do not make one. */
hs_code hs__hook_state(hs_state_provider *to, const struct hs__hook *hook, const char *identity, hs_error *err);
/* Adds the backend's states and the hooks' states to the raw session. */
hs_code hs__add_session_states(struct hs_session *session, hs_error *err);
/* Logs which states of the restored checkpoint have no provider, except for those that hooks without state once saved. */
void hs__report_lost_states(struct hs_session *session);

#endif
