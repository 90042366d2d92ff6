/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_RANKS_GROUP_TCP_CONNECT_H
#define HS_RANKS_GROUP_TCP_CONNECT_H

#include "base/env.h"
#include "ranks/group_tcp_hello.h"
#include "ranks/group_tcp_rendezvous.h"

/* Connects the ranks of a group over TCP:
 *
 *   1. Rank 0 listens, and publishes its addresses and the token of the job (group_tcp_rendezvous.h).
 *   2. Each other rank registers with rank 0. If it has children, it listens, too, and sends its addresses. The connection
 *      stays open until step 5.
 *   3. When all ranks are registered, rank 0 answers each with the addresses of its parent.
 *   4. Each rank but 0 opens two connections to its parent, one for the detector and one for the collective calls, and
 *      reports this to rank 0.
 *   5. When all ranks have reported it, rank 0 lets all start. Detectors and calls begin only now, because a rank that
 *      still waits for its children sends no heartbeats.
 *
 * If the group cannot start, rank 0 sends its error to all registered ranks: it lacks a rank at the end of connect_secs; a
 * rank has left after step 3; rank 0 cannot listen on its port, see hs__rendezvous_publish(); or there are two starts:
 * another rank 0 has replaced its file, or two processes have registered with the same rank. Which of them is the later one
 * is not known, so that both end.
 *
 * In steps 2 and 4 a rank retries. A registered rank does not wait for another rank 0, which belongs to a later start. A
 * listener reads from many connections at the same time and refuses those of strangers. Silent ones are closed when others
 * need their place, so that they do not disturb the ranks. */

enum { HS__TCP_FAN_OUT = 16 };

/* A neighbor in the tree, with the connections to it. */
typedef struct hs__tcp_edge {
    int32_t rank;
    int control, data; /* sockets. -1: not connected */
    char host[HS__HELLO_HOST];
} hs__tcp_edge;

typedef struct hs__tcp_edges {
    hs__tcp_edge *items; /* in the order of the ranks; so the parent is first, if there is one */
    size_t n;
} hs__tcp_edges;

static inline int32_t hs__tcp_parent(int32_t rank)
{
    return (rank - 1) / HS__TCP_FAN_OUT;
}

/* Connects. The caller releases `edges`, also after a failure. */
hs_code hs__tcp_connect_ranks(hs__tcp_rendezvous *rendezvous, const hs_env *env, hs__tcp_edges *edges, hs_error *err);
/* Closes all connections. */
void hs__tcp_release_edges(const hs_env *env, hs__tcp_edges *edges);

#endif
