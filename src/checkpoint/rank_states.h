/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_RANK_STATES_H
#define HS_CHECKPOINT_RANK_STATES_H

#include "checkpoint/archive.h"
#include "checkpoint/save_list.h"

/* The states of a group's ranks (state.h). Before a save, each rank sends to the chief its own states, and checksums of the
 * shared ones. The chief compares the checksums, and saves the states of all ranks. */

/* Collective: all ranks call it for a save. Fails on all ranks alike. Otherwise, at the chief, *states is the first failure
 * of the states of any rank, or HS_FAILED_PRECONDITION if a shared state differs, and hs_raw_session.gathered is filled;
 * call hs__rank_states_free after the save. */
hs_code hs__rank_states_gather(hs_raw_session *session, hs_error *states, hs_error *err);
void hs__rank_states_free(hs_raw_session *session);
/* Visits the gathered states of the other ranks. */
hs_code hs__rank_states_visit(const hs_raw_session *session, hs__visit_item_fn visit, void *user, hs_error *err);

/* Sets *n to the number of ranks that saved the state in this checkpoint, if that is another number than the session's; 0:
 * the checkpoint does not have the state, or has that of this rank. */
hs_code hs__rank_states_count(const hs__archive *archive, const hs_raw_session *session, const hs__state_slot *slot,
                              int32_t *n, hs_error *err);
/* True if the checkpoint has the state of any number of ranks. */
bool hs__has_state(const hs__archive *archive, const char *base);
/* True if the key is that of the state `base` of any rank. */
bool hs__is_rank_key(const char *base, const char *key);
/* True if the key is that of a per-rank state that the session has, of any rank. */
bool hs__is_rank_state(const hs_raw_session *session, const char *key);

#endif
