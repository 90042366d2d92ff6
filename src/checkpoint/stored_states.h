/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_STORED_STATES_H
#define HS_CHECKPOINT_STORED_STATES_H

#include "backends/raw_session.h"
#include "checkpoint/archive.h"

/* The states in an archive that is being restored: read and verify all, then load them into the session's providers. States
 * that the session has no provider for are unclaimed (unclaimed_states.h). */

/* States are kept in memory between reading and loading, up to this size in all. The rest is only verified, and read again
 * when it is loaded. */
#define HS__STATES_IN_MEMORY ((size_t)64 << 20)

/* The beginning of the error of a restore that has changed the model and cannot complete. */
#define HS__PARTLY_RESTORED "do not train with this session: the model is partly restored"

/* Reads and verifies the states: one item for each provider of the session, in their order, then the unclaimed ones. No
 * items, if no states are restored from the archive. Those of providers borrow the memory of a snapshot, the unclaimed ones
 * outlive it. FAILED_PRECONDITION if a provider cannot load the version, the identity or the number of ranks of its state.
 * Changes nothing. `states` is zero but for any_identity; call hs__states_free in any case. */
hs_code hs__states_read(hs__stored_states *states, const hs_raw_session *session, hs__archive *archive, hs_error *err);
/* Calls `load` of the providers. */
hs_code hs__states_load(const hs__stored_states *states, hs__archive *archive, hs_raw_session *session, hs_error *err);
void hs__states_free(hs__stored_states *states, const hs_env *env);

/* The same for one state and its provider. `archive` may be NULL if the state is in memory. */
hs_code hs__stored_state_check(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
                               const hs_env *env, hs_error *err);
hs_code hs__stored_state_load(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
                              hs__archive *archive, hs_raw_session *session, hs_error *err);
void hs__stored_state_free(const hs__stored_state *state, const hs_env *env);

/* The level of the message that the state of this key gets lost. The position of a hook's schedule may: it begins again. */
hs_log_level hs__lost_state_level(const char *key);
/* Returns true for the key of a state, false for the name of a variable. */
bool hs__is_state_key(const char *key);
/* True if the key is that of the state `base` of any rank. */
bool hs__is_rank_key(const char *base, const char *key);
/* True if the key is that of a per-rank state that the session has, of any rank. */
bool hs__is_rank_state(const hs_raw_session *session, const char *key);
/* Returns true if the tensor has the type of a state: a vector of uint8. */
static inline bool hs__is_state_tensor(const hs__stored *stored)
{
    return stored->dtype == HS_UINT8 && stored->shape.rank == 1;
}

#endif
