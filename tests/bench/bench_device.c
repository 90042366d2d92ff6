/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* What variables on a device cost. Built twice: over the stand-in for CUDA's driver, where only the first seven figures mean
 * anything, and for tests/gpu over the driver of a GPU.
 *
 *   host_bytes_per_save             peak memory that a save allocates, with pinned memory
 *   host_bytes_per_background_save  the same in the background
 *   host_bytes_without_room         the same in the background if the device has no room for copies: those of the variables, too
 *   host_bytes_per_restore          the same of a restore
 *   copies_per_step                 copies to the host in a step with three hooks that read one value on the device
 *   stall_over_event                time that a background save of 500 tensors holds the training thread, in the call and in an
 *                                   hs_step_before_update that follows immediately, over that of recording an event
 *   driver_calls_per_tensor         calls of the driver by which such a save copies a tensor on the device
 *   loss_step_over_alone            time of a step whose loss a hook reads, while a save is in the background, over that without a save
 *   update_delay_over_copy          time from a background save until the stream may update, over that of a copy on the device
 *   snapshot_over_pinned            bandwidth of a background save to the host's memory, as without room on the device, over that of
 *                                   copies to pinned memory
 *   restore_over_limit              bandwidth of a restore, over the smaller one of reading the file and of copies from pinned memory
 *   idle_hooks_us                   time that five hooks which are not due add to a step
 *   synchronizations                calls in such a step that wait for the device
 *
 * Wanted: at most 64 MiB for a save in both ways and a restore, 1 copy, a stall of at most 3 events, an update delay of at most 1.05,
 * 0.9 of both bandwidths, under 1 us, and no synchronization.
 * Arguments: MiB (256; less if the device has not three times as many) and a directory (the current one). */
/* clang-format on */
#include <hooksess/cuda.h>
#include <hooksess/hooksess.h>

#include "bench.h"
#include "cuda/fake_driver.h"

#include <glob.h>
#include <pthread.h>

enum {
    TENSORS = 4,
    MANY = 500,
    ROUNDS = 25,
    STEPS = 20,
    SAVES = 3,
    LOSS_STEPS = 1000,
    IDLE_STEPS = 10000,
    PIECE = 8 << 20
};

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static size_t live, most;

static void count(size_t by)
{
    pthread_mutex_lock(&counting);
    live += by;
    most = live > most ? live : most;
    pthread_mutex_unlock(&counting);
}

static void *counted_alloc(void *user, size_t bytes)
{
    (void)user;
    size_t *block = calloc(1, bytes + 64);
    if (!block)
        return NULL;
    *block = bytes;
    count(bytes);
    return (char *)block + 64;
}

static void counted_free(void *user, void *block)
{
    (void)user;
    if (!block)
        return;
    size_t *start = (size_t *)(void *)((char *)block - 64);
    count(0 - *start);
    free(start);
}

static void *counted_realloc(void *user, void *block, size_t bytes)
{
    void *made = counted_alloc(user, bytes);
    if (made && block) {
        size_t before = *(size_t *)(void *)((char *)block - 64);
        memcpy(made, block, before < bytes ? before : bytes);
        counted_free(user, block);
    }
    return made;
}

static const hs_env env = HS_INIT(hs_env, .allocator = {counted_alloc, counted_realloc, counted_free, NULL});

static void fail(const hs_error *err)
{
    fprintf(stderr, "bench: %s\n", err->message);
    exit(1);
}

typedef struct {
    CUstream stream;
    float *tensors[MANY], *loss; /* on the device */
    int n_tensors;
    int64_t n;    /* elements of a tensor */
    char *pinned; /* a piece */
    hs_cuda *cuda;
    hs_graph *graph;
    hs_session *session;
    hs_saver *saver;
} model;

static void check(CUresult result)
{
    const char *text = NULL;
    if (!result)
        return;
    cuGetErrorString(result, &text);
    fprintf(stderr, "bench: %s (%d)\n", text ? text : "error", result);
    exit(1);
}

static size_t model_bytes(const model *m)
{
    return (size_t)m->n_tensors * (size_t)m->n * sizeof(float);
}

/* Copies pieces between pinned memory and the tensors. Returns the bytes in a second. */
static double copy_pieces(const model *m, bool to_host)
{
    const size_t bytes = (size_t)m->n * sizeof(float);
    check(cuStreamSynchronize(m->stream));
    const double start = bench_now();
    for (int i = 0; i < m->n_tensors; i++)
        for (size_t at = 0; at < bytes; at += PIECE) {
            const CUdeviceptr device = (CUdeviceptr)m->tensors[i] + at;
            const size_t size = bytes - at < PIECE ? bytes - at : PIECE;
            check(to_host ? cuMemcpyDtoHAsync_v2(m->pinned, device, size, m->stream)
                          : cuMemcpyHtoDAsync_v2(device, m->pinned, size, m->stream));
        }
    check(cuStreamSynchronize(m->stream));
    return (double)model_bytes(m) / (bench_now() - start);
}

