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

/* A group over MPI: the sessions of the processes of a communicator act as one (group.h). Link with libhooksess_mpi.
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
 * A group is for one session. It sends messages over a duplicate of the communicator, and only in calls of the session's
 * thread. This must be the thread that may call MPI: MPI_THREAD_FUNNELED is sufficient. The program's gradients never pass
 * through the group.
 *
 * Failures: a thread of each rank, the detector, never calls MPI. It exchanges heartbeats over TCP, in a group of its own
 * (group_tcp.h, also about its security). A call of the group that waits for a failed rank returns HS_UNAVAILABLE. A rank
 * that does not come to a call within collective_secs has failed, too. An MPI operation of the program that waits for a
 * failed rank never returns, because MPI cannot cancel it. Therefore the group may end the process: if a rank has failed,
 * and the session is still open failure_grace_secs later, its outcome is recorded, and the process ends with the exit code
 * of this outcome. mpirun, too, ends all processes if one dies, or exits before MPI_Finalize.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_mpi_group hs_mpi_group;

typedef struct hs_mpi_options {
    size_t size;
    /* Limit of one collective call; detector_secs longer if it is not known which rank is missing. Must exceed the time in
     * which one rank saves or evaluates, while the others wait. 0: 600. HS_NEVER: none */
    double collective_secs;
    double detector_secs;      /* a rank that sends no heartbeat for this time has failed. 0: 10. HS_NEVER: no detector */
    double failure_grace_secs; /* time from a failure until the process is ended, see above. 0: 10. HS_NEVER: it never is */
    const hs_env *env;         /* memory, clock and log */
} hs_mpi_options;
#define HS_MPI_OPTIONS(...) HS_OPTIONS(hs_mpi_options, __VA_ARGS__)

#ifdef MPI_VERSION

/* Creates a group of the processes of `comm`. Collective: all processes call it, and it fails on all if it fails on one.
 * There is no limit for its wait for a process that does not call it (MPI_Comm_dup). `options` NULL: the defaults. `err`
 * NULL: an error is logged.
 *
 * HS_INVALID_ARGUMENT: invalid options, or `comm` is an intercommunicator. HS_FAILED_PRECONDITION: MPI is not initialized,
 * or is finalized. HS_RESOURCE_EXHAUSTED: out of memory. HS_UNAVAILABLE: an MPI function failed, or the detectors of the
 * ranks could not connect. */
HS_API hs_mpi_group *hs_mpi_group_new(MPI_Comm comm, const hs_mpi_options *options, hs_error *err);
/* Returns the group for `.group` of session options. Valid until the group is freed. `group` NULL: an unusable group, with
 * which no session can be opened. */
HS_API const hs_group *hs_mpi_group_get(const hs_mpi_group *group);
/* Frees the group. Collective. Call it after the session is closed and before MPI_Finalize. If a call of the group has
 * failed, do not call MPI_Finalize after it: hs_mpi_group_finalize() decides this. NULL is allowed. Does
 * nothing in a forked child. */
HS_API void hs_mpi_group_free(hs_mpi_group *group);
/* Waits until all ranks have called it, frees the group, and calls MPI_Finalize. If a call of the group has failed, it does
 * not wait and does not call MPI_Finalize, which would wait for the failed rank: when this process ends without it, the
 * launcher ends the others. The same if a rank does not come: the wait ends after collective_secs, or failure_grace_secs if
 * a rank has failed.
 *
 * outcome  of the session. A process that fails before it opens one passes hs_outcome_from_error(), so that the other
 *          ranks learn the error
 *
 * Returns hs_outcome_exit_code(outcome), for main. In a forked child it does nothing else. */
HS_API int hs_mpi_group_finalize(hs_mpi_group *group, const hs_outcome *outcome);

#endif

HS_END_DECLS

#endif
