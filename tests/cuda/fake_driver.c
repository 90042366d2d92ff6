/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for CUDA's driver (fake_driver.h). */
#include "cuda/driver_calls.h"
#include "cuda/kernels.c"
#include "cuda/order.h"

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
};

struct CUevent_st {
    CUcontext context;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded, done; /* how often it was recorded, and how often that has happened */
    order_clock point;       /* of the last record */
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
    CUcontext context;
    int number; /* order.h */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    operation *first, **last;
    bool busy, ends;
    unsigned seed;
};

/* Memory that it holds is not free for others. */
struct CUmemPoolHandle_st {
    size_t held, used; /* bytes; used ones are held, too */
    size_t freed;      /* of the used ones, by streams, which the host has not observed */
    struct CUmemPoolHandle_st *next;
};

enum kind { DEVICE, POOL, MAPPED, MANAGED, ALLOCATED, REGISTERED };

typedef struct allocation {
    enum kind kind;
    char *data;
    uintptr_t address; /* on the device */
    size_t bytes;
    CUdevice device;
    CUcontext context; /* NULL: none */
    CUmemoryPool pool; /* NULL: none */
    struct allocation *next;
} allocation;

typedef struct pinned_block {
    struct pinned_block *next;
    size_t bytes;
    _Alignas(16) char memory[];
} pinned_block;

static struct CUctx_st contexts[DEVICES] = {{.device = 0}, {.device = 1}};
static _Thread_local CUcontext current[8];
static _Thread_local int n_current;

/* Guards what follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocation *allocations;
static CUmemoryPool pools;
static pinned_block *pinned_blocks;
static CUevent all_events; /* never freed: a stream may still use a destroyed one */
static CUstream default_stream;

/* The context that the thread uses. NULL: none. */
static CUcontext used(void)
{
    return n_current ? current[n_current - 1] : NULL;
}

/* As ENTER, in a function that needs a context. */
#define ENTER_CONTEXT()                                                                                                    \
    do {                                                                                                                   \
        ENTER();                                                                                                           \
        if (!used())                                                                                                       \
            return CUDA_ERROR_INVALID_CONTEXT;                                                                             \
    } while (0)

void *fake_cuda_show(const void *device)
{
    return (void *)((uintptr_t)device & ~HIDDEN);
}

/* The allocation that contains the bytes. NULL: none. */
static bool find(CUdeviceptr address, size_t bytes, allocation *found)
{
    bool is_found = false;
    pthread_mutex_lock(&lock);
    for (const allocation *a = allocations; a && !is_found; a = a->next)
        if (address >= a->address && address - a->address < a->bytes && bytes <= a->bytes - (address - a->address)) {
            *found = *a;
            is_found = true;
        }
    pthread_mutex_unlock(&lock);
    return is_found;
}

/* The host has waited for a stream, or has seen that it is empty. If it has waited, pools give back what they do not use.
 */
static void observe(bool waited)
{
    pthread_mutex_lock(&lock);
    for (CUmemoryPool pool = pools; pool; pool = pool->next) {
        pool->used -= pool->freed;
        pool->freed = 0;
        if (waited)
            pool->held = pool->used;
    }
    pthread_mutex_unlock(&lock);
}

/* Streams. */

static void run_record(operation *self);

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
        if (next->run != run_record)
            next->run(next);
        pthread_mutex_lock(&stream->lock);
        if (next->run == run_record) /* for a thread that has waited for the event, the stream is not busy */
            next->run(next);
        free(next);
        stream->busy = false;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

static CUstream start_stream(CUcontext context)
{
    static unsigned seed;
    CUstream stream = calloc(1, sizeof *stream);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    stream->last = &stream->first;
    stream->context = context;
    stream->number = order_add_stream();
    stream->seed = ++seed;
    pthread_create(&stream->thread, NULL, work, stream);
    return stream;
}

static CUstream or_default(CUstream stream)
{
    pthread_mutex_lock(&lock);
    if (!stream && !default_stream)
        default_stream = start_stream(&contexts[0]);
    if (!stream)
        stream = default_stream;
    pthread_mutex_unlock(&lock);
    return stream;
}

