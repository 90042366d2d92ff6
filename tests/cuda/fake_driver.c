/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for CUDA's driver (fake_driver.h). */
#include "cuda/driver_calls.h"
#include "cuda/kernels.c"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEVICES = 2, MOST_DELAY_NS = 300000 };
#define HIDDEN ((uintptr_t)1 << 62)

struct CUctx_st {
    CUdevice device;
    int retained;
};

struct CUevent_st {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded, done; /* how often it was recorded, and how often that has happened */
    struct CUevent_st *next;
};

typedef struct operation {
    void (*run)(struct operation *self);
    CUevent event;
    uint64_t number; /* of the event's record */
    char *to;
    const char *from;
    size_t bytes;
    void (*kernel)(void *arguments);
    struct operation *next;
    _Alignas(16) unsigned char arguments[];
} operation;

struct CUstream_st {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    operation *first, **last;
    bool busy, ends;
    unsigned seed;
};

typedef struct allocation {
    char *data;
    size_t bytes;
    CUdevice device;
    struct allocation *next;
} allocation;

typedef struct pinned_block {
    struct pinned_block *next;
    size_t bytes;
    _Alignas(64) char memory[];
} pinned_block;

static struct CUctx_st contexts[DEVICES] = {{.device = 0}, {.device = 1}};
static _Thread_local CUcontext current[8];
static _Thread_local int n_current;

/* Guards what follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocation *allocations;
static pinned_block *pinned_blocks;
static CUevent all_events; /* never freed: a stream may still use a destroyed one */
static CUstream default_stream;

void *fake_cuda_show(const void *device)
{
    return (void *)((uintptr_t)device & ~HIDDEN);
}

/* The allocation that contains the bytes. NULL: none. */
static bool find(CUdeviceptr address, size_t bytes, allocation *found)
{
    const char *data = fake_cuda_show((void *)(uintptr_t)address);
    bool is_found = false;
    pthread_mutex_lock(&lock);
    for (const allocation *a = allocations; address & HIDDEN && a && !is_found; a = a->next)
        if (data >= a->data && data < a->data + a->bytes && bytes <= (size_t)(a->data + a->bytes - data)) {
            *found = *a;
            is_found = true;
        }
    pthread_mutex_unlock(&lock);
    return is_found;
}

/* Streams. */

static void *work(void *user)
{
    CUstream stream = user;
    pthread_mutex_lock(&stream->lock);
    while (stream->first || !stream->ends) {
        operation *next = stream->first;
        if (!next) {
            pthread_cond_wait(&stream->changed, &stream->lock);
            continue;
        }
        if (!(stream->first = next->next))
            stream->last = &stream->first;
        stream->busy = true;
        pthread_mutex_unlock(&stream->lock);
        nanosleep(&(struct timespec){.tv_nsec = rand_r(&stream->seed) % MOST_DELAY_NS}, NULL);
        next->run(next);
        free(next);
        pthread_mutex_lock(&stream->lock);
        stream->busy = false;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

static CUstream start_stream(void)
{
    static unsigned seed;
    CUstream stream = calloc(1, sizeof *stream);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    stream->last = &stream->first;
    stream->seed = ++seed;
    pthread_create(&stream->thread, NULL, work, stream);
    return stream;
}

static CUstream or_default(CUstream stream)
{
    pthread_mutex_lock(&lock);
    if (!stream && !default_stream)
        default_stream = start_stream();
    if (!stream)
        stream = default_stream;
    pthread_mutex_unlock(&lock);
    return stream;
}

static void push(CUstream stream, operation what, const void *arguments, size_t bytes)
{
    operation *added = malloc(sizeof *added + bytes);
    *added = what;
    if (bytes)
        memcpy(added->arguments, arguments, bytes);
    stream = or_default(stream);
    pthread_mutex_lock(&stream->lock);
    *stream->last = added;
    stream->last = &added->next;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    ENTER();
    (void)flags;
    *stream = start_stream();
    count_object(1);
    return CUDA_SUCCESS;
}

static void finish(CUstream stream)
{
    stream = or_default(stream);
    pthread_mutex_lock(&stream->lock);
    while (stream->first || stream->busy)
        pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    const CUresult result = enter(__func__);
    finish(stream);
    return result;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    (void)enter(__func__);
    pthread_mutex_lock(&stream->lock);
    stream->ends = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->changed);
    free(stream);
    count_object(-1);
    return CUDA_SUCCESS;
}

/* Events. */

static void wait_for(CUevent event, uint64_t number)
{
    pthread_mutex_lock(&event->lock);
    while (event->done < number)
        pthread_cond_wait(&event->changed, &event->lock);
    pthread_mutex_unlock(&event->lock);
}

static uint64_t recorded(CUevent event)
{
    pthread_mutex_lock(&event->lock);
    uint64_t number = event->recorded;
    pthread_mutex_unlock(&event->lock);
    return number;
}

static void run_record(operation *self)
{
    pthread_mutex_lock(&self->event->lock);
    if (self->event->done < self->number)
        self->event->done = self->number;
    pthread_cond_broadcast(&self->event->changed);
    pthread_mutex_unlock(&self->event->lock);
}

static void run_wait(operation *self)
{
    wait_for(self->event, self->number);
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    ENTER();
    (void)flags;
    CUevent made = calloc(1, sizeof *made);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    pthread_mutex_lock(&lock);
    made->next = all_events;
    all_events = made;
    pthread_mutex_unlock(&lock);
    *event = made;
    count_object(1);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    (void)event, (void)enter(__func__);
    count_object(-1);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER();
    pthread_mutex_lock(&event->lock);
    uint64_t number = ++event->recorded;
    pthread_mutex_unlock(&event->lock);
    push(stream, (operation){.run = run_record, .event = event, .number = number}, NULL, 0);
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
    ENTER();
    wait_for(event, recorded(event));
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    ENTER();
    (void)flags;
    push(stream, (operation){.run = run_wait, .event = event, .number = recorded(event)}, NULL, 0);
    return CUDA_SUCCESS;
}

/* Memory. */

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
    ENTER();
    allocation *made = malloc(sizeof *made);
    *made = (allocation){malloc(bytes), bytes, n_current ? current[n_current - 1]->device : 0, NULL};
    pthread_mutex_lock(&lock);
    made->next = allocations;
    allocations = made;
    pthread_mutex_unlock(&lock);
    *memory = (uintptr_t)made->data | HIDDEN;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr memory)
{
    ENTER();
    allocation *found = NULL;
    pthread_mutex_lock(&lock);
    for (allocation **at = &allocations; *at; at = &(*at)->next)
        if (((uintptr_t)(*at)->data | HIDDEN) == memory) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    free(found->data);
    free(found);
    return CUDA_SUCCESS;
}

