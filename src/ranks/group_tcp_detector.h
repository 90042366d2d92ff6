/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_RANKS_GROUP_TCP_DETECTOR_H
#define HS_RANKS_GROUP_TCP_DETECTOR_H

#include "ranks/group_tcp_connect.h"

#include <hooksess/group_tcp.h>

#include <pthread.h>
#include <stdatomic.h>

/* The failure detector of a group over TCP: a thread, and a control connection to each neighbor in the tree.
 *
 * Each rank sends heartbeats to its neighbors. It also sends notices that a rank has left: it failed, or it ended normally.
 * A rank that receives news in a notice sends them to its other neighbors, so that all ranks get them.
 *
 * Collective calls are numbered from 0. A notice has the number of the first call that cannot complete, because the rank
 * that left did not make it: the cut. All ranks fail calls from the cut on, and complete calls before it. The number comes
 *
 *   - from the rank itself, if it reports its exit;
 *   - else from a neighbor, when it has received all data that the rank had sent. Then the neighbor knows the first call
 *     for which data is missing. Until then the failure is known, and the cut is not.
 *
 * If a rank stays behind the gate of a step for too long, it sends its place to all ranks, which answer with theirs. So all
 * ranks get all places. Each rank then records the failure of a rank behind the gate, with a message of the places. */

enum { HS__NOTICE_HEADER = 32, HS__NOTICE_MAX = HS__NOTICE_HEADER + HS_MESSAGE_SIZE };

#define HS__NO_CUT UINT64_MAX

/* The detector's side of an edge. Of the detector's lock, except edge, in, got and heard_ns (of its thread) and done_calls
 * (of the session's thread). */
typedef struct hs__tcp_link {
    hs__tcp_edge *edge;
    unsigned char in[HS__NOTICE_MAX]; /* a message that is not complete */
    size_t got;
    int64_t heard_ns;
    unsigned char *out; /* bytes that the socket did not accept */
    size_t out_used, out_capacity;
    uint64_t begun;      /* calls that the neighbor has begun, as it sent last */
    bool exited;         /* the neighbor has reported its exit */
    bool lost;           /* the connection has ended without such a report */
    bool cut_known;      /* lost, and the cut is known */
    bool frozen;         /* lost because of a missing heartbeat */
    uint64_t done_calls; /* calls whose data was exchanged on this edge */
} hs__tcp_link;

/* Where a rank is. */
typedef struct hs__rank_place {
    bool known;
    hs_step_place place;
    int64_t step, since_ns;
    uint64_t begun; /* its calls */
} hs__rank_place;

typedef struct hs__tcp_detector {
    const hs_env *env;
    const hs_group_tcp_options *options;
    char host[HS__HELLO_HOST];
    hs__tcp_link *links; /* of the edges, in their order */
    size_t n_links;
    int64_t detector_ns, beat_ns, grace_ns; /* grace_ns INT64_MAX: never */
    pthread_t thread;
    int wake_thread, wake_session; /* eventfds */
    bool started;
    _Atomic uint64_t begun, ended; /* collective calls of this rank */
    _Atomic uint64_t cut;
    pthread_mutex_t lock; /* of all below */
    bool stopping, exit_reported;
    int32_t failed_rank; /* the first one. -1: none */
    int64_t failed_ns;
    hs_error failure;
    int32_t cut_rank;
    hs_abandon_fn abandon;
    void *abandon_user;
    hs_step_place place; /* where this rank is, in which step, since when, and until when it may be there */
    int64_t step, place_since_ns, place_until_ns; /* INT64_MAX: no limit */
    hs__rank_place *places;                       /* of all ranks */
    int32_t n_places;                             /* that are known. 0: no rank has asked for them */
    int64_t places_since_ns;
    bool abandoning;      /* the process ends: */
    atomic_int exit_code; /* with this code, 75 if the session does not return one in time */
    atomic_bool end_done; /* the thread that ends it has done its part */
} hs__tcp_detector;

/* Starts the detector. The caller stops it, also after a failure. Options, env and edges stay. */
hs_code hs__detector_start(hs__tcp_detector *d, const hs_group_tcp_options *options, const hs_env *env,
                           const hs__tcp_edges *edges, hs_error *err);
/* Reports a normal exit, unless an exit was reported, sends what is not sent, and stops the thread. */
void hs__detector_stop(hs__tcp_detector *d);

/* The functions of the group (group.h). Any thread. */
void hs__detector_report_exit(hs__tcp_detector *d, const hs_error *reason);
hs_code hs__detector_query(hs__tcp_detector *d, int32_t *rank, hs_error *err);
void hs__detector_set_abandon(hs__tcp_detector *d, hs_abandon_fn abandon, void *user);
void hs__detector_report_step(hs__tcp_detector *d, hs_step_place place, int64_t step, double limit_secs);

/* For collective calls, on the session's thread. `call` is the number of the call, and `name` its function. */

/* Begins a call. HS_UNAVAILABLE: it cannot complete, and is not begun. */
hs_code hs__detector_begin_call(hs__tcp_detector *d, const char *name, uint64_t *call, hs_error *err);
void hs__detector_end_call(hs__tcp_detector *d);

/* Checks, while the call waits, whether it can complete. Sets *give_up_ns to the time at which a wait ends because a rank
 * has failed, although the cut is not known; INT64_MAX: none. */
hs_code hs__detector_check_call(hs__tcp_detector *d, uint64_t call, const char *name, int64_t *give_up_ns, hs_error *err);

/* The data connection to a neighbor has ended during a call. Waits until it is known why, at most 1 s. Returns
 * HS_UNAVAILABLE. */
hs_code hs__detector_data_ended(hs__tcp_detector *d, hs__tcp_link *link, uint64_t call, const char *name, hs_error *err);

/* Reports that a rank has failed, and that calls from `call` on cannot complete. `rank` may be alive, or this rank. Returns
 * HS_UNAVAILABLE, with the first failure in `err`. */
hs_code hs__detector_fail_rank(hs__tcp_detector *d, int32_t rank, uint64_t call, const char *why, hs_error *err);

/* True if the neighbor has begun this call, as far as is known. */
bool hs__detector_has_begun(hs__tcp_detector *d, const hs__tcp_link *link, uint64_t call);

/* Empties the eventfd that wakes the session's thread. */
void hs__detector_woken(hs__tcp_detector *d);

#endif
