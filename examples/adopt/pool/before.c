/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer in C with more parts: a perceptron with two hidden layers learns to classify images of ten kinds of clothes
 * (Fashion-MNIST). A pool of threads computes gradients and updates. The update writes new parameters beside the old ones,
 * swaps the two, and allocates Adam's moments the first time. Each epoch has its own order of the images, and ends with an
 * evaluation. */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PIXELS = 28 * 28, CLASSES = 10, EPOCHS = 20, SAMPLES = 2048, TESTS = 1000, BATCH = 32, MOST_THREADS = 4 };

static void *check(void *pointer, const char *what)
{
    if (!pointer) {
        fprintf(stderr, "%s failed\n", what);
        exit(EXIT_FAILURE);
    }
    return pointer;
}

/* Random numbers: xorshift64*. */

static uint32_t random_u32(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)(*state * 0x2545f4914f6cdd1du >> 32);
}

static float random_f32(uint64_t *state) /* from 0 to 1 */
{
    return (float)(random_u32(state) >> 8) * 0x1p-24f;
}

/* A pool of threads. pool_run calls a function for each of the tasks 0 to n - 1, and waits for all. */

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    pthread_t threads[MOST_THREADS];
    void (*function)(void *argument, int task);
    void *argument;
    int next, n, unfinished; /* tasks */
    bool stopping;
} Pool;

/* Runs tasks until none is left. The lock is held. */
static void pool_work(Pool *pool)
{
    while (pool->next < pool->n) {
        int task = pool->next++;
        pthread_mutex_unlock(&pool->lock);
        pool->function(pool->argument, task);
        pthread_mutex_lock(&pool->lock);
        if (--pool->unfinished == 0)
            pthread_cond_signal(&pool->done);
    }
}

