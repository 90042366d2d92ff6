/* SPDX-License-Identifier: Apache-2.0 */
/* A group of one rank in C++. */
#include <hooksess/mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    hs_mpi_group *group = hs_mpi_group_new(MPI_COMM_WORLD, nullptr, nullptr);
    const bool made = group != nullptr && hs_mpi_group_get(group) != nullptr;
    hs_mpi_group_free(group);
    MPI_Finalize();
    return made ? 0 : 1;
}
