/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_STORED_STATES_H
#define HS_CHECKPOINT_STORED_STATES_H

#include "checkpoint/save_list.h"
#include "formats/bundle.h"

/* The pieces of state in a checkpoint: on their way to their providers, and while they wait for one. Variables that are
 * added late wait with them. */

/* State is kept in memory between the reading and the loading as long as it is no more than this in all; the rest is read
 * again when it is loaded. */
#define HS__WAITING_BYTES ((size_t)64 << 20)

/* Are those of the session's providers, and those that nobody takes, what a state must be, and are their bytes there? To be
 * asked before memory for anything is. *bytes is their size. */
hs_code hs__states_locate(const hs_raw_session *session, hs__bundle_reader *reader, uint64_t *bytes, hs_error *err);
/* Reads and verifies all there are: first, in their order, those of the session's providers, then those that nobody takes.
 * What is too much for memory is only verified. The memory is the session's. To be freed in any case. */
hs_code hs__states_read(hs__stored_states *states, const hs_raw_session *session, hs__bundle_reader *reader, hs_error *err);
/* Are their versions and identities such as the session's providers can take? Changes nothing. */
hs_code hs__states_check(const hs__stored_states *states, const hs_raw_session *session, hs_error *err);
/* Hands them to the providers. `file` is what they were read from; NULL if all are in memory. */
hs_code hs__states_load(const hs__stored_states *states, hs__bundle_reader *file, hs_raw_session *session, hs_error *err);
/* Those that nobody took wait in the session from now on, in the place of others that waited there. */
void hs__states_leave(hs__stored_states *states, hs_raw_session *session);
void hs__states_free(hs__stored_states *states, const hs_env *env);

/* Hands a provider that came late what waits for it, which then waits no more. */
hs_code hs__claim_state(hs_raw_session *session, const hs__state_slot *slot, hs_error *err);
/* Gives a variable that was added late what waits for it, which then waits no more. A failure changes nothing, unless the
 * error says so. */
hs_code hs__claim_variable(hs_raw_session *session, const hs_variable_def *def, hs_error *err);
/* Gives a variable of the session what waits for it, which waits on, as it may be added again; or its first value. */
hs_code hs__restore_late(hs_raw_session *session, const hs_variable_def *def, hs_error *err);
/* Is this the key of state, and not the name of a variable? */
bool hs__is_state_key(const char *key);
/* Warns of what waits, once. */
void hs__tell_waiting_states(hs_raw_session *session);
/* What waits and nobody was told of: it is saved as it was. */
hs_code hs__each_waiting_state(const hs_raw_session *session, hs__take_fn take, void *user, hs_error *err);
/* Passes on the bytes of a piece of state, then its version and identity. */
hs_code hs__take_state(const hs_env *env, const hs__stored_state *state, const hs__saved *bytes, hs__take_fn take,
                       void *user, hs_error *err);

#endif
