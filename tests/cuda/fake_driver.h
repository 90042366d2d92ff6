/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TEST_CUDA_FAKE_DRIVER_H
#define HS_TEST_CUDA_FAKE_DRIVER_H

#include "cuda/driver.h"

#include <stdbool.h>

/* A stand-in for CUDA's driver with two devices. Memory of a device is memory of the host at hidden addresses: an access by
 * the host crashes. Each stream is a thread, which delays each of its operations by a random time. A test that links it
 * loads it as libcuda.so.1, and calls its functions as a program does. Work of two streams on the same memory without an
 * order ends the test (order.h). */

#define HS__CUDA_DECLARATION(name, symbol, parameters) CUresult symbol parameters;
HS__CUDA_FUNCTIONS(HS__CUDA_DECLARATION)
#undef HS__CUDA_DECLARATION
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuMemAllocManaged(CUdeviceptr *memory, size_t bytes, unsigned flags);
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void *memory);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory, unsigned flags);
CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *user), void *user);

/* Makes the primary context of device 0 the thread's if it has none, as CUDA's runtime does. */
void fake_cuda_use(void);
/* Allocates memory as a program does that maps it itself, in two ranges of addresses. cuMemFree frees it. On a GPU:
 * CUDA_ERROR_NOT_SUPPORTED. */
CUresult fake_cuda_map(CUdeviceptr *memory, size_t bytes);

/* Lets call number `nth` of a function from now on fail, from 1 on. Sticky: all later calls fail, too, as after an illegal
 * address. `name` NULL: none fails. */
void fake_cuda_fail(const char *name, int nth, CUresult result, bool sticky);
/* Calls of a function so far. */
int fake_cuda_calls(const char *name);
/* Objects that exist: contexts that are retained, streams, events, modules, blocks of pinned memory, pools and their
 * blocks.
 */
int fake_cuda_objects(void);
/* The largest number of bytes of pinned memory since the last call. */
size_t fake_cuda_pinned_peak(void);
/* Bytes copied to the host since the last call. */
size_t fake_cuda_copied(void);
/* The free bytes of a device, of 64 GiB. At first all are. Pools that hold memory reduce them, other allocations do not. */
void fake_cuda_set_room(size_t bytes);
/* Runs a kernel on the stream, with a copy of `bytes` of arguments. It may write the memory of the device at the pointers
 * that are its arguments. */
void fake_cuda_launch(CUstream stream, void (*kernel)(void *arguments), const void *arguments, size_t bytes);
/* Where a kernel finds memory of the device. */
void *fake_cuda_show(const void *device);

#endif
