/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_MPI_H
#define HOOKSESS_MPI_H

#include <hooksess/env.h>
#include <hooksess/group.h>
#include <hooksess/outcome.h>

/* Without MPI's headers, this one declares the options only. */
#if !defined(MPI_VERSION) && defined(__has_include)
#if __has_include(<mpi.h>)
#include <mpi.h>
#endif
#endif

/* A group over MPI (group.h). Link with libhooksess_mpi. See docs/guide/launching.md.
 *
 *     int main(int argc, char **argv)
 *     {
 *         MPI_Init(&argc, &argv);
 *         hs_mpi_group *group = hs_mpi_group_new(MPI_COMM_WORLD, NULL, NULL);
 *         ...
 *         hs_session *s = hs_training_session_open(backend, HS_TRAINING_OPTIONS(.checkpoint_dir = "run",
 *                                                                               .group = hs_mpi_group_get(group)), NULL);
 *         ...
 *         hs_outcome outcome = hs_session_close(s, NULL);
 *         return hs_mpi_group_finalize(group, &outcome);
 *     }
 *
 * A group is for one session. It uses a duplicate of the communicator, only in calls of the session's thread, which must be
 * allowed to call MPI: MPI_THREAD_FUNNELED is sufficient.
 *
 * Failures: a thread of each rank, the detector, exchanges heartbeats over TCP, unencrypted (group_tcp.h). It never calls
 * MPI. A call of the group that waits for a failed rank returns HS_UNAVAILABLE. A rank that does not come to a call within
 * collective_secs has failed, too, as has one that stays behind the gate for hs_replica_options.step_secs. MPI cannot
 * cancel an operation of the program that waits for a failed rank. So if the session is still open failure_grace_secs after
 * a failure, the group records its outcome, and ends the process with this outcome's exit code.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_mpi_group hs_mpi_group;

typedef struct hs_mpi_options {
    size_t size;
    /* Limit of one collective call; detector_secs longer if it is not known which rank is missing. Must exceed the time in
     * which one rank saves or evaluates. 0: 600. HS_NEVER: none */
    double collective_secs;
    double detector_secs;      /* limit of the time between heartbeats. 0: 10. HS_NEVER: no detector */
    double failure_grace_secs; /* time from a failure until the process is ended. 0: 10. HS_NEVER: never */
    const hs_env *env;         /* memory, clock and log */
} hs_mpi_options;
#define HS_MPI_OPTIONS(...) HS_OPTIONS(hs_mpi_options, __VA_ARGS__)

#ifdef MPI_VERSION

/* Creates a group of the processes of `comm`. Collective: if it fails on one process, it fails on all. It waits without
 * limit until all call it. `options` NULL: the defaults. `err` NULL: logs the error.
 *
 * HS_INVALID_ARGUMENT: invalid options, or `comm` is an intercommunicator. HS_FAILED_PRECONDITION: MPI is not initialized,
 * or is finalized. HS_RESOURCE_EXHAUSTED: out of memory. HS_UNAVAILABLE: an MPI function failed, or the detectors could not
 * connect. */
HS_API hs_mpi_group *hs_mpi_group_new(MPI_Comm comm, const hs_mpi_options *options, hs_error *err);
/* Returns the group for session options. Valid until it is freed. If `group` is NULL: a group with which no session can be
 * opened. */
HS_API const hs_group *hs_mpi_group_get(const hs_mpi_group *group);
/* Frees the group. Collective, after the session is closed and before MPI_Finalize. If a call of the group has failed, do
 * not call MPI_Finalize: hs_mpi_group_finalize() decides this. */
HS_API void hs_mpi_group_free(hs_mpi_group *group);
/* Waits until all ranks have called it, at most collective_secs, or failure_grace_secs if a rank has failed. Frees the
 * group, and calls MPI_Finalize. It does not call MPI_Finalize if a rank is missing, or a call of the group has failed: the
 * launcher then ends the others.
 *
 * outcome  of the session. A process that fails before it opens one passes hs_outcome_from_error(), for the other ranks
 *
 * Returns hs_outcome_exit_code(outcome), for main. In a forked child it does nothing else. */
HS_API int hs_mpi_group_finalize(hs_mpi_group *group, const hs_outcome *outcome);

#endif

HS_END_DECLS

#endif
