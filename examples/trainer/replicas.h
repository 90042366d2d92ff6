/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_REPLICAS_H
#define TRAINER_REPLICAS_H

#include <hooksess/group.h>
#include <hooksess/outcome.h>

#include <stddef.h>

/* The processes of one training (--replicas), started by mpirun, torchrun or a script. All read the same batches; each
 * computes the gradients of its share of the rows. A struct of zeros is a single process. */
struct replicas {
    int rank, count;
    const hs_group *group;    /* NULL: a single process */
    struct hs_mpi_group *mpi; /* the owner of the group: MPI or TCP; the other one is NULL */
    struct hs_group_tcp *tcp;
};

/* Connects the processes: over TCP if WORLD_SIZE is set, or if the program was built without MPI, and else over MPI. With
 * TCP they find each other by a file in `directory`. */
hs_code replicas_start(struct replicas *replicas, const char *directory, hs_error *err);
/* Returns the first of the rows of this process, and their number in *mine, which can be 0. */
int replicas_share(const struct replicas *replicas, int rows, int *mine);
/* Replaces the means over the rows of this process by the means over all rows. It adds in the order of the ranks, so that
 * a resumed training computes the same. Call it on all ranks; in a training step after hs_op_pass_gate. */
hs_code replicas_average(const struct replicas *replicas, float *gradients, size_t n, float *loss, int mine, int rows,
                         hs_error *err);
/* Ends MPI or the connections. Returns the exit code. */
int replicas_end(const struct replicas *replicas, const hs_outcome *outcome);

#endif
