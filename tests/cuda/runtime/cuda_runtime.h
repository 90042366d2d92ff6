// SPDX-License-Identifier: Apache-2.0
// A stand-in for CUDA's runtime, over the one for the driver (fake_driver.h): a .cu program whose launches tests/cuda/run_cu.sh has
// rewritten compiles as C++, and its kernels run on the host. Only what the programs of the documents and examples use.
#pragma once
#include <hooksess/status.h>

extern "C" {
#include "cuda/fake_driver.h"
}

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <math.h>
#include <type_traits>
#include <vector>

#define __global__
#define __device__

typedef CUresult cudaError_t;
typedef CUstream cudaStream_t;
typedef CUevent cudaEvent_t;
enum { cudaSuccess = 0, cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

struct fake_index {
    unsigned x;
};
inline thread_local fake_index blockIdx, blockDim, threadIdx;

inline cudaError_t cudaSetDevice(int device)
{
    CUcontext context;
    const cudaError_t result = cuDevicePrimaryCtxRetain(&context, device);
    return result ? result : cuCtxPushCurrent_v2(context);
}
template <class T> cudaError_t cudaMalloc(T **memory, size_t bytes)
{
    CUdeviceptr address;
    fake_cuda_use();
    const cudaError_t result = cuMemAlloc_v2(&address, bytes);
    *memory = reinterpret_cast<T *>(static_cast<uintptr_t>(address));
    return result;
}
template <class T> cudaError_t cudaMallocHost(T **memory, size_t bytes)
{
    void *pinned;
    fake_cuda_use();
    const cudaError_t result = cuMemAllocHost_v2(&pinned, bytes);
    *memory = static_cast<T *>(pinned);
    return result;
}
inline cudaError_t cudaFree(void *memory) { return memory ? cuMemFree_v2(reinterpret_cast<uintptr_t>(memory)) : cudaSuccess; }
inline cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    fake_cuda_use();
    return cuStreamCreate(stream, 0);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { return cuStreamDestroy_v2(stream); }
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return cuStreamSynchronize(stream); }
inline cudaError_t cudaEventCreate(cudaEvent_t *event) { return cuEventCreate(event, 0); }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cuEventRecord(event, stream); }
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) { return cuEventSynchronize(event); }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char *cudaGetErrorString(cudaError_t result)
{
    const char *text;
    return cuGetErrorString(result, &text) ? "unknown" : text;
}
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream)
{
    return kind == cudaMemcpyHostToDevice ? cuMemcpyHtoDAsync_v2(reinterpret_cast<uintptr_t>(to), from, bytes, stream)
                                          : cuMemcpyDtoHAsync_v2(to, reinterpret_cast<uintptr_t>(from), bytes, stream);
}

// Graphs: while a thread captures, its launches become nodes of the graph.
struct fake_node {
    void (*run)(void *arguments);
    std::vector<char> arguments;
};
typedef std::vector<fake_node> *cudaGraph_t, *cudaGraphExec_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
inline thread_local cudaGraph_t fake_captured;

inline void fake_launch(cudaStream_t stream, void (*run)(void *), const void *arguments, size_t bytes)
{
    const char *first = static_cast<const char *>(arguments);
    if (fake_captured)
        fake_captured->push_back({run, {first, first + bytes}});
    else
        fake_cuda_launch(stream, run, arguments, bytes);
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode)
{
    fake_captured = new std::vector<fake_node>;
    return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph)
{
    *graph = fake_captured;
    fake_captured = nullptr;
    return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long)
{
    *executable = new std::vector<fake_node>(*graph);
    return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    for (const fake_node &node : *executable)
        fake_cuda_launch(stream, node.run, node.arguments.data(), node.arguments.size());
    return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    delete executable;
    return cudaSuccess;
}

inline cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    struct arguments {
        void *memory;
        int value;
        size_t bytes;
    } a{memory, value, bytes};
    fake_launch(
        stream,
        [](void *of) {
            auto *set = static_cast<arguments *>(of);
            memset(fake_cuda_show(set->memory), set->value, set->bytes);
        },
        &a, sizeof a);
    return cudaSuccess;
}

// fake_kernel(k, blocks, threads, shared, stream)(arguments) is k<<<blocks, threads, shared, stream>>>(arguments). Pointers are shown.
// Those to const before the launch, so that the stand-in for the driver does not take the kernel for a writer of their memory.
template <class T> T fake_constant(T value)
{
    if constexpr (std::is_pointer_v<T> && std::is_const_v<std::remove_pointer_t<T>>)
        return static_cast<T>(fake_cuda_show(value));
    else
        return value;
}
template <class T> T fake_argument(T value)
{
    if constexpr (std::is_pointer_v<T>)
        return static_cast<T>(fake_cuda_show(value));
    else
        return value;
}
template <class... P> auto fake_kernel(void (*kernel)(P...), unsigned blocks, unsigned threads, size_t, cudaStream_t stream)
{
    return [=](P... arguments) {
        ((arguments = fake_constant(arguments)), ...);
        auto run = [=] {
            blockDim.x = threads;
            for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
                for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
                    kernel(fake_argument(arguments)...);
        };
        static_assert(std::is_trivially_copyable_v<decltype(run)>);
        fake_launch(
            stream, [](void *of) { (*static_cast<decltype(run) *>(of))(); }, &run, sizeof run);
    };
}
