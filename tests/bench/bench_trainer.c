/* SPDX-License-Identifier: Apache-2.0 */
/* The shares of mathematics and hooks in the trainer's time. Accepts the trainer's options.
 *
 *   first_step_s          from the start of the process to the end of the first step: data read, checkpoint of step 0 saved
 *   trainer_images_per_s  training under a session with the five hooks
 *   gemm_images_per_s     the same step's matrix products, and nothing else
 *   trainer_over_gemm     their ratio, round by round
 *   save_ms               a checkpoint
 *   step_us               one hooked step
 *   five_hooks_ns         additional time of a step with the five hooks: the session's work around the op, measured between
 *                         real steps with their effect on caches, including a log line and a summary every 100 steps
 *   five_hooks_share      that over the step
 *   peak_mib              resident memory
 *
 * Medians over interleaved rounds. */
#include "bench.h"

#include "fresh.h"
#include "trainer.h"

#include <sys/resource.h>
#include <unistd.h>

extern void openblas_set_num_threads(int n) __attribute__((weak));

enum { HOOKS = 5, ROUND_STEPS = 50, OVERHEAD_STEPS = 100, SAVES = 9 };

static void fail(const hs_error *err)
{
    fprintf(stderr, "bench: %s\n", err->message);
    exit(1);
}

static void silent(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level, (void)text;
}

static const hs_env env = HS_INIT(hs_env, .logger = {silent, NULL});

/* With the trainer's schedules, but without checkpoints, which have a separate figure. */
static hs_session *open_hooked(hs_graph *graph, const char *directory)
{
    hs_error err = {0};
    hs_hook hooks[] = {
        hs_stop_at_step(.last_step = INT64_MAX),
        hs_nan_tensor(.tensor = "loss"),
        hs_logging_tensor(.tensors = HS_NAMES("global_step", "loss"), .every_n_steps = 100),
        hs_summary_saver(.summary_ops = HS_NAMES("summary/" LOSS_TAG), .summary_dir = directory, .every_n_steps = 100),
        hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_secs = 1e6),
        {.ops = NULL}};
    hs_session_options options = HS_INIT(hs_session_options, .hooks = hooks);
    hs_session *session = hs_session_open(hs_graph_backend(graph), &options, &err);
    if (!session)
        fail(&err);
    return session;
}

static void run_steps(hs_session *session, int n)
{
    hs_error err = {0};
    for (int i = 0; i < n; i++)
        if (hs_session_run(session, "train", &err) != HS_OK)
            fail(&err);
}

static void close_session(hs_session *session)
{
    hs_error err = {0};
    hs_outcome outcome = hs_session_close(session, &err);
    if (hs_outcome_exit_code(&outcome))
        fail(&err);
}

/* The matrix products of one step, in their order. */
static void multiply(struct mlp *model, int rows)
{
    for (int i = 0; i < model->n_layers; i++)
        mlp_multiply_values(model, i, rows);
    for (int i = model->n_layers - 1; i >= 0; i--) {
        mlp_multiply_gradients(model, i, rows);
        if (i)
            mlp_multiply_deltas(model, i, rows);
    }
}

static double seconds_of_steps(hs_session *session)
{
    double start = bench_now();
    run_steps(session, ROUND_STEPS);
    return (bench_now() - start) / ROUND_STEPS;
}

static double seconds_of_products(struct mlp *model, int rows)
{
    double start = bench_now();
    for (int i = 0; i < ROUND_STEPS; i++)
        multiply(model, rows);
    return (bench_now() - start) / ROUND_STEPS;
}

/* The seconds of a step. */
static double bench_steps(struct trainer *trainer, hs_session *session)
{
    double steps[BENCH_ROUNDS], products[BENCH_ROUNDS], ratios[BENCH_ROUNDS];
    int rows = (int)trainer->input.batch_size;
    seconds_of_steps(session);
    seconds_of_products(&trainer->model, rows);
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        products[i] = seconds_of_products(&trainer->model, rows);
        steps[i] = seconds_of_steps(session);
        ratios[i] = products[i] / steps[i];
    }
    double step = bench_median(steps, BENCH_ROUNDS);
    bench_print("trainer_images_per_s", rows / step, "1/s");
    bench_print("gemm_images_per_s", rows / bench_median(products, BENCH_ROUNDS), "1/s");
    bench_print("trainer_over_gemm", bench_median(ratios, BENCH_ROUNDS), "1");
    bench_print("step_us", step * 1e6, "us");
    return step;
}

