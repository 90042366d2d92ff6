/* SPDX-License-Identifier: Apache-2.0 */
/* Access to the memory of a CUDA device (cuda.h). An event for each block of pinned memory tells when the copy from or to
 * it is finished. Two streams, so that a save in the background does not wait for the program's work:
 *
 *   stream      copies                                           waits for
 *   copies      between variables or values and the host,        the work of the program at the last mark
 *               and kernels
 *   background  variables on the device, then from there to host the mark, before the first copy of a save
 *               such copies back to the variables                the mark */
#include <hooksess/cuda.h>

#include "cuda/driver.h"
#include "cuda/kernels_ptx.h"

#include <pthread.h>

/* A block of pinned memory. It is used again until the object is freed, as the allocation stops the device. */
typedef struct pinned {
    struct pinned *next;
    char *memory;
    size_t bytes;
    CUevent copied; /* the last copy from or to it */
    bool in_use;
} pinned;

/* A copy of a variable on the device. */
typedef struct duplicate {
    struct duplicate *next;
    CUdeviceptr memory;
    size_t bytes;
} duplicate;

/* The result of a kernel (kernels.c). */
typedef struct {
    uint64_t nan, positive, negative, first;
} found_nonfinite;

struct hs_cuda {
    hs_env env;
    hs_memory memory;
    const hs__cuda_driver *driver;
    CUdevice device;
    CUcontext context; /* the primary one. NULL: not retained */
    CUstream program;
    CUstream copies, background; /* our own. NULL: none */
    CUevent ready;               /* the work of the program at the last mark */
    CUevent duplicated;          /* the last duplicate */
    CUevent read;                /* the copies to the host before the last `hold` */
    pthread_mutex_t lock;        /* guards the lists and the kernels, and keeps the calls of one copy together */
    pinned *pinned;
    bool marked;       /* since the last copy: the stream `copies` does not wait for `ready` yet */
    CUmemoryPool pool; /* of the duplicates. NULL: not created */
    duplicate *duplicates;
    bool duplicates_begun; /* since the mark: the stream `background` waits for `ready`, and `room` is known */
    size_t room;           /* bytes of the device for more duplicates */
    CUmodule kernels;      /* NULL: not loaded */
    CUfunction find_nonfinite;
    CUdeviceptr found;      /* the result of find_nonfinite, on the device */
    hs_error kernels_error; /* of loading the kernels, which is tried again only after HS_RESOURCE_EXHAUSTED */
};

static hs_code result(const hs_cuda *cuda, CUresult of, const char *what, hs_error *err)
{
    return hs__cuda_result(cuda->driver, of, what, err);
}
#define CALL(cuda, function, ...) result((cuda), (cuda)->driver->function(__VA_ARGS__), #function, err)

/* HS_INVALID_ARGUMENT: the address is no memory of the device's primary context, or fewer bytes of it. Managed memory, and
 * memory that the program has mapped itself or got from a pool, may belong to no context. Mapped memory may have several
 * ranges, so only that of a context is compared. */
static hs_code check(const hs_cuda *cuda, CUdeviceptr address, size_t bytes, hs_error *err)
{
    const hs__cuda_driver *driver = cuda->driver;
    CUdevice device = cuda->device;
    CUcontext context = NULL;
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
    if (driver->cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address) || !context)
        return HS_OK;
    if (context != cuda->context)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "the address %#llx is memory of a context that is not the primary one of device %d", address,
                            device);
    if (!driver->cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) &&
        !driver->cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) && size - (address - start) < bytes)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%zu bytes are needed from address %#llx on, but its allocation has %llu", bytes, address,
                            size - (address - start));
    return HS_OK;
}

/* Makes the device's context the calling thread's, and locks. `leave` restores the thread's own. The driver refuses the
 * context in a forked child, where the lock may be held by a thread that does not exist. */
static hs_code enter(hs_cuda *cuda, hs_error *err)
{
    hs_code code = CALL(cuda, cuCtxPushCurrent, cuda->context);
    if (!code)
        pthread_mutex_lock(&cuda->lock);
    return code;
}

static void pop(const hs_cuda *cuda)
{
    CUcontext context;
    cuda->driver->cuCtxPopCurrent(&context);
}

static void leave(hs_cuda *cuda)
{
    pthread_mutex_unlock(&cuda->lock);
    pop(cuda);
}

/* NULL: other memory of the host. */
static pinned *find_pinned(const hs_cuda *cuda, const void *host)
{
    pinned *block = cuda->pinned;
    while (block && block->memory != host)
        block = block->next;
    return block;
}

