/* SPDX-License-Identifier: Apache-2.0 */
/* Access to the memory of a CUDA device (cuda.h). A copy goes in pieces through two buffers in pinned memory: while the
 * device copies one, the host copies the other. Events order the copies with the work of the program's stream. */
#include <hooksess/cuda.h>

#include "cuda/driver.h"

#include <pthread.h>
#include <string.h>

enum { PIECE = 8 << 20, BUFFERS = 2 };

struct hs_cuda {
    hs_env env;
    hs_memory memory;
    const hs__cuda_driver *driver;
    CUdevice device;
    CUcontext context;        /* the primary one. NULL: not retained */
    CUstream program, copies; /* the program's stream; our own, NULL: none */
    CUevent ready;            /* the work of the program before a copy */
    CUevent copied[BUFFERS];  /* the last copy from or to the buffer */
    char *buffers[BUFFERS];   /* NULL: before the first copy */
    pthread_mutex_t lock;     /* held by the thread that copies */
};

static hs_code result(const hs_cuda *cuda, CUresult of, const char *what, hs_error *err)
{
    return hs__cuda_result(cuda->driver, of, what, err);
}
#define CALL(cuda, function, ...) result((cuda), (cuda)->driver->function(__VA_ARGS__), #function, err)

static size_t piece_bytes(size_t bytes, size_t piece)
{
    const size_t left = bytes - piece * PIECE;
    return left < PIECE ? left : PIECE;
}

/* HS_INVALID_ARGUMENT: the address is no memory of the device, or fewer bytes of it. The driver does not know the range of
 * every kind of memory. */
static hs_code check(const hs_cuda *cuda, CUdeviceptr address, size_t bytes, hs_error *err)
{
    const hs__cuda_driver *driver = cuda->driver;
    CUdevice device = cuda->device;
    CUdeviceptr start;
    size_t size;
    const CUresult found = driver->cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    if (found == CUDA_ERROR_INVALID_VALUE)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "CUDA does not know the address %#llx: it is host memory, or was freed", address);
    if (found)
        return result(cuda, found, "cuPointerGetAttribute", err);
    if (device != cuda->device)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the address %#llx is memory of device %d, not of device %d", address,
                            device, cuda->device);
    if (!driver->cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) &&
        !driver->cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) && size - (address - start) < bytes)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%zu bytes are needed from address %#llx on, but its allocation has %llu", bytes, address,
                            size - (address - start));
    return HS_OK;
}

static hs_code allocate_buffers(hs_cuda *cuda, hs_error *err)
{
    hs_code code = HS_OK;
    for (int i = 0; i < BUFFERS && !code; i++)
        if (!cuda->buffers[i])
            code = CALL(cuda, cuMemAllocHost, (void **)&cuda->buffers[i], PIECE);
    return code;
}

/* Makes the device's context the calling thread's. `leave` restores the thread's own. */
static hs_code enter(hs_cuda *cuda, hs_error *err)
{
    pthread_mutex_lock(&cuda->lock);
    hs_code code = CALL(cuda, cuCtxPushCurrent, cuda->context);
    if (code)
        pthread_mutex_unlock(&cuda->lock);
    return code;
}

static void leave(hs_cuda *cuda)
{
    CUcontext context;
    cuda->driver->cuCtxPopCurrent(&context);
    pthread_mutex_unlock(&cuda->lock);
}

/* Ends a copy. After a failure, pieces of it may be in progress, and their memory may be freed next. */
static hs_code finish(hs_cuda *cuda, hs_code code)
{
    if (code)
        cuda->driver->cuStreamSynchronize(cuda->copies);
    leave(cuda);
    return code;
}

/* Checks the memory, and lets the copies wait for the program's work so far. */
static hs_code begin(hs_cuda *cuda, const void *device, size_t bytes, hs_error *err)
{
    hs_code code;
    if ((code = check(cuda, (CUdeviceptr)device, bytes, err)) || (code = allocate_buffers(cuda, err)) ||
        (code = CALL(cuda, cuEventRecord, cuda->ready, cuda->program)))
        return code;
    return CALL(cuda, cuStreamWaitEvent, cuda->copies, cuda->ready, 0);
}

static hs_code to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    hs_cuda *cuda = user;
    const size_t n = (bytes + PIECE - 1) / PIECE;
    hs_code code = enter(cuda, err);
    if (code)
        return code;
    code = begin(cuda, device, bytes, err);
    for (size_t i = 0; !code && i <= n; i++) {
        const size_t now = i % BUFFERS, before = (i + 1) % BUFFERS;
        if (i < n && !(code = CALL(cuda, cuMemcpyDtoHAsync, cuda->buffers[now], (CUdeviceptr)device + i * PIECE,
                                   piece_bytes(bytes, i), cuda->copies)))
            code = CALL(cuda, cuEventRecord, cuda->copied[now], cuda->copies);
        if (i && !code && !(code = CALL(cuda, cuEventSynchronize, cuda->copied[before])))
            memcpy((char *)host + (i - 1) * PIECE, cuda->buffers[before], piece_bytes(bytes, i - 1));
    }
    return finish(cuda, code);
}

