/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs around the recipes for GPUs have in common. */
#pragma once
#include <hooksess/cuda.h>
#include <hooksess/hooksess.h>

#include <assert.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

constexpr int N = 4096, THREADS = 256;

/* Returns memory of the device with one value. */
template <class T> T *on_device(int n, T value)
{
    T *device, *host = static_cast<T *>(malloc(n * sizeof(T)));
    cudaStream_t stream;
    for (int i = 0; i < n; i++)
        host[i] = value;
    assert(cudaStreamCreate(&stream) == cudaSuccess);
    assert(cudaMalloc(&device, n * sizeof(T)) == cudaSuccess);
    assert(cudaMemcpyAsync(device, host, n * sizeof(T), cudaMemcpyHostToDevice, stream) == cudaSuccess);
    assert(cudaStreamSynchronize(stream) == cudaSuccess);
    cudaStreamDestroy(stream);
    free(host);
    return device;
}

/* Copies from the device, behind the work of the stream. */
template <class T> void read_device(T *to, const T *device, int n, cudaStream_t stream)
{
    assert(cudaMemcpyAsync(to, device, n * sizeof(T), cudaMemcpyDeviceToHost, stream) == cudaSuccess);
    assert(cudaStreamSynchronize(stream) == cudaSuccess);
}

/* Opens a session that saves in the background, and ends after this step. */
inline hs_session *open_session(hs_graph *g, const char *directory, int64_t last, const hs_group *group = nullptr,
                                const char *const *scalars = HS_NAMES("loss"))
{
    hs_session *s = hs_training_session_open(hs_graph_backend(g),
                                             HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .save_checkpoint_steps = 3,
                                                                 .background = true, .group = group, .scalars = scalars,
                                                                 .hooks = HS_HOOKS(hs_stop_at_step(.last_step = last))),
                                             nullptr);
    assert(s);
    return s;
}

inline void close_session(hs_session *s, hs_graph *g, hs_cuda *cuda)
{
    const hs_outcome outcome = hs_session_close(s, nullptr);
    assert(hs_outcome_exit_code(&outcome) == 0);
    hs_graph_free(g);
    hs_cuda_free(cuda);
}
