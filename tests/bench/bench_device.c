/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* What variables on a device cost the host. Over the stand-in for CUDA's driver, so that only counts and ratios mean anything.
 *
 *   host_bytes_per_save             peak memory that a save allocates, with pinned memory
 *   host_bytes_per_background_save  the same in the background
 *   host_bytes_per_restore          the same of a restore
 *   copies_per_step                 copies to the host in a step with three hooks that read one value on the device
 *   stall_over_event                time that a background save holds the training thread, over that of recording an event
 *
 * Wanted: at most 64 MiB for each of the first three, 1 copy, and a stall of at most 3 events.
 * Arguments: MiB (256) and a directory (the current one). */
/* clang-format on */
#include <hooksess/cuda.h>
#include <hooksess/hooksess.h>

#include "bench.h"
#include "cuda/fake_driver.h"

#include <pthread.h>

enum { TENSORS = 4, ROUNDS = 25, STEPS = 20 };

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
    float *tensors[TENSORS], *loss; /* on the device */
    int64_t n;                      /* elements of a tensor */
    hs_cuda *cuda;
    hs_graph *graph;
    hs_session *session;
    hs_saver *saver;
} model;

static float *allocate(int64_t n)
{
    CUdeviceptr memory;
    if (cuMemAlloc_v2(&memory, (size_t)n * sizeof(float)))
        exit(1);
    memset(fake_cuda_show((void *)(uintptr_t)memory), 0, (size_t)n * sizeof(float));
    return (float *)(uintptr_t)memory;
}

static hs_code read_loss(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)err;
    *(double *)self += hs_run_values_number(values, 0);
    return HS_OK;
}

static const hs_hook_ops reader =
    HS_INIT(hs_hook_ops, .name = "reader", .fetches = HS_NAMES("loss"), .after_run = read_loss);

static void open_model(model *m)
{
    static const char *const names[TENSORS] = {"a", "b", "c", "d"};
    static double sum;
    hs_error err = {0};
    if (!(m->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = m->stream), &err)))
        fail(&err);
    m->graph = hs_graph_new(&env);
    for (int i = 0; i < TENSORS; i++)
        hs_cuda_variable(m->cuda, m->graph, names[i], HS_FLOAT, HS_SHAPE(m->n), &m->tensors[i]);
    hs_cuda_value(m->cuda, m->graph, "loss", HS_FLOAT, HS_SCALAR, &m->loss);
    hs_graph_global_step(m->graph, NULL, NULL);
    const hs_hook hook = HS_HOOK(.ops = &reader, .self = &sum);
    if (!(m->session =
              hs_session_open(hs_graph_backend(m->graph), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook, hook, hook)), &err)) ||
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

/* The time for which the save holds the thread. */
static double save(const model *m, const char *prefix, bool background)
{
    hs_error err = {0};
    hs_save_result result;
    const double start = bench_now();
    if (hs_saver_save(m->saver, hs_session_raw(m->session), prefix, -1,
                      HS_OPTIONS(hs_save_options, .no_meta_graph = true, .background = background), &err))
        fail(&err);
    const double took = bench_now() - start;
    step(m); /* whose update waits for the copies */
    hs_saver_wait(m->saver);
    if (hs_saver_poll(m->saver, NULL, &result) && result.error.code)
        fail(&result.error);
    return took;
}

static double record_event(const model *m, CUevent event)
{
    cuStreamSynchronize(m->stream);
    const double start = bench_now();
    cuEventRecord(event, m->stream);
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

int main(int argc, char **argv)
{
    const int64_t mib = argc > 1 ? atoll(argv[1]) : 256;
    model m = {.n = (mib << 20) / TENSORS / (int64_t)sizeof(float)};
    char prefix[4096];
    CUevent event;
    hs_error err = {0};
    double stalls[ROUNDS], events[ROUNDS];
    snprintf(prefix, sizeof prefix, "%s/bench-device", argc > 2 ? argv[2] : ".");
    cuStreamCreate(&m.stream, 0);
    cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    for (int i = 0; i < TENSORS; i++)
        m.tensors[i] = allocate(m.n);
    m.loss = allocate(1);

    open_model(&m);
    size_t before = begin_peak();
    save(&m, prefix, false);
    bench_print("host_bytes_per_save", peak_since(before), "bytes");
    before = begin_peak();
    save(&m, prefix, true);
    bench_print("host_bytes_per_background_save", peak_since(before), "bytes");
    before = begin_peak();
    if (hs_saver_restore(m.saver, hs_session_raw(m.session), prefix, NULL, &err))
        fail(&err);
    bench_print("host_bytes_per_restore", peak_since(before), "bytes");

    const int copies = fake_cuda_calls("cuMemcpyDtoHAsync_v2");
    for (int i = 0; i < STEPS; i++)
        step(&m);
    bench_print("copies_per_step", (double)(fake_cuda_calls("cuMemcpyDtoHAsync_v2") - copies) / STEPS, "copies");
    close_model(&m);

    m.n = 1 << 18; /* the time does not depend on the size */
    open_model(&m);
    for (int i = 0; i < ROUNDS; i++) {
        events[i] = record_event(&m, event);
        stalls[i] = save(&m, prefix, true);
    }
    const double stall = bench_median(stalls, ROUNDS), recorded = bench_median(events, ROUNDS);
    bench_print("stall", stall * 1e6, "us");
    bench_print("event", recorded * 1e6, "us");
    bench_print("stall_over_event", stall / recorded, "ratio");
    close_model(&m);
    hs_checkpoint_remove(NULL, prefix, NULL);
    return 0;
}
