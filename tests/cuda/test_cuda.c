/* SPDX-License-Identifier: Apache-2.0 */
/* A training in the memory of a device, over a stand-in for CUDA's driver. */
#define _GNU_SOURCE /* fork, with cmocka's headers */
#include "cuda/fake_driver.h"
#include "cuda/gate.h"
#include "support/test.h"

#include <hooksess/cuda.h>

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

/* The parameters fill two buffers and a part of a third. */
enum { N = (2 * (8 << 20) + 4096) / (int)sizeof(float), ILLEGAL_ADDRESS = 700 };

/* A program: each step adds 1 to the parameters and 2 to the moments, which the first step allocates, and computes the
 * loss.
 */
typedef struct {
    char *directory;
    CUstream stream;
    float *parameters, *moments, *loss; /* on the device */
    float bad_at;                       /* the loss is NaN in this step; 0: in none */
    int64_t step;
    hs_cuda *cuda;
    hs_graph *graph;
    hs_session *session;
    hs_error err;
    hs_env env;
    pthread_mutex_t lock; /* guards what follows */
    size_t bytes, peak;   /* that the session has allocated */
} program;

/* Each block begins with its size. */
enum { HEAD = 64 };

static void *count_alloc(void *user, size_t bytes)
{
    program *p = user;
    char *block = malloc(HEAD + bytes);
    memcpy(block, &bytes, sizeof bytes);
    pthread_mutex_lock(&p->lock);
    p->bytes += bytes;
    p->peak = p->bytes > p->peak ? p->bytes : p->peak;
    pthread_mutex_unlock(&p->lock);
    return block + HEAD;
}

static void count_free(void *user, void *block)
{
    program *p = user;
    size_t bytes;
    memcpy(&bytes, (char *)block - HEAD, sizeof bytes);
    pthread_mutex_lock(&p->lock);
    p->bytes -= bytes;
    pthread_mutex_unlock(&p->lock);
    free((char *)block - HEAD);
}

static void *count_realloc(void *user, void *block, size_t bytes)
{
    size_t before = 0;
    void *moved = count_alloc(user, bytes);
    if (block) {
        memcpy(&before, (char *)block - HEAD, sizeof before);
        memcpy(moved, block, before < bytes ? before : bytes);
        count_free(user, block);
    }
    return moved;
}

typedef struct {
    float *parameters, *moments, *loss, bad_at;
} arguments;

static void kernel(void *of)
{
    const arguments *a = of;
    float *parameters = fake_cuda_show(a->parameters), *moments = fake_cuda_show(a->moments);
    for (int i = 0; i < N; i++) {
        parameters[i] += 1;
        moments[i] += 2;
    }
    *(float *)fake_cuda_show(a->loss) = parameters[0] == a->bad_at ? NAN : parameters[0];
}

static void clear(void *of)
{
    const arguments *a = of;
    if (a->parameters)
        memset(fake_cuda_show(a->parameters), 0, N * sizeof(float));
    if (a->moments)
        memset(fake_cuda_show(a->moments), 0, N * sizeof(float));
}

static float *allocate(size_t n)
{
    CUdeviceptr address;
    assert_int_equal(cuMemAlloc_v2(&address, n * sizeof(float)), 0);
    return (float *)(uintptr_t)address;
}

static void release(float **memory)
{
    if (*memory)
        assert_int_equal(cuMemFree_v2((CUdeviceptr)*memory), 0);
    *memory = NULL;
}

/* Copies between the host and the device, after the work of the stream. */
static void read_device(const program *p, void *to, const void *from, size_t bytes)
{
    assert_int_equal(cuMemcpyDtoHAsync_v2(to, (CUdeviceptr)from, bytes, p->stream), 0);
    assert_int_equal(cuStreamSynchronize(p->stream), 0);
}

static void write_device(const program *p, void *to, const void *from, size_t bytes)
{
    assert_int_equal(cuMemcpyHtoDAsync_v2((CUdeviceptr)to, from, bytes, p->stream), 0);
    assert_int_equal(cuStreamSynchronize(p->stream), 0);
}

static int setup(void **state)
{
    program *p = calloc(1, sizeof *p);
    p->directory = test_make_directory();
    pthread_mutex_init(&p->lock, NULL);
    fake_cuda_fail(NULL, 0, 0, false);
    fake_cuda_set_room((size_t)64 << 30);
    fake_cuda_use();
    assert_int_equal(cuStreamCreate(&p->stream, 0), 0);
    p->loss = allocate(1);
    p->env = *hs_env_default();
    p->env.allocator = (hs_allocator){count_alloc, count_realloc, count_free, p};
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    program *p = *state;
    fake_cuda_fail(NULL, 0, 0, false);
    hs_session_close(p->session, NULL);
    hs_graph_free(p->graph);
    hs_cuda_free(p->cuda);
    release(&p->parameters);
    release(&p->moments);
    release(&p->loss);
    cuStreamDestroy_v2(p->stream);
    test_remove_directory(p->directory);
    pthread_mutex_destroy(&p->lock);
    free(p);
    assert_int_equal(fake_cuda_objects(), 0);
    return 0;
}

/* start(p, has_parameters, hooks...) */
#define start(p, has_parameters, ...)                                                                                      \
    start_with((p), (has_parameters),                                                                                      \
               HS_HOOKS(hs_checkpoint_saver(.checkpoint_dir = (p)->directory, .every_n_steps = 3), __VA_ARGS__))
static void start_with(program *p, bool has_parameters, const hs_hook *hooks)
{
    if (has_parameters) {
        p->parameters = allocate(N);
        fake_cuda_launch(p->stream, clear, &(arguments){.parameters = p->parameters}, sizeof(arguments));
    }
    p->step = 0;
    assert_clears(&p->err, p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err));
    p->graph = hs_graph_new(&p->env);
    hs_cuda_variable(p->cuda, p->graph, "parameters", HS_FLOAT, HS_SHAPE(N), &p->parameters);
    hs_cuda_variable(p->cuda, p->graph, "moments", HS_FLOAT, HS_SHAPE(N), &p->moments);
    hs_cuda_value(p->cuda, p->graph, "loss", HS_FLOAT, HS_SCALAR, &p->loss);
    hs_graph_global_step(p->graph, NULL, &p->step);
    p->session = hs_session_open(hs_graph_backend(p->graph),
                                 HS_SESSION_OPTIONS(.checkpoint_dir = p->directory, .hooks = hooks), &p->err);
}

static void allocate_moments(program *p)
{
    if (p->moments)
        return;
    p->moments = allocate(N);
    fake_cuda_launch(p->stream, clear, &(arguments){.moments = p->moments}, sizeof(arguments));
}

static void train_to(program *p, int64_t last)
{
    while (p->step < last && hs_step_begin(p->session)) {
        allocate_moments(p);
        fake_cuda_launch(p->stream, kernel, &(arguments){p->parameters, p->moments, p->loss, p->bad_at}, sizeof(arguments));
        hs_step_end(p->session);
    }
}

