/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CUDA_DRIVER_H
#define HS_CUDA_DRIVER_H

#include <hooksess/status.h>

/* CUDA's driver, as far as it is used. Its C interface is stable, so that these declarations take the place of cuda.h. */

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

/* Allocation type 1 and location type 1: memory of the device. The other members are zero. */
typedef struct {
    int allocation_type, handle_types, location_type, device;
    void *security;
    unsigned char reserved[64];
} CUmemPoolProps;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_STUB_LIBRARY = 34,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_DEVICE_NOT_LICENSED = 102,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
    CUDA_ERROR_CONTAINED = 226, /* a failure of the hardware, also in the memory of another device */
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_SYSTEM_NOT_READY = 802,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
    CUDA_ERROR_MPS_CONNECTION_FAILED = 805,
    CUDA_ERROR_MPS_RPC_FAILURE = 806,
    CUDA_ERROR_MPS_SERVER_NOT_READY = 807,
    CUDA_ERROR_MPS_MAX_CLIENTS_REACHED = 808,
    CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED = 809,
    CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,
    CUDA_ERROR_EXTERNAL_DEVICE = 911,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_POINTER_ATTRIBUTE_CONTEXT = 1,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
};

/* The name of each function and of its symbol, which has the version of the interface, and its parameters. */
#define HS__CUDA_FUNCTIONS(F)                                                                                              \
    F(cuInit, cuInit, (unsigned flags))                                                                                    \
    F(cuDeviceGet, cuDeviceGet, (CUdevice * device, int ordinal))                                                          \
    F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                          \
    F(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                          \
    F(cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context))                                                          \
    F(cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext * context))                                                          \
    F(cuStreamCreate, cuStreamCreate, (CUstream * stream, unsigned flags))                                                 \
    F(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream))                                                              \
    F(cuStreamQuery, cuStreamQuery, (CUstream stream))                                                                     \
    F(cuStreamSynchronize, cuStreamSynchronize, (CUstream stream))                                                         \
    F(cuStreamWaitEvent, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                              \
    F(cuEventCreate, cuEventCreate, (CUevent * event, unsigned flags))                                                     \
    F(cuEventDestroy, cuEventDestroy_v2, (CUevent event))                                                                  \
    F(cuEventRecord, cuEventRecord, (CUevent event, CUstream stream))                                                      \
    F(cuEventSynchronize, cuEventSynchronize, (CUevent event))                                                             \
    F(cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes))                                                     \
    F(cuMemFree, cuMemFree_v2, (CUdeviceptr memory))                                                                       \
    F(cuMemGetInfo, cuMemGetInfo_v2, (size_t * free, size_t * total))                                                      \
    F(cuMemPoolCreate, cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *properties))                           \
    F(cuMemPoolDestroy, cuMemPoolDestroy, (CUmemoryPool pool))                                                             \
    F(cuMemPoolTrimTo, cuMemPoolTrimTo, (CUmemoryPool pool, size_t bytes_to_keep))                                         \
    F(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync,                                                                    \
      (CUdeviceptr * memory, size_t bytes, CUmemoryPool pool, CUstream stream))                                            \
    F(cuMemFreeAsync, cuMemFreeAsync, (CUdeviceptr memory, CUstream stream))                                               \
    F(cuMemAllocHost, cuMemAllocHost_v2, (void **memory, size_t bytes))                                                    \
    F(cuMemFreeHost, cuMemFreeHost, (void *memory))                                                                        \
    F(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                \
    F(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))          \
    F(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))          \
    F(cuModuleLoadData, cuModuleLoadData, (CUmodule * module, const void *image))                                          \
    F(cuModuleUnload, cuModuleUnload, (CUmodule module))                                                                   \
    F(cuModuleGetFunction, cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))                \
    F(cuLaunchKernel, cuLaunchKernel,                                                                                      \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,         \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra))                         \
    F(cuPointerGetAttribute, cuPointerGetAttribute, (void *value, int attribute, CUdeviceptr address))                     \
    F(cuGetErrorName, cuGetErrorName, (CUresult result, const char **name))                                                \
    F(cuGetErrorString, cuGetErrorString, (CUresult result, const char **text))

typedef struct hs__cuda_driver {
#define HS__CUDA_MEMBER(name, symbol, parameters) CUresult(*name) parameters;
    HS__CUDA_FUNCTIONS(HS__CUDA_MEMBER)
#undef HS__CUDA_MEMBER
} hs__cuda_driver;

/* Loads the driver once in a process, and initializes it. NULL: HS_UNAVAILABLE. */
const hs__cuda_driver *hs__cuda_load(hs_error *err);
/* Converts a result to a code (cuda.h), with a message that begins with `what`. */
hs_code hs__cuda_result(const hs__cuda_driver *driver, CUresult result, const char *what, hs_error *err);

#endif
