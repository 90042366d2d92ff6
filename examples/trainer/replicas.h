/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_REPLICAS_H
#define TRAINER_REPLICAS_H

#include <hooksess/group.h>
#include <hooksess/outcome.h>

#include <stddef.h>

/* The processes of one training (--replicas), which mpirun starts. All read the same batches, and each learns from its
 * share of the rows. All zero: one process. */
struct replicas {
    int rank, count;
    struct hs_mpi_group *group; /* NULL: one process */
};

/* Starts MPI. HS_UNIMPLEMENTED: the trainer was built without MPI. */
hs_code replicas_start(struct replicas *replicas, hs_error *err);
/* NULL: one process. */
const hs_group *replicas_group(const struct replicas *replicas);
/* The first of `rows` that this process learns from. *mine is their number, which can be 0. */
int replicas_share(const struct replicas *replicas, int rows, int *mine);
/* Means of `mine` of `rows` rows become means of all rows. Behind the gate only. */
void replicas_average(const struct replicas *replicas, float *gradients, size_t n, float *loss, int mine, int rows);
/* Ends MPI. Returns the exit code. */
int replicas_end(const struct replicas *replicas, const hs_outcome *outcome);

#endif