static hs_code from_host(void *user, void *device, const void *host, size_t bytes, hs_error *err)
{
    hs_cuda *cuda = user;
    const size_t n = (bytes + PIECE - 1) / PIECE;
    size_t now = 0;
    hs_code code = enter(cuda, err);
    if (code)
        return code;
    code = begin(cuda, device, bytes, err);
    for (size_t i = 0; !code && i < n; i++) {
        now = i % BUFFERS;
        if ((code = CALL(cuda, cuEventSynchronize, cuda->copied[now])))
            break;
        memcpy(cuda->buffers[now], (const char *)host + i * PIECE, piece_bytes(bytes, i));
        if (!(code = CALL(cuda, cuMemcpyHtoDAsync, (CUdeviceptr)device + i * PIECE, cuda->buffers[now],
                          piece_bytes(bytes, i), cuda->copies)))
            code = CALL(cuda, cuEventRecord, cuda->copied[now], cuda->copies);
    }
    if (!code)
        code = CALL(cuda, cuEventSynchronize, cuda->copied[now]);
    return finish(cuda, code);
}

static hs_code allocate(void *user, size_t bytes, void **device, hs_error *err)
{
    hs_cuda *cuda = user;
    CUdeviceptr address = 0;
    hs_code code = enter(cuda, err);
    if (code)
        return code;
    code = CALL(cuda, cuMemAlloc, &address, bytes);
    leave(cuda);
    if (!code)
        *device = (void *)(uintptr_t)address;
    return code;
}

/* Sets the members that belong to the device. hs_cuda_free frees them, also after a failure. */
static hs_code open_device(hs_cuda *cuda, int32_t device, hs_error *err)
{
    hs_code code;
    if (!(cuda->driver = hs__cuda_load(err)))
        return HS_UNAVAILABLE;
    if ((code = CALL(cuda, cuDeviceGet, &cuda->device, device)) ||
        (code = CALL(cuda, cuDevicePrimaryCtxRetain, &cuda->context, cuda->device)) || (code = enter(cuda, err)))
        return code;
    if (!(code = CALL(cuda, cuStreamCreate, &cuda->copies, CU_STREAM_NON_BLOCKING)))
        code = CALL(cuda, cuEventCreate, &cuda->ready, CU_EVENT_DISABLE_TIMING);
    for (int i = 0; !code && i < BUFFERS; i++)
        code = CALL(cuda, cuEventCreate, &cuda->copied[i], CU_EVENT_DISABLE_TIMING);
    leave(cuda);
    return code;
}

static hs_cuda *create(const hs_cuda_options *given, hs_error *err)
{
    hs_cuda_options options = HS_INIT(hs_cuda_options);
    hs_cuda *cuda = NULL;
    hs_error_clear(err);
    if (given && HS_STRUCT_TAKE(hs_cuda_options, env, &options, given, err))
        return NULL;
    hs_env env = *hs_env_default();
    if (options.env && HS_STRUCT_TAKE(hs_env, files, &env, options.env, err))
        return NULL;
    if (!(cuda = hs_env_alloc(&env, sizeof *cuda)) || pthread_mutex_init(&cuda->lock, NULL)) {
        hs_env_free(&env, cuda);
        hs_error_set(err, HS_RESOURCE_EXHAUSTED, "hs_cuda_new: out of memory");
        return NULL;
    }
    cuda->env = env;
    cuda->program = options.stream;
    cuda->memory = (hs_memory)HS_INIT(hs_memory, .device_type = 2, .device_id = options.device, .to_host = to_host,
                                      .from_host = from_host, .allocate = allocate, .user = cuda);
    if (open_device(cuda, options.device, err)) {
        hs_error_prefix(err, "hs_cuda_new: device %d", (int)options.device);
        hs_cuda_free(cuda);
        return NULL;
    }
    return cuda;
}

hs_cuda *hs_cuda_new(const hs_cuda_options *options, hs_error *err)
{
    hs_error error = {0};
    hs_cuda *cuda = create(options, &error);
    if (!cuda && !err)
        hs_log(hs_env_default(), HS_LOG_ERROR, "%s", error.message);
    if (err)
        *err = error;
    return cuda;
}

void hs_cuda_free(hs_cuda *cuda)
{
    if (!cuda)
        return;
    const hs__cuda_driver *driver = cuda->driver;
    const hs_env env = cuda->env;
    if (cuda->context && !enter(cuda, NULL)) {
        for (int i = 0; i < BUFFERS; i++) {
            if (cuda->buffers[i])
                driver->cuMemFreeHost(cuda->buffers[i]);
            if (cuda->copied[i])
                driver->cuEventDestroy(cuda->copied[i]);
        }
        if (cuda->ready)
            driver->cuEventDestroy(cuda->ready);
        if (cuda->copies)
            driver->cuStreamDestroy(cuda->copies);
        leave(cuda);
    }
    if (cuda->context)
        driver->cuDevicePrimaryCtxRelease(cuda->device);
    pthread_mutex_destroy(&cuda->lock);
    hs_env_free(&env, cuda);
}

const hs_memory *hs_cuda_memory(const hs_cuda *cuda)
{
    static const hs_memory none = HS_INIT(hs_memory, .device_type = 2); /* without functions: the graph refuses it */
    return cuda ? &cuda->memory : &none;
}
