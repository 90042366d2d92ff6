/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_GROUP_TCP_H
#define HOOKSESS_GROUP_TCP_H

#include <hooksess/env.h>
#include <hooksess/group.h>

/* A group over TCP, for processes on one or several machines. It does not transport gradients: the program sums them with
 * MPI, NCCL or its own communication. See docs/guide/launching.md.
 *
 *     hs_group_tcp *group = hs_group_tcp_from_env(HS_GROUP_TCP_OPTIONS(.rendezvous_dir = "run"), NULL);
 *     session = hs_training_session_open(
 *         backend, HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .group = hs_group_tcp_get(group)), &err);
 *     ...
 *     hs_session_close(session, &err);
 *     hs_group_tcp_free(group);
 *
 * First all ranks connect to rank 0, which needs a file descriptor per rank (RLIMIT_NOFILE, ulimit -n). They find it by
 * `address`, `rendezvous_dir` or `exchange`, the same on all ranks. Rank 0 listens on all addresses of its host, of IPv6
 * and IPv4, and the others connect to the first one that answers.
 *
 * No rank starts before all are connected. If the group cannot start, all ranks that reach rank 0 return its error, which
 * names the missing rank or the port in use; the others fail after connect_secs. With `address` alone, rank 0 reports a
 * port in use on the next port. A rank that rank 0 refuses retries for connect_secs, and returns why.
 *
 * Processes of an earlier start may still run. If the starts have different names (`job`), no process joins ranks of
 * another one. Without names, the ranks end if they notice two starts: a rank that was connected to rank 0 never connects
 * to another one, a rank 0 ends if another one replaces its file, and all end if two processes with the same rank connect.
 *
 * Failures: a thread of each rank, the detector, exchanges heartbeats. A rank has failed if its connection ends, if it
 * reports an exit with an error, or if it sends no heartbeat for detector_secs. Within milliseconds, the collective calls
 * that this rank has not made return HS_UNAVAILABLE on all ranks.
 *
 * Limits: the log names ranks that are missing for 5 s, and again each time the wait has doubled. After collective_secs a
 * call returns HS_UNAVAILABLE, and the first missing rank has failed. Ranks other than 0 wait detector_secs longer. A rank
 * that stays behind the gate of a step for hs_replica_options.step_secs has failed, too: a hang in the program's sums.
 *
 * The group may end the process: if the function of set_abandon (group.h) is still installed failure_grace_secs after this
 * rank has learned of a failure, the detector calls it, logs one line, and calls _exit() with its result; after 10 s
 * without a result, with 75. For long saves or evaluations, set a longer time.
 *
 * Security: nothing is encrypted. The nonce, or `job`, only prevents that processes of other jobs connect by mistake. Use a
 * private network.
 *
 * A forked child keeps the connections open: the end of this process is then noticed after detector_secs only. Fork before,
 * or end or exec soon.
 *
 * Threads: one thread at a time per object. For the group that hs_group_tcp_get() returns, see group.h. */

HS_BEGIN_DECLS

typedef struct hs_group_tcp hs_group_tcp;

typedef struct hs_group_tcp_options {
    size_t size;
    int32_t rank;       /* 0 to rank_count - 1 */
    int32_t rank_count; /* (required) number of processes. 1: no connections, and the options for them are not used */
    /* "host:port" or "[host]:port" of rank 0, which binds to the host's interface. It binds to all interfaces if the host
     * is not an address of its machine, or is a name of the loopback interface other than "localhost". With rendezvous_dir
     * or exchange, only rank 0 uses it: port 0 is any port, and NULL all interfaces */
    const char *address;
    /* A directory that all ranks share, normally the checkpoint directory. Rank 0 creates its last level. Until all are
     * connected, the file ".hooksess-rendezvous" in it (mode 0600) has the addresses of rank 0, a random nonce and the job.
     * Files of earlier runs, other jobs and other users are ignored */
    const char *rendezvous_dir;
    /* Collective: copies `bytes` bytes at `data` (addresses and a random nonce) from rank 0 to all ranks, such as
     * MPI_Bcast(). hs_group_tcp_new() calls it once per rank, also on a rank that cannot begin, and fails with the error
     * that it returns */
    hs_code (*exchange)(void *user, void *data, size_t bytes, hs_error *err);
    void *exchange_user;
    /* Without exchange: a name that is the same on all ranks, and another one in each start. At most 63 bytes. NULL: "", or
     * with hs_group_tcp_from_env() that of the launcher */
    const char *job;
    /* On rank 0: limit until all ranks are connected. On others: until rank 0 answers; from then on 1.25 times this limit.
     * 0: 60 */
    double connect_secs;
    double collective_secs; /* limit of one collective call. 0: 600. HS_NEVER: none */
    double detector_secs;   /* limit of the time between heartbeats. 0: 10 */
    /* Time from a failure until the process is ended; on other ranks than 0, one second more. 0: 10. HS_NEVER: never */
    double failure_grace_secs;
    const hs_env *env; /* memory and log; the clock and the files are always the system's */
} hs_group_tcp_options;

