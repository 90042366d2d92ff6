// SPDX-License-Identifier: Apache-2.0
// A stand-in for NCCL among processes of a machine, over a file in memory: what docs/guide/gpu-cookbook.md uses.
#pragma once
#include <cuda_runtime.h>

#include <atomic>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef int ncclResult_t;
typedef enum { ncclFloat = 7 } ncclDataType_t;
typedef enum { ncclSum = 0, ncclAvg = 4 } ncclRedOp_t;
typedef struct {
    char internal[128]; // the file's name
} ncclUniqueId;

struct fake_shared {
    static constexpr int MOST_RANKS = 8, MOST_VALUES = 1 << 16;
    std::atomic<uint64_t> arrivals;
    float parts[MOST_RANKS][MOST_VALUES];
};
typedef struct fake_comm {
    fake_shared *shared;
    int ranks, rank;
    uint64_t awaited; // arrivals
} * ncclComm_t;

inline ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    strcpy(id->internal, "/tmp/fake-nccl-XXXXXX");
    const int file = mkstemp(id->internal);
    const int result = ftruncate(file, sizeof(fake_shared));
    close(file);
    return result;
}
// Waits for all ranks.
inline void fake_meet(fake_comm *comm)
{
    const timespec pause = {0, 100000};
    comm->awaited += static_cast<uint64_t>(comm->ranks);
    for (comm->shared->arrivals++; comm->shared->arrivals < comm->awaited;)
        nanosleep(&pause, nullptr);
}
inline ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    const int file = open(id.internal, O_RDWR);
    void *shared = mmap(nullptr, sizeof(fake_shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shared == MAP_FAILED)
        return 1;
    *comm = new fake_comm{static_cast<fake_shared *>(shared), ranks, rank, 0};
    fake_meet(*comm);
    if (rank == 0)
        unlink(id.internal);
    return 0;
}
// All ranks add in the same order.
inline ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t, ncclRedOp_t op, ncclComm_t comm,
                                  cudaStream_t stream)
{
    struct arguments {
        fake_comm *comm;
        const void *from;
        void *to;
        size_t n;
        ncclRedOp_t op;
    } a{comm, fake_cuda_show(from), fake_cuda_show(to), n, op};
    fake_cuda_launch(
        stream,
        [](void *of) {
            const arguments *reduce = static_cast<arguments *>(of);
            fake_comm *all = reduce->comm;
            float *to = static_cast<float *>(reduce->to);
            memcpy(all->shared->parts[all->rank], reduce->from, reduce->n * sizeof(float));
            fake_meet(all);
            for (size_t i = 0; i < reduce->n; i++) {
                float sum = 0;
                for (int rank = 0; rank < all->ranks; rank++)
                    sum += all->shared->parts[rank][i];
                to[i] = reduce->op == ncclAvg ? sum / static_cast<float>(all->ranks) : sum;
            }
            fake_meet(all); // the parts can be written again
        },
        &a, sizeof a);
    return n > fake_shared::MOST_VALUES;
}
inline ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    munmap(comm->shared, sizeof(fake_shared));
    delete comm;
    return 0;
}
