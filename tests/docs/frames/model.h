/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_H
#define MODEL_H

/* The trainer of the recipes in docs/cookbook.md: a line through the noisy points y = 2 x - 1. */

#include <hooksess/hooksess.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHECK(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);                                       \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

enum { BATCH = 32 };

typedef struct {
    int64_t position; /* samples that were read */
} reader;

typedef struct {
    float x[BATCH], y[BATCH];
    int64_t first; /* index of the first sample */
} batch;

typedef struct {
    float weights[2], gradients[2], loss;
} model;

static inline float noise(int64_t index)
{
    uint64_t z = ((uint64_t)index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (float)((z ^ z >> 31) >> 40) / (float)(1 << 23) - 1;
}

static inline batch next_batch(reader *r)
{
    batch b;
    b.first = r->position;
    for (int i = 0; i < BATCH; i++, r->position++) {
        b.x[i] = noise(2 * r->position);
        b.y[i] = 2 * b.x[i] - 1 + 0.1f * noise(2 * r->position + 1);
    }
    return b;
}

/* Adds the gradients of a batch, and returns its loss. */
static inline float add_gradients(model *m, batch b)
{
    float loss = 0;
    for (int i = 0; i < BATCH; i++) {
        float error = m->weights[0] * b.x[i] + m->weights[1] - b.y[i];
        m->gradients[0] += error * b.x[i] / BATCH;
        m->gradients[1] += error / BATCH;
        loss += error * error / BATCH;
    }
    return loss;
}

/* Changes the weights, and clears the gradients. */
static inline void update(model *m, float rate)
{
    for (int i = 0; i < 2; i++) {
        m->weights[i] -= rate * m->gradients[i];
        m->gradients[i] = 0;
    }
}

/* The mean squared error over points that are never trained with. */
static inline double test_loss(const model *m)
{
    double sum = 0;
    for (int64_t i = -1000; i < 0; i++)
        sum += pow(m->weights[0] * noise(i) + m->weights[1] - (2 * noise(i) - 1), 2);
    return sum / 1000;
}

static inline hs_graph *new_graph(model *m, reader *data)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(2), m->weights);
    hs_graph_bytes(g, "data", &data->position, sizeof data->position);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &m->loss);
    return g;
}

/* Trains until the session stops. */
static inline void train(hs_session *s, model *m, reader *data)
{
    while (hs_step_begin(s)) {
        m->loss = add_gradients(m, next_batch(data));
        update(m, 0.1f);
        hs_step_end(s);
    }
}

/* Closes the session, which must have completed the training at `step`, and frees the graph. */
static inline hs_outcome finish(hs_session *s, hs_graph *g, int64_t step)
{
    hs_outcome outcome = hs_session_close(s, NULL);
    CHECK(hs_outcome_exit_code(&outcome) == 0);
    CHECK(outcome.step == step);
    hs_graph_free(g);
    return outcome;
}

static inline bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

/* Returns the contents of a small file, to be freed. */
static inline char *contents(const char *path)
{
    FILE *file = fopen(path, "r");
    CHECK(file);
    char *text = calloc(1, 65536);
    CHECK(text);
    CHECK(fread(text, 1, 65535, file) < 65535);
    fclose(file);
    return text;
}

#endif
