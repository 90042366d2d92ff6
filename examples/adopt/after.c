/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer: a perceptron learns on which of three spirals a point lies. Its loop, its memory, its mathematics. */
#include <hooksess/hooksess.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 1500, CLASSES = 3, HIDDEN = 32, BATCH = 32, STEPS = 6000 };
enum { W1 = 0, B1 = W1 + 2 * HIDDEN, W2 = B1 + HIDDEN, B2 = W2 + HIDDEN * CLASSES, PARAMETERS = B2 + CLASSES };

/* The data and the read position. Each epoch has a new order. */
struct reader {
    uint64_t random;
    int64_t position;
    int64_t order[SAMPLES];
};

struct model {
    float *parameters, *mean, *square; /* Adam's moments */
    float gradients[PARAMETERS];
};

static uint32_t random_below(uint64_t *random, uint32_t n)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*random >> 32) * n >> 32);
}

static float random_float(uint64_t *random) /* from -1 to 1 */
{
    return (float)random_below(random, 1 << 24) * 0x1p-23f - 1;
}

static void sample(int64_t index, float point[2], int *label)
{
    uint64_t noise = (uint64_t)index;
    float along = (float)(index / CLASSES) / (float)(SAMPLES / CLASSES);
    *label = (int)(index % CLASSES);
    float angle = 4 * along + 2.0944f * (float)*label + 0.2f * random_float(&noise);
    point[0] = along * cosf(angle);
    point[1] = along * sinf(angle);
}

static int64_t next_index(struct reader *reader)
{
    if (reader->position == SAMPLES) {
        for (uint32_t i = SAMPLES - 1; i > 0; i--) {
            uint32_t other = random_below(&reader->random, i + 1);
            int64_t kept = reader->order[i];
            reader->order[i] = reader->order[other];
            reader->order[other] = kept;
        }
        reader->position = 0;
    }
    return reader->order[reader->position++];
}

/* Forward and backward pass of one point: adds to the gradients, returns the loss. */
static float learn(struct model *model, const float point[2], int label)
{
    const float *p = model->parameters;
    float *g = model->gradients, hidden[HIDDEN], out[CLASSES], sum = 0;
    for (int i = 0; i < HIDDEN; i++)
        hidden[i] = tanhf(p[W1 + 2 * i] * point[0] + p[W1 + 2 * i + 1] * point[1] + p[B1 + i]);
    for (int k = 0; k < CLASSES; k++) {
        out[k] = p[B2 + k];
        for (int i = 0; i < HIDDEN; i++)
            out[k] += p[W2 + k * HIDDEN + i] * hidden[i];
        sum += out[k] = expf(out[k]);
    }
    for (int i = 0; i < HIDDEN; i++) {
        float back = 0;
        for (int k = 0; k < CLASSES; k++) {
            float difference = out[k] / sum - (float)(k == label);
            back += difference * p[W2 + k * HIDDEN + i];
            g[W2 + k * HIDDEN + i] += difference * hidden[i] / BATCH;
            g[B2 + k] += i == 0 ? difference / BATCH : 0;
        }
        back *= (1 - hidden[i] * hidden[i]) / BATCH;
        g[W1 + 2 * i] += back * point[0];
        g[W1 + 2 * i + 1] += back * point[1];
        g[B1 + i] += back;
    }
    return -logf(out[label] / sum) / BATCH;
}

static void adam(struct model *model, double step)
{
    float rate = (float)(0.005 * sqrt(1 - pow(0.999, step)) / (1 - pow(0.9, step)));
    for (int i = 0; i < PARAMETERS; i++) {
        float g = model->gradients[i];
        model->mean[i] += 0.1f * (g - model->mean[i]);
        model->square[i] += 0.001f * (g * g - model->square[i]);
        model->parameters[i] -= rate * model->mean[i] / (sqrtf(model->square[i]) + 1e-8f);
        model->gradients[i] = 0;
    }
}

static float train(struct model *model, struct reader *reader, int64_t step)
{
    float loss = 0, point[2];
    int label;
    for (int i = 0; i < BATCH; i++) {
        sample(next_index(reader), point, &label);
        loss += learn(model, point, label);
    }
    adam(model, (double)step);
    return loss;
}

static int save(const struct model *model)
{
    FILE *file = fopen("parameters", "wb");
    if (!file)
        return 1;
    size_t written = fwrite(model->parameters, sizeof(float), PARAMETERS, file);
    return fclose(file) != 0 || written != PARAMETERS;
}

int main(void)
{
    static struct model model;
    static struct reader reader = {.random = 1, .position = SAMPLES};
    model.parameters = calloc(PARAMETERS, sizeof(float));
    model.mean = calloc(PARAMETERS, sizeof(float));
    model.square = calloc(PARAMETERS, sizeof(float));
    if (!model.parameters || !model.mean || !model.square)
        return 1;
    for (int i = 0; i < PARAMETERS; i++)
        model.parameters[i] = 0.5f * random_float(&reader.random);
    for (int i = 0; i < SAMPLES; i++)
        reader.order[i] = i;
    float loss = 0;
    int64_t step = 0;

    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "parameters", HS_FLOAT, HS_SHAPE(PARAMETERS), model.parameters);
    hs_graph_variable(g, "adam/mean", HS_FLOAT, HS_SHAPE(PARAMETERS), model.mean);
    hs_graph_variable(g, "adam/square", HS_FLOAT, HS_SHAPE(PARAMETERS), model.square);
    hs_graph_bytes(g, "reader", &reader, sizeof reader);
    hs_graph_global_step(g, NULL, &step);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .save_checkpoint_steps = 1000, .signals = true,
                            .scalars = HS_NAMES("loss"),
                            .hooks = HS_HOOKS(hs_stop_at_step(.last_step = STEPS), hs_nan_tensor(.tensor = "loss"))),
        NULL);
    while (hs_step_begin(s)) {
        loss = train(&model, &reader, step + 1);
        printf("%lld %.9g\n", (long long)step + 1, (double)loss);
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    int code = hs_outcome_exit_code(&outcome), status = code ? code : save(&model);
    free(model.parameters);
    free(model.mean);
    free(model.square);
    return status;
}
