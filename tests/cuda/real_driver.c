/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of fake_driver.h over the driver that is installed, for tests on a GPU. A program that is linked with it
 * and with -Wl,--wrap=dlsym calls the functions below instead of the driver's, and so does libhooksess_cuda in it. They
 * count the calls, let them fail, and otherwise call the driver.
 *
 * A kernel of a test is a function of the host. The stream copies the memory that its arguments point to into a mirror on
 * the host, calls the function, and copies the mirror back. */
#include "cuda/driver_calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REAL_FUNCTIONS(F)                                                                                                  \
    HS__CUDA_FUNCTIONS(F)                                                                                                  \
    F(cuCtxGetCurrent, cuCtxGetCurrent, (CUcontext * context))                                                             \
    F(cuCtxCreate, cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device))                                 \
    F(cuCtxDestroy, cuCtxDestroy_v2, (CUcontext context))                                                                  \
    F(cuMemAllocManaged, cuMemAllocManaged, (CUdeviceptr * memory, size_t bytes, unsigned flags))                          \
    F(cuMemHostAlloc, cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                       \
    F(cuMemHostRegister, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                               \
    F(cuMemHostUnregister, cuMemHostUnregister, (void *memory))                                                            \
    F(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (CUdeviceptr * address, void *memory, unsigned flags))      \
    F(cuLaunchHostFunc, cuLaunchHostFunc, (CUstream stream, void (*function)(void *user), void *user))

/* Those that are not defined below are the driver's. */
#define REAL_IS_OPTIONAL(name, symbol, parameters) CUresult symbol parameters __attribute__((weak));
HS__CUDA_FUNCTIONS(REAL_IS_OPTIONAL)

void *__real_dlsym(void *library, const char *symbol);
void *__wrap_dlsym(void *library, const char *symbol);

static struct {
#define REAL_MEMBER(name, symbol, parameters) CUresult(*name) parameters;
    REAL_FUNCTIONS(REAL_MEMBER)
} driver;

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "no driver: %s\n", dlerror());
        exit(1);
    }
