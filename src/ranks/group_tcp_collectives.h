/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_RANKS_GROUP_TCP_COLLECTIVES_H
#define HS_RANKS_GROUP_TCP_COLLECTIVES_H

#include "ranks/group_tcp_detector.h"

/* The collective calls of a group over TCP (group.h), on the session's thread. Data moves along the tree:
 *
 *   allreduce_or  up to rank 0, combined on the way; then the result down to all ranks
 *   broadcast     from the root to its neighbors, and on from there, in pieces
 *   gather        from each rank to the root, in the order of the ranks. The root holds the data of one rank at a time
 *
 * The data of a rank begins with a header: 4 bytes function, 4 bytes root, 8 bytes number of bytes that follow. So a call
 * that differs from that of another rank is an error, and not a wait. */

hs_code hs__tcp_allreduce_or(hs__tcp_detector *d, uint64_t *words, size_t n, hs_error *err);
hs_code hs__tcp_broadcast(hs__tcp_detector *d, void *data, size_t bytes, int32_t root, hs_error *err);
hs_code hs__tcp_gather(hs__tcp_detector *d, hs_bytes mine, int32_t root, hs_gather_fn receive, void *user, hs_error *err);

#endif
