/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_GROUP_TCP_H
#define HOOKSESS_GROUP_TCP_H

#include <hooksess/env.h>
#include <hooksess/group.h>

/* A group over TCP: processes on one or several machines that train one model together. It needs no other library.
 * Gradients do not pass through the group: the program sums them with MPI, NCCL or its own communication.
 *
 *     hs_group_tcp *group = hs_group_tcp_from_env(HS_GROUP_TCP_OPTIONS(.rendezvous_dir = "run"), NULL);
 *     session = hs_training_session_open(
 *         backend, HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .group = hs_group_tcp_get(group)), &err);
 *     ...
 *     hs_session_close(session, &err);
 *     hs_group_tcp_free(group);
 *
 * If the group cannot be created, the first call logs why, and the session cannot be opened.
 *
 * The ranks form a tree with 16 children per rank. Rank 0 is its root, where all ranks connect first. Meanwhile it
 * needs a file descriptor per rank (RLIMIT_NOFILE, ulimit -n). The others find rank 0 in one of these ways, which must be
 * the same on all ranks:
 *
 *   option          how
 *   address         rank 0 listens on this address, and the others connect to it
 *   rendezvous_dir  rank 0 writes its addresses and a random nonce to a file in this directory
 *   exchange        the program copies the addresses and a random nonce from rank 0 to all ranks
 *
 * A host may have several addresses, of IPv6 and IPv4: rank 0 listens on all, and the others connect to the first one that
 * answers. Apart from `address`, ranks send each other numeric addresses, so that no name need resolve.
 *
 * No rank starts before all are connected. If the group cannot start, all ranks that rank 0 has accepted return its error,
 * which names the missing rank or the port in use. A rank that rank 0 refuses retries for connect_secs, and returns why.
 *
 * A port in use: with rendezvous_dir, rank 0 reports this on any other port; with `address` alone, on the next one, until
 * all have received it, at most connect_secs. If the next port cannot be reached or is in use, too, the other ranks end
 * after connect_secs without this reason.
 *
 * Failures: a thread of each rank, the detector, exchanges heartbeats with the neighbors in the tree. A rank has failed if
 * its connection ends, if it reports an exit with an error, or if it sends no heartbeat for detector_secs. All ranks
 * receive this within milliseconds. Then the collective calls that this rank has not made return HS_UNAVAILABLE.
 *
 * Limits: if a collective call waits, or rank 0 or a parent waits for ranks to connect, the log gets a warning with the
 * missing ranks after 5 s, and each time the wait has doubled. After collective_secs a call returns HS_UNAVAILABLE, and the
 * first missing rank has failed. Ranks other than 0 wait detector_secs longer, because rank 0 knows which ranks are
 * missing.
 *
 * The group may end the process: if a session has installed a function by set_abandon (group.h), and has not removed it
 * failure_grace_secs after this rank has learned of a failure, then the detector calls the function, logs one line, and
 * calls _exit() with the code that the function returns. Normally the session's thread then waits in the program's own
 * communication. But the detector does not know what it does: it may also be in a long save or evaluation. A program with
 * such saves needs a longer time.
 *
 * Security: nothing is encrypted. The nonce, or `job`, prevents that processes of other jobs connect by mistake. It does
 * not protect against an attacker who can read the network. Use a private network.
 *
 * Forked children: a child that is forked while an object exists cannot use it, and keeps its connections open. So the end
 * of this process is noticed after detector_secs, unless its children have ended too. Fork before, or end or exec soon.
 *
 * Threads: one thread at a time per object. For the group that hs_group_tcp_get() returns, see group.h. */

HS_BEGIN_DECLS

typedef struct hs_group_tcp hs_group_tcp;

typedef struct hs_group_tcp_options {
    size_t size;
    int32_t rank;       /* of this process: 0 to rank_count - 1 */
    int32_t rank_count; /* (required) number of processes. 1: no connections, and the options for them are not used */
    /* "host:port" or "[host]:port", of rank 0. Rank 0 binds to this host's interface; or to all interfaces if the host
     * is not an address of its machine, or is a name of the loopback interface other than "localhost". With rendezvous_dir
     * or exchange: the interface and the port of rank 0; the other ranks ignore it. Only there, the port may be 0: any; and
     * the address NULL: all interfaces */
    const char *address;
    /* A directory that all ranks share, normally the checkpoint directory. Rank 0 creates its last level. Rank 0 writes the
     * file ".hooksess-rendezvous" with mode 0600, and removes it when all ranks are connected. The others wait for this
     * file, and ignore one that an earlier run left or that another user owns */
    const char *rendezvous_dir;
    /* Collective: copies `bytes` bytes at `data` from rank 0 to all ranks, such as MPI_Bcast(). Called once per rank, by
     * hs_group_tcp_new(), also on a rank that cannot begin, so that the others need not wait for it. If it returns another
     * code than HS_OK, that fails with this error */
    hs_code (*exchange)(void *user, void *data, size_t bytes, hs_error *err);
    void *exchange_user;
    const char *job; /* with `address` alone: a name that only this job has, at most 63 bytes. NULL: "" */
    /* On rank 0: limit until all ranks are connected. On others: until rank 0 answers; from then on, rank 0 ends the wait,
     * or after 1.25 times this limit the rank itself. 0: 60 */
    double connect_secs;
    double collective_secs; /* limit of one collective call. 0: 600. HS_NEVER: none */
    double detector_secs;   /* a rank that sends no heartbeat for this time has failed. 0: 10 */
    /* Time from a failure until the process is ended, see above; on other ranks than 0, one second more. 0: 10. HS_NEVER:
     * it is never ended */
    double failure_grace_secs;
    const hs_env *env; /* memory and log; the clock and the files are always the system's */
} hs_group_tcp_options;