static hs_code mark(void *user, hs_error *err)
{
    hs_cuda *cuda = user;
    hs_code code = enter(cuda, err);
    if (code)
        return code;
    code = CALL(cuda, cuEventRecord, cuda->ready, cuda->program);
    cuda->marked = true;
    cuda->duplicates_begun = false;
    leave(cuda);
    return code;
}

/* Begins a call that reads or writes memory of the program on the stream `copies`. */
static hs_code prepare(hs_cuda *cuda, const void *device, size_t bytes, hs_error *err)
{
    hs_code code = check(cuda, (CUdeviceptr)device, bytes, err);
    if (!code && cuda->marked && !(code = CALL(cuda, cuStreamWaitEvent, cuda->copies, cuda->ready, 0)))
        cuda->marked = false;
    return code;
}

/* Ends a call that may have begun a copy. An event records the end of one from or to pinned memory. Others end here, as
 * CUDA waits for them anyway. So does one that nothing records after a failure. */
static hs_code record(hs_cuda *cuda, const void *host, CUstream stream, hs_code code, hs_error *err)
{
    const pinned *block = find_pinned(cuda, host);
    if (!code)
        code = block ? CALL(cuda, cuEventRecord, block->copied, stream) : CALL(cuda, cuStreamSynchronize, stream);
    if (code)
        cuda->driver->cuStreamSynchronize(stream);
    leave(cuda);
    return code;
}

static bool is_duplicate(const hs_cuda *cuda, CUdeviceptr address)
{
    const duplicate *copy = cuda->duplicates;
    while (copy && !(address >= copy->memory && address - copy->memory < copy->bytes))
        copy = copy->next;
    return copy != NULL;
}

static hs_code to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    hs_cuda *cuda = user;
    hs_code code = enter(cuda, err);
    if (code)
        return code;
    const bool from_duplicate = is_duplicate(cuda, (CUdeviceptr)device);
    const CUstream stream = from_duplicate ? cuda->background : cuda->copies;
    if (from_duplicate || !(code = prepare(cuda, device, bytes, err)))
        code = CALL(cuda, cuMemcpyDtoHAsync, host, (CUdeviceptr)device, bytes, stream);
    return record(cuda, host, stream, code, err);
}

static hs_code from_host(void *user, void *device, const void *host, size_t bytes, hs_error *err)
{
    hs_cuda *cuda = user;
    hs_code code = enter(cuda, err);
    if (code)
        return code;
    if (!(code = prepare(cuda, device, bytes, err)))
        code = CALL(cuda, cuMemcpyHtoDAsync, (CUdeviceptr)device, host, bytes, cuda->copies);
    return record(cuda, host, cuda->copies, code, err);
}

static hs_code wait(void *user, const void *host, hs_error *err)
{
    hs_cuda *cuda = user;
    hs_code code = enter(cuda, err);
    if (code)
        return code;
    const pinned *block = find_pinned(cuda, host);
    pthread_mutex_unlock(&cuda->lock);                                     /* others may copy meanwhile */
    if (block && (code = CALL(cuda, cuEventSynchronize, block->copied))) { /* the memory may be freed next */
        cuda->driver->cuStreamSynchronize(cuda->copies);
        cuda->driver->cuStreamSynchronize(cuda->background);
    }
    pop(cuda);
    return code;
}

static hs_code add_pinned(hs_cuda *cuda, size_t bytes, pinned **added, hs_error *err)
{
    pinned *block = hs_env_alloc(&cuda->env, sizeof *block);
    if (!block)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for %zu bytes", sizeof *block);
    *block = (pinned){.next = cuda->pinned, .bytes = bytes};
    hs_code code = CALL(cuda, cuEventCreate, &block->copied, CU_EVENT_DISABLE_TIMING);
    if (!code && (code = CALL(cuda, cuMemAllocHost, (void **)&block->memory, bytes)))
        cuda->driver->cuEventDestroy(block->copied);
    if (code)
        hs_env_free(&cuda->env, block);
    else
        *added = cuda->pinned = block;
    return code;
}

static hs_code allocate_host(void *user, size_t bytes, void **host, hs_error *err)
{
    hs_cuda *cuda = user;
    hs_code code = enter(cuda, err);
    if (code)
        return code;
    pinned *block = cuda->pinned;
    while (block && (block->in_use || block->bytes != bytes)) /* the library asks for few sizes */
        block = block->next;
    if (block || !(code = add_pinned(cuda, bytes, &block, err))) {
        block->in_use = true;
        *host = block->memory;
    }
    leave(cuda);
    return code;
}