static void *pool_thread(void *argument)
{
    Pool *pool = argument;
    pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        pool_work(pool);
        if (!pool->stopping)
            pthread_cond_wait(&pool->wake, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void pool_start(Pool *pool)
{
    memset(pool, 0, sizeof *pool);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (int i = 0; i < MOST_THREADS; i++)
        if (pthread_create(&pool->threads[i], NULL, pool_thread, pool))
            check(NULL, "pthread_create");
}

static void pool_run(Pool *pool, void (*function)(void *argument, int task), void *argument, int n)
{
    pthread_mutex_lock(&pool->lock);
    pool->function = function;
    pool->argument = argument;
    pool->next = 0;
    pool->n = pool->unfinished = n;
    pthread_cond_broadcast(&pool->wake);
    pool_work(pool);
    while (pool->unfinished)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

static void pool_stop(Pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < MOST_THREADS; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->lock);
}

/* The data: images of the training and of the test, and the order of this epoch. */

typedef struct {
    unsigned char *images, *labels, *test_images, *test_labels;
    int order[SAMPLES];
} Data;

static unsigned char *read_file(const char *directory, const char *name, size_t header, size_t bytes)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    gzFile file = check(gzopen(path, "rb"), path);
    unsigned char *data = check(malloc(header + bytes), "malloc");
    if (gzread(file, data, (unsigned)(header + bytes)) != (int)(header + bytes))
        check(NULL, path);
    gzclose(file);
    memmove(data, data + header, bytes);
    return data;
}

static void data_read(Data *data, const char *directory)
{
    data->images = read_file(directory, "train-images-idx3-ubyte.gz", 16, (size_t)SAMPLES * PIXELS);
    data->labels = read_file(directory, "train-labels-idx1-ubyte.gz", 8, SAMPLES);
    data->test_images = read_file(directory, "t10k-images-idx3-ubyte.gz", 16, (size_t)TESTS * PIXELS);
    data->test_labels = read_file(directory, "t10k-labels-idx1-ubyte.gz", 8, TESTS);
}

static void data_shuffle(Data *data, uint64_t *rng)
{
    for (int i = 0; i < SAMPLES; i++)
        data->order[i] = i;
    for (int i = SAMPLES - 1; i > 0; i--) {
        int j = (int)(random_u32(rng) % (uint32_t)(i + 1)), swapped = data->order[i];
        data->order[i] = data->order[j];
        data->order[j] = swapped;
    }
}

static void data_free(Data *data)
{
    free(data->images);
    free(data->labels);
    free(data->test_images);
    free(data->test_labels);
}

/* The model. A layer's parameters are a matrix of `out` rows, and a bias for each row. */

enum { LAYERS = 3 };
static const int widths[LAYERS + 1] = {PIXELS, 16, 16, CLASSES};

enum { NUM_PARAMETERS = 16 * (PIXELS + 1) + 16 * (16 + 1) + CLASSES * (16 + 1), MOST_WIDTH = PIXELS };

typedef struct {
    float *params, *next; /* the update writes `next`, and swaps */
    float *mean, *square; /* Adam's moments; allocated by the first update */
    float *grads[BATCH];  /* of each sample. Their sum does not depend on the number of threads */
    float losses[BATCH];
    bool right[TESTS];
    int64_t updates;
    float loss, accuracy;
} Model;

static void model_build(Model *model, uint64_t *rng)
{
    memset(model, 0, sizeof *model);
    model->params = check(calloc(NUM_PARAMETERS, sizeof(float)), "calloc");
    model->next = check(calloc(NUM_PARAMETERS, sizeof(float)), "calloc");
    for (int b = 0; b < BATCH; b++)
        model->grads[b] = check(calloc(NUM_PARAMETERS, sizeof(float)), "calloc");
    float *weights = model->params;
    for (int l = 0; l < LAYERS; l++) {
        const float scale = sqrtf(6.0f / (float)widths[l]);
        for (int i = 0; i < widths[l] * widths[l + 1]; i++)
            weights[i] = (2 * random_f32(rng) - 1) * scale;
        weights += (widths[l] + 1) * widths[l + 1];
    }
}

/* Computes the activations of all layers. The last are the probabilities of the classes. */
static void forward(const float *params, const unsigned char *image, float activations[LAYERS + 1][MOST_WIDTH])
{
    for (int i = 0; i < PIXELS; i++)
        activations[0][i] = (float)image[i] / 255;
    for (int l = 0; l < LAYERS; l++) {
        const int in = widths[l], out = widths[l + 1];
        const float *bias = params + in * out;
        for (int j = 0; j < out; j++) {
            float value = bias[j];
            for (int i = 0; i < in; i++)
                value += params[j * in + i] * activations[l][i];
            activations[l + 1][j] = value > 0 || l == LAYERS - 1 ? value : 0;
        }
        params += (in + 1) * out;
    }
    float *last = activations[LAYERS], most = last[0], sum = 0;
    for (int j = 1; j < CLASSES; j++)
        most = last[j] > most ? last[j] : most;
    for (int j = 0; j < CLASSES; j++)
        sum += last[j] = expf(last[j] - most);
    for (int j = 0; j < CLASSES; j++)
        last[j] /= sum;
}

/* Computes the gradients of one sample. Returns its loss. */
static float backward(const float *params, const unsigned char *image, int label, float *grads)
{
    float activations[LAYERS + 1][MOST_WIDTH], deltas[MOST_WIDTH], before[MOST_WIDTH];
    forward(params, image, activations);
    for (int j = 0; j < CLASSES; j++)
        deltas[j] = activations[LAYERS][j] - (j == label ? 1.0f : 0.0f);
    params += NUM_PARAMETERS;
    grads += NUM_PARAMETERS;
    for (int l = LAYERS - 1; l >= 0; l--) {
        const int in = widths[l], out = widths[l + 1];
        params -= (in + 1) * out;
        grads -= (in + 1) * out;
        memset(before, 0, sizeof before);
        for (int j = 0; j < out; j++) {
            for (int i = 0; i < in; i++) {
                grads[j * in + i] = deltas[j] * activations[l][i];
                before[i] += deltas[j] * params[j * in + i];
            }
            grads[in * out + j] = deltas[j];
        }
        for (int i = 0; i < in; i++)
            deltas[i] = activations[l][i] > 0 ? before[i] : 0;
    }
    return -logf(fmaxf(activations[LAYERS][label], 1e-12f));
}

/* The training. */

typedef struct {
    Model *model;
    const Data *data;
    int position; /* of the batch in the order of this epoch */
} Work;

static void gradient_task(void *argument, int task)
{
    const Work *work = argument;
    const int sample = work->data->order[work->position + task];
    work->model->losses[task] = backward(work->model->params, work->data->images + (size_t)sample * PIXELS,
                                         work->data->labels[sample], work->model->grads[task]);
}

enum { PARTS = 8 };

static void update_task(void *argument, int task)
{
    Model *model = ((const Work *)argument)->model;
    const int first = (int)((int64_t)NUM_PARAMETERS * task / PARTS),
              end = (int)((int64_t)NUM_PARAMETERS * (task + 1) / PARTS);
    const float rate = 2e-3f * sqrtf(1 - powf(0.999f, (float)model->updates)) / (1 - powf(0.9f, (float)model->updates));
    for (int i = first; i < end; i++) {
        float grad = 0;
        for (int b = 0; b < BATCH; b++)
            grad += model->grads[b][i] / BATCH;
        model->mean[i] = 0.9f * model->mean[i] + 0.1f * grad;
        model->square[i] = 0.999f * model->square[i] + 0.001f * grad * grad;
        model->next[i] = model->params[i] - rate * model->mean[i] / (sqrtf(model->square[i]) + 1e-8f);
    }
}

static void train_batch(Model *model, const Data *data, Pool *pool, int position)
{
    Work work = {model, data, position};
    if (!model->mean) {
        model->mean = check(calloc(NUM_PARAMETERS, sizeof(float)), "calloc");
        model->square = check(calloc(NUM_PARAMETERS, sizeof(float)), "calloc");
    }
    pool_run(pool, gradient_task, &work, BATCH);
    model->loss = 0;
    for (int b = 0; b < BATCH; b++)
        model->loss += model->losses[b] / BATCH;
    model->updates++;
    pool_run(pool, update_task, &work, PARTS);
    float *swapped = model->params;
    model->params = model->next;
    model->next = swapped;
}

static void test_task(void *argument, int task)
{
    const Work *work = argument;
    float activations[LAYERS + 1][MOST_WIDTH];
    int best = 0;
    forward(work->model->params, work->data->test_images + (size_t)task * PIXELS, activations);
    for (int j = 1; j < CLASSES; j++)
        best = activations[LAYERS][j] > activations[LAYERS][best] ? j : best;
    work->model->right[task] = best == work->data->test_labels[task];
}

static void evaluate(Model *model, const Data *data, Pool *pool)
{
    Work work = {model, data, 0};
    int right = 0;
    pool_run(pool, test_task, &work, TESTS);
    for (int i = 0; i < TESTS; i++)
        right += model->right[i];
    model->accuracy = (float)right / TESTS;
}

static int model_save(const Model *model, const char *path)
{
    FILE *file = check(fopen(path, "wb"), path);
    const bool is_written = fwrite(model->params, sizeof(float), NUM_PARAMETERS, file) == NUM_PARAMETERS;
    return fclose(file) || !is_written ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void model_free(Model *model)
{
    free(model->params);
    free(model->next);
    free(model->mean);
    free(model->square);
    for (int b = 0; b < BATCH; b++)
        free(model->grads[b]);
}

int main(int argc, char **argv)
{
    static Data data;
    static Model model;
    static Pool pool;
    uint64_t rng = 88172645463325252u;
    int epoch = 0, position = 0;
    model_build(&model, &rng);
    data_read(&data, argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist");
    pool_start(&pool);

    for (; epoch < EPOCHS; epoch++) {
        data_shuffle(&data, &rng);
        for (position = 0; position < SAMPLES; position += BATCH) {
            train_batch(&model, &data, &pool, position);
            printf("epoch %d, update %lld: loss %.9g\n", epoch + 1, (long long)model.updates, (double)model.loss);
        }
        evaluate(&model, &data, &pool);
        printf("epoch %d: test accuracy %.3f\n", epoch + 1, (double)model.accuracy);
    }
    int status = model_save(&model, "parameters");
    pool_stop(&pool);
    data_free(&data);
    model_free(&model);
    return status;
}
