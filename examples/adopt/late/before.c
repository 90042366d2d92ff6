/* SPDX-License-Identifier: Apache-2.0 */
/* A typical trainer in C: a perceptron learns to classify images of ten kinds of clothes (Fashion-MNIST). One block has all
 * parameters, AdamW allocates its moments in the first update, a generator mirrors images and shuffles the data. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PIXELS = 28 * 28, HIDDEN = 64, CLASSES = 10, BATCH = 32, STEPS = 300 };

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

/* The data: all images in memory, and where the next batch begins. */

typedef struct {
    unsigned char *images, *labels;
    uint32_t count;
    struct {
        uint32_t position, stride, offset; /* the i-th image of an epoch is offset + i * stride */
    } at;
    float inputs[BATCH * PIXELS];
    int targets[BATCH];
} DataLoader;

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

static void dataloader_init(DataLoader *loader, const char *directory)
{
    loader->count = 60000;
    loader->images = read_file(directory, "train-images-idx3-ubyte.gz", 16, (size_t)loader->count * PIXELS);
    loader->labels = read_file(directory, "train-labels-idx1-ubyte.gz", 8, loader->count);
    loader->at.position = loader->count;
}

static void dataloader_shuffle(DataLoader *loader, uint64_t *rng)
{
    static const uint32_t strides[] = {7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67};
    loader->at.stride = strides[random_u32(rng) % 16]; /* primes that do not divide the count */
    loader->at.offset = random_u32(rng) % loader->count;
    loader->at.position = 0;
}

static void dataloader_next_batch(DataLoader *loader, uint64_t *rng)
{
    if (loader->at.position + BATCH > loader->count)
        dataloader_shuffle(loader, rng);
    for (int b = 0; b < BATCH; b++) {
        uint32_t index = (loader->at.offset + loader->at.position++ * loader->at.stride) % loader->count;
        const unsigned char *image = loader->images + (size_t)index * PIXELS;
        int mirror = random_u32(rng) & 1 ? 27 : 0;
        for (int i = 0; i < PIXELS; i++)
            loader->inputs[b * PIXELS + i] = (float)image[mirror ? i / 28 * 28 + mirror - i % 28 : i] / 255;
        loader->targets[b] = loader->labels[index];
    }
}

static void dataloader_free(DataLoader *loader)
{
    free(loader->images);
    free(loader->labels);
}

/* The model. */

enum { W1 = 0, B1 = W1 + HIDDEN * PIXELS, W2 = B1 + HIDDEN, B2 = W2 + CLASSES * HIDDEN, NUM_PARAMETERS = B2 + CLASSES };

typedef struct {
    float *params_memory, *grads_memory;
    float *m_memory, *v_memory; /* AdamW's moments; allocated by the first update */
    float hidden[BATCH * HIDDEN], probs[BATCH * CLASSES];
    float mean_loss;
} Model;

static void model_build(Model *model, uint64_t *rng)
{
    memset(model, 0, sizeof *model);
    model->params_memory = check(calloc(NUM_PARAMETERS, sizeof(float)), "calloc");
    for (int i = W1; i < B1; i++)
        model->params_memory[i] = (2 * random_f32(rng) - 1) * 0.05f;
    for (int i = W2; i < B2; i++)
        model->params_memory[i] = (2 * random_f32(rng) - 1) * 0.2f;
}

static void model_forward(Model *model, const float *inputs, const int *targets)
{
    const float *w1 = model->params_memory + W1, *b1 = model->params_memory + B1;
    const float *w2 = model->params_memory + W2, *b2 = model->params_memory + B2;
    model->mean_loss = 0;
    for (int b = 0; b < BATCH; b++) {
        float *hidden = model->hidden + b * HIDDEN, *probs = model->probs + b * CLASSES, sum = 0;
        for (int j = 0; j < HIDDEN; j++) {
            float value = b1[j];
            for (int i = 0; i < PIXELS; i++)
                value += w1[j * PIXELS + i] * inputs[b * PIXELS + i];
            hidden[j] = value > 0 ? value : 0;
        }
        for (int k = 0; k < CLASSES; k++) {
            float value = b2[k];
            for (int j = 0; j < HIDDEN; j++)
                value += w2[k * HIDDEN + j] * hidden[j];
            sum += probs[k] = expf(value);
        }
        for (int k = 0; k < CLASSES; k++)
            probs[k] /= sum;
        model->mean_loss -= logf(probs[targets[b]]) / BATCH;
    }
}