/* If the context is refused, the block stays in use until the object is freed. */
static void free_host(void *user, void *host)
{
    hs_cuda *cuda = user;
    if (enter(cuda, NULL))
        return;
    for (pinned *block = cuda->pinned; block; block = block->next)
        block->in_use &= block->memory != host;
    leave(cuda);
}

/* Copies in the background. */

/* cuMemAlloc and cuMemFree may wait for all work of the device: a pool does not. The default pool of the device belongs to
 * the program, which may let it keep freed memory. cuMemGetInfo counts this memory as used. */
static hs_code create_pool(hs_cuda *cuda, hs_error *err)
{
    const CUmemPoolProps properties = {.allocation_type = 1, .location_type = 1, .device = cuda->device};
    return cuda->pool ? HS_OK : CALL(cuda, cuMemPoolCreate, &cuda->pool, &properties);
}

/* Before the first duplicate after a mark. Leaves a sixteenth of the device's memory to the program, which may allocate
 * while the duplicates exist. */
static hs_code begin_duplicates(hs_cuda *cuda, hs_error *err)
{
    size_t free_bytes, total;
    hs_code code;
    if (cuda->duplicates_begun)
        return HS_OK;
    if ((code = create_pool(cuda, err)) || (code = CALL(cuda, cuMemGetInfo, &free_bytes, &total)) ||
        (code = CALL(cuda, cuStreamWaitEvent, cuda->background, cuda->ready, 0)))
        return code;
    cuda->room = free_bytes < total / 16 ? 0 : free_bytes - total / 16;
    cuda->duplicates_begun = true;
    return HS_OK;
}

static hs_code begin_duplicate(hs_cuda *cuda, CUdeviceptr from, duplicate *copy, hs_error *err)
{
    hs_code code;
    if ((code = check(cuda, from, copy->bytes, err)) || (code = begin_duplicates(cuda, err)))
        return code;
    if (copy->bytes > cuda->room)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "the device has no room for a copy of %zu bytes", copy->bytes);
    if ((code = CALL(cuda, cuMemAllocFromPoolAsync, &copy->memory, copy->bytes, cuda->pool, cuda->background)))
        return code;
    cuda->room -= copy->bytes;
    if ((code = CALL(cuda, cuMemcpyDtoDAsync, copy->memory, from, copy->bytes, cuda->background)) ||
        (code = CALL(cuda, cuEventRecord, cuda->duplicated, cuda->background))) {
        cuda->driver->cuStreamSynchronize(cuda->background); /* the program does not wait for the copy, if it has begun */
        cuda->driver->cuMemFreeAsync(copy->memory, cuda->background);
    }
    return code;
}

static hs_code duplicate_memory(void *user, const void *device, size_t bytes, void **to, hs_error *err)
{
    hs_cuda *cuda = user;
    duplicate *copy = hs_env_alloc(&cuda->env, sizeof *copy);
    if (!copy)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for %zu bytes", sizeof *copy);
    *copy = (duplicate){.bytes = bytes};
    hs_code code = enter(cuda, err);
    if (!code) {
        if (!(code = begin_duplicate(cuda, (CUdeviceptr)device, copy, err))) {
            copy->next = cuda->duplicates;
            cuda->duplicates = copy;
            *to = (void *)(uintptr_t)copy->memory;
        }
        leave(cuda);
    }
    if (code)
        hs_env_free(&cuda->env, copy);
    return code;
}

/* Usually no copy is in progress. Then the device has the memory back at the end. Otherwise the driver gives it back at the
 * next call that waits for the device. */
static void free_duplicate(const hs_cuda *cuda, CUdeviceptr memory)
{
    const hs__cuda_driver *driver = cuda->driver;
    if (driver->cuStreamQuery(cuda->background) || driver->cuMemFree(memory)) /* which does not wait for copies */
        driver->cuMemFreeAsync(memory, cuda->background);
    driver->cuMemPoolTrimTo(cuda->pool, 0);
}

/* If the context is refused, the copy exists until the object is freed. */
static void release(void *user, void *copy)
{
    hs_cuda *cuda = user;
    if (enter(cuda, NULL))
        return;
    for (duplicate **at = &cuda->duplicates, *found; (found = *at); at = &found->next)
        if (found->memory == (CUdeviceptr)copy) {
            *at = found->next;
            free_duplicate(cuda, found->memory);
            hs_env_free(&cuda->env, found);
            break;
        }
    leave(cuda);
}