/* Ends the training, as if the process had ended. */
static hs_code stop(program *p)
{
    hs_outcome outcome = hs_session_close(p->session, &p->err);
    p->session = NULL;
    hs_graph_free(p->graph);
    p->graph = NULL;
    hs_cuda_free(p->cuda);
    p->cuda = NULL;
    cuStreamSynchronize(p->stream);
    release(&p->parameters);
    release(&p->moments);
    return outcome.error.code;
}

/* Asserts that the device has the state after this many steps. */
static void assert_state(program *p, float steps)
{
    float *parameters = calloc(N, sizeof *parameters), *moments = calloc(N, sizeof *moments);
    read_device(p, parameters, p->parameters, N * sizeof *parameters);
    read_device(p, moments, p->moments, N * sizeof *moments);
    for (int i = 0; i < N; i++)
        if (parameters[i] != steps || moments[i] != 2 * steps)
            fail_msg("after %g steps, element %d is %g, and its moment %g", steps, i, parameters[i], moments[i]);
    free(parameters);
    free(moments);
}

static void a_training_resumes_into_memory_of_the_device(void **state)
{
    program *p = *state;
    start(p, true, (hs_hook){0});
    train_to(p, 4);
    assert_int_equal(stop(p), HS_OK);
    start(p, false, (hs_hook){0}); /* the library allocates */
    assert_non_null(p->session);
    assert_int_equal(p->step, 4);
    assert_state(p, 4);
    train_to(p, 6);
    assert_state(p, 6);
}

static void the_program_reads_the_restored_values(void **state)
{
    program *p = *state;
    start(p, true, (hs_hook){0});
    train_to(p, 3);
    assert_int_equal(stop(p), HS_OK);
    start(p, true, (hs_hook){0}); /* it clears its memory on its stream while the library restores */
    train_to(p, 4);
    assert_state(p, 4);
}

static void a_save_copies_in_pieces(void **state)
{
    program *p = *state;
    start(p, true, (hs_hook){0});
    train_to(p, 2);
    p->peak = p->bytes;
    const size_t before = p->bytes;
    fake_cuda_pinned_peak();
    train_to(p, 3);
    assert_int_equal((p->peak - before) >> 20, 8); /* the buffers of the file; the variables have 32 */
    assert_int_equal(fake_cuda_pinned_peak() >> 20, 16);
}

static double losses[8];
static int n_losses;

static hs_code read_loss(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)run, (void)err;
    losses[n_losses++] = hs_run_values_number(values, 0);
    return HS_OK;
}

static const hs_hook_ops reader =
    HS_INIT(hs_hook_ops, .name = "reader", .fetches = HS_NAMES("loss"), .after_run = read_loss);

static void a_value_is_copied_when_a_hook_is_due(void **state)
{
    program *p = *state;
    n_losses = 0;
    start(p, true, HS_HOOK(.ops = &reader, .when = HS_EVERY_STEPS(2)));
    train_to(p, 1);
    const int before = fake_cuda_calls("cuMemcpyDtoHAsync_v2");
    train_to(p, 2); /* no save, and none at step 1 */
    assert_int_equal(fake_cuda_calls("cuMemcpyDtoHAsync_v2"), before + (n_losses > 1 || losses[0] == 2));
    train_to(p, 6);
    for (int i = 0; i < n_losses; i++)
        assert_true(losses[i] == floor(losses[i]) && losses[i] >= 1 && (i == 0 || losses[i] == losses[i - 1] + 2));
    assert_true(n_losses >= 2);
}

static void hooks_share_the_copy_of_a_value(void **state)
{
    program *p = *state;
    n_losses = 0;
    start(p, true, HS_HOOK(.ops = &reader), hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 1),
          hs_nan_tensor(.tensor = "loss"));
    train_to(p, 1); /* the saves copy other memory at steps 0 and 3 */
    const int before = fake_cuda_calls("cuMemcpyDtoHAsync_v2");
    train_to(p, 2);
    assert_int_equal(fake_cuda_calls("cuMemcpyDtoHAsync_v2"), before + 1);
    assert_int_equal(n_losses, 2);
    assert_true(losses[1] == 2);
}

static void a_loss_on_the_device_that_is_nan_ends_the_training(void **state)
{
    program *p = *state;
    p->bad_at = 4;
    start(p, true, hs_nan_tensor(.tensor = "loss"));
    train_to(p, 6);
    assert_int_equal(stop(p), HS_FAILED_PRECONDITION);
    assert_contains(p->err.message, "loss");
    p->bad_at = 0;
    start(p, false, (hs_hook){0});
    assert_int_equal(p->step, 3);
    assert_state(p, 3);
}

/* The search for NaN. */

static uint16_t random_half(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint16_t)(state >> 48);
}

static void assert_equal_counts(const hs_nonfinite *a, const hs_nonfinite *b)
{
    assert_int_equal(a->first_index, b->first_index);
    assert_int_equal(a->nan, b->nan);
    assert_int_equal(a->positive_infinity, b->positive_infinity);
    assert_int_equal(a->negative_infinity, b->negative_infinity);
}

static void the_device_counts_what_the_host_counts(void **state)
{
    program *p = *state;
    enum { MOST = 300000 };
    static const hs_dtype types[] = {HS_HALF, HS_BFLOAT16, HS_FLOAT, HS_DOUBLE};
    static const int64_t sizes[] = {1, 2, 255, 4097, MOST};
    size_t n_nan = 0, n_infinite = 0;
    assert_non_null(p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err));
    const hs_memory *memory = hs_cuda_memory(p->cuda);
    p->parameters = allocate(MOST * 2 + 2);
    char *values = malloc(MOST * sizeof(double));
    for (size_t type = 0; type < sizeof types / sizeof *types; type++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int kind = 0; kind < 4; kind++) { /* all finite, one, some or all are not */
                const size_t size = hs_dtype_size(types[type]), n = (size_t)sizes[i];
                char *device = (char *)p->parameters + size * (i % 2);       /* not aligned to more than an element */
                uint16_t *upper = (uint16_t *)(void *)values + size / 2 - 1; /* has the sign and the exponent */
                const uint16_t infinity = types[type] == HS_HALF ? 0x7c00 : types[type] == HS_DOUBLE ? 0x7ff0 : 0x7f80;
                memset(values, 0, n * size);
                for (size_t at = 0; at < n; at++) {
                    const uint16_t sign = random_half() & 0x8000, bits = random_half() % infinity;
                    const bool bad = kind == 3 || (kind == 2 && bits % 100 == 0) || (kind == 1 && at == n * 2 / 3);
                    upper[at * size / 2] = (uint16_t)(sign | (bad ? infinity + bits % 3 % 2 : bits));
                }
                write_device(p, device, values, n * size);
                hs_tensor host = hs_tensor_of(types[type], HS_SHAPE(sizes[i]), values);
                const hs_nonfinite on_host = hs_tensor_nonfinite(&host);
                hs_nonfinite found = {.nan = 7};
                n_nan += on_host.nan;
                n_infinite += on_host.positive_infinity + on_host.negative_infinity;
                assert_ok(memory->mark(memory->user, &p->err), &p->err);
                assert_ok(memory->count_nonfinite(memory->user, device, host.bytes, types[type], &found, &p->err), &p->err);
                assert_equal_counts(&found, &on_host);
            }
    free(values);
    assert_true(n_nan > MOST && n_infinite > MOST);
    hs_nonfinite found;
    assert_fails(memory->count_nonfinite(memory->user, p->parameters, 64, HS_COMPLEX64, &found, &p->err), HS_UNIMPLEMENTED,
                 &p->err, "complex64");
    assert_fails(memory->count_nonfinite(memory->user, (char *)p->parameters + 2, 64, HS_FLOAT, &found, &p->err),
                 HS_UNIMPLEMENTED, &p->err, "not aligned");
}