static size_t room = (size_t)64 << 30;

void fake_cuda_set_room(size_t bytes)
{
    pthread_mutex_lock(&lock);
    room = bytes;
    pthread_mutex_unlock(&lock);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    ENTER();
    pthread_mutex_lock(&lock);
    *free_bytes = room;
    *total = (size_t)64 << 30;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *memory, size_t bytes, CUstream stream)
{
    ENTER();
    (void)stream;
    const CUresult result = cuMemAlloc_v2(memory, bytes);
    count_object(!result);
    return result;
}

static void run_free(operation *self)
{
    cuMemFree_v2((uintptr_t)self->to | HIDDEN);
    count_object(-1);
}

CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream)
{
    (void)enter(__func__);
    push(stream, (operation){.run = run_free, .to = fake_cuda_show((void *)(uintptr_t)memory)}, NULL, 0);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void **memory, size_t bytes)
{
    ENTER();
    pinned_block *block = malloc(sizeof *block + bytes);
    *block = (pinned_block){.bytes = bytes};
    pthread_mutex_lock(&lock);
    block->next = pinned_blocks;
    pinned_blocks = block;
    pthread_mutex_unlock(&lock);
    *memory = block->memory;
    count_object(1);
    count_pinned(bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *memory)
{
    (void)enter(__func__);
    pinned_block **at = &pinned_blocks;
    pthread_mutex_lock(&lock);
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    pinned_block *found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    count_pinned(0 - found->bytes);
    free(found);
    count_object(-1);
    return CUDA_SUCCESS;
}

static bool is_pinned(const char *address)
{
    pthread_mutex_lock(&lock);
    const pinned_block *block = pinned_blocks;
    while (block && !(address >= block->memory && address < block->memory + block->bytes))
        block = block->next;
    pthread_mutex_unlock(&lock);
    return block != NULL;
}

CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address)
{
    ENTER();
    allocation found;
    if (!find(address, 0, &found))
        return CUDA_ERROR_INVALID_VALUE;
    const CUdeviceptr start = (uintptr_t)found.data | HIDDEN;
    const unsigned on_device = 2;
    enum { MEMORY_TYPE = 2, IS_MANAGED = 8 };
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        memcpy(value, &found.device, sizeof found.device);
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        memcpy(value, &start, sizeof start);
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        memcpy(value, &found.bytes, sizeof found.bytes);
    else if (attribute == MEMORY_TYPE)
        memcpy(value, &on_device, sizeof on_device);
    else if (attribute == IS_MANAGED)
        *(unsigned char *)value = 0;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static void run_copy(operation *self)
{
    memcpy(self->to, self->from, self->bytes);
}

/* `host` NULL: between memory of devices. As in CUDA, a copy from or to other memory than pinned one ends in the call. */
static CUresult copy(CUdeviceptr device, const void *host, void *to, const void *from, size_t bytes, CUstream stream)
{
    allocation found;
    if (!find(device, bytes, &found)) {
        fprintf(stderr, "a copy of %zu bytes at %#llx, which is not memory of a device\n", bytes, device);
        abort(); /* the driver would end the training with an illegal address */
    }
    push(stream, (operation){.run = run_copy, .to = fake_cuda_show(to), .from = fake_cuda_show(from), .bytes = bytes}, NULL,
         0);
    if (host && !is_pinned(host))
        finish(stream);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER();
    count_copied(bytes);
    return copy(from, to, to, (const void *)(uintptr_t)from, bytes, stream);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    ENTER();
    return copy(to, from, (void *)(uintptr_t)to, from, bytes, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER();
    return copy(from, NULL, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, stream);
}

static void run_kernel(operation *self)
{
    self->kernel(self->arguments);
}

static void run_host_function(operation *self)
{
    self->kernel(self->to);
}

void fake_cuda_launch(CUstream stream, void (*kernel)(void *arguments), const void *arguments, size_t bytes)
{
    push(stream, (operation){.run = run_kernel, .kernel = kernel}, arguments, bytes);
}

CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *user), void *user)
{
    push(stream, (operation){.run = run_host_function, .kernel = function, .to = user}, NULL, 0);
    return CUDA_SUCCESS;
}

