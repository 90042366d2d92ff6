/* SPDX-License-Identifier: Apache-2.0 */
/* mpirun -n 2 mpi: the time of one agreement of a session in a group over MPI, as a multiple of MPI_Allreduce.
 *
 *   agreement_ns              allreduce_or of four words, as a session calls it in each step
 *   allreduce_ns              MPI_Allreduce of as many bytes
 *   agreement_over_allreduce  median of their ratios over interleaved pairs */
#include <hooksess/mpi.h>

#include "bench.h"

enum { PAIRS = 31, CALLS = 4000, WORDS = 4 };

static double agree(const hs_group *group)
{
    uint64_t words[WORDS] = {1, 2, 3, 4};
    hs_error err = {0};
    double start = bench_now();
    for (int i = 0; i < CALLS; i++)
        if (group->ops->allreduce_or(group->self, words, WORDS, &err) != HS_OK) {
            fprintf(stderr, "bench: %s\n", err.message);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    return (bench_now() - start) / CALLS * 1e9;
}

static double reduce(void)
{
    uint64_t words[WORDS] = {1, 2, 3, 4};
    double start = bench_now();
    for (int i = 0; i < CALLS; i++)
        MPI_Allreduce(MPI_IN_PLACE, words, WORDS, MPI_UINT64_T, MPI_BOR, MPI_COMM_WORLD);
    return (bench_now() - start) / CALLS * 1e9;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    hs_error err;
    hs_mpi_group *group = hs_mpi_group_new(MPI_COMM_WORLD, NULL, &err);
    if (!group) {
        fprintf(stderr, "bench: %s\n", err.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const hs_group *g = hs_mpi_group_get(group);
    double agreements[PAIRS], allreduces[PAIRS], ratios[PAIRS];
    agree(g);
    reduce();
    for (int i = 0; i < PAIRS; i++) {
        agreements[i] = agree(g);
        allreduces[i] = reduce();
        ratios[i] = agreements[i] / allreduces[i];
    }
    if (g->ops->rank(g->self) == 0) {
        bench_print("agreement_ns", bench_median(agreements, PAIRS), "ns");
        bench_print("allreduce_ns", bench_median(allreduces, PAIRS), "ns");
        bench_print("agreement_over_allreduce", bench_median(ratios, PAIRS), "ratio");
    }
    const hs_outcome outcome = {.reason = HS_REASON_CLOSED};
    return hs_mpi_group_finalize(group, &outcome);
}