#define HS_GROUP_TCP_OPTIONS(...) HS_OPTIONS(hs_group_tcp_options, __VA_ARGS__)

/* Connects all ranks. Collective: returns when all are connected.
 *
 * HS_INVALID_ARGUMENT: invalid options. HS_UNAVAILABLE: the ranks were not connected within connect_secs, or one has left;
 * the message names the missing ranks. HS_FAILED_PRECONDITION: the port of rank 0 is in use. HS_RESOURCE_EXHAUSTED: out of
 * memory or threads. Others: the code of a failed system call, or of `exchange`. If `err` is NULL, the error is logged. */
HS_API hs_group_tcp *hs_group_tcp_new(const hs_group_tcp_options *options, hs_error *err);

/* The same, with rank and rank_count from the environment variables of a launcher. The first pair that is set counts:
 *
 *   launcher                      rank                  rank count
 *   torchrun and compatible ones  RANK                  WORLD_SIZE
 *   Open MPI                      OMPI_COMM_WORLD_RANK  OMPI_COMM_WORLD_SIZE
 *   MPICH, Intel MPI              PMI_RANK              PMI_SIZE
 *   srun                          SLURM_PROCID          SLURM_NTASKS
 *
 * If none is set, the group has one rank. rank and rank_count of the options must be 0. If neither address, rendezvous_dir
 * nor exchange is set, the host is MASTER_ADDR, and the port is MASTER_PORT + 1, because torch's store listens on
 * MASTER_PORT. MASTER_PORT + 2 reports that this port is in use: no other job may use the three. No other function of this
 * header reads the environment. HS_INVALID_ARGUMENT: also if a variable is not a number, or a needed one is missing. If
 * `err` is NULL, the error is logged. */
HS_API hs_group_tcp *hs_group_tcp_from_env(const hs_group_tcp_options *options, hs_error *err);

/* Returns the group for the options of a session. Valid until the object is freed. Never NULL: if the object is NULL,
 * because it could not be created, a session with this group cannot be opened. (A session without a group trains alone.) */
HS_API const hs_group *hs_group_tcp_get(const hs_group_tcp *group);

/* Closes the connections. Call it after the session is closed. Reports a normal exit, unless an exit was reported. Waits at
 * most 2 s until the system has accepted the last messages. Does nothing in a forked child. */
HS_API void hs_group_tcp_free(hs_group_tcp *group);

/* For engines that send the data of their collective calls by other means, such as MPI, and have this group as their
 * failure detector. They forward report_exit, query_failed_rank and set_abandon to it. They do not call its collective
 * functions, but report their own calls, so that a rank that exits ends the calls that it has not made, and no others. On
 * the session's thread:
 *
 *   begin  begins a call. HS_UNAVAILABLE: it cannot complete, and is not begun
 *   check  while the call waits. HS_UNAVAILABLE: it cannot complete
 *   fail   while the call waits: `rank` has not come to it. All ranks receive this, and agree on the cause. Returns
 *          HS_UNAVAILABLE with the first failure of the group, which may be another one
 *   end    ends the call, complete or not
 *
 * call  the name of the function, for messages
 * why   the message of the failure, such as "rank 3 has not called allreduce_or for 600 s"
 *
 * HS_INVALID_ARGUMENT: the group is NULL, or there is no such rank. check and fail return HS_FAILED_PRECONDITION if no
 * call is in progress. */
HS_API hs_code hs_group_tcp_begin_call(hs_group_tcp *group, const char *call, hs_error *err);
HS_API hs_code hs_group_tcp_check_call(hs_group_tcp *group, const char *call, hs_error *err);
HS_API hs_code hs_group_tcp_fail_call(hs_group_tcp *group, int32_t rank, const char *why, hs_error *err);
HS_API void hs_group_tcp_end_call(hs_group_tcp *group);

HS_END_DECLS

#endif
