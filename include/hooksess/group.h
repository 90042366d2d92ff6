/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_GROUP_H
#define HOOKSESS_GROUP_H

#include <hooksess/status.h>

/* A group: processes that train one model together, each with one session. It lets their sessions agree on stops, saves and
 * failures. This header is for engines, such as group_tcp.h, mpi.h and simulation.h. A program passes the group of an
 * engine to its session.
 *
 * A group serves one session. The rank of a process is its number, from 0. Rank 0 is the chief. The calls of one rank are
 * never concurrent, except report_exit and query_failed_rank. */

HS_BEGIN_DECLS

/* Receives the bytes of one rank. They are valid during the call. */
typedef void (*hs_gather_fn)(void *user, int32_t rank, hs_bytes bytes);

/* Records how the training ended, and returns the exit code of the process, which is 75 if this takes more than 10 s, as in
 * a file system that hangs. failed_rank and `why` are those of the first failure. */
typedef int (*hs_abandon_fn)(void *user, int32_t failed_rank, const hs_error *why);

/* Where the session of a rank is in its training, for report_step. */
typedef enum hs_step_place {
    HS_BEFORE_GATE = 0,   /* of the step, or outside of steps */
    HS_BEHIND_GATE = 1,   /* of the step */
    HS_AT_END_OF_STEP = 2 /* in the agreement at the end of the step */
} hs_step_place;

/* The functions of an engine. `self` is hs_group.self; `err` is never NULL. barrier, report_exit, query_failed_rank,
 * set_abandon and report_step may be NULL.
 *
 *   function           returns or does
 *   rank               returns this rank: 0 to rank_count - 1. Always the same
 *   rank_count         returns the number of ranks, 1 or more. Always the same
 *   allreduce_or       replaces each of n words by its bitwise OR over all ranks. n is 0 to 8. With n = 0, `words` may
 *                      be NULL, and the call is a barrier
 *   broadcast          copies `bytes` bytes at `data` from rank `root` to `data` of all ranks
 *   gather             sends `mine` to rank `root`. There, calls receive(user, rank, bytes) for each rank in order,
 *                      including the root. Sizes may differ. On the other ranks, `receive` may be NULL
 *   barrier            returns when all ranks have called it. NULL: sessions call allreduce_or with n = 0
 *   report_exit        reports that this rank makes no further collective call. `reason` is never NULL; its code is
 *                      HS_OK if the rank ends normally. A session calls it when it is closed
 *   query_failed_rank  queries the failure detector. HS_UNAVAILABLE: *rank has failed; `err` has the reason and the host
 *   set_abandon        installs the function that the engine calls, at most once and from its own thread, before it
 *                      ends this process. `abandon` NULL: removes it, and waits until a call of it has returned
 *   report_step        reports where this rank is: `place` in the step with this number, from 1 on. If it stays
 *                      HS_BEHIND_GATE for limit_secs (0: no limit), it has failed, and the error says where each rank is.
 *                      NULL: the engine has no limit of steps
 *
 * allreduce_or, broadcast, gather and barrier are collective: all ranks call them in the same order, with the same n, bytes
 * and root, on the session's thread. They block until the call is complete on this rank. Each returns HS_OK, or:
 *
 *   HS_UNAVAILABLE  a rank failed, or exited before it made this call. `err` names the rank. Later calls return it, too
 *   another code    the engine failed. The group is unusable
 *
 * report_exit and query_failed_rank do not wait for other ranks, and may be called by any thread. A rank failed if its
 * process died, if it reported an error, or if it ended normally and another rank needs it for a call. query_failed_rank
 * names the first such rank. A report also ends calls in which other ranks wait. Calls that the exiting rank has completed
 * also complete on the other ranks.
 *
 * If a rank has failed, and the session's thread does not call the group within a limit of the engine, the engine may call
 * the function of set_abandon, and end the process with the exit code that it returns. Without such a function the engine
 * never ends the process. */
typedef struct hs_group_ops {
    size_t size;
    const char *name; /* for messages */
    int32_t (*rank)(void *self);
    int32_t (*rank_count)(void *self);
    hs_code (*allreduce_or)(void *self, uint64_t *words, size_t n, hs_error *err);
    hs_code (*broadcast)(void *self, void *data, size_t bytes, int32_t root, hs_error *err);
    hs_code (*gather)(void *self, hs_bytes mine, int32_t root, hs_gather_fn receive, void *user, hs_error *err);
    hs_code (*barrier)(void *self, hs_error *err);
    void (*report_exit)(void *self, const hs_error *reason);
    hs_code (*query_failed_rank)(void *self, int32_t *rank, hs_error *err);
    void (*set_abandon)(void *self, hs_abandon_fn abandon, void *user);
    void (*report_step)(void *self, hs_step_place place, int64_t step, double limit_secs);
} hs_group_ops;

/* A group: an engine's functions and its object. Both are borrowed as long as the session lives. Frozen. */
typedef struct hs_group {
    const hs_group_ops *ops;
    void *self;
} hs_group;

HS_END_DECLS

#endif
