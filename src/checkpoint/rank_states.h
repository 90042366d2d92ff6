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

#endif