static float *allocate(int64_t n)
{
    CUdeviceptr memory;
    check(cuMemAlloc_v2(&memory, (size_t)n * sizeof(float)));
    return (float *)(uintptr_t)memory;
}

static void allocate_model(model *m)
{
    void *pinned;
    check(cuMemAllocHost_v2(&pinned, PIECE));
    m->pinned = memset(pinned, 0, PIECE);
    for (m->n_tensors = 0; m->n_tensors < TENSORS; m->n_tensors++)
        m->tensors[m->n_tensors] = allocate(m->n);
    m->loss = allocate(1);
    check(cuMemcpyHtoDAsync_v2((CUdeviceptr)m->loss, m->pinned, sizeof(float), m->stream));
    copy_pieces(m, false);
}

/* Divides the tensors into smaller ones. */
static void divide(model *m)
{
    float *const whole[TENSORS] = {m->tensors[0], m->tensors[1], m->tensors[2], m->tensors[3]};
    m->n /= MANY / TENSORS;
    for (m->n_tensors = 0; m->n_tensors < MANY; m->n_tensors++)
        m->tensors[m->n_tensors] = whole[m->n_tensors % TENSORS] + m->n_tensors / TENSORS * m->n;
}

static hs_code read_loss(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)err;
    *(double *)self += hs_run_values_number(values, 0);
    return HS_OK;
}

static double sum;
static const hs_hook_ops reader =
    HS_INIT(hs_hook_ops, .name = "reader", .fetches = HS_NAMES("loss"), .after_run = read_loss);

static void open_model(model *m, const hs_hook *hooks)
{
    char name[32];
    hs_error err = {0};
    if (!(m->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = m->stream), &err)))
        fail(&err);
    m->graph = hs_graph_new(&env);
    for (int i = 0; i < m->n_tensors; i++) {
        snprintf(name, sizeof name, "layer%d/weights", i);
        hs_cuda_variable(m->cuda, m->graph, name, HS_FLOAT, HS_SHAPE(m->n), &m->tensors[i]);
    }
    hs_cuda_value(m->cuda, m->graph, "loss", HS_FLOAT, HS_SCALAR, &m->loss);
    hs_graph_global_step(m->graph, NULL, NULL);
    if (!(m->session = hs_session_open(hs_graph_backend(m->graph), HS_SESSION_OPTIONS(.hooks = hooks), &err)) ||
        !(m->saver = hs_saver_new(HS_OPTIONS(hs_saver_options, .env = &env, .max_to_keep = 1), &err)))
        fail(&err);
}

static void close_model(model *m)
{
    hs_saver_free(m->saver);
    hs_session_close(m->session, NULL);
    hs_graph_free(m->graph);
    hs_cuda_free(m->cuda);
}

static void step(const model *m)
{
    if (!hs_step_begin(m->session))
        exit(1);
    hs_step_before_update(m->session);
    if (hs_step_end(m->session))
        exit(1);
}

/* The time of a save, in seconds. */
typedef struct {
    double thread; /* for which it holds the thread: in the call and before the update */
    double update; /* after which the stream may update the variables */
} save_time;

static void begin_save(const model *m, const char *prefix, bool background, int64_t copy_limit)
{
    hs_error err = {0};
    if (hs_saver_save(
            m->saver, hs_session_raw(m->session), prefix, -1,
            HS_OPTIONS(hs_save_options, .no_meta_graph = true, .background = background, .copy_limit = copy_limit), &err))
        fail(&err);
}

static void end_save(const model *m)
{
    hs_save_result result;
    hs_saver_wait(m->saver);
    if (hs_saver_poll(m->saver, NULL, &result) && result.error.code)
        fail(&result.error);
}

static save_time save(const model *m, const char *prefix, bool background, int64_t copy_limit)
{
    save_time took;
    const double start = bench_now();
    begin_save(m, prefix, background, copy_limit);
    took.thread = bench_now() - start;
    if (!hs_step_begin(m->session))
        exit(1);
    const double before_update = bench_now();
    hs_step_before_update(m->session);
    took.thread += bench_now() - before_update;
    check(cuStreamSynchronize(m->stream));
    took.update = bench_now() - start;
    if (hs_step_end(m->session))
        exit(1);
    end_save(m);
    return took;
}

static double record_event(const model *m, CUevent event)
{
    check(cuStreamSynchronize(m->stream));
    const double start = bench_now();
    check(cuEventRecord(event, m->stream));
    return bench_now() - start;
}