#define REAL_FIND(name, symbol, parameters)                                                                                \
    void *found_##name = __real_dlsym(library, #symbol);                                                                   \
    memcpy(&driver.name, &found_##name, sizeof found_##name);                                                              \
    if (!found_##name)                                                                                                     \
        fprintf(stderr, "the driver lacks %s\n", #symbol), exit(1);
    REAL_FUNCTIONS(REAL_FIND)
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
#define REAL(name) (pthread_once(&once, load), driver.name)

/* Memory that tests and the library allocate, and pinned memory. */
typedef struct memory {
    CUdeviceptr address;
    size_t bytes;
    void *mirror; /* NULL: no kernel has used it */
    struct memory *next;
} memory;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static memory *memories;

static void add_memory(CUdeviceptr address, size_t bytes)
{
    memory *added = malloc(sizeof *added);
    pthread_mutex_lock(&lock);
    *added = (memory){.address = address, .bytes = bytes, .next = memories};
    memories = added;
    pthread_mutex_unlock(&lock);
}

/* Returns its size. */
static size_t remove_memory(CUdeviceptr address)
{
    pthread_mutex_lock(&lock);
    memory **at = &memories, *found;
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    if ((found = *at))
        *at = found->next;
    pthread_mutex_unlock(&lock);
    const size_t bytes = found ? found->bytes : 0;
    if (found && found->mirror)
        REAL(cuMemFreeHost)(found->mirror);
    free(found);
    return bytes;
}

static memory *find_memory(CUdeviceptr address)
{
    pthread_mutex_lock(&lock);
    memory *found = memories;
    while (found && found->address != address)
        found = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

void *fake_cuda_show(const void *device)
{
    const memory *found = find_memory((CUdeviceptr)device);
    return found ? found->mirror : NULL;
}

/* Kernels. */

typedef struct {
    void (*kernel)(void *arguments);
    _Alignas(16) unsigned char arguments[];
} launch;

static void run_launch(void *user)
{
    launch *launched = user;
    launched->kernel(launched->arguments);
    free(launched);
}

static void check(CUresult result)
{
    if (result) {
        fprintf(stderr, "the driver returned %d\n", result);
        abort();
    }
}

/* Begins to copy the memories that arguments point to. */
static void copy_arguments(CUstream stream, const void *arguments, size_t bytes, bool to_mirror)
{
    for (size_t at = 0; at + sizeof(void *) <= bytes; at += sizeof(void *)) {
        void *pointer;
        memcpy(&pointer, (const char *)arguments + at, sizeof pointer);
        memory *m = find_memory((CUdeviceptr)pointer);
        if (m && !m->mirror)
            check(REAL(cuMemAllocHost)(&m->mirror, m->bytes));
        if (m)
            check(to_mirror ? REAL(cuMemcpyDtoHAsync)(m->mirror, m->address, m->bytes, stream)
                            : REAL(cuMemcpyHtoDAsync)(m->address, m->mirror, m->bytes, stream));
    }
}

void fake_cuda_launch(CUstream stream, void (*kernel)(void *arguments), const void *arguments, size_t bytes)
{
    launch *launched = malloc(sizeof *launched + bytes);
    launched->kernel = kernel;
    if (bytes)
        memcpy(launched->arguments, arguments, bytes);
    copy_arguments(stream, arguments, bytes, true);
    check(REAL(cuLaunchHostFunc)(stream, run_launch, launched));
    copy_arguments(stream, arguments, bytes, false);
}

/* The driver. */

enum { ALL_GIB = 64 };
static size_t room = (size_t)ALL_GIB << 30;

void fake_cuda_set_room(size_t bytes)
{
    pthread_mutex_lock(&lock);
    room = bytes;
    pthread_mutex_unlock(&lock);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    ENTER();
    const CUresult result = REAL(cuMemGetInfo)(free_bytes, total);
    pthread_mutex_lock(&lock);
    if (room < (size_t)ALL_GIB << 30) {
        *free_bytes = room;
        *total = (size_t)ALL_GIB << 30;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void fake_cuda_use(void)
{
    CUcontext context;
    if (REAL(cuCtxGetCurrent)(&context) || !context) {
        check(REAL(cuInit)(0));
        check(REAL(cuDevicePrimaryCtxRetain)(&context, 0));
        check(REAL(cuCtxPushCurrent)(context));
    }
}

CUresult fake_cuda_map(CUdeviceptr *address, size_t bytes)
{
    (void)address, (void)bytes;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    ENTER();
    const CUresult result = REAL(cuMemAllocManaged)(address, bytes, flags);
    if (!result)
        add_memory(*address, bytes);
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    ENTER();
    const CUresult result = REAL(cuMemAlloc)(address, bytes);
    if (!result)
        add_memory(*address, bytes);
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    ENTER();
    const CUresult result = REAL(cuMemFree)(address);
    if (!remove_memory(address) && !result)
        count_object(-1); /* a block of a pool */
    return result;
}

CUresult cuMemAllocHost_v2(void **host, size_t bytes)
{
    ENTER();
    const CUresult result = REAL(cuMemAllocHost)(host, bytes);
    if (!result) {
        add_memory((CUdeviceptr)*host, bytes);
        count_pinned(bytes);
    }
    count_object(!result);
    return result;
}

CUresult cuMemFreeHost(void *host)
{
    (void)enter(__func__);
    count_pinned(0 - remove_memory((CUdeviceptr)host));
    count_object(-1);
    return REAL(cuMemFreeHost)(host);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER();
    count_copied(bytes);
    return REAL(cuMemcpyDtoHAsync)(to, from, bytes, stream);
}

/* FORWARD(function, symbol, parameters, arguments, objects that a success adds) */
#define FORWARD(name, symbol, parameters, arguments, objects)                                                              \
    CUresult symbol parameters                                                                                             \
    {                                                                                                                      \
        ENTER();                                                                                                           \
        const CUresult result = REAL(name) arguments;                                                                      \
        count_object(result ? 0 : (objects));                                                                              \
        return result;                                                                                                     \
    }
FORWARD(cuInit, cuInit, (unsigned flags), (flags), 0)
FORWARD(cuDeviceGet, cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal), 0)
FORWARD(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), (context, device), 1)
FORWARD(cuStreamWaitEvent, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags), (stream, event, flags), 0)
FORWARD(cuEventCreate, cuEventCreate, (CUevent * event, unsigned flags), (event, flags), 1)
FORWARD(cuEventRecord, cuEventRecord, (CUevent event, CUstream stream), (event, stream), 0)
FORWARD(cuEventSynchronize, cuEventSynchronize, (CUevent event), (event), 0)
FORWARD(cuStreamCreate, cuStreamCreate, (CUstream * stream, unsigned flags), (stream, flags), 1)
FORWARD(cuCtxCreate, cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device), (context, flags, device), 1)
FORWARD(cuCtxDestroy, cuCtxDestroy_v2, (CUcontext context), (context), -1)
FORWARD(cuMemHostAlloc, cuMemHostAlloc, (void **host, size_t bytes, unsigned flags), (host, bytes, flags), 1)
FORWARD(cuMemHostRegister, cuMemHostRegister_v2, (void *host, size_t bytes, unsigned flags), (host, bytes, flags), 0)
FORWARD(cuMemHostUnregister, cuMemHostUnregister, (void *host), (host), 0)
FORWARD(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (CUdeviceptr * address, void *host, unsigned flags),
        (address, host, flags), 0)
FORWARD(cuStreamQuery, cuStreamQuery, (CUstream stream), (stream), 0)
FORWARD(cuMemPoolCreate, cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *properties), (pool, properties), 1)
FORWARD(cuMemPoolTrimTo, cuMemPoolTrimTo, (CUmemoryPool pool, size_t bytes_to_keep), (pool, bytes_to_keep), 0)
FORWARD(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync,
        (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream), (address, bytes, pool, stream), 1)
FORWARD(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
        (to, from, bytes, stream), 0)
FORWARD(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
        (to, from, bytes, stream), 0)
FORWARD(cuPointerGetAttribute, cuPointerGetAttribute, (void *value, int attribute, CUdeviceptr address),
        (value, attribute, address), 0)

FORWARD(cuModuleLoadData, cuModuleLoadData, (CUmodule * module, const void *image), (module, image), 1)
FORWARD(cuModuleGetFunction, cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name),
        (function, module, name), 0)