static void spoil(void *of)
{
    const arguments *a = of;
    float *parameters = fake_cuda_show(a->parameters);
    parameters[N - 5] = NAN;
    parameters[N - 4] = -INFINITY;
}

static int n_warnings;
static char warning[512];

static void write_log(void *user, hs_log_level level, const char *text)
{
    (void)user;
    if (level != HS_LOG_WARNING)
        return;
    n_warnings++;
    snprintf(warning, sizeof warning, "%s", text);
}

/* start_watching(p, hooks...): parameters that the program's next work spoils, watched by the hooks. */
#define start_watching(p, ...) start_watching_with((p), HS_HOOKS(__VA_ARGS__))
static void start_watching_with(program *p, const hs_hook *hooks)
{
    n_warnings = 0;
    warning[0] = '\0';
    p->env.logger.write = write_log;
    if (!p->parameters)
        p->parameters = allocate(N);
    assert_non_null(p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream, .env = &p->env), &p->err));
    p->graph = hs_graph_new(&p->env);
    hs_cuda_variable(p->cuda, p->graph, "parameters", HS_FLOAT, HS_SHAPE(N), &p->parameters);
    hs_graph_global_step(p->graph, NULL, NULL);
    p->session = hs_session_open(hs_graph_backend(p->graph), HS_SESSION_OPTIONS(.hooks = hooks), &p->err);
    assert_non_null(p->session);
    fake_cuda_launch(p->stream, clear, &(arguments){.parameters = p->parameters}, sizeof(arguments));
}

static void spoiled_step(program *p)
{
    hs_step_begin(p->session);
    fake_cuda_launch(p->stream, spoil, &(arguments){.parameters = p->parameters}, sizeof(arguments));
    hs_step_end(p->session);
}

#define FOUND                                                                                                              \
    "'parameters', float [4195328], is not finite: first at [4195323] (element 4195323); 1 NaN, 0 +infinity, 1 -infinity"

static void a_large_tensor_is_not_copied_to_find_nan(void **state)
{
    program *p = *state;
    start_watching(p, hs_nan_tensor(.tensor = "parameters"),
                   hs_finite_guard(.parameters = HS_NAMES("parameters"), .policy = HS_GUARD_WARN));
    hs_step_begin(p->session);
    hs_step_end(p->session);
    assert_int_equal(n_warnings, 0);
    p->peak = p->bytes;
    const size_t before = p->bytes;
    fake_cuda_copied();
    fake_cuda_pinned_peak();
    spoiled_step(p);
    assert_in_range(fake_cuda_copied(), 1, 256);
    assert_in_range(fake_cuda_pinned_peak(), 1, 256);
    assert_in_range(p->peak - before, 0, 4096);
    assert_int_equal(stop(p), HS_FAILED_PRECONDITION);
    assert_contains(p->err.message, "tensor " FOUND);
    start_watching(p, hs_finite_guard(.gradients = HS_NAMES("parameters"), .policy = HS_GUARD_WARN));
    spoiled_step(p);
    assert_int_equal(n_warnings, 1);
    assert_contains(warning, "gradient " FOUND);
    assert_int_equal(stop(p), HS_OK);
}

static void without_the_drivers_compiler_values_are_copied_in_pieces(void **state)
{
    program *p = *state;
    enum { JIT_COMPILER_NOT_FOUND = 221 };
    start_watching(p, hs_nan_tensor(.tensor = "parameters"));
    fake_cuda_fail("cuModuleLoadData", 1, JIT_COMPILER_NOT_FOUND, false);
    const size_t before = p->bytes;
    p->peak = before;
    fake_cuda_copied();
    fake_cuda_pinned_peak();
    for (int i = 0; i < 2; i++) {
        hs_step_begin(p->session);
        hs_step_end(p->session);
    }
    assert_int_equal(fake_cuda_copied(), 2 * N * sizeof(float));
    assert_in_range(fake_cuda_pinned_peak() >> 20, 8, 16);
    assert_in_range(p->peak - before, 0, 4096);
    assert_int_equal(n_warnings, 1);
    assert_contains(warning, "device 0 cannot look for NaN, so tensors are copied to the host: cuModuleLoadData");
    spoiled_step(p);
    assert_int_equal(stop(p), HS_FAILED_PRECONDITION);
    assert_contains(p->err.message, "tensor " FOUND);
}

static void the_search_is_tried_again_after_memory_was_exhausted(void **state)
{
    program *p = *state;
    static const char *const calls[] = {"cuModuleLoadData", "cuMemAlloc_v2"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        start_watching(p, hs_nan_tensor(.tensor = "parameters"));
        fake_cuda_fail(calls[i], 1, CUDA_ERROR_OUT_OF_MEMORY, false);
        fake_cuda_copied();
        hs_step_begin(p->session);
        hs_step_end(p->session);
        assert_int_equal(fake_cuda_copied(), N * sizeof(float));
        spoiled_step(p);
        assert_in_range(fake_cuda_copied(), 1, 256);
        assert_int_equal(n_warnings, 1);
        assert_int_equal(stop(p), HS_FAILED_PRECONDITION);
    }
}

static void every_call_of_the_search_may_fail(void **state)
{
    program *p = *state;
    static const char *const calls[] = {"cuModuleLoadData",     "cuModuleGetFunction",  "cuMemAlloc_v2",
                                        "cuMemAllocHost_v2",    "cuEventCreate",        "cuPointerGetAttribute",
                                        "cuStreamWaitEvent",    "cuMemcpyHtoDAsync_v2", "cuLaunchKernel",
                                        "cuMemcpyDtoHAsync_v2", "cuEventRecord",        "cuEventSynchronize"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        start_watching(p, hs_nan_tensor(.tensor = "parameters"));
        const bool marks = strcmp(calls[i], "cuEventRecord") == 0; /* which every access needs */
        fake_cuda_fail(calls[i], marks ? 2 : 1, CUDA_ERROR_OUT_OF_MEMORY, false);
        fake_cuda_copied();
        spoiled_step(p);
        fake_cuda_fail(NULL, 0, 0, false);
        assert_in_range(fake_cuda_copied(), N * sizeof(float), N * sizeof(float) + 256);
        assert_int_equal(stop(p), HS_FAILED_PRECONDITION);
        assert_contains(p->err.message, FOUND);
    }
}