static void model_zero_grad(Model *model)
{
    if (!model->grads_memory)
        model->grads_memory = check(malloc(NUM_PARAMETERS * sizeof(float)), "malloc");
    memset(model->grads_memory, 0, NUM_PARAMETERS * sizeof(float));
}

static void model_backward(Model *model, const float *inputs, const int *targets)
{
    const float *w2 = model->params_memory + W2;
    float *g = model->grads_memory;
    for (int b = 0; b < BATCH; b++) {
        const float *hidden = model->hidden + b * HIDDEN;
        float dhidden[HIDDEN] = {0};
        for (int k = 0; k < CLASSES; k++) {
            float d = (model->probs[b * CLASSES + k] - (float)(k == targets[b])) / BATCH;
            for (int j = 0; j < HIDDEN; j++) {
                g[W2 + k * HIDDEN + j] += d * hidden[j];
                dhidden[j] += d * w2[k * HIDDEN + j];
            }
            g[B2 + k] += d;
        }
        for (int j = 0; j < HIDDEN; j++) {
            if (hidden[j] <= 0)
                continue;
            for (int i = 0; i < PIXELS; i++)
                g[W1 + j * PIXELS + i] += dhidden[j] * inputs[b * PIXELS + i];
            g[B1 + j] += dhidden[j];
        }
    }
}

static void model_update(Model *model, float learning_rate, float beta1, float beta2, float eps, float weight_decay, int t)
{
    if (!model->m_memory) {
        model->m_memory = check(calloc(NUM_PARAMETERS, sizeof(float)), "calloc");
        model->v_memory = check(calloc(NUM_PARAMETERS, sizeof(float)), "calloc");
    }
    for (int i = 0; i < NUM_PARAMETERS; i++) {
        float g = model->grads_memory[i];
        float m = model->m_memory[i] = beta1 * model->m_memory[i] + (1 - beta1) * g;
        float v = model->v_memory[i] = beta2 * model->v_memory[i] + (1 - beta2) * g * g;
        float m_hat = m / (1 - powf(beta1, (float)t)), v_hat = v / (1 - powf(beta2, (float)t));
        model->params_memory[i] -= learning_rate * (m_hat / (sqrtf(v_hat) + eps) + weight_decay * model->params_memory[i]);
    }
}

static void model_save(const Model *model, const char *path)
{
    FILE *file = check(fopen(path, "wb"), path);
    if (fwrite(model->params_memory, sizeof(float), NUM_PARAMETERS, file) != NUM_PARAMETERS || fclose(file) != 0)
        check(NULL, path);
}

static void model_free(Model *model)
{
    free(model->params_memory);
    free(model->grads_memory);
    free(model->m_memory);
    free(model->v_memory);
}

int main(int argc, char **argv)
{
    static Model model;
    static DataLoader loader;
    uint64_t rng = 1337;
    int64_t step = 0;
    model_build(&model, &rng);
    dataloader_init(&loader, argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist");

    for (; step < STEPS; step++) {
        dataloader_next_batch(&loader, &rng);
        model_forward(&model, loader.inputs, loader.targets);
        model_zero_grad(&model);
        model_backward(&model, loader.inputs, loader.targets);
        model_update(&model, 1e-3f, 0.9f, 0.999f, 1e-8f, 0.01f, (int)step + 1);
        printf("%lld %.9g\n", (long long)step + 1, (double)model.mean_loss);
    }
    model_save(&model, "parameters");
    model_free(&model);
    dataloader_free(&loader);
    return 0;
}
