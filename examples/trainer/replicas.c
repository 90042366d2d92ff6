/* SPDX-License-Identifier: Apache-2.0 */
#include "replicas.h"

int replicas_share(const struct replicas *replicas, int rows, int *mine)
{
    const long long count = replicas->group ? replicas->count : 1, first = rows * (long long)replicas->rank / count;
    *mine = (int)(rows * (replicas->rank + 1LL) / count - first);
    return (int)first;
}

#ifdef TRAINER_MPI
#include <hooksess/mpi.h>

enum { MAX_AT_A_TIME = 1 << 30 };

hs_code replicas_start(struct replicas *replicas, hs_error *err)
{
    MPI_Init(NULL, NULL);
    if (!(replicas->group = hs_mpi_group_new(MPI_COMM_WORLD, NULL, err)))
        return err->code;
    MPI_Comm_rank(MPI_COMM_WORLD, &replicas->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &replicas->count);
    return HS_OK;
}

const hs_group *replicas_group(const struct replicas *replicas)
{
    return replicas->group ? hs_mpi_group_get(replicas->group) : NULL;
}

void replicas_average(const struct replicas *replicas, float *gradients, size_t n, float *loss, int mine, int rows)
{
    if (!replicas->group)
        return;
    const float share = (float)mine / (float)rows;
    for (size_t i = 0; i < n; i++)
        gradients[i] *= share;
    *loss *= share;
    for (size_t i = 0; i < n; i += MAX_AT_A_TIME)
        MPI_Allreduce(MPI_IN_PLACE, gradients + i, (int)(n - i < MAX_AT_A_TIME ? n - i : MAX_AT_A_TIME), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, loss, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int replicas_end(const struct replicas *replicas, const hs_outcome *outcome)
{
    return replicas->group ? hs_mpi_group_finalize(replicas->group, outcome) : hs_outcome_exit_code(outcome);
}
#else
hs_code replicas_start(struct replicas *replicas, hs_error *err)
{
    (void)replicas;
    return hs_error_set(err, HS_UNIMPLEMENTED, "--replicas: the trainer was built without MPI");
}

const hs_group *replicas_group(const struct replicas *replicas)
{
    (void)replicas;
    return NULL;
}

void replicas_average(const struct replicas *replicas, float *gradients, size_t n, float *loss, int mine, int rows)
{
    (void)replicas, (void)gradients, (void)n, (void)loss, (void)mine, (void)rows;
}

int replicas_end(const struct replicas *replicas, const hs_outcome *outcome)
{
    (void)replicas;
    return hs_outcome_exit_code(outcome);
}
#endif
