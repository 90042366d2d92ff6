/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_RANK_PARTS_H
#define HS_CHECKPOINT_RANK_PARTS_H

#include "checkpoint/save_list.h"

/* The per-rank states of the other ranks (state.h), which the chief saves with its own. Each rank sends its states as one
 * stream of bytes, in pieces. The chief writes a piece before it orders the next one:
 *
 *   1. The chief broadcasts an order: the number of a rank, all ranks, or the end.
 *   2. All ranks gather. Only the ranks of the order send a piece; or all send the checksums of their variables
 *      (rank_variables.h), if this is the order.
 *
 * The first order is to all ranks. The chief keeps these first pieces, which have at most 16 MiB in all: small states need
 * no other order. Then it orders the rest of one rank after the other, in pieces of 1 MiB. It orders the end at any time,
 * also first, if it has failed.
 *
 *   piece   a uint32, 1 if it is the last of its rank, and bytes of the stream
 *   stream  for each state a record, its key, its identity and its data
 *   data    chunks of a uint32, their size, and bytes; then the size 0. If the provider has failed: UINT32_MAX, and its
 *           hs_error, which ends the stream
 *
 * Ranks are processes of the same program, so all is in the form of the memory of the machine. */

/* At the chief, during a save. */
typedef struct hs__rank_parts {
    hs_raw_session *session;
    uint64_t bytes;     /* of the states of the other ranks, as their providers expect */
    hs__buffer *pieces; /* by rank: the last piece that it has sent. NULL: none was ordered yet */
    hs_error lost;      /* the group has failed. HS_OK: it has not */
} hs__rank_parts;

/* At the other ranks: sends the states of this rank, and `sums`, as the chief orders. Returns at the end. Fails if the
 * group does. */
hs_code hs__rank_parts_send(hs_raw_session *session, hs_bytes sums, hs_error *err);

/* At the chief. `parts` may be NULL: there are none. */

/* Sets *fit if the first pieces have all states, so that they fit in memory. */
hs_code hs__rank_parts_fit(hs__rank_parts *parts, bool *fit, hs_error *err);
/* Visits the states of the other ranks, once. The visitor must read the data. */
hs_code hs__rank_parts_visit(hs__rank_parts *parts, hs__visit_item_fn visit, void *user, hs_error *err);
/* Gathers the checksums of all ranks. `mine`: those of the chief. */
hs_code hs__rank_parts_gather_sums(hs__rank_parts *parts, hs_bytes mine, hs_gather_fn receive, void *user, hs_error *err);
/* Call it in any case: orders the end. Returns the failure of the group, if it has failed before. */
hs_code hs__rank_parts_end(hs__rank_parts *parts, hs_error *err);

#endif
