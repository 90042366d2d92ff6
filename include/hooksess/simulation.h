/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SIMULATION_H
#define HOOKSESS_SIMULATION_H

#include <hooksess/env.h>
#include <hooksess/group.h>

/* A simulated group, for tests. Each rank is a thread that runs a function of the test. testing.h includes this header;
 * link with libhooksess_testing.
 *
 *     static int run_rank(void *user, const hs_group *group)
 *     {
 *         uint64_t word = (uint64_t)1 << group->ops->rank(group->self);
 *         hs_error err;
 *         if (group->ops->allreduce_or(group->self, &word, 1, &err) != HS_OK)
 *             return 1;
 *         return word == 15 ? 0 : 2;
 *     }
 *     ...
 *     hs_error err;
 *     hs_simulation *simulation =
 *         hs_simulation_new(HS_SIMULATION_OPTIONS(.rank_count = 4, .seed = 7, .main = run_rank), &err);
 *     hs_simulation_kill(simulation, 3, 1);
 *     if (hs_simulation_run(simulation, &err) != HS_OK)
 *         puts(err.message);
 *     puts(hs_simulation_trace(simulation));
 *     hs_simulation_free(simulation);
 *
 * In `main`, a test of a hook opens a session with this group on a graph with hs_simulation_env(group).
 *
 * Order: one rank runs at a time, until its next collective call. There the seed selects the next rank, and whether
 * broadcasts and gathers wait for other ranks. The same seed gives the same trace, if the ranks use no other threads,
 * clocks or random numbers. Run a test with many seeds.
 *
 * Bugs: these end the simulation. The calls of all ranks return HS_INTERNAL, and so does hs_simulation_run():
 *
 *   mixed collectives  the k-th collective calls of two ranks differ in function, n, bytes or root
 *   deadlock           all ranks wait. Waits by other means, such as a mutex or a file, are not seen, and steps have no
 *                      limit (hs_replica_options.step_secs)
 *
 * Failures: a rank fails if it is killed, reports an exit with an error, or returns from `main` without a report. The
 * failure detector notices a frozen rank when no other rank can run.
 *
 * Time: without a clock in the options, the ranks have a clock that starts at 1e18 ns (in 2001). Only delays, sleeping and
 * the limit of the detector advance it.
 *
 * Threads: one thread at a time per object. Ranks may call all functions that take their group, and request faults. */

HS_BEGIN_DECLS

typedef struct hs_simulation hs_simulation;

/* Runs one rank. The result is for hs_simulation_result(). */
typedef int (*hs_rank_main_fn)(void *user, const hs_group *group);

typedef struct hs_simulation_options {
    size_t size;
    int32_t rank_count; /* (required) */
    int32_t reserved;
    uint64_t seed;
    hs_rank_main_fn main; /* (required) */
    void *user;
    /* Time until the detector reports a frozen rank. 0: 10. HS_NEVER: no report_exit and no query_failed_rank */
    double detector_secs;
    int64_t stack_bytes; /* of the thread of each rank. 0: 1 MiB */
    const hs_env *env;   /* memory, and the base of the environments of the ranks */
} hs_simulation_options;

#define HS_SIMULATION_OPTIONS(...) HS_OPTIONS(hs_simulation_options, __VA_ARGS__)

/* Creates a simulation. HS_INVALID_ARGUMENT: invalid options. HS_RESOURCE_EXHAUSTED: out of memory. */
HS_API hs_simulation *hs_simulation_new(const hs_simulation_options *options, hs_error *err);
HS_API void hs_simulation_free(hs_simulation *simulation);

/* Request a fault when `rank` makes its collective call number `at_collective`, from 1. Calls of hs_simulation_sum() count.
 *
 *   fault         in this call
 *   kill          the process of the rank dies, as by kill -9
 *   report_exit   the same, but the process ends by exit, and the engine reports this
 *   freeze        the process stops, as by SIGSTOP, until the other ranks have failed or ended. Then the call returns
 *                 HS_UNAVAILABLE
 *   delay         the rank sleeps for `secs` before the call: 0 to 1e9
 *
 * The call of a killed rank returns HS_UNAVAILABLE after all other ranks have ended, so that its thread can end. From then
 * on its file calls fail, its log lines are dropped, and it has no result.
 *
 * HS_INVALID_ARGUMENT: invalid numbers, or the simulation is NULL. HS_RESOURCE_EXHAUSTED: out of memory. */
HS_API hs_code hs_simulation_kill(hs_simulation *simulation, int32_t rank, int64_t at_collective);
HS_API hs_code hs_simulation_report_exit(hs_simulation *simulation, int32_t rank, int64_t at_collective);
HS_API hs_code hs_simulation_freeze(hs_simulation *simulation, int32_t rank, int64_t at_collective);
HS_API hs_code hs_simulation_delay(hs_simulation *simulation, int32_t rank, int64_t at_collective, double secs);
/* Kills the rank in call number `at_file_call` (from 1) of its environment's files, except unlock. The call is not made; a
 * write writes half of its bytes. */
HS_API hs_code hs_simulation_kill_in_file_call(hs_simulation *simulation, int32_t rank, int64_t at_file_call);

/* Runs all ranks until they have ended. HS_INTERNAL: a bug, see above. HS_FAILED_PRECONDITION: the second call.
 * HS_RESOURCE_EXHAUSTED: threads or memory are exhausted. Failures of ranks are not errors of the simulation. */
HS_API hs_code hs_simulation_run(hs_simulation *simulation, hs_error *err);

/* Gets what `main` of the rank returned. False if the rank was killed, or has not ended. */
HS_API bool hs_simulation_result(const hs_simulation *simulation, int32_t rank, int *result);
/* Return the number of collective calls and of file calls of the rank. */
HS_API int64_t hs_simulation_collectives(hs_simulation *simulation, int32_t rank);
HS_API int64_t hs_simulation_file_calls(hs_simulation *simulation, int32_t rank);
/* Returns the collective calls and the faults in order, one in a line: "rank 3: gather to rank 0". Valid until the
 * simulation is freed or runs. If memory was exhausted, it ends with "(rest lost: out of memory)". */
HS_API const char *hs_simulation_trace(hs_simulation *simulation);

/* Returns the environment of a rank, for its graph: that of the options, until the rank is killed. Without files in the
 * options: POSIX files, without sync. For NULL and other groups: hs_test_system_env(NULL). */
HS_API const hs_env *hs_simulation_env(const hs_group *group);
/* Returns true if the rank was killed. Any thread. */
HS_API bool hs_simulation_is_killed(const hs_group *group);

/* Adds each of n numbers over all ranks, in the order of the ranks, in place. Stands for the program's own collective
 * communication, such as MPI_Allreduce. If ranks wait in it and in the group's calls, these fail as after a limit.
 * HS_INVALID_ARGUMENT: the group is not simulated. Others: as a group's call. */
HS_API hs_code hs_simulation_sum(const hs_group *group, double *numbers, size_t n, hs_error *err);

HS_END_DECLS

#endif