/* On the stream that frees the copy. */
static hs_code restore_memory(void *user, void *device, const void *copy, size_t bytes, hs_error *err)
{
    hs_cuda *cuda = user;
    const CUdeviceptr to = (CUdeviceptr)device;
    hs_code code = enter(cuda, err);
    if (code)
        return code;
    if (!(code = check(cuda, to, bytes, err)) &&
        !(code = CALL(cuda, cuStreamWaitEvent, cuda->background, cuda->ready, 0)) &&
        !(code = CALL(cuda, cuMemcpyDtoDAsync, to, (CUdeviceptr)copy, bytes, cuda->background)) &&
        !(code = CALL(cuda, cuEventRecord, cuda->duplicated, cuda->background)))
        code = CALL(cuda, cuStreamWaitEvent, cuda->program, cuda->duplicated, 0);
    if (code) /* the program does not wait for the copy, if it has begun */
        cuda->driver->cuStreamSynchronize(cuda->background);
    leave(cuda);
    return code;
}

/* Lets the program's stream wait for the event. If it cannot, the host waits: the program must not write to memory that is
 * read. */
static void let_program_wait(const hs_cuda *cuda, CUevent event, CUstream stream)
{
    if (cuda->driver->cuStreamWaitEvent(cuda->program, event, 0))
        cuda->driver->cuStreamSynchronize(stream);
}