static void a_search_on_a_device_that_failed_names_the_tensor(void **state)
{
    program *p = *state;
    start_watching(p, hs_nan_tensor(.tensor = "parameters"));
    fake_cuda_fail("cuLaunchKernel", 1, ILLEGAL_ADDRESS, true);
    spoiled_step(p);
    fake_cuda_fail(NULL, 0, 0, false);
    assert_int_equal(stop(p), HS_INTERNAL);
    assert_contains(p->err.message, "tensor 'parameters': ");
    assert_contains(p->err.message, "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
}

/* Steps without kernels, to the save of step 6, which fails with this message. The checkpoint of step 3 stays. */
static void assert_save_fails(program *p, hs_code code, const char *message)
{
    while (hs_step_begin(p->session))
        hs_step_end(p->session);
    hs_outcome outcome = hs_session_close(p->session, &p->err);
    p->session = NULL;
    assert_says(&outcome.error, code, message);
    assert_int_equal(outcome.last_saved_step, 3);
}

/* Saves in the background. */

#define start_background(p, has_parameters)                                                                                \
    start_with((p), (has_parameters),                                                                                      \
               HS_HOOKS(hs_checkpoint_saver(.checkpoint_dir = (p)->directory, .every_n_steps = 2, .max_to_keep = HS_NEVER, \
                                            .background = true)))

/* Steps that only change the variables after hs_step_before_update. */
static void guarded_steps(program *p, int64_t last)
{
    while (p->step < last && hs_step_begin(p->session)) {
        allocate_moments(p);
        fake_cuda_launch(p->stream, wait_at_gate, NULL, 0);
        hs_step_before_update(p->session);
        fake_cuda_launch(p->stream, kernel, &(arguments){p->parameters, p->moments, p->loss, p->bad_at}, sizeof(arguments));
        hs_step_end(p->session);
    }
}

/* Asserts that the checkpoint of this step has its values. */
static void assert_saved(program *p, int64_t step)
{
    char name[32];
    snprintf(name, sizeof name, "model.ckpt-%lld", (long long)step);
    hs_checkpoint_reader *saved = hs_checkpoint_open(NULL, test_path(p->directory, name), &p->err);
    float *values = calloc(N, sizeof *values);
    assert_non_null(saved);
    for (int i = 0; i < 2; i++) {
        assert_ok(hs_checkpoint_read(saved, i ? "moments" : "parameters", values, N * sizeof *values, &p->err), &p->err);
        for (int at = 0; at < N; at++)
            if (values[at] != (float)(step * (i + 1)))
                fail_msg("the checkpoint of step %lld has %g", (long long)step, values[at]);
    }
    free(values);
    hs_checkpoint_close(saved);
}

/* Saves all steps up to 8 that are even. */
static void saves_each_second_step(program *p, void (*steps)(program *p, int64_t last))
{
    set_gate(true);
    start_background(p, true);
    steps(p, 8);
    assert_int_equal(stop(p), HS_OK);
    for (int64_t step = 2; step <= 8; step += 2)
        assert_saved(p, step);
}

static void saves_in_the_background_copy_on_the_device(void **state)
{
    const int before = fake_cuda_calls("cuMemcpyDtoDAsync_v2");
    saves_each_second_step(*state, guarded_steps);
    assert_true(fake_cuda_calls("cuMemcpyDtoDAsync_v2") >= before + 6); /* the last save is in the foreground */
}

static void a_program_that_does_not_announce_updates_is_saved_too(void **state)
{
    const int before = fake_cuda_calls("cuMemcpyDtoDAsync_v2");
    saves_each_second_step(*state, train_to);
    assert_true(fake_cuda_calls("cuMemcpyDtoDAsync_v2") >= before + 6);
}

static void without_room_on_the_device_saves_copy_to_the_host(void **state)
{
    const int before = fake_cuda_calls("cuMemcpyDtoDAsync_v2");
    fake_cuda_set_room((size_t)4 << 30);
    saves_each_second_step(*state, guarded_steps);
    assert_int_equal(fake_cuda_calls("cuMemcpyDtoDAsync_v2"), before);
}

/* The room is that of one save's copies, besides the sixteenth that stays free. */
static void each_save_finds_the_room_of_the_save_before(void **state)
{
    const int before = fake_cuda_calls("cuMemcpyDtoDAsync_v2");
    fake_cuda_set_room(((size_t)4 << 30) + 2 * N * sizeof(float));
    saves_each_second_step(*state, guarded_steps);
    assert_true(fake_cuda_calls("cuMemcpyDtoDAsync_v2") >= before + 6);
}

static void one_of_two_variables_has_room(void **state)
{
    const int before = fake_cuda_calls("cuMemcpyDtoDAsync_v2");
    fake_cuda_set_room(((size_t)4 << 30) + N * sizeof(float));
    saves_each_second_step(*state, guarded_steps);
    assert_in_range(fake_cuda_calls("cuMemcpyDtoDAsync_v2"), before + 3, before + 4);
}

static size_t free_bytes_of_device(void)
{
    size_t free_bytes, total;
    assert_int_equal(cuMemGetInfo_v2(&free_bytes, &total), 0);
    return free_bytes;
}

/* The first copy is released while it waits at the gate, the second one after the host has read it. */
static void released_copies_give_their_memory_back(void **state)
{
    program *p = *state;
    enum { BYTES = 64 << 20 };
    void *copy;
    char first;
    p->parameters = allocate(BYTES / sizeof(float));
    assert_non_null(p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err));
    const hs_memory *memory = hs_cuda_memory(p->cuda);
    const size_t before = free_bytes_of_device();
    set_gate(false);
    fake_cuda_launch(p->stream, wait_at_gate, NULL, 0);
    assert_ok(memory->mark(memory->user, &p->err), &p->err);
    assert_ok(memory->duplicate(memory->user, p->parameters, BYTES, &copy, &p->err), &p->err);
    memory->release(memory->user, copy);
    set_gate(true);
    assert_ok(memory->duplicate(memory->user, p->parameters, BYTES, &copy, &p->err), &p->err);
    assert_true(free_bytes_of_device() <= before - BYTES);
    assert_ok(memory->to_host(memory->user, &first, copy, 1, &p->err), &p->err);
    assert_ok(memory->wait(memory->user, &first, &p->err), &p->err);
    memory->release(memory->user, copy);
    assert_true(free_bytes_of_device() > before - BYTES / 2);
    assert_false(gate_timed_out);
}

static void the_device_may_run_out_of_memory_in_a_save(void **state)
{
    fake_cuda_fail("cuMemAllocFromPoolAsync", 4, CUDA_ERROR_OUT_OF_MEMORY, false);
    saves_each_second_step(*state, guarded_steps);
}

static void a_device_without_memory_pools_is_saved(void **state)
{
    fake_cuda_fail("cuMemPoolCreate", 1, CUDA_ERROR_NOT_SUPPORTED, false);
    saves_each_second_step(*state, guarded_steps);
}