static void bench_save(hs_session *session, const char *directory)
{
    double saves[SAVES];
    char prefix[256];
    hs_error err = {0};
    hs_saver *saver = hs_saver_new(NULL, &err);
    snprintf(prefix, sizeof prefix, "%s/model.ckpt", directory);
    for (int i = 0; saver && i < SAVES; i++) {
        double start = bench_now();
        if (hs_saver_save(saver, hs_session_raw(session), prefix, i, NULL, &err))
            fail(&err);
        saves[i] = bench_now() - start;
    }
    bench_print("save_ms", bench_median(saves, SAVES) * 1e3, "ms");
    hs_saver_free(saver);
}

/* The step measures its own time, `inside`. The rest of a step is the session's and the hooks'. */
struct timed {
    struct trainer *trainer;
    struct input input;
    unsigned char *labels;
    double inside;
};

static hs_code timed_step(void *self, hs_op *op, hs_error *err)
{
    struct timed *timed = self;
    float *pixels = timed->trainer->model.pixels;
    double start = bench_now();
    (void)err;
    int rows = (int)input_next(&timed->input, pixels, timed->labels);
    trainer_learn(timed->trainer, pixels, timed->labels, rows, timed->input.epoch, hs_op_global_step(op, NULL) + 1);
    timed->inside += bench_now() - start;
    return HS_OK;
}

/* The seconds of a step outside the op. */
static double overhead(hs_session *session, struct timed *timed)
{
    double start = bench_now();
    timed->inside = 0;
    run_steps(session, OVERHEAD_STEPS);
    return (bench_now() - start - timed->inside) / OVERHEAD_STEPS;
}

static void bench_hooks(struct trainer *trainer, const char *directory, double step)
{
    struct timed timed = {.trainer = trainer, .labels = malloc(trainer->input.batch_size)};
    double differences[BENCH_ROUNDS];
    hs_error err = {0};
    if (!timed.labels || input_init(&timed.input, &trainer->train, trainer->input.batch_size, 1, &err))
        fail(&err);
    hs_graph *graph = hs_graph_new(&env);
    hs_graph_value(graph, "loss", HS_FLOAT, HS_SCALAR, &trainer->loss);
    hs_graph_op(graph, .name = "train", .run = timed_step, .user = &timed, .writes = HS_NAMES("loss"),
                .advances_step = true);
    hs_graph_summary(graph, HS_SUMMARY_SCALAR, .name = LOSS_TAG, .tensor = "loss");
    hs_session *hooked = open_hooked(graph, directory);
    hs_session *bare = hs_session_open(hs_graph_backend(graph), NULL, &err);
    if (!bare)
        fail(&err);
    overhead(hooked, &timed);
    overhead(bare, &timed);
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        double with = overhead(hooked, &timed);
        differences[i] = with - overhead(bare, &timed);
    }
    double hooks = bench_median(differences, BENCH_ROUNDS);
    bench_print("five_hooks_ns", hooks * 1e9, "ns");
    bench_print("five_hooks_share", hooks / step, "1");
    close_session(bare);
    close_session(hooked);
    hs_graph_free(graph);
    input_free(&timed.input);
    free(timed.labels);
}

/* The processor time at the start of main is the time before main. */
static double seconds_before_main(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static void bench(struct trainer *trainer, const char *directory, double start)
{
    hs_graph *graph = trainer_graph(trainer, &env);
    hs_session *session = open_hooked(graph, directory);
    run_steps(session, 1);
    bench_print("first_step_s", bench_now() - start, "s");
    double step = bench_steps(trainer, session);
    bench_save(session, directory);
    close_session(session);
    hs_graph_free(graph);
    bench_hooks(trainer, directory, step);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    bench_print("peak_mib", (double)usage.ru_maxrss / 1024, "MiB");
}

int main(int argc, char **argv)
{
    double start = bench_now() - seconds_before_main();
    char directory[] = "/tmp/hooksess-bench-XXXXXX";
    struct options options;
    struct trainer trainer = {.loss = 0};
    hs_error err = {0};
    int status = options_parse(&options, argc, argv);
    if (status != OPTIONS_OK)
        return status;
    if (openblas_set_num_threads)
        openblas_set_num_threads((int)options.threads);
    if (trainer_load(&trainer, options.data, &err) || trainer_init(&trainer, &options, &err))
        fail(&err);
    if (!mkdtemp(directory))
        return 1;
    bench(&trainer, directory, start);
    trainer_free(&trainer);
    return fresh_start(&env, directory, &err) != HS_OK || rmdir(directory) != 0;
}
