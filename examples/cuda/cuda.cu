/* SPDX-License-Identifier: Apache-2.0 */
// clang-format off: it does not know the launches of kernels
/* cuda [OPTIONS]: a perceptron with one hidden layer on Fashion-MNIST, with cuBLAS and a few kernels. --help lists the options.
 * Kill it at any time: the next start continues, bit for bit. */
#include <hooksess/cuda.h>
#include <hooksess/hooksess.h>

extern "C" {
#include "input.h"
}

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                                        \
    do {                                                                                                                   \
        const int result_ = static_cast<int>(call);                                                                        \
        if (result_) {                                                                                                     \
            fprintf(stderr, "cuda: %s:%d: %s failed with %d\n", __FILE__, __LINE__, #call, result_);                       \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

enum { THREADS = 128 };

static unsigned blocks(size_t n)
{
    return static_cast<unsigned>((n + THREADS - 1) / THREADS);
}

/* Kernels. No kernel adds in an order that varies, so that equal runs give equal bits. A matrix has one column per image. */

static __device__ size_t thread_index()
{
    return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

static __global__ void add_bias(float *values, const float *bias, size_t rows, size_t n, int relu)
{
    const size_t i = thread_index();
    if (i >= rows * n)
        return;
    const float sum = values[i] + bias[i % rows];
    values[i] = relu && sum < 0 ? 0 : sum;
}

/* Replaces the scores of an image by the gradient of its loss, divided by the size of the batch. */
static __global__ void softmax_gradient(float *scores, const unsigned char *labels, float *losses, size_t n)
{
    const size_t image = thread_index();
    if (image >= n)
        return;
    float *of = scores + image * CLASSES, largest = of[0], sum = 0;
    for (int c = 1; c < CLASSES; c++)
        largest = of[c] > largest ? of[c] : largest;
    for (int c = 0; c < CLASSES; c++)
        sum += expf(of[c] - largest);
    losses[image] = logf(sum) - (of[labels[image]] - largest);
    for (int c = 0; c < CLASSES; c++)
        of[c] = (expf(of[c] - largest) / sum - (c == labels[image] ? 1.0f : 0.0f)) / static_cast<float>(n);
}

static __global__ void mean(const float *values, size_t n, float *to)
{
    float sum = 0; /* in one thread: always in the same order */
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    *to = sum / static_cast<float>(n);
}

static __global__ void sum_rows(const float *values, size_t rows, size_t n, float *to)
{
    const size_t row = thread_index();
    if (row >= rows)
        return;
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i * rows + row];
    to[row] = sum;
}

static __global__ void relu_gradient(float *gradient, const float *hidden, size_t n)
{
    const size_t i = thread_index();
    if (i < n && hidden[i] <= 0)
        gradient[i] = 0;
}

static __global__ void momentum(float *weights, float *velocity, const float *gradient, size_t n, float rate)
{
    const size_t i = thread_index();
    if (i >= n)
        return;
    velocity[i] = 0.9f * velocity[i] + gradient[i];
    weights[i] -= rate * velocity[i];
}

static __global__ void count_right(const float *scores, const unsigned char *labels, size_t n, float *to)
{
    float right = 0;
    for (size_t image = 0; image < n; image++) {
        int best = 0;
        for (int c = 1; c < CLASSES; c++)
            best = scores[image * CLASSES + c] > scores[image * CLASSES + best] ? c : best;
        right += best == labels[image] ? 1.0f : 0.0f;
    }
    *to += right;
}

/* The model. */

struct options {
    const char *data = "/usr/share/datasets/fashion-mnist", *model_dir = "run";
    int64_t epochs = 5, batch_size = 128, hidden = 256, seed = 1, save_steps = 500, log_steps = 100, max_steps = 0;
    double learning_rate = 0.1;
};

enum { HIDDEN_WEIGHTS, HIDDEN_BIAS, OUTPUT_WEIGHTS, OUTPUT_BIAS, PARAMETERS };
static const char *const names[PARAMETERS] = {"hidden/weights", "hidden/bias", "output/weights", "output/bias"};
static const char *const velocities[PARAMETERS] = {"momentum/hidden/weights", "momentum/hidden/bias",
                                                   "momentum/output/weights", "momentum/output/bias"};

struct model {
    size_t pixels, hidden, batch_size;
    cudaStream_t stream;
    cublasHandle_t blas;
    size_t n[PARAMETERS];
    float *weights[PARAMETERS], *velocity[PARAMETERS], *gradients[PARAMETERS]; /* on the device, as what follows */
    float *images, *activations, *scores, *activations_gradient, *losses, *loss, *right;
    unsigned char *labels;
    float *host_images; /* pinned */
    unsigned char *host_labels;
    cudaEvent_t uploaded; /* the host's memory can be used again */
    const struct dataset *test;
    float learning_rate;
};

template <class T> static T *allocate(size_t n)
{
    T *memory;
    CHECK(cudaMalloc(&memory, n * sizeof(T)));
    return memory;
}

static void make_model(struct model *m, const struct options *o, size_t pixels)
{
    struct rng rng;
    m->pixels = pixels;
    m->hidden = static_cast<size_t>(o->hidden);
    m->batch_size = static_cast<size_t>(o->batch_size);
    CHECK(cudaStreamCreate(&m->stream));
    CHECK(cublasCreate(&m->blas));
    CHECK(cublasSetStream(m->blas, m->stream));
    const size_t n[PARAMETERS] = {m->hidden * pixels, m->hidden, CLASSES * m->hidden, CLASSES};
    const float scales[PARAMETERS] = {sqrtf(6.0f / static_cast<float>(pixels)), 0, sqrtf(6.0f / static_cast<float>(m->hidden)),
                                      0};
    float *first = static_cast<float *>(calloc(n[HIDDEN_WEIGHTS] + n[OUTPUT_WEIGHTS], sizeof *first));
    rng_seed(&rng, static_cast<uint64_t>(o->seed), 1);
    for (int p = 0; p < PARAMETERS; p++) {
        m->n[p] = n[p];
        m->weights[p] = allocate<float>(n[p]);
        m->velocity[p] = allocate<float>(n[p]);
        m->gradients[p] = allocate<float>(n[p]);
        for (size_t i = 0; i < n[p]; i++)
            first[i] = scales[p] * rng_symmetric(&rng);
        CHECK(cudaMemcpyAsync(m->weights[p], first, n[p] * sizeof *first, cudaMemcpyHostToDevice, m->stream));
        CHECK(cudaMemsetAsync(m->velocity[p], 0, n[p] * sizeof *first, m->stream));
        CHECK(cudaStreamSynchronize(m->stream));
    }
    free(first);
    m->images = allocate<float>(m->batch_size * pixels);
    m->labels = allocate<unsigned char>(m->batch_size);
    m->activations = allocate<float>(m->batch_size * m->hidden);
    m->activations_gradient = allocate<float>(m->batch_size * m->hidden);
    m->scores = allocate<float>(m->batch_size * CLASSES);
    m->losses = allocate<float>(m->batch_size);
    m->loss = allocate<float>(1);
    m->right = allocate<float>(1);
    CHECK(cudaMallocHost(&m->host_images, m->batch_size * pixels * sizeof(float)));
    CHECK(cudaMallocHost(&m->host_labels, m->batch_size));
    CHECK(cudaEventCreate(&m->uploaded));
}

/* C = A B, of column-major matrices; C has `rows` rows and `columns` columns, and `inner` is added over. */
static void multiply(const struct model *m, cublasOperation_t a_is, cublasOperation_t b_is, size_t rows, size_t columns,
                     size_t inner, const float *a, const float *b, float *c)
{
    const float one = 1, zero = 0;
    const int lda = static_cast<int>(a_is == CUBLAS_OP_N ? rows : inner), ldb = static_cast<int>(b_is == CUBLAS_OP_N ? inner : columns);
    CHECK(cublasSgemm(m->blas, a_is, b_is, static_cast<int>(rows), static_cast<int>(columns), static_cast<int>(inner), &one, a, lda, b,
                      ldb, &zero, c, static_cast<int>(rows)));
}

/* Copies the images in the host's memory to the device. */
static void upload(struct model *m, size_t n)
{
    CHECK(cudaMemcpyAsync(m->images, m->host_images, n * m->pixels * sizeof(float), cudaMemcpyHostToDevice, m->stream));
    CHECK(cudaMemcpyAsync(m->labels, m->host_labels, n, cudaMemcpyHostToDevice, m->stream));
    CHECK(cudaEventRecord(m->uploaded, m->stream));
}

static void forward(struct model *m, size_t n)
{
    multiply(m, CUBLAS_OP_N, CUBLAS_OP_N, m->hidden, n, m->pixels, m->weights[HIDDEN_WEIGHTS], m->images, m->activations);
    add_bias<<<blocks(m->hidden * n), THREADS, 0, m->stream>>>(m->activations, m->weights[HIDDEN_BIAS], m->hidden, n, 1);
    multiply(m, CUBLAS_OP_N, CUBLAS_OP_N, CLASSES, n, m->hidden, m->weights[OUTPUT_WEIGHTS], m->activations, m->scores);
    add_bias<<<blocks(CLASSES * n), THREADS, 0, m->stream>>>(m->scores, m->weights[OUTPUT_BIAS], CLASSES, n, 0);
}

static void backward(struct model *m, size_t n)
{
    softmax_gradient<<<blocks(n), THREADS, 0, m->stream>>>(m->scores, m->labels, m->losses, n);
    mean<<<1, 1, 0, m->stream>>>(m->losses, n, m->loss);
    multiply(m, CUBLAS_OP_N, CUBLAS_OP_T, CLASSES, m->hidden, n, m->scores, m->activations, m->gradients[OUTPUT_WEIGHTS]);
    sum_rows<<<1, THREADS, 0, m->stream>>>(m->scores, CLASSES, n, m->gradients[OUTPUT_BIAS]);
    multiply(m, CUBLAS_OP_T, CUBLAS_OP_N, m->hidden, n, CLASSES, m->weights[OUTPUT_WEIGHTS], m->scores, m->activations_gradient);
    relu_gradient<<<blocks(m->hidden * n), THREADS, 0, m->stream>>>(m->activations_gradient, m->activations, m->hidden * n);
    multiply(m, CUBLAS_OP_N, CUBLAS_OP_T, m->hidden, m->pixels, n, m->activations_gradient, m->images, m->gradients[HIDDEN_WEIGHTS]);
    sum_rows<<<blocks(m->hidden), THREADS, 0, m->stream>>>(m->activations_gradient, m->hidden, n, m->gradients[HIDDEN_BIAS]);
}

static void update(struct model *m)
{
    for (int p = 0; p < PARAMETERS; p++)
        momentum<<<blocks(m->n[p]), THREADS, 0, m->stream>>>(m->weights[p], m->velocity[p], m->gradients[p], m->n[p], m->learning_rate);
    CHECK(cudaGetLastError());
}

/* The op "accuracy": the share of the test images that the model knows. */
static hs_code measure_accuracy(void *user, hs_op *op, hs_error *)
{
    struct model *m = static_cast<struct model *>(user);
    float right;
    CHECK(cudaMemsetAsync(m->right, 0, sizeof right, m->stream));
    for (size_t first = 0; first < m->test->n; first += m->batch_size) {
        const size_t left = m->test->n - first, n = left < m->batch_size ? left : m->batch_size;
        CHECK(cudaEventSynchronize(m->uploaded));
        pixels_to_floats(m->host_images, m->test->images + first * m->pixels, n * m->pixels);
        memcpy(m->host_labels, m->test->labels + first, n);
        upload(m, n);
        forward(m, n);
        count_right<<<1, 1, 0, m->stream>>>(m->scores, m->labels, n, m->right);
    }
    CHECK(cudaMemcpyAsync(&right, m->right, sizeof right, cudaMemcpyDeviceToHost, m->stream));
    CHECK(cudaStreamSynchronize(m->stream));
    *static_cast<double *>(hs_op_output(op, 0)->data) = static_cast<double>(right) / static_cast<double>(m->test->n);
    return HS_OK;
}

/* The command line. The options are those of the trainer. */
struct command_option {
    const char *name;
    const char **text; /* one of these two, or the learning rate */
    int64_t *number;
};

static int parse(struct options *o, int argc, char **argv)
{
    static const char usage[] = "usage: cuda [--data DIR] [--model-dir DIR] [--epochs N] [--max-steps N] [--batch-size N] [--hidden N]\n"
                                "            [--learning-rate X] [--seed N] [--save-steps N] [--log-steps N]\n";
    constexpr int N = 10;
    const command_option all[N] = {
        {"data", &o->data, nullptr},        {"model-dir", &o->model_dir, nullptr}, {"epochs", nullptr, &o->epochs},
        {"max-steps", nullptr, &o->max_steps}, {"batch-size", nullptr, &o->batch_size}, {"hidden", nullptr, &o->hidden},
        {"seed", nullptr, &o->seed},        {"save-steps", nullptr, &o->save_steps}, {"log-steps", nullptr, &o->log_steps},
        {"learning-rate", nullptr, nullptr}};
    struct option known[N + 2] = {};
    for (int i = 0; i < N; i++)
        known[i] = {all[i].name, required_argument, nullptr, i};
    known[N] = {"help", no_argument, nullptr, N};
    for (int found; (found = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
        char *end = optarg;
        if (found < 0 || found >= N) {
            fputs(usage, found == N ? stdout : stderr);
            return found == N ? 0 : 2;
        }
        if (all[found].text)
            *all[found].text = optarg;
        else if (all[found].number)
            *all[found].number = strtoll(optarg, &end, 10);
        else
            o->learning_rate = strtod(optarg, &end);
        if (!all[found].text && (*end || end == optarg || (all[found].number && *all[found].number < 1))) {
            fprintf(stderr, "cuda: --%s is '%s'; it must be a number of at least 1\n", all[found].name, optarg);
            return 2;
        }
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct options o;
    struct model m = {};
    struct dataset training, test;
    struct input input;
    hs_error err;
    int status = parse(&o, argc, argv);
    if (status >= 0)
        return status;
    if (dataset_load(&training, o.data, "train", &err) || dataset_load(&test, o.data, "t10k", &err) ||
        input_init(&input, &training, static_cast<size_t>(o.batch_size), static_cast<uint64_t>(o.seed), &err)) {
        fprintf(stderr, "cuda: %s\n", err.message);
        return 1;
    }
    make_model(&m, &o, training.pixels);
    m.test = &test;
    const int64_t epoch_steps = (static_cast<int64_t>(training.n) + o.batch_size - 1) / o.batch_size;
    const int64_t last_step = o.max_steps ? o.max_steps : o.epochs * epoch_steps;

    hs_graph *g = hs_graph_new(nullptr);
    hs_cuda *cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = m.stream), nullptr);
    for (int p = 0; p < PARAMETERS; p++) {
        hs_cuda_variable(cuda, g, names[p], HS_FLOAT, HS_SHAPE(m.n[p]), &m.weights[p]);
        hs_cuda_variable(cuda, g, velocities[p], HS_FLOAT, HS_SHAPE(m.n[p]), &m.velocity[p]);
    }
    hs_cuda_value(cuda, g, "loss", HS_FLOAT, HS_SCALAR, &m.loss);
    hs_graph_value(g, "learning_rate", HS_FLOAT, HS_SCALAR, &m.learning_rate);
    const hs_state_provider position = input_state(&input);
    hs_graph_add_state(g, &position);
    hs_graph_global_step(g, nullptr, nullptr);
    hs_graph_op(g, .name = "accuracy", .run = measure_accuracy, .user = &m, .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}),
                .writes = HS_NAMES(NULL));
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = o.model_dir, .save_checkpoint_steps = o.save_steps, .background = true,
                            .signals = true, .scalars = HS_NAMES("loss"),
                            .hooks = HS_HOOKS(hs_stop_at_step(.last_step = last_step),
                                              hs_schedule(.value = "learning_rate", .decay = HS_DECAY_COSINE,
                                                          .from = o.learning_rate, .to = o.learning_rate / 100,
                                                          .decay_steps = last_step),
                                              hs_nan_tensor(.tensor = "loss", .every_n_steps = 10),
                                              hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = o.log_steps),
                                              hs_evaluation(.metrics = HS_NAMES("accuracy"), .every_n_steps = epoch_steps,
                                                            .summary_dir = o.model_dir))),
        nullptr);
    while (hs_step_begin(s)) {
        CHECK(cudaEventSynchronize(m.uploaded)); /* the host works on the next batch while the device works on the last one */
        const size_t n = input_next(&input, m.host_images, m.host_labels);
        upload(&m, n);
        forward(&m, n);
        backward(&m, n);
        hs_step_before_update(s);
        update(&m);
        hs_step_end(s);
    }
    const hs_outcome outcome = hs_session_close(s, nullptr);
    status = hs_outcome_exit_code(&outcome);
    hs_graph_free(g);
    hs_cuda_free(cuda);
    input_free(&input);
    dataset_free(&training);
    dataset_free(&test);
    return status; /* the driver frees the device's memory */
}
