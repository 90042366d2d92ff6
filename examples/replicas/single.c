/* SPDX-License-Identifier: Apache-2.0 */
/* single DIR STEPS [STEP_MS]: a trainer in one process, as in examples/adopt. replicas.c is the same in several. */
#include <hooksess/hooksess.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 1500, CLASSES = 3, HIDDEN = 32, BATCH = 32 };
enum { W1 = 0, B1 = W1 + 2 * HIDDEN, W2 = B1 + HIDDEN, B2 = W2 + HIDDEN * CLASSES, PARAMETERS = B2 + CLASSES };

struct model {
    float parameters[PARAMETERS], mean[PARAMETERS], square[PARAMETERS]; /* Adam's moments */
    float gradients[PARAMETERS + 1];                                    /* the last one is the loss */
};

static float random_float(uint64_t *random) /* from -1 to 1 */
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (float)(*random >> 40) * 0x1p-23f - 1;
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

/* One point forward and backward: adds to the gradients and to the loss. */
static void learn(struct model *model, const float point[2], int label)
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
    g[PARAMETERS] += -logf(out[label] / sum) / BATCH;
}

/* Computes the gradients of the batch at `position`, which does not change. */
static void compute_gradients(struct model *model, int64_t position)
{
    float point[2];
    int label;
    memset(model->gradients, 0, sizeof model->gradients);
    for (int64_t at = position; at < position + BATCH; at++) {
        sample(hs_epoch_permutation(1, at / SAMPLES, SAMPLES, at % SAMPLES), point, &label);
        learn(model, point, label);
    }
}

static void adam(struct model *model, double step)
{
    float rate = (float)(0.005 * sqrt(1 - pow(0.999, step)) / (1 - pow(0.9, step)));
    for (int i = 0; i < PARAMETERS; i++) {
        float g = model->gradients[i];
        model->mean[i] += 0.1f * (g - model->mean[i]);
        model->square[i] += 0.001f * (g * g - model->square[i]);
        model->parameters[i] -= rate * model->mean[i] / (sqrtf(model->square[i]) + 1e-8f);
    }
}

int main(int argc, char **argv)
{
    static struct model model;
    uint64_t random = 1;
    int64_t position = 0, step = 0;
    float loss = 0;
    if (argc < 3)
        return 2;
    const long pause_ms = argc > 3 ? atol(argv[3]) : 0;
    const struct timespec pause = {.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000};
    for (int i = 0; i < PARAMETERS; i++)
        model.parameters[i] = 0.5f * random_float(&random);

    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "parameters", HS_FLOAT, HS_SHAPE(PARAMETERS), model.parameters);
    hs_graph_variable(g, "adam/mean", HS_FLOAT, HS_SHAPE(PARAMETERS), model.mean);
    hs_graph_variable(g, "adam/square", HS_FLOAT, HS_SHAPE(PARAMETERS), model.square);
    hs_graph_bytes(g, "position", &position, sizeof position);
    hs_graph_global_step(g, NULL, &step);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    hs_session *s =
        hs_training_session_open(hs_graph_backend(g),
                                 HS_TRAINING_OPTIONS(.checkpoint_dir = argv[1], .save_checkpoint_steps = 100,
                                                     .signals = true, .scalars = HS_NAMES("loss"),
                                                     .hooks = HS_HOOKS(hs_stop_at_step(.last_step = atoll(argv[2])),
                                                                       hs_nan_tensor(.tensor = "loss"))),
                                 NULL);
    while (hs_step_begin(s)) {
        compute_gradients(&model, position);
        nanosleep(&pause, NULL);
        loss = model.gradients[PARAMETERS];
        adam(&model, (double)step + 1);
        position += BATCH;
        printf("%lld %a\n", (long long)step + 1, (double)loss);
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}
