/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_UNCLAIMED_STATES_H
#define HS_CHECKPOINT_UNCLAIMED_STATES_H

#include "checkpoint/save_item.h"
#include "checkpoint/stored_states.h"

/* States of the restored checkpoint without a provider in the session, and late variables that the session does not have.
 * The session keeps them (hs_raw_session.unclaimed) until a provider or a variable of that name is added, or until they are
 * reported. */

/* Moves the unclaimed items of `states` to the session. They replace the items of an earlier restore. */
void hs__stash_unclaimed(hs__stored_states *states, hs_raw_session *session);
/* Loads the unclaimed state of this key into a provider that is being added, and removes it. */
hs_code hs__claim_state(hs_raw_session *session, const hs__state_slot *slot, hs_error *err);
/* Sets a late variable that is being added to its unclaimed value, and removes that. A failure changes nothing, unless the
 * error begins with HS__PARTLY_RESTORED. */
hs_code hs__claim_variable(hs_raw_session *session, const hs_variable_def *def, hs_error *err);
/* Sets a late variable of a recovered session to its unclaimed value, which is kept, as the program may add the variable
 * again. Without one, sets it to its initial value. */
hs_code hs__restore_late(hs_raw_session *session, const hs_variable_def *def, hs_error *err);
/* Logs a warning for each unclaimed item, and one for all tensors that no variable uses, once per restore. Later
 * checkpoints omit them. */
void hs__report_unclaimed(hs_raw_session *session);
/* Visits the unclaimed items that were not reported yet: they are saved again. */
hs_code hs__visit_unclaimed(const hs_raw_session *session, hs__visit_item_fn visit, void *user, hs_error *err);

/* Visits a state, or a late variable, with its attributes. Its data must be in memory. */
hs_code hs__visit_stored(const hs_env *env, const hs__stored_state *state, hs__visit_item_fn visit, void *user,
                         hs_error *err);

#endif