/* The work of step 1, the save of step 2 and its copies are behind the gate. */
static void the_training_thread_does_not_wait_for_the_device(void **state)
{
    program *p = *state;
    set_gate(true);
    start_background(p, true);
    guarded_steps(p, 1);
    cuStreamSynchronize(p->stream);
    set_gate(false);
    guarded_steps(p, 3); /* with the save of step 2 */
    set_gate(true);
    cuStreamSynchronize(p->stream);
    assert_false(gate_timed_out);
    assert_int_equal(stop(p), HS_OK);
    assert_saved(p, 2);
}

static void background_saves_need_little_memory_of_the_host(void **state)
{
    program *p = *state;
    set_gate(true);
    start_background(p, true);
    guarded_steps(p, 1);
    p->peak = p->bytes;
    const size_t before = p->bytes;
    fake_cuda_pinned_peak();
    guarded_steps(p, 4);
    assert_in_range((p->peak - before + fake_cuda_pinned_peak()) >> 20, 8, 26); /* the variables have 32 */
    assert_int_equal(stop(p), HS_OK);
}

static void a_failed_copy_on_the_device_keeps_the_checkpoint(void **state)
{
    program *p = *state;
    set_gate(true);
    start_background(p, true);
    guarded_steps(p, 2);
    guarded_steps(p, 3); /* has waited until the copies of step 2 were begun */
    fake_cuda_fail("cuMemcpyDtoDAsync_v2", 2, ILLEGAL_ADDRESS, true);
    while (hs_step_begin(p->session)) {
        hs_step_before_update(p->session);
        hs_step_end(p->session);
    }
    hs_outcome outcome = hs_session_close(p->session, &p->err);
    p->session = NULL;
    assert_says(&outcome.error, HS_INTERNAL, "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    fake_cuda_fail(NULL, 0, 0, false);
    stop(p);
    start(p, false, (hs_hook){0});
    assert_int_equal(p->step, 2);
    assert_state(p, 2);
}

/* In the save of step 2, of two variables. The third wait is that of the program's stream. */
static void every_call_of_a_background_save_may_fail(void **state)
{
    program *p = *state;
    static const struct {
        const char *name;
        int n;
    } calls[] = {
        {"cuMemcpyDtoDAsync_v2", 2}, {"cuMemAllocFromPoolAsync", 2}, {"cuMemGetInfo_v2", 1}, {"cuStreamWaitEvent", 2}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int nth = 1; nth <= calls[i].n; nth++) {
            set_gate(true);
            start_background(p, true);
            guarded_steps(p, 1); /* the copies of step 0 have begun */
            const int before = fake_cuda_calls(calls[i].name);
            fake_cuda_fail(calls[i].name, nth, CUDA_ERROR_OUT_OF_MEMORY,
                           false); /* the library copies to the host, or waits */
            guarded_steps(p, 3);
            assert_true(fake_cuda_calls(calls[i].name) >= before + nth);
            fake_cuda_fail(NULL, 0, 0, false);
            assert_int_equal(stop(p), HS_OK);
            assert_saved(p, 2);
            test_remove_directory(p->directory);
            p->directory = test_make_directory();
        }
}

/* Failures. */

static void host_memory_is_an_error(void **state)
{
    program *p = *state;
    float on_host[4], *own;
    start(p, true, (hs_hook){0});
    train_to(p, 3);
    own = p->parameters;
    p->parameters = on_host;
    assert_save_fails(p, HS_INVALID_ARGUMENT, "it is host memory, or was freed");
    p->parameters = own;
}

static void freed_memory_is_an_error(void **state)
{
    program *p = *state;
    float *freed;
    start(p, true, (hs_hook){0});
    train_to(p, 3);
    freed = p->moments;
    release(&p->moments);
    p->moments = freed;
    assert_save_fails(p, HS_INVALID_ARGUMENT, "variable 'moments'");
    p->moments = NULL;
}

static void an_allocation_that_is_too_small_is_an_error(void **state)
{
    program *p = *state;
    start(p, true, (hs_hook){0});
    train_to(p, 3);
    release(&p->moments);
    p->moments = allocate(N / 2);
    assert_save_fails(p, HS_INVALID_ARGUMENT, "but its allocation has");
}

static void memory_of_another_device_is_an_error(void **state)
{
    program *p = *state;
    CUcontext other, popped;
    if (cuDevicePrimaryCtxRetain(&other, 1))
        test_skip("there is one device");
    start(p, true, (hs_hook){0});
    train_to(p, 3);
    release(&p->moments);
    cuCtxPushCurrent_v2(other);
    p->moments = allocate(N);
    cuCtxPopCurrent_v2(&popped);
    assert_save_fails(p, HS_INVALID_ARGUMENT, "is memory of device 1, not of device 0");
    cuDevicePrimaryCtxRelease_v2(1);
}

static void memory_of_another_context_is_an_error(void **state)
{
    program *p = *state;
    CUcontext other, popped;
    start(p, true, (hs_hook){0});
    train_to(p, 3);
    release(&p->moments);
    assert_int_equal(cuCtxCreate_v2(&other, 0, 0), 0);
    p->moments = allocate(N);
    cuCtxPopCurrent_v2(&popped);
    assert_save_fails(p, HS_INVALID_ARGUMENT, "is memory of a context that is not the primary one of device 0");
    cuCtxPushCurrent_v2(other);
    release(&p->moments);
    cuCtxPopCurrent_v2(&popped);
    cuCtxDestroy_v2(other);
}

static void memory_in_several_ranges_is_saved(void **state)
{
    program *p = *state;
    CUdeviceptr mapped;
    if (fake_cuda_map(&mapped, N * sizeof(float)))
        test_skip("only over the stand-in");
    p->moments = (float *)(uintptr_t)mapped;
    fake_cuda_launch(p->stream, clear, &(arguments){.moments = p->moments}, sizeof(arguments));
    start(p, true, (hs_hook){0});
    train_to(p, 3);
    assert_int_equal(stop(p), HS_OK);
    assert_saved(p, 3);
}

/* Opens a session with memory of N parameters and the loss, which the host can read. It saves step 0, or restores. */
static hs_session *open_shared(program *p, float **memory, float **loss, bool background)
{
    assert_non_null(p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err));
    p->graph = hs_graph_new(&p->env);
    hs_cuda_variable(p->cuda, p->graph, "parameters", HS_FLOAT, HS_SHAPE(N), memory);
    hs_cuda_value(p->cuda, p->graph, "loss", HS_FLOAT, HS_SCALAR, loss);
    hs_graph_global_step(p->graph, NULL, NULL);
    return hs_session_open(
        hs_graph_backend(p->graph),
        HS_SESSION_OPTIONS(.checkpoint_dir = p->directory,
                           .hooks = HS_HOOKS(hs_checkpoint_saver(.checkpoint_dir = p->directory, .every_n_steps = 2,
                                                                 .background = background),
                                             HS_HOOK(.ops = &reader))),
        &p->err);
}

