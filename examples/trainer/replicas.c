/* SPDX-License-Identifier: Apache-2.0 */
#include "replicas.h"

#include <hooksess/group_tcp.h>

#include <stdlib.h>

#ifdef REPLICAS_MPI
#include <hooksess/mpi.h>
#endif

hs_code replicas_start(struct replicas *replicas, const char *directory, hs_error *err)
{
#ifdef REPLICAS_MPI
    if (!getenv("WORLD_SIZE")) {
        MPI_Init(NULL, NULL);
        if (!(replicas->mpi = hs_mpi_group_new(MPI_COMM_WORLD, NULL, err)))
            return err->code;
        replicas->group = hs_mpi_group_get(replicas->mpi);
    }
#endif
    if (!replicas->group) {
        if (!(replicas->tcp = hs_group_tcp_from_env(HS_GROUP_TCP_OPTIONS(.rendezvous_dir = directory), err)))
            return err->code;
        replicas->group = hs_group_tcp_get(replicas->tcp);
    }
    replicas->rank = replicas->group->ops->rank(replicas->group->self);
    replicas->count = replicas->group->ops->rank_count(replicas->group->self);
    return HS_OK;
}

int replicas_share(const struct replicas *replicas, int rows, int *mine)
{
    const long long count = replicas->group ? replicas->count : 1, first = rows * (long long)replicas->rank / count;
    *mine = (int)(rows * (replicas->rank + 1LL) / count - first);
    return (int)first;
}

/* Adds the numbers of a rank to those of rank 0. */
static void add(void *sum, int32_t rank, hs_bytes numbers)
{
    for (size_t i = 0; rank > 0 && i < numbers.size / sizeof(float); i++)
        ((float *)sum)[i] += ((const float *)numbers.data)[i];
}

/* Rank 0 adds, and sends the sums to the others. The messages are short, so that it needs no memory for all gradients of
 * a rank. For large models, MPI_Allreduce or ncclAllReduce is faster, but may add in another order. */
static hs_code sum(const hs_group *group, float *numbers, size_t n, hs_error *err)
{
    const size_t most = 1 << 16;
    hs_code code = HS_OK;
    for (size_t i = 0; i < n && !code; i += most) {
        size_t bytes = (n - i < most ? n - i : most) * sizeof *numbers;
        code = group->ops->gather(group->self, (hs_bytes){numbers + i, bytes}, 0, add, numbers + i, err);
        if (!code)
            code = group->ops->broadcast(group->self, numbers + i, bytes, 0, err);
    }
    return code;
}

hs_code replicas_average(const struct replicas *replicas, float *gradients, size_t n, float *loss, int mine, int rows,
                         hs_error *err)
{
    if (!replicas->group)
        return HS_OK;
    const float share = (float)mine / (float)rows;
    for (size_t i = 0; i < n; i++)
        gradients[i] *= share;
    *loss *= share;
    hs_code code = sum(replicas->group, gradients, n, err);
    return code ? code : sum(replicas->group, loss, 1, err);
}

int replicas_end(const struct replicas *replicas, const hs_outcome *outcome)
{
    hs_group_tcp_free(replicas->tcp);
#ifdef REPLICAS_MPI
    if (replicas->mpi)
        return hs_mpi_group_finalize(replicas->mpi, outcome);
#endif
    return hs_outcome_exit_code(outcome);
}
