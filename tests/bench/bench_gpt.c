/* SPDX-License-Identifier: Apache-2.0 */
/* The training step of examples/gpt: batch 8, context 128, width 256, 4 layers, 4 heads.
 *
 *     gpt [THREADS [ROUNDS [FILE]]]
 *
 *     tokens_per_s         the step: forward, backward, AdamW, without dropout
 *     gemm_tokens_per_s    its matrix products alone, recorded from a step and repeated in as many threads
 *     over_gemm            the first over the second, round by round
 *     naive_tokens_per_s   plain loops with OpenMP that compute the same (gpt_naive.c); it aborts if the gradients differ
 *     over_naive           the first over this
 *     first_step_s         from the start of the program gpt to its first line of the log after a step, without a
 * checkpoint memory_over_count    its resident memory then, over parameters, moments, gradients and activations
 *
 * Medians over interleaved rounds. Writes the batch and the first parameters to FILE, for gpt_peers.py. */
#include "bench.h"

#include "gpt_naive.h"
#include "optimizer.h"
#include "rng.h"
#include "threads.h"

#include <cblas.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

extern void openblas_set_num_threads(int n) __attribute__((weak));

enum { BATCH = 8, MOST_ROUNDS = 99, STEPS = 3, MOST_PRODUCTS = 1 << 14 };

/* The linker gives calls of cblas_sgemm to this function. */
void __wrap_cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE a_is, enum CBLAS_TRANSPOSE b_is, int m, int n, int k,
                        float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
void __real_cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE a_is, enum CBLAS_TRANSPOSE b_is, int m, int n, int k,
                        float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

struct product {
    enum CBLAS_TRANSPOSE a_is, b_is;
    int m, n, k, lda, ldb, ldc;
    float alpha, beta;
    const float *a, *b;
    float *c;
};

/* The products of a step, by thread. The model starts threads for each part of a step: each gets the list of the thread
 * that had its place in the part before. */
static struct {
    bool on;
    pthread_mutex_t lock;
    int threads, started;
    struct product *lists[MAX_THREADS];
    int n[MAX_THREADS];
} recorded = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_t main_thread;
static _Thread_local int place = -1;

static void record(const struct product *product)
{
    pthread_mutex_lock(&recorded.lock);
    if (place < 0)
        place = pthread_equal(pthread_self(), main_thread) ? 0 : 1 + recorded.started++ % (recorded.threads - 1);
    if (recorded.n[place] == MOST_PRODUCTS)
        abort();
    recorded.lists[place][recorded.n[place]++] = *product;
    pthread_mutex_unlock(&recorded.lock);
}

void __wrap_cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE a_is, enum CBLAS_TRANSPOSE b_is, int m, int n, int k,
                        float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    if (recorded.on)
        record(&(struct product){a_is, b_is, m, n, k, lda, ldb, ldc, alpha, beta, a, b, c});
    __real_cblas_sgemm(order, a_is, b_is, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

static void repeat_part(void *user, int index, int count)
{
    (void)user, (void)count;
    for (const struct product *p = recorded.lists[index], *end = p + recorded.n[index]; p < end; p++)
        __real_cblas_sgemm(CblasRowMajor, p->a_is, p->b_is, p->m, p->n, p->k, p->alpha, p->a, p->lda, p->b, p->ldb, p->beta,
                           p->c, p->ldc);
}

struct bench {
    struct gpt model;
    struct adamw adamw;
    struct naive *naive;
    int32_t *tokens, *targets;
    int step;
};

static double compute_gradients(struct bench *b)
{
    gpt_forward(&b->model, b->tokens, BATCH, 0, b->model.context, 0);
    double loss = gpt_loss(&b->model, b->targets, 1);
    gpt_backward(&b->model);
    return loss;
}

static double seconds_of_steps(struct bench *b)
{
    double start = bench_now();
    for (int i = 0; i < STEPS; i++) {
        compute_gradients(b);
        adamw_update(&b->adamw, &b->model, 1e-4, ++b->step);
    }
    return (bench_now() - start) / STEPS;
}

static double seconds_of_products(struct bench *b)
{
    double start = bench_now();
    for (int i = 0; i < STEPS; i++)
        parallel(b->model.threads, repeat_part, NULL);
    return (bench_now() - start) / STEPS;
}

static double seconds_of_naive_step(struct bench *b)
{
    double start = bench_now();
    naive_step(b->naive, b->tokens, b->targets, 1e-4f, b->step);
    return bench_now() - start;
}

static void init(struct bench *b, int threads)
{
    static const int32_t sizes[N_SIZES] = {[CONTEXT] = 128, [LAYERS] = 4, [HEADS] = 4, [WIDTH] = 256};
    const size_t n = BATCH * (size_t)sizes[CONTEXT];
    struct rng rng;
    hs_error err = {0};
    if (gpt_init(&b->model, sizes, BATCH, threads, 1, &err) || adamw_init(&b->adamw, &b->model, &err) ||
        !(b->naive = naive_new(&b->model)) || !(b->tokens = calloc(n, sizeof *b->tokens)) ||
        !(b->targets = calloc(n, sizeof *b->targets)))
        abort();
    rng_seed(&rng, 1, 2);
    for (size_t i = 0; i < n; i++) {
        b->tokens[i] = (int32_t)rng_below(&rng, VOCABULARY);
        b->targets[i] = (int32_t)rng_below(&rng, VOCABULARY);
    }
    recorded.threads = threads;
    for (int i = 0; i < threads; i++)
        if (!(recorded.lists[i] = calloc(MOST_PRODUCTS, sizeof *recorded.lists[i])))
            abort();
}

static void done(struct bench *b)
{
    for (int i = 0; i < recorded.threads; i++)
        free(recorded.lists[i]);
    naive_free(b->naive);
    adamw_free(&b->adamw);
    gpt_free(&b->model);
    free(b->tokens);
    free(b->targets);
}

static void write_file(const struct bench *b, const char *path)
{
    const size_t n = (size_t)BATCH * (size_t)b->model.context;
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(b->tokens, sizeof *b->tokens, n, file) != n ||
        fwrite(b->targets, sizeof *b->targets, n, file) != n ||
        fwrite(b->model.parameters, sizeof(float), b->model.n_parameters, file) != b->model.n_parameters || fclose(file))
        abort();
}