static void hold(void *user)
{
    hs_cuda *cuda = user;
    if (enter(cuda, NULL))
        return;
    let_program_wait(cuda, cuda->duplicated, cuda->background);
    if (cuda->driver->cuEventRecord(cuda->read, cuda->copies))
        cuda->driver->cuStreamSynchronize(cuda->copies);
    else
        let_program_wait(cuda, cuda->read, cuda->copies);
    leave(cuda);
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

/* Kernels. */

/* The driver may lack its compiler for kernels: the values are then copied to the host. */
static hs_code load_kernels(hs_cuda *cuda, hs_error *caller_err)
{
    hs_error *err = &cuda->kernels_error;
    hs_code code = enter(cuda, caller_err);
    if (code)
        return code;
    const hs_code before = err->code;
    if (!cuda->found && (!before || before == HS_RESOURCE_EXHAUSTED)) {
        hs_error_clear(err);
        if ((cuda->kernels || !CALL(cuda, cuModuleLoadData, &cuda->kernels, hs__kernels_ptx)) &&
            !CALL(cuda, cuModuleGetFunction, &cuda->find_nonfinite, cuda->kernels, "hs_find_nonfinite"))
            CALL(cuda, cuMemAlloc, &cuda->found, sizeof(found_nonfinite));
    }
    const hs_error failure = *err;
    leave(cuda);
    if (failure.code && !before)
        hs_log(&cuda->env, HS_LOG_WARNING, "device %d cannot look for NaN, so tensors are copied to the host: %s",
               (int)cuda->device, failure.message);
    return failure.code ? hs_error_set(caller_err, failure.code, "%s", failure.message) : HS_OK;
}

/* Begins to count. `counts` is in pinned memory. After a failure, nothing uses it. */
static hs_code begin_count(hs_cuda *cuda, CUdeviceptr from, uint64_t n, uint64_t element_bytes, uint64_t fraction_bits,
                           found_nonfinite *counts, hs_error *err)
{
    enum { THREADS = 256, MOST_BLOCKS = 1024 };
    const uint64_t blocks = (n + THREADS - 1) / THREADS;
    const unsigned grid = blocks < MOST_BLOCKS ? (unsigned)blocks : MOST_BLOCKS;
    void *parameters[] = {&from, &n, &element_bytes, &fraction_bits, &cuda->found};
    hs_code code = enter(cuda, err);
    if (code)
        return code;
    *counts = (found_nonfinite){.first = UINT64_MAX};
    if (!(code = prepare(cuda, (const void *)(uintptr_t)from, n * element_bytes, err)) &&
        !(code = CALL(cuda, cuMemcpyHtoDAsync, cuda->found, counts, sizeof *counts, cuda->copies)) &&
        ((code = CALL(cuda, cuLaunchKernel, cuda->find_nonfinite, grid, 1, 1, THREADS, 1, 1, 0, cuda->copies, parameters,
                      NULL)) ||
         (code = CALL(cuda, cuMemcpyDtoHAsync, counts, cuda->found, sizeof *counts, cuda->copies))))
        cuda->driver->cuStreamSynchronize(cuda->copies);
    return record(cuda, counts, cuda->copies, code, err);
}

static hs_code count_nonfinite(void *user, const void *device, size_t bytes, hs_dtype dtype, hs_nonfinite *found,
                               hs_error *err)
{
    hs_cuda *cuda = user;
    void *memory;
    hs_code code;
    const size_t size = hs_dtype_size(dtype);
    const uint64_t fraction_bits = dtype == HS_HALF       ? 10
                                   : dtype == HS_BFLOAT16 ? 7
                                   : dtype == HS_FLOAT    ? 23
                                   : dtype == HS_DOUBLE   ? 52
                                                          : 0;
    if (!fraction_bits || (uintptr_t)device % size)
        return hs_error_set(err, HS_UNIMPLEMENTED, "no kernel for type %s, or the address is not aligned",
                            hs_dtype_name(dtype));
    if ((code = load_kernels(cuda, err)) || (code = allocate_host(cuda, sizeof(found_nonfinite), &memory, err)))
        return code;
    const found_nonfinite *counts = memory;
    if (!(code = begin_count(cuda, (CUdeviceptr)device, bytes / size, size, fraction_bits, memory, err)) &&
        !(code = wait(cuda, memory, err)))
        *found = (hs_nonfinite){(size_t)counts->nan, (size_t)counts->positive, (size_t)counts->negative,
                                counts->first == UINT64_MAX ? -1 : (int64_t)counts->first};
    free_host(cuda, memory);
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
    if (!(code = CALL(cuda, cuStreamCreate, &cuda->copies, CU_STREAM_NON_BLOCKING)) &&
        !(code = CALL(cuda, cuStreamCreate, &cuda->background, CU_STREAM_NON_BLOCKING)) &&
        !(code = CALL(cuda, cuEventCreate, &cuda->ready, CU_EVENT_DISABLE_TIMING)) &&
        !(code = CALL(cuda, cuEventCreate, &cuda->read, CU_EVENT_DISABLE_TIMING)))
        code = CALL(cuda, cuEventCreate, &cuda->duplicated, CU_EVENT_DISABLE_TIMING);
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
                                      .from_host = from_host, .wait = wait, .mark = mark, .allocate_host = allocate_host,
                                      .free_host = free_host, .duplicate = duplicate_memory, .release = release,
                                      .hold = hold, .restore = restore_memory, .allocate = allocate,
                                      .count_nonfinite = count_nonfinite, .user = cuda);
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
    /* without the lock: no other thread uses the object, but in a forked child the lock may be held */
    const bool entered = cuda->context && !driver->cuCtxPushCurrent(cuda->context);
    for (duplicate *copy = cuda->duplicates, *next; copy; copy = next) {
        next = copy->next;
        if (entered)
            free_duplicate(cuda, copy->memory);
        hs_env_free(&env, copy);
    }
    if (entered) {
        if (cuda->copies)
            driver->cuStreamDestroy(cuda->copies);
        if (cuda->background)
            driver->cuStreamDestroy(cuda->background);
        if (cuda->pool)
            driver->cuMemPoolDestroy(cuda->pool);
        if (cuda->ready)
            driver->cuEventDestroy(cuda->ready);
        if (cuda->read)
            driver->cuEventDestroy(cuda->read);
        if (cuda->duplicated)
            driver->cuEventDestroy(cuda->duplicated);
        if (cuda->kernels)
            driver->cuModuleUnload(cuda->kernels);
        if (cuda->found)
            driver->cuMemFree(cuda->found);
    }
    for (pinned *block = cuda->pinned, *next; block; block = next) {
        next = block->next;
        if (entered) {
            driver->cuMemFreeHost(block->memory);
            driver->cuEventDestroy(block->copied);
        }
        hs_env_free(&env, block);
    }
    if (entered)
        pop(cuda);
    if (cuda->context)
        driver->cuDevicePrimaryCtxRelease(cuda->device);
    if (entered || !cuda->context)
        pthread_mutex_destroy(&cuda->lock);
    hs_env_free(&env, cuda);
}

const hs_memory *hs_cuda_memory(const hs_cuda *cuda)
{
    static const hs_memory none = HS_INIT(hs_memory, .device_type = 2); /* without functions: the graph refuses it */
    return cuda ? &cuda->memory : &none;
}