static size_t begin_peak(void)
{
    most = live;
    fake_cuda_pinned_peak();
    return live;
}

static double peak_since(size_t before)
{
    return (double)(most - before + fake_cuda_pinned_peak());
}

static void host_memory(const model *m, const char *prefix)
{
    hs_error err = {0};
    size_t before = begin_peak();
    save(m, prefix, false, 0);
    bench_print("host_bytes_per_save", peak_since(before), "bytes");
    before = begin_peak();
    save(m, prefix, true, 0);
    bench_print("host_bytes_per_background_save", peak_since(before), "bytes");
    before = begin_peak();
    fake_cuda_set_room((size_t)1 << 30);
    save(m, prefix, true, 0);
    fake_cuda_set_room((size_t)64 << 30);
    bench_print("host_bytes_without_room", peak_since(before), "bytes");
    before = begin_peak();
    if (hs_saver_restore(m->saver, hs_session_raw(m->session), prefix, NULL, &err))
        fail(&err);
    bench_print("host_bytes_per_restore", peak_since(before), "bytes");
}

static void copies(const model *m)
{
    const int before = fake_cuda_calls("cuMemcpyDtoHAsync_v2");
    for (int i = 0; i < STEPS; i++)
        step(m);
    bench_print("copies_per_step", (double)(fake_cuda_calls("cuMemcpyDtoHAsync_v2") - before) / STEPS, "copies");
}

/* Calls so far by which tensors are copied on the device. A copy to the host records an event, too. */
static int driver_calls(void)
{
    static const char *const names[] = {"cuPointerGetAttribute", "cuMemGetInfo_v2",      "cuMemAllocAsync",
                                        "cuStreamWaitEvent",     "cuMemcpyDtoDAsync_v2", "cuEventRecord"};
    int calls = 0 - fake_cuda_calls("cuMemcpyDtoHAsync_v2");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        calls += fake_cuda_calls(names[i]);
    return calls;
}

static void stalls(const model *m, const char *prefix)
{
    CUevent event;
    double held[ROUNDS], events[ROUNDS];
    check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    const int before = driver_calls();
    for (int i = 0; i < ROUNDS; i++) {
        events[i] = record_event(m, event);
        held[i] = save(m, prefix, true, 0).thread;
    }
    const double stall = bench_median(held, ROUNDS), recorded = bench_median(events, ROUNDS);
    bench_print("stall", stall * 1e6, "us");
    bench_print("event", recorded * 1e6, "us");
    bench_print("stall_over_event", stall / recorded, "ratio");
    bench_print("driver_calls_per_tensor", (double)(driver_calls() - before) / ROUNDS / m->n_tensors, "calls");
}

/* The median time of a step whose loss a hook reads, in seconds. `saves`: while saves are in the background. */
static double loss_step_time(const model *m, const char *prefix, bool saves)
{
    double times[LOSS_STEPS];
    for (int i = 0; i < LOSS_STEPS;) {
        if (saves)
            begin_save(m, prefix, true, 0);
        step(m); /* the device waits for the copies there */
        while (i < LOSS_STEPS && !(saves && hs_saver_poll(m->saver, NULL, NULL))) {
            const double start = bench_now();
            step(m);
            times[i++] = bench_now() - start;
        }
        end_save(m);
    }
    return bench_median(times, LOSS_STEPS);
}

static void loss_beside_save(const model *m, const char *prefix)
{
    const double alone = loss_step_time(m, prefix, false), saving = loss_step_time(m, prefix, true);
    bench_print("loss_step", alone * 1e6, "us");
    bench_print("loss_step_with_save", saving * 1e6, "us");
    bench_print("loss_step_over_alone", saving / alone, "ratio");
}

static double copy_on_device(const model *m)
{
    const size_t bytes = (size_t)m->n * sizeof(float);
    float *to = allocate(m->n);
    double times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        check(cuStreamSynchronize(m->stream));
        const double start = bench_now();
        for (int t = 0; t < m->n_tensors; t++)
            check(cuMemcpyDtoDAsync_v2((CUdeviceptr)to, (CUdeviceptr)m->tensors[t], bytes, m->stream));
        check(cuStreamSynchronize(m->stream));
        times[i] = bench_now() - start;
    }
    check(cuMemFree_v2((CUdeviceptr)to));
    return bench_median(times, ROUNDS);
}

/* The median time after which the stream may update the variables. */
static double update_delay(const model *m, const char *prefix, int64_t copy_limit)
{
    double delays[SAVES];
    for (int i = 0; i < SAVES; i++)
        delays[i] = save(m, prefix, true, copy_limit).update;
    return bench_median(delays, SAVES);
}