/* Kernels of PTX: the bodies of kernels.c. */

struct CUmod_st {
    const char *ptx;
};

/* Each parameter has 8 bytes. */
struct CUfunc_st {
    const char *name;
    size_t parameters;
    void (*run)(uint64_t thread, uint64_t threads, const uint64_t *parameters);
};

static void run_find_nonfinite(uint64_t thread, uint64_t threads, const uint64_t *parameters)
{
    find_nonfinite(thread, threads, fake_cuda_show((void *)(uintptr_t)parameters[0]), parameters[1], parameters[2],
                   parameters[3], fake_cuda_show((void *)(uintptr_t)parameters[4]));
}

static struct CUfunc_st functions[] = {{"hs_find_nonfinite", 5, run_find_nonfinite}};

typedef struct {
    CUfunction function;
    uint64_t threads, parameters[8];
} launch;

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    ENTER();
    if (strncmp(image, ".version ", 9) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *module = malloc(sizeof **module);
    (*module)->ptx = image;
    count_object(1);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    (void)enter(__func__);
    free(module);
    count_object(-1);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER();
    char entry[64];
    snprintf(entry, sizeof entry, ".visible .entry %s(", name);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0 && strstr(module->ptx, entry)) {
            *function = &functions[i];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

static void run_launch(operation *self)
{
    const launch *l = (const void *)self->arguments;
    for (uint64_t thread = l->threads; thread > 0; thread--)
        l->function->run(thread - 1, l->threads, l->parameters);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
                        void **extra)
{
    ENTER();
    launch what = {.function = function, .threads = (uint64_t)grid_x * block_x};
    if (!what.threads || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared_bytes || extra)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < function->parameters; i++)
        memcpy(&what.parameters[i], parameters[i], sizeof what.parameters[i]);
    push(stream, (operation){.run = run_launch}, &what, sizeof what);
    return CUDA_SUCCESS;
}

/* Devices and contexts. */

CUresult cuInit(unsigned flags)
{
    ENTER();
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER();
    *device = ordinal;
    return ordinal >= 0 && ordinal < DEVICES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER();
    *context = &contexts[device];
    count_object(1);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    (void)device, (void)enter(__func__);
    count_object(-1);
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    const CUresult result = enter(__func__);
    if (result && result != 700) /* work that has failed before does not fail it */
        return result;
    if (n_current == sizeof current / sizeof *current)
        abort(); /* a push without a pop */
    current[n_current++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    if (!n_current)
        abort();
    *context = current[--n_current];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = n_current ? current[n_current - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
    *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == CUDA_ERROR_NO_DEVICE   ? "CUDA_ERROR_NO_DEVICE"
            : result == 700                    ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                               : NULL;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
    *text = result == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory"
            : result == CUDA_ERROR_NO_DEVICE   ? "no CUDA-capable device is detected"
            : result == 700                    ? "an illegal memory access was encountered"
                                               : NULL;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
