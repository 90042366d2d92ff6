/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_RANK_STATES_H
#define HS_CHECKPOINT_RANK_STATES_H

#include "backends/raw_session.h"

/* Collective: all ranks call it before a save. Each rank sends to the chief checksums of its shared states, and the size of
 * its per-rank states (state.h).
 *
 * bytes   at the chief: the size of the per-rank states of the other ranks, as their providers expect
 * states  at the chief: the first failure of the states of any rank; HS_FAILED_PRECONDITION: a shared state differs
 *
 * Fails on all ranks alike. */
hs_code hs__rank_states_compare(hs_raw_session *session, uint64_t *bytes, hs_error *states, hs_error *err);

#endif