static void assert_shared_memory_is_saved(program *p, float *device, float *host, bool background)
{
    float *loss = device + N;
    for (int i = 0; i <= N; i++)
        host[i] = (float)i;
    assert_clears(&p->err, p->session = open_shared(p, &device, &loss, background));
    n_losses = 0;
    for (int i = 0; i < 3; i++) {
        hs_step_begin(p->session);
        hs_step_end(p->session);
    }
    assert_int_equal(n_losses, 3);
    assert_true(losses[2] == N);
    assert_int_equal(stop(p), HS_OK);
    memset(host, 0, N * sizeof *host);
    assert_clears(&p->err, p->session = open_shared(p, &device, &loss, background));
    assert_int_equal(stop(p), HS_OK);
    for (int i = 0; i <= N; i++)
        if (host[i] != (float)i)
            fail_msg("element %d is %g", i, host[i]);
    test_remove_directory(p->directory);
    p->directory = test_make_directory();
}

static void managed_memory_and_registered_memory_of_the_host_are_saved(void **state)
{
    program *p = *state;
    enum { BYTES = (N + 1) * sizeof(float), ATTACH_GLOBAL = 1, DEVICE_MAP = 2 };
    CUdeviceptr address;
    void *allocated, *registered = malloc(BYTES);
    for (int background = 0; background < 2; background++) {
        assert_int_equal(cuMemAllocManaged(&address, BYTES, ATTACH_GLOBAL), 0);
        assert_shared_memory_is_saved(p, (float *)(uintptr_t)address, (float *)(uintptr_t)address, background);
        assert_int_equal(cuMemFree_v2(address), 0);

        assert_int_equal(cuMemHostAlloc(&allocated, BYTES, DEVICE_MAP), 0);
        assert_int_equal(cuMemHostGetDevicePointer_v2(&address, allocated, 0), 0);
        assert_shared_memory_is_saved(p, (float *)(uintptr_t)address, allocated, background);
        assert_int_equal(cuMemFreeHost(allocated), 0);

        assert_int_equal(cuMemHostRegister_v2(registered, BYTES, DEVICE_MAP), 0);
        assert_int_equal(cuMemHostGetDevicePointer_v2(&address, registered, 0), 0);
        assert_shared_memory_is_saved(p, (float *)(uintptr_t)address, registered, background);
        assert_int_equal(cuMemHostUnregister(registered), 0);
    }
    free(registered);
}

static void a_failure_of_the_device_ends_the_training_and_keeps_the_checkpoint(void **state)
{
    program *p = *state;
    start(p, true, (hs_hook){0});
    train_to(p, 3);
    fake_cuda_fail("cuEventSynchronize", 1, ILLEGAL_ADDRESS, true);
    assert_save_fails(p, HS_INTERNAL, "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered");
    fake_cuda_fail(NULL, 0, 0, false);
    stop(p);
    start(p, false, (hs_hook){0});
    assert_int_equal(p->step, 3);
    assert_state(p, 3);
}

static void every_call_of_the_driver_may_fail(void **state)
{
    program *p = *state;
    static const char *const calls[] = {
        "cuDeviceGet",   "cuDevicePrimaryCtxRetain", "cuStreamCreate",        "cuEventCreate",     "cuEventSynchronize",
        "cuEventRecord", "cuMemcpyDtoHAsync_v2",     "cuPointerGetAttribute", "cuStreamWaitEvent", "cuCtxPushCurrent_v2"};
    hs_host_copy copy = {0};
    hs_tensor host;
    p->parameters = allocate(4);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        bool failed = false;
        for (int nth = 1; nth <= 3; nth++) {
            fake_cuda_fail(calls[i], nth, CUDA_ERROR_OUT_OF_MEMORY, false);
            hs_cuda *cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err);
            hs_code code = p->err.code;
            if (cuda) {
                hs_tensor value = hs_tensor_of(HS_FLOAT, HS_SHAPE(4), p->parameters);
                value.memory = hs_cuda_memory(cuda);
                code = hs_tensor_host(&value, &copy, &host, &p->err);
            }
            hs_cuda_free(cuda);
            if (code)
                assert_says(&p->err, HS_RESOURCE_EXHAUSTED, "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
            failed |= code != HS_OK;
            fake_cuda_fail(NULL, 0, 0, false);
        }
        if (!failed)
            fail_msg("%s never failed", calls[i]);
    }
    hs_host_copy_free(&copy);
}

static void a_lost_device_is_unavailable(void **state)
{
    program *p = *state;
    static const CUresult results[] = {4, 46, 214, 220, 226, 802, 805, 806, 807, 808, 809, 810, 911};
    p->parameters = allocate(4);
    assert_non_null(p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err));
    hs_tensor value = hs_tensor_of(HS_FLOAT, HS_SHAPE(4), p->parameters), host;
    value.memory = hs_cuda_memory(p->cuda);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        hs_host_copy copy = {0};
        char number[16];
        snprintf(number, sizeof number, "(%d)", results[i]);
        fake_cuda_fail("cuEventSynchronize", 1, results[i], true);
        assert_fails(hs_tensor_host(&value, &copy, &host, &p->err), HS_UNAVAILABLE, &p->err, number);
        fake_cuda_fail(NULL, 0, 0, false);
        hs_host_copy_free(&copy);
    }
}

static void pinned_memory_is_allocated_later_if_it_was_exhausted(void **state)
{
    program *p = *state;
    void *host;
    assert_non_null(p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err));
    const hs_memory *memory = hs_cuda_memory(p->cuda);
    fake_cuda_fail("cuMemAllocHost_v2", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
    assert_fails(memory->allocate_host(memory->user, 64, &host, &p->err), HS_RESOURCE_EXHAUSTED, &p->err, "cuMemAllocHost");
    assert_int_equal(memory->allocate_host(memory->user, 64, &host, &p->err), HS_OK);
    memory->free_host(memory->user, host);
}

/* An object with a block of pinned memory and a copy on the device. */
static void make_blocks(program *p, void **host, void **copy)
{
    p->bytes = 0;
    p->parameters = allocate(4);
    assert_non_null(p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream, .env = &p->env), &p->err));
    const hs_memory *memory = hs_cuda_memory(p->cuda);
    assert_ok(memory->allocate_host(memory->user, 64, host, &p->err), &p->err);
    assert_ok(memory->mark(memory->user, &p->err), &p->err);
    assert_ok(memory->duplicate(memory->user, p->parameters, 4 * sizeof(float), copy, &p->err), &p->err);
}

/* teardown counts what the driver has. */
static void what_cannot_be_released_is_freed_with_the_object(void **state)
{
    program *p = *state;
    void *host, *copy;
    make_blocks(p, &host, &copy);
    const hs_memory *memory = hs_cuda_memory(p->cuda);
    fake_cuda_fail("cuCtxPushCurrent_v2", 1, CUDA_ERROR_NOT_INITIALIZED, false);
    memory->free_host(memory->user, host);
    fake_cuda_fail("cuCtxPushCurrent_v2", 1, CUDA_ERROR_NOT_INITIALIZED, false);
    memory->release(memory->user, copy);
    hs_cuda_free(p->cuda);
    p->cuda = NULL;
    assert_int_equal(p->bytes, 0);
}

static void *hold(void *memory)
{
    ((const hs_memory *)memory)->hold(((const hs_memory *)memory)->user);
    return NULL;
}