/* Reads the files of the checkpoint. Returns the bytes in a second. */
static double read_files(const model *m, const char *prefix)
{
    char pattern[4200];
    glob_t found = {0};
    size_t got, bytes = 0;
    snprintf(pattern, sizeof pattern, "%s.data-*", prefix);
    if (glob(pattern, 0, NULL, &found))
        exit(1);
    const double start = bench_now();
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "rb");
        if (!file)
            exit(1);
        setvbuf(file, NULL, _IONBF, 0);
        while ((got = fread(m->pinned, 1, PIECE, file)) > 0)
            bytes += got;
        fclose(file);
    }
    const double took = bench_now() - start;
    globfree(&found);
    return (double)bytes / took;
}

static void bandwidths(const model *m, const char *prefix)
{
    hs_error err = {0};
    const double copy = copy_on_device(m), delay = update_delay(m, prefix, 0);
    bench_print("copy_on_device", copy * 1e3, "ms");
    bench_print("update_delay", delay * 1e3, "ms");
    bench_print("update_delay_over_copy", delay / copy, "ratio");

    fake_cuda_set_room((size_t)1 << 30);
    const double snapshot = (double)model_bytes(m) / update_delay(m, prefix, HS_NEVER), pinned = copy_pieces(m, true);
    fake_cuda_set_room((size_t)64 << 30);
    bench_print("snapshot", snapshot / 1e9, "GB/s");
    bench_print("pinned", pinned / 1e9, "GB/s");
    bench_print("snapshot_over_pinned", snapshot / pinned, "ratio");

    const double start = bench_now();
    if (hs_saver_restore(m->saver, hs_session_raw(m->session), prefix, NULL, &err))
        fail(&err);
    check(cuStreamSynchronize(m->stream));
    const double restore = (double)model_bytes(m) / (bench_now() - start), disk = read_files(m, prefix),
                 bus = copy_pieces(m, false);
    bench_print("restore", restore / 1e9, "GB/s");
    bench_print("disk", disk / 1e9, "GB/s");
    bench_print("bus", bus / 1e9, "GB/s");
    bench_print("restore_over_limit", restore / (disk < bus ? disk : bus), "ratio");
}

static int waits(void)
{
    return fake_cuda_calls("cuStreamSynchronize") + fake_cuda_calls("cuEventSynchronize");
}

/* The median time of a step, in seconds. */
static double step_time(model *m, const hs_hook *hooks, double *synchronizations)
{
    double times[ROUNDS];
    open_model(m, hooks);
    step(m); /* in which all hooks are due */
    const int before = waits();
    for (int i = 0; i < ROUNDS; i++) {
        const double start = bench_now();
        for (int at = 0; at < IDLE_STEPS; at++)
            step(m);
        times[i] = (bench_now() - start) / IDLE_STEPS;
    }
    *synchronizations = (double)(waits() - before) / (ROUNDS * IDLE_STEPS);
    close_model(m);
    return bench_median(times, ROUNDS);
}

int main(int argc, char **argv)
{
    const hs_hook busy = HS_HOOK(.ops = &reader, .self = &sum);
    const hs_hook idle_hook = HS_HOOK(.ops = &reader, .self = &sum, .when = HS_EVERY_STEPS(INT32_MAX));
    const int64_t mib = argc > 1 ? atoll(argv[1]) : 256;
    model m = {0};
    char prefix[4096];
    size_t room, total;
    double synchronizations;
    snprintf(prefix, sizeof prefix, "%s/bench-device", argc > 2 ? argv[2] : ".");
    fake_cuda_use();
    check(cuStreamCreate(&m.stream, 0));
    check(cuMemGetInfo_v2(&room, &total));
    const size_t fits = room / 3 / TENSORS, wanted = ((size_t)mib << 20) / TENSORS;
    m.n = (int64_t)((wanted < fits ? wanted : fits) / sizeof(float));
    allocate_model(&m);
    bench_print("model", (double)model_bytes(&m) / (1 << 20), "MiB");

    open_model(&m, HS_HOOKS(busy, busy, busy));
    host_memory(&m, prefix);
    copies(&m);
    bandwidths(&m, prefix);
    close_model(&m);
    open_model(&m, HS_HOOKS(busy));
    loss_beside_save(&m, prefix);
    close_model(&m);

    divide(&m);
    open_model(&m, NULL);
    stalls(&m, prefix);
    close_model(&m);
    hs_checkpoint_remove(NULL, prefix, NULL);

    const double none = step_time(&m, NULL, &synchronizations);
    const double idle = step_time(&m, HS_HOOKS(idle_hook, idle_hook, idle_hook, idle_hook, idle_hook), &synchronizations);
    bench_print("idle_hooks_us", (idle - none) * 1e6, "us");
    bench_print("synchronizations", synchronizations, "calls");
    return 0;
}