#define HS_GROUP_TCP_OPTIONS(...) HS_OPTIONS(hs_group_tcp_options, __VA_ARGS__)

/* Connects all ranks. Collective: returns when all are connected. `err` NULL: logs the error.
 *
 *   HS_INVALID_ARGUMENT     invalid options
 *   HS_UNAVAILABLE          ranks, named in the message, did not connect within connect_secs, or one has left; or the
 *                           ranks were started again
 *   HS_FAILED_PRECONDITION  the port of rank 0 is in use; or no other rank has connected to rank 0
 *   HS_RESOURCE_EXHAUSTED   out of memory or threads
 *   others                  the code of a failed system call, or of `exchange` */
HS_API hs_group_tcp *hs_group_tcp_new(const hs_group_tcp_options *options, hs_error *err);

/* The same, with rank and rank_count from the environment variables of a launcher. The first pair that is set counts:
 *
 *   launcher          rank                  rank count
 *   torchrun          RANK                  WORLD_SIZE
 *   Open MPI          OMPI_COMM_WORLD_RANK  OMPI_COMM_WORLD_SIZE
 *   MPICH, Intel MPI  PMI_RANK              PMI_SIZE
 *   srun              SLURM_PROCID          SLURM_NTASKS
 *
 * If `job` is NULL, it is the text of these variables of the same launcher:
 *
 *   launcher          job
 *   torchrun          TORCHELASTIC_RUN_ID
 *   Open MPI          PMIX_NAMESPACE
 *   MPICH, Intel MPI  PMI_JOBID, SLURM_RESTART_COUNT
 *   srun              SLURM_JOB_ID, SLURM_STEP_ID, SLURM_RESTART_COUNT
 *
 * If no pair is set, the group has one rank. The options must not set rank and rank_count. If neither address,
 * rendezvous_dir nor exchange is set, the host is MASTER_ADDR, and the port is MASTER_PORT + 1; MASTER_PORT + 2 reports
 * that it is in use. No other job may use the three ports. HS_INVALID_ARGUMENT: also if a variable is not a number, or a
 * needed one is missing, such as SLURM_STEP_ID in the script of sbatch. */
HS_API hs_group_tcp *hs_group_tcp_from_env(const hs_group_tcp_options *options, hs_error *err);

/* Returns the group for session options. Valid until the object is freed. If the object is NULL: a group with which no
 * session can be opened. */
HS_API const hs_group *hs_group_tcp_get(const hs_group_tcp *group);

/* Closes the connections, after the session is closed. Reports a normal exit, unless an exit was reported. Waits at most 2
 * s until the system has accepted the last messages. */
HS_API void hs_group_tcp_free(hs_group_tcp *group);

/* For engines with their own communication, such as MPI, that use this group as their failure detector. They forward
 * report_exit, query_failed_rank, set_abandon and report_step to it, and report their own collective calls, on the
 * session's thread:
 *
 *   begin  begins a call. HS_UNAVAILABLE: it cannot complete, and is not begun
 *   check  while the call waits. HS_UNAVAILABLE: it cannot complete
 *   fail   while the call waits: `rank` has not made it. Returns HS_UNAVAILABLE with the first failure of the group
 *   end    ends the call, complete or not
 *
 * call  the name of the function, for messages
 * why   the message of the failure, such as "rank 3 has not called allreduce_or for 600 s"
 *
 * HS_INVALID_ARGUMENT: the group is NULL, or the rank does not exist. check and fail return HS_FAILED_PRECONDITION if no
 * call is in progress. */
HS_API hs_code hs_group_tcp_begin_call(hs_group_tcp *group, const char *call, hs_error *err);
HS_API hs_code hs_group_tcp_check_call(hs_group_tcp *group, const char *call, hs_error *err);
HS_API hs_code hs_group_tcp_fail_call(hs_group_tcp *group, int32_t rank, const char *why, hs_error *err);
HS_API void hs_group_tcp_end_call(hs_group_tcp *group);

HS_END_DECLS

#endif