/* The driver refuses the context in the child. A thread of the parent waits for the gate, with the lock. */
static void a_forked_child_frees_what_it_inherited(void **state)
{
    program *p = *state;
    void *host, *copy;
    pthread_t holder;
    int status;
    set_gate(false);
    fake_cuda_launch(p->stream, wait_at_gate, NULL, 0);
    make_blocks(p, &host, &copy);
    const hs_memory *memory = hs_cuda_memory(p->cuda);
    const int before = fake_cuda_calls("cuStreamSynchronize");
    fake_cuda_fail("cuStreamWaitEvent", 1, ILLEGAL_ADDRESS, false);
    assert_int_equal(pthread_create(&holder, NULL, hold, (void *)(uintptr_t)memory), 0);
    while (fake_cuda_calls("cuStreamSynchronize") == before)
        sched_yield();
    pid_t child = fork();
    if (!child) {
        alarm(60); /* if it waits for the lock */
        fake_cuda_fail("cuCtxPushCurrent_v2", 1, CUDA_ERROR_NOT_INITIALIZED, true);
        memory->free_host(memory->user, host);
        memory->release(memory->user, copy);
        hs_cuda_free(p->cuda);
        _exit(p->bytes ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    set_gate(true);
    assert_int_equal(pthread_join(holder, NULL), 0);
    memory->free_host(memory->user, host);
    memory->release(memory->user, copy);
}

static void without_pinned_memory_copies_are_slower(void **state)
{
    program *p = *state;
    for (int nth = 1; nth <= 3; nth++) {
        fake_cuda_fail("cuMemAllocHost_v2", nth, CUDA_ERROR_OUT_OF_MEMORY, false);
        n_losses = 0;
        start(p, nth == 1, HS_HOOK(.ops = &reader));
        train_to(p, 3 * nth);
        assert_int_equal(n_losses, 3);
        assert_true(losses[2] == 3 * nth);
        assert_int_equal(stop(p), HS_OK);
    }
    fake_cuda_fail("cuMemAllocHost_v2", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
    start(p, false, (hs_hook){0});
    assert_int_equal(p->step, 9);
    assert_state(p, 9);
}

static void *read_value(void *user)
{
    hs_tensor *value = user, host;
    hs_host_copy copy = {0};
    hs_error err;
    const hs_code code = hs_tensor_host(value, &copy, &host, &err);
    hs_host_copy_free(&copy);
    return code ? user : NULL;
}

/* The value is behind the gate. The copy on the device is not. */
static void who_waits_for_a_value_does_not_hold_up_other_copies(void **state)
{
    program *p = *state;
    pthread_t reading;
    void *copy, *staging, *failed;
    set_gate(false);
    p->parameters = allocate(4);
    assert_non_null(p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err));
    const hs_memory *memory = hs_cuda_memory(p->cuda);
    assert_int_equal(memory->mark(memory->user, &p->err), HS_OK);
    assert_int_equal(memory->duplicate(memory->user, p->parameters, 4 * sizeof(float), &copy, &p->err), HS_OK);
    assert_int_equal(memory->allocate_host(memory->user, 4 * sizeof(float), &staging, &p->err), HS_OK);
    fake_cuda_launch(p->stream, wait_at_gate, NULL, 0);
    hs_tensor value = hs_tensor_of(HS_FLOAT, HS_SCALAR, p->loss);
    value.memory = memory;
    const int before = fake_cuda_calls("cuMemcpyDtoHAsync_v2");
    pthread_create(&reading, NULL, read_value, &value);
    while (fake_cuda_calls("cuMemcpyDtoHAsync_v2") == before)
        sched_yield();
    assert_int_equal(memory->to_host(memory->user, staging, copy, 4 * sizeof(float), &p->err), HS_OK);
    assert_int_equal(memory->wait(memory->user, staging, &p->err), HS_OK);
    assert_false(gate_timed_out);
    set_gate(true);
    pthread_join(reading, &failed);
    assert_null(failed);
    memory->free_host(memory->user, staging);
    memory->release(memory->user, copy);
}

/* A model of two variables, of which one is larger than what a restore keeps in memory. */
enum { BIG = (72 << 20) / (int)sizeof(float) };

static hs_session *open_big(program *p, float **big)
{
    assert_non_null(p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err));
    p->graph = hs_graph_new(&p->env);
    hs_cuda_variable(p->cuda, p->graph, "big", HS_FLOAT, HS_SHAPE(BIG), big);
    hs_cuda_variable(p->cuda, p->graph, "parameters", HS_FLOAT, HS_SHAPE(N), &p->parameters);
    hs_graph_global_step(p->graph, NULL, &p->step);
    p->bytes = p->peak = 0;
    fake_cuda_pinned_peak();
    return hs_session_open(
        hs_graph_backend(p->graph),
        HS_SESSION_OPTIONS(.checkpoint_dir = p->directory,
                           .hooks = HS_HOOKS(hs_checkpoint_saver(.checkpoint_dir = p->directory, .every_n_steps = 3))),
        &p->err);
}

/* Returns memory for it, and allocates the other one. Both are zero. */
static float *allocate_big(program *p)
{
    float *big = allocate(BIG), *zeros = calloc(BIG, sizeof *zeros);
    p->parameters = allocate(N);
    write_device(p, big, zeros, BIG * sizeof *zeros);
    write_device(p, p->parameters, zeros, N * sizeof *zeros);
    free(zeros);
    return big;
}

static void large_variables_need_little_memory_of_the_host(void **state)
{
    program *p = *state;
    float *big = allocate_big(p), *values = calloc(BIG, sizeof *values);
    for (int i = 0; i < BIG; i++)
        values[i] = (float)i;
    write_device(p, big, values, BIG * sizeof *values);
    assert_clears(&p->err, p->session = open_big(p, &big)); /* saves step 0 */
    const size_t saving = fake_cuda_pinned_peak() + p->peak;
    assert_int_equal(stop(p), HS_OK);
    release(&big);
    assert_clears(&p->err, p->session = open_big(p, &big)); /* restores */
    const size_t restoring = fake_cuda_pinned_peak() + p->peak;
    assert_int_equal(stop(p), HS_OK);
    assert_in_range(saving >> 20, 16, 63);
    assert_in_range(restoring >> 20, 16, 66);
    read_device(p, values, big, BIG * sizeof *values);
    for (int i = 0; i < BIG; i++)
        if (values[i] != (float)i)
            fail_msg("element %d is %g", i, values[i]);
    free(values);
    release(&big);
}

static void a_variable_that_had_no_memory_is_cleared(void **state)
{
    program *p = *state;
    start(p, true, (hs_hook){0}); /* saves step 0, without moments */
    assert_int_equal(stop(p), HS_OK);
    p->moments = allocate(N);
    float *values = malloc(N * sizeof *values);
    memset(values, 0x3f, N * sizeof *values);
    write_device(p, p->moments, values, N * sizeof *values);
    free(values);
    start(p, false, (hs_hook){0});
    assert_non_null(p->session);
    assert_state(p, 0);
}

static void a_copy_to_the_device_that_fails_fails_a_large_restore(void **state)
{
    program *p = *state;
    float *big = allocate_big(p);
    assert_clears(&p->err, p->session = open_big(p, &big));
    assert_int_equal(stop(p), HS_OK);
    p->parameters = allocate(N);
    fake_cuda_fail("cuMemcpyHtoDAsync_v2", 5, ILLEGAL_ADDRESS, true);
    assert_null(p->session = open_big(p, &big));
    assert_says(&p->err, HS_INTERNAL, "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    fake_cuda_fail(NULL, 0, 0, false);
    release(&big);
}

static void no_memory_on_the_device_fails_the_restore(void **state)
{
    program *p = *state;
    start(p, true, (hs_hook){0});
    train_to(p, 3);
    assert_int_equal(stop(p), HS_OK);
    fake_cuda_fail("cuMemAlloc_v2", 2, CUDA_ERROR_OUT_OF_MEMORY, false);
    start(p, false, (hs_hook){0});
    assert_null(p->session);
    assert_says(&p->err, HS_RESOURCE_EXHAUSTED, "CUDA_ERROR_OUT_OF_MEMORY");
}

/* The driver is initialized once in a process. */
static void without_a_device_nothing_is_made(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    int status;
    if (!child) {
        hs_error err;
        fake_cuda_fail("cuInit", 1, CUDA_ERROR_NO_DEVICE, false);
        bool right = !hs_cuda_new(NULL, &err) && err.code == HS_UNAVAILABLE &&
                     strstr(err.message, "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected");
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_graph_without_a_device_is_refused(void **state)
{
    program *p = *state;
    p->graph = hs_graph_new(NULL);
    hs_cuda_variable(NULL, p->graph, "parameters", HS_FLOAT, HS_SHAPE(N), &p->parameters);
    assert_null(hs_session_open(hs_graph_backend(p->graph), HS_SESSION_OPTIONS(), &p->err));
    assert_says(&p->err, HS_INVALID_ARGUMENT, "parameters");
    hs_cuda_free(NULL);
    assert_null(hs_cuda_new(HS_CUDA_OPTIONS(.device = 99), &p->err));
    assert_says(&p->err, HS_INVALID_ARGUMENT, "device 99: cuDeviceGet");
}

static void memory_of_the_device_that_is_added_as_the_hosts_is_refused(void **state)
{
    program *p = *state;
    p->parameters = allocate(N);
    for (int kind = 0; kind < 3; kind++) {
        p->graph = hs_graph_new(NULL);
        if (kind == 0)
            hs_graph_variable(p->graph, "parameters", HS_FLOAT, HS_SHAPE(N), p->parameters);
        else if (kind == 1)
            hs_graph_variable_at(p->graph, "parameters", HS_FLOAT, HS_SHAPE(N), &p->parameters);
        else
            hs_graph_value(p->graph, "parameters", HS_FLOAT, HS_SHAPE(N), p->parameters);
        assert_null(hs_session_open(hs_graph_backend(p->graph), HS_SESSION_OPTIONS(), &p->err));
        assert_says(&p->err, HS_INVALID_ARGUMENT,
                    "'parameters' is in memory of a CUDA device; add it with hs_cuda_variable");
        hs_graph_free(p->graph);
        p->graph = NULL;
    }
}

static void a_state_in_memory_of_the_device_is_refused(void **state)
{
    program *p = *state;
    float on_host[4] = {0};
    p->parameters = allocate(N);
    p->graph = hs_graph_new(NULL);
    hs_graph_bytes(p->graph, "seed", on_host, sizeof on_host);
    hs_graph_bytes(p->graph, "generators", p->parameters, N * sizeof(float));
    assert_null(hs_session_open(hs_graph_backend(p->graph), HS_SESSION_OPTIONS(), &p->err));
    assert_says(
        &p->err, HS_INVALID_ARGUMENT,
        "state 'generators' is in memory of a CUDA device; add it with hs_cuda_variable (hooksess/cuda.h), as HS_UINT8");
}

#define over_driver(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_device_nothing_is_made),
        over_driver(a_training_resumes_into_memory_of_the_device),
        over_driver(the_program_reads_the_restored_values),
        over_driver(a_save_copies_in_pieces),
        over_driver(a_value_is_copied_when_a_hook_is_due),
        over_driver(hooks_share_the_copy_of_a_value),
        over_driver(a_loss_on_the_device_that_is_nan_ends_the_training),
        over_driver(the_device_counts_what_the_host_counts),
        over_driver(a_large_tensor_is_not_copied_to_find_nan),
        over_driver(without_the_drivers_compiler_values_are_copied_in_pieces),
        over_driver(the_search_is_tried_again_after_memory_was_exhausted),
        over_driver(every_call_of_the_search_may_fail),
        over_driver(a_search_on_a_device_that_failed_names_the_tensor),
        over_driver(saves_in_the_background_copy_on_the_device),
        over_driver(a_program_that_does_not_announce_updates_is_saved_too),
        over_driver(without_room_on_the_device_saves_copy_to_the_host),
        over_driver(each_save_finds_the_room_of_the_save_before),
        over_driver(one_of_two_variables_has_room),
        over_driver(released_copies_give_their_memory_back),
        over_driver(the_device_may_run_out_of_memory_in_a_save),
        over_driver(a_device_without_memory_pools_is_saved),
        over_driver(the_training_thread_does_not_wait_for_the_device),
        over_driver(background_saves_need_little_memory_of_the_host),
        over_driver(a_failed_copy_on_the_device_keeps_the_checkpoint),
        over_driver(every_call_of_a_background_save_may_fail),
        over_driver(host_memory_is_an_error),
        over_driver(freed_memory_is_an_error),
        over_driver(an_allocation_that_is_too_small_is_an_error),
        over_driver(memory_of_another_device_is_an_error),
        over_driver(memory_of_another_context_is_an_error),
        over_driver(memory_in_several_ranges_is_saved),
        over_driver(managed_memory_and_registered_memory_of_the_host_are_saved),
        over_driver(a_failure_of_the_device_ends_the_training_and_keeps_the_checkpoint),
        over_driver(every_call_of_the_driver_may_fail),
        over_driver(a_lost_device_is_unavailable),
        over_driver(pinned_memory_is_allocated_later_if_it_was_exhausted),
        over_driver(what_cannot_be_released_is_freed_with_the_object),
        over_driver(a_forked_child_frees_what_it_inherited),
        over_driver(without_pinned_memory_copies_are_slower),
        over_driver(who_waits_for_a_value_does_not_hold_up_other_copies),
        over_driver(large_variables_need_little_memory_of_the_host),
        over_driver(a_variable_that_had_no_memory_is_cleared),
        over_driver(a_copy_to_the_device_that_fails_fails_a_large_restore),
        over_driver(no_memory_on_the_device_fails_the_restore),
        over_driver(a_graph_without_a_device_is_refused),
        over_driver(memory_of_the_device_that_is_added_as_the_hosts_is_refused),
        over_driver(a_state_in_memory_of_the_device_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
