/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_UNCLAIMED_STATES_H
#define HS_CHECKPOINT_UNCLAIMED_STATES_H

#include "checkpoint/save_list.h"
#include "checkpoint/stored_states.h"

/* States of the restored checkpoint without a provider in the session. The session keeps them (hs_raw_session.unclaimed)
 * until a provider of that name is added, or until they are reported. */

/* Moves the unclaimed items of `states` to the session. They replace the items of an earlier restore. */
void hs__stash_unclaimed(hs__stored_states *states, hs_raw_session *session);
/* Loads the unclaimed state of this key into a provider that is being added, and removes it. */
hs_code hs__claim_state(hs_raw_session *session, const hs__state_slot *slot, hs_error *err);
/* Drops the unclaimed states of all hooks of this name, because the hooks of that name in the session have no state. */
void hs__drop_unclaimed(hs_raw_session *session, const char *hook);
/* Logs a warning for each unclaimed item, and one for all tensors that no variable uses, once per restore. Later
 * checkpoints omit them. */
void hs__report_unclaimed(hs_raw_session *session);
/* Visits the unclaimed items that were not reported yet: they are saved again. */
hs_code hs__visit_unclaimed(const hs_raw_session *session, hs__visit_item_fn visit, void *user, hs_error *err);

/* Visits a state with its attributes. Its data must be in memory. */
hs_code hs__visit_stored(const hs_env *env, const hs__stored_state *state, hs__visit_item_fn visit, void *user,
                         hs_error *err);

#endif