static void run_copy(operation *self)
{
    memcpy(self->to, self->from, self->bytes);
}

static void push(CUstream stream, operation what, const void *arguments, size_t bytes)
{
    operation *added = malloc(sizeof *added + bytes);
    *added = what;
    if (bytes)
        memcpy(added->arguments, arguments, bytes);
    stream = or_default(stream);
    if (what.run == run_copy) {
        order_access(stream->number, (uintptr_t)what.from, what.bytes, false);
        order_access(stream->number, (uintptr_t)what.to, what.bytes, true);
    }
    pthread_mutex_lock(&stream->lock);
    *stream->last = added;
    stream->last = &added->next;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    ENTER_CONTEXT();
    (void)flags;
    *stream = start_stream(used());
    count_object(1);
    return CUDA_SUCCESS;
}

static void finish(CUstream stream)
{
    stream = or_default(stream);
    const order_clock point = order_now(stream->number);
    pthread_mutex_lock(&stream->lock);
    while (stream->first || stream->busy)
        pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
    order_host_waited(&point);
    observe(true);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    const CUresult result = enter(__func__);
    finish(stream);
    return result;
}

CUresult cuStreamQuery(CUstream stream)
{
    ENTER_CONTEXT();
    stream = or_default(stream);
    const order_clock point = order_now(stream->number);
    pthread_mutex_lock(&stream->lock);
    const bool is_busy = stream->first || stream->busy;
    pthread_mutex_unlock(&stream->lock);
    if (is_busy)
        return CUDA_ERROR_NOT_READY;
    order_host_waited(&point);
    observe(false);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    (void)enter(__func__);
    pthread_mutex_lock(&stream->lock);
    stream->ends = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    order_remove_stream(stream->number);
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

static uint64_t recorded(CUevent event, order_clock *point)
{
    pthread_mutex_lock(&event->lock);
    uint64_t number = event->recorded;
    *point = event->point;
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
    ENTER_CONTEXT();
    (void)flags;
    CUevent made = calloc(1, sizeof *made);
    made->context = used();
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
    ENTER_CONTEXT();
    stream = or_default(stream);
    if (stream->context != event->context)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&event->lock);
    uint64_t number = ++event->recorded;
    event->point = order_now(stream->number);
    pthread_mutex_unlock(&event->lock);
    push(stream, (operation){.run = run_record, .event = event, .number = number}, NULL, 0);
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
    ENTER_CONTEXT();
    order_clock point;
    wait_for(event, recorded(event, &point));
    order_host_waited(&point);
    observe(true);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    ENTER_CONTEXT();
    (void)flags;
    order_clock point;
    const uint64_t number = recorded(event, &point);
    stream = or_default(stream);
    order_wait(stream->number, &point);
    push(stream, (operation){.run = run_wait, .event = event, .number = number}, NULL, 0);
    return CUDA_SUCCESS;
}

/* Memory. */

/* `data` NULL: allocates it. */
static CUdeviceptr allocate(enum kind kind, char *data, size_t bytes, CUmemoryPool pool)
{
    const bool is_hidden = kind != MANAGED && kind != ALLOCATED, has_context = kind == DEVICE || kind >= ALLOCATED;
    allocation *made = malloc(sizeof *made);
    *made = (allocation){.kind = kind,
                         .data = data ? data : malloc(bytes),
                         .bytes = bytes,
                         .device = used()->device,
                         .context = has_context ? used() : NULL,
                         .pool = pool};
    made->address = (uintptr_t)made->data | (is_hidden ? HIDDEN : 0);
    order_forget((uintptr_t)made->data, bytes);
    pthread_mutex_lock(&lock);
    made->next = allocations;
    allocations = made;
    if (pool) {
        pool->used += bytes;
        pool->held = pool->held < pool->used ? pool->used : pool->held;
    }
    pthread_mutex_unlock(&lock);
    return made->address;
}

