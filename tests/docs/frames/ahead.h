/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AHEAD_H
#define AHEAD_H

/* The model of the guide to input ahead of the step: a line. */

#include <hooksess/hooksess.h>

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32 };

typedef struct {
    int64_t position, end;
} reader;

typedef struct {
    float weights[2], gradients[2], loss;
    uint64_t seen; /* a checksum of the samples in their order. Saved */
} model;

static inline void read_sample(int64_t index, float *x, float *y)
{
    *x = (float)((uint64_t)index * 7919 % 1000) / 1000;
    *y = 2 * *x - 1;
}

static inline float add_gradients(model *m, const float *x, const float *y)
{
    float loss = 0;
    for (int i = 0; i < BATCH; i++) {
        float error = m->weights[0] * x[i] + m->weights[1] - y[i];
        m->gradients[0] += error * x[i] / BATCH;
        m->gradients[1] += error / BATCH;
        loss += error * error / BATCH;
        m->seen = m->seen * 31 + (uint64_t)(x[i] * 1000 + 0.5f);
    }
    return loss;
}

static inline void update(model *m, float rate)
{
    for (int i = 0; i < 2; i++) {
        m->weights[i] -= rate * m->gradients[i];
        m->gradients[i] = 0;
    }
}

static inline hs_graph *model_graph(model *m)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(2), m->weights);
    hs_graph_bytes(g, "seen", &m->seen, sizeof m->seen);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &m->loss);
    return g;
}

/* What `batches` batches in the right order leave in a model. */
static inline model expected(int batches)
{
    model m = {{0}, {0}, 0, 0};
    int64_t position = 0;
    for (int n = 0; n < batches; n++) {
        float x[BATCH], y[BATCH];
        for (int i = 0; i < BATCH; i++)
            read_sample(position++, &x[i], &y[i]);
        m.loss = add_gradients(&m, x, y);
        update(&m, 0.1f);
    }
    return m;
}

#endif
