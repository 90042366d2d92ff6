/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_REPLICAS_H
#define TRAINER_REPLICAS_H

#include <hooksess/group.h>
#include <hooksess/outcome.h>

#include <stddef.h>

/* The processes of one training (--replicas), started by mpirun. All read the same batches; each computes the gradients of
 * its share of the rows. A struct of zeros is a single process. */
struct replicas {
    int rank, count;
    struct hs_mpi_group *group; /* NULL: a single process */
};

/* Starts MPI. Returns HS_UNIMPLEMENTED if the trainer was built without MPI. */
hs_code replicas_start(struct replicas *replicas, hs_error *err);
/* Returns NULL for a single process. */
const hs_group *replicas_group(const struct replicas *replicas);
/* Returns the first of the rows of this process, and their number in *mine, which can be 0. */
int replicas_share(const struct replicas *replicas, int rows, int *mine);
/* Replaces the means over the rows of this process by the means over all rows. Call it only after hs_op_pass_gate. */
void replicas_average(const struct replicas *replicas, float *gradients, size_t n, float *loss, int mine, int rows);
/* Ends MPI. Returns the exit code. */
int replicas_end(const struct replicas *replicas, const hs_outcome *outcome);

#endif