/* Of a pool's memory, `is_observed` says that the host knows it to be free. */
static CUresult release(CUdeviceptr memory, bool is_observed)
{
    allocation *found = NULL;
    pthread_mutex_lock(&lock);
    for (allocation **at = &allocations; *at; at = &(*at)->next)
        if ((*at)->address == memory) {
            found = *at;
            *at = found->next;
            break;
        }
    if (found && found->pool) {
        *(is_observed ? &found->pool->used : &found->pool->freed) += is_observed ? 0 - found->bytes : found->bytes;
        count_object(-1);
    }
    pthread_mutex_unlock(&lock);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    (found->kind == POOL && is_observed ? order_free : order_forget)((uintptr_t)found->data, found->bytes);
    if (found->kind != REGISTERED)
        free(found->data);
    free(found);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
    ENTER_CONTEXT();
    *memory = allocate(DEVICE, NULL, bytes, NULL);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr *memory, size_t bytes, unsigned flags)
{
    ENTER_CONTEXT();
    (void)flags;
    *memory = allocate(MANAGED, NULL, bytes, NULL);
    return CUDA_SUCCESS;
}

CUresult fake_cuda_map(CUdeviceptr *memory, size_t bytes)
{
    ENTER_CONTEXT();
    *memory = allocate(MAPPED, NULL, bytes, NULL);
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    ENTER_CONTEXT();
    (void)flags;
    *memory = (void *)(uintptr_t)allocate(ALLOCATED, NULL, bytes, NULL);
    count_object(1);
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    ENTER_CONTEXT();
    (void)flags;
    allocate(REGISTERED, memory, bytes, NULL);
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *memory)
{
    ENTER_CONTEXT();
    return release((uintptr_t)memory | HIDDEN, true);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory, unsigned flags)
{
    ENTER_CONTEXT();
    (void)flags;
    allocation found;
    *address = (uintptr_t)memory | HIDDEN;
    return find(*address, 0, &found) || find(*address = (uintptr_t)memory, 0, &found) ? CUDA_SUCCESS
                                                                                      : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFree_v2(CUdeviceptr memory)
{
    ENTER_CONTEXT();
    return release(memory, true);
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
    ENTER_CONTEXT();
    pthread_mutex_lock(&lock);
    *free_bytes = room;
    for (CUmemoryPool pool = pools; pool; pool = pool->next)
        *free_bytes -= pool->held;
    *total = (size_t)64 << 30;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* Work of the stream writes the allocation, if the address is in one. */
static void access_all(CUstream stream, CUdeviceptr address)
{
    allocation found;
    if (find(address, 0, &found))
        order_access(or_default(stream)->number, (uintptr_t)found.data, found.bytes, true);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    ENTER();
    if (properties->allocation_type != 1 || properties->location_type != 1)
        return CUDA_ERROR_INVALID_VALUE;
    *pool = calloc(1, sizeof **pool);
    pthread_mutex_lock(&lock);
    (*pool)->next = pools;
    pools = *pool;
    pthread_mutex_unlock(&lock);
    count_object(1);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    (void)enter(__func__);
    observe(true);
    pthread_mutex_lock(&lock);
    CUmemoryPool *at = &pools;
    while (*at != pool)
        at = &(*at)->next;
    *at = pool->next;
    pthread_mutex_unlock(&lock);
    if (pool->used)
        abort(); /* a test that frees its memory later */
    free(pool);
    count_object(-1);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes_to_keep)
{
    ENTER();
    pthread_mutex_lock(&lock);
    if (pool->held > bytes_to_keep)
        pool->held = pool->used < bytes_to_keep ? bytes_to_keep : pool->used;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *memory, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    ENTER_CONTEXT();
    *memory = allocate(POOL, NULL, bytes, pool);
    access_all(stream, *memory);
    count_object(1);
    return CUDA_SUCCESS;
}

static void run_free(operation *self)
{
    release((uintptr_t)self->to | HIDDEN, false);
}

CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream)
{
    (void)enter(__func__);
    access_all(stream, memory);
    push(stream, (operation){.run = run_free, .to = fake_cuda_show((void *)(uintptr_t)memory)}, NULL, 0);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void **memory, size_t bytes)
{
    ENTER_CONTEXT();
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
    count_object(-1);
    if (!release((uintptr_t)memory, true))
        return CUDA_SUCCESS;
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
    order_forget((uintptr_t)memory, found->bytes);
    free(found);
    return CUDA_SUCCESS;
}

static bool is_pinned(const char *address)
{
    allocation found;
    if (find((uintptr_t)address | HIDDEN, 0, &found))
        return found.kind >= ALLOCATED;
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
    if (!find(address, 0, &found) && !find(address | HIDDEN, 0, &found))
        return CUDA_ERROR_INVALID_VALUE;
    enum { MEMORY_TYPE = 2, IS_MANAGED = 8, ON_HOST = 1, ON_DEVICE = 2 };
    const unsigned type = found.kind < ALLOCATED ? ON_DEVICE : ON_HOST;
    const size_t half = found.bytes / 2;
    if (found.kind == MAPPED) { /* in two ranges, as the program reserved them */
        const bool is_second = address - found.address >= half;
        found.address += is_second ? half : 0;
        found.bytes = is_second ? found.bytes - half : half;
    }
    if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
        memcpy(value, &found.context, sizeof found.context);
    else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        memcpy(value, &found.device, sizeof found.device);
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        memcpy(value, &found.address, sizeof found.address);
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        memcpy(value, &found.bytes, sizeof found.bytes);
    else if (attribute == MEMORY_TYPE)
        memcpy(value, &type, sizeof type);
    else if (attribute == IS_MANAGED)
        *(unsigned char *)value = found.kind == MANAGED;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
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
    ENTER_CONTEXT();
    count_copied(bytes);
    return copy(from, to, to, (const void *)(uintptr_t)from, bytes, stream);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    ENTER_CONTEXT();
    return copy(to, from, (void *)(uintptr_t)to, from, bytes, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER_CONTEXT();
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
    for (size_t at = 0; at + sizeof(CUdeviceptr) <= bytes; at += sizeof(CUdeviceptr)) {
        CUdeviceptr address;
        memcpy(&address, (const char *)arguments + at, sizeof address);
        access_all(stream, address);
    }
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
    void (*access)(int stream, const uint64_t *parameters);
    void (*run)(uint64_t thread, uint64_t threads, const uint64_t *parameters);
};

static void run_find_nonfinite(uint64_t thread, uint64_t threads, const uint64_t *parameters)
{
    find_nonfinite(thread, threads, fake_cuda_show((void *)(uintptr_t)parameters[0]), parameters[1], parameters[2],
                   parameters[3], fake_cuda_show((void *)(uintptr_t)parameters[4]));
}

static void access_find_nonfinite(int stream, const uint64_t *parameters)
{
    const uint64_t *elements = fake_cuda_show((void *)(uintptr_t)parameters[0]),
                   *found = fake_cuda_show((void *)(uintptr_t)parameters[4]);
    order_access(stream, (uintptr_t)elements, parameters[1] * parameters[2], false);
    order_access(stream, (uintptr_t)found, 4 * sizeof *found, true);
}

static struct CUfunc_st functions[] = {{"hs_find_nonfinite", 5, access_find_nonfinite, run_find_nonfinite}};

typedef struct {
    CUfunction function;
    uint64_t threads, parameters[8];
} launch;

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    ENTER_CONTEXT();
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
    ENTER_CONTEXT();
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
    ENTER_CONTEXT();
    launch what = {.function = function, .threads = (uint64_t)grid_x * block_x};
    if (!what.threads || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared_bytes || extra)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < function->parameters; i++)
        memcpy(&what.parameters[i], parameters[i], sizeof what.parameters[i]);
    function->access(or_default(stream)->number, what.parameters);
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
    *context = used();
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    ENTER();
    (void)flags;
    *context = malloc(sizeof **context);
    (*context)->device = device;
    count_object(1);
    return cuCtxPushCurrent_v2(*context);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    ENTER();
    free(context);
    count_object(-1);
    return CUDA_SUCCESS;
}

void fake_cuda_use(void)
{
    if (!used())
        cuCtxPushCurrent_v2(&contexts[0]);
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
