/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_STORED_STATES_H
#define HS_CHECKPOINT_STORED_STATES_H

#include "backends/raw_session.h"
#include "formats/bundle.h"

/* The states in a checkpoint that is being restored: read, check, then load into the session's providers. States of the
 * checkpoint that the session has no provider for are unclaimed (unclaimed_states.h). */

/* States are kept in memory between reading and loading, up to this size in all. The rest is only verified, and read again
 * when it is loaded. */
#define HS__STATES_IN_MEMORY ((size_t)64 << 20)

/* The beginning of the error of a restore that has changed the model and cannot complete. */
#define HS__PARTLY_RESTORED "do not train with this session: the model is partly restored"

/* Checks the type of the states and that the data files have their bytes, before memory is allocated for them. *bytes is
 * their size. */
hs_code hs__states_locate(const hs_raw_session *session, hs__bundle_reader *reader, uint64_t *bytes, hs_error *err);
/* Reads and verifies all states: one item for each provider of the session, in their order, then the unclaimed ones. The
 * memory is the session's. Call hs__states_free in any case. */
hs_code hs__states_read(hs__stored_states *states, const hs_raw_session *session, hs__bundle_reader *reader, hs_error *err);
/* FAILED_PRECONDITION if a provider cannot load the version or the identity of its state. Changes nothing. */
hs_code hs__states_check(const hs__stored_states *states, const hs_raw_session *session, hs_error *err);
/* Calls `load` of the providers. `file` is the checkpoint; NULL if all states are in memory. */
hs_code hs__states_load(const hs__stored_states *states, hs__bundle_reader *file, hs_raw_session *session, hs_error *err);
void hs__states_free(hs__stored_states *states, const hs_env *env);

/* The same for one state and its provider. */
hs_code hs__stored_state_check(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
                               const hs_env *env, hs_error *err);
hs_code hs__stored_state_load(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
                              hs__bundle_reader *file, hs_raw_session *session, hs_error *err);
void hs__stored_state_free(const hs__stored_state *state, const hs_env *env);

/* The level of the message that the state of this key gets lost. The position of a hook's schedule may: it begins again. */
hs_log_level hs__lost_state_level(const char *key);
/* Returns true for the key of a state, false for the name of a variable. */
bool hs__is_state_key(const char *key);
/* Returns true if the entry has the type of a state: a vector of uint8. */
bool hs__is_state_entry(const hs__bundle_entry *entry);

#endif