/* Computes the gradients of the first parameters in both ways, and records the products. */
static void compare_gradients(struct bench *b)
{
    double difference = 0, sum = 0;
    recorded.on = true;
    double loss = compute_gradients(b);
    recorded.on = false;
    double naive_loss = naive_step(b->naive, b->tokens, b->targets, 1e-4f, 1);
    for (size_t i = 0; i < b->model.n_parameters; i++) {
        double d = (double)b->model.gradients[i] - (double)naive_gradients(b->naive)[i];
        difference += d * d;
        sum += (double)b->model.gradients[i] * (double)b->model.gradients[i];
    }
    bench_print("first_loss", loss, "nats");
    if (!(fabs(loss - naive_loss) < 1e-4 * loss) || !(difference < 1e-8 * sum)) {
        fprintf(stderr, "bench: losses %g and %g, difference of the gradients %g of %g\n", loss, naive_loss,
                sqrt(difference), sqrt(sum));
        exit(1);
    }
    adamw_update(&b->adamw, &b->model, 1e-4, ++b->step);
}

static void bench_steps(struct bench *b, int rounds)
{
    const double tokens = BATCH * b->model.context;
    double steps[MOST_ROUNDS], products[MOST_ROUNDS], naive[MOST_ROUNDS], over_gemm[MOST_ROUNDS], over_naive[MOST_ROUNDS];
    seconds_of_steps(b);
    seconds_of_products(b);
    for (int i = 0; i < rounds; i++) {
        products[i] = seconds_of_products(b);
        steps[i] = seconds_of_steps(b);
        naive[i] = seconds_of_naive_step(b);
        over_gemm[i] = products[i] / steps[i];
        over_naive[i] = naive[i] / steps[i];
    }
    bench_print("tokens_per_s", tokens / bench_median(steps, (size_t)rounds), "1/s");
    bench_print("gemm_tokens_per_s", tokens / bench_median(products, (size_t)rounds), "1/s");
    bench_print("over_gemm", bench_median(over_gemm, (size_t)rounds), "1");
    bench_print("naive_tokens_per_s", tokens / bench_median(naive, (size_t)rounds), "1/s");
    bench_print("over_naive", bench_median(over_naive, (size_t)rounds), "1");
}

/* Returns the most resident bytes of a process so far. Those of wait4 include the process that has started it. */
static double peak_bytes(pid_t pid)
{
    char path[64], line[256];
    double kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtod(line + 6, NULL);
    if (file)
        fclose(file);
    return kib * 1024;
}

/* Starts the program with a text of its own source code, and ends it after the first step. */
static void bench_program(const struct bench *b)
{
    char directory[] = "/tmp/hooksess-bench-XXXXXX", threads[16], line[1024];
    int pipes[2];
    snprintf(threads, sizeof threads, "%d", b->model.threads);
    if (!mkdtemp(directory) || pipe(pipes))
        abort();
    double start = bench_now();
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        execl(GPT, GPT, "--text", GPT_TEXT, "--model-dir", directory, "--batch-size", "8", "--max-steps", "1000",
              "--log-steps", "1", "--threads", threads, (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    FILE *log = fdopen(pipes[0], "r");
    bool seen = false;
    while (log && !seen && fgets(line, sizeof line, log))
        seen = strstr(line, "loss = ") != NULL;
    double seconds = bench_now() - start;
    double bytes = peak_bytes(child);
    kill(child, SIGKILL);
    if (waitpid(child, NULL, 0) != child || !seen)
        abort();
    fclose(log);
    bench_print("first_step_s", seconds, "s");
    const struct gpt *m = &b->model;
    const float *end = m->scratch + (size_t)m->threads * 2 * (size_t)m->context * (size_t)m->context;
    double count = (double)((size_t)(end - m->memory) + 2 * m->n_parameters) * sizeof(float);
    bench_print("memory_over_count", bytes / count, "1");
    snprintf(line, sizeof line, "rm -r '%s'", directory);
    if (system(line))
        abort();
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 11;
    struct bench bench = {.step = 0};
    if (threads < 1 || threads > MAX_THREADS || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: gpt [THREADS [ROUNDS [FILE]]]\n");
        return 2;
    }
    main_thread = pthread_self();
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    init(&bench, threads);
    if (argc > 3)
        write_file(&bench, argv[3]);
    compare_gradients(&bench);
    bench_steps(&bench, rounds);
    bench_program(&bench);
    done(&bench);
    return 0;
}