FORWARD(cuLaunchKernel, cuLaunchKernel,
        (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
         unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra),
        (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra), 0)

/* Not made to fail, as the driver does what they say. */
#define FORWARD_ALWAYS(name, symbol, parameters, arguments, objects)                                                       \
    CUresult symbol parameters                                                                                             \
    {                                                                                                                      \
        const CUresult failure = enter(__func__), result = REAL(name) arguments;                                           \
        count_object(objects);                                                                                             \
        return failure ? failure : result;                                                                                 \
    }
FORWARD_ALWAYS(cuStreamSynchronize, cuStreamSynchronize, (CUstream stream), (stream), 0)
FORWARD_ALWAYS(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream), (stream), -1)
FORWARD_ALWAYS(cuEventDestroy, cuEventDestroy_v2, (CUevent event), (event), -1)
FORWARD_ALWAYS(cuModuleUnload, cuModuleUnload, (CUmodule module), (module), -1)
FORWARD_ALWAYS(cuMemPoolDestroy, cuMemPoolDestroy, (CUmemoryPool pool), (pool), -1)
FORWARD_ALWAYS(cuMemFreeAsync, cuMemFreeAsync, (CUdeviceptr address, CUstream stream), (address, stream), -1)
FORWARD_ALWAYS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device), -1)

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    const CUresult result = enter(__func__);
    return result && result != 700 ? result : REAL(cuCtxPushCurrent)(context); /* as in fake_driver.c */
}

/* These never fail in a test. */
CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    return REAL(cuCtxPopCurrent)(context);
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
    return REAL(cuGetErrorString)(result, text);
}

/* What the library finds instead of the driver's functions. */
void *__wrap_dlsym(void *library, const char *symbol)
{
    void *found = __real_dlsym(library, symbol);
#define REAL_REPLACE(name, symbol_, parameters)                                                                            \
    if (found && strcmp(symbol, #symbol_) == 0) {                                                                          \
        CUresult(*ours) parameters = symbol_;                                                                              \
        if (ours)                                                                                                          \
            memcpy(&found, &ours, sizeof ours);                                                                            \
    }
    HS__CUDA_FUNCTIONS(REAL_REPLACE)
    return found;
}
