/* SPDX-License-Identifier: Apache-2.0 */
#include "optimizer.h"

#include "mlp.h"
#include "vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Each update reads parameters, gradients and slots once. */

VECTORIZED static void sgd(float *restrict parameters, const float *restrict gradients, float *const *slots, size_t n,
                           double rate, int64_t step)
{
    float by = (float)rate;
    (void)slots, (void)step;
    for (size_t i = 0; i < n; i++)
        parameters[i] -= by * gradients[i];
}

VECTORIZED static void momentum(float *restrict parameters, const float *restrict gradients, float *const *slots, size_t n,
                                double rate, int64_t step)
{
    float *restrict velocity = slots[0];
    float by = (float)rate, decay = 0.9f;
    (void)step;
    for (size_t i = 0; i < n; i++) {
        float v = decay * velocity[i] + gradients[i];
        velocity[i] = v;
        parameters[i] -= by * v;
    }
}

/* Kingma and Ba, with both bias corrections included in the rate. They depend on the global step, so that the
 * optimizer needs no saved counter. */
VECTORIZED static void adam(float *restrict parameters, const float *restrict gradients, float *const *slots, size_t n,
                            double rate, int64_t step)
{
    float *restrict mean = slots[0], *restrict square = slots[1];
    double decay_mean = 0.9, decay_square = 0.999, count = (double)step;
    float keep_mean = (float)decay_mean, keep_square = (float)decay_square, epsilon = 1e-8f;
    float by = (float)(rate * sqrt(1 - pow(decay_square, count)) / (1 - pow(decay_mean, count)));
    for (size_t i = 0; i < n; i++) {
        float g = gradients[i];
        float m = keep_mean * mean[i] + (1 - keep_mean) * g;
        float v = keep_square * square[i] + (1 - keep_square) * g * g;
        mean[i] = m;
        square[i] = v;
        parameters[i] -= by * m / (sqrtf(v) + epsilon);
    }
}

static const struct optimizer_kind kinds[] = {
    {"sgd", {NULL}, 0.3, sgd},
    {"momentum", {"momentum", NULL}, 0.05, momentum},
    {"adam", {"adam_m", "adam_v", NULL}, 0.001, adam},
};

const struct optimizer_kind *optimizer_kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

hs_code optimizer_init(struct optimizer *optimizer, const struct optimizer_kind *kind, double rate, size_t n, hs_error *err)
{
    *optimizer = (struct optimizer){.kind = kind, .rate = rate, .n = n};
    for (int i = 0; kind->slots[i]; i++)
        if (!(optimizer->slots[i] = floats_alloc(n))) {
            optimizer_free(optimizer);
            return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for the optimizer's %zu floats", n);
        }
    return HS_OK;
}

void optimizer_free(struct optimizer *optimizer)
{
    for (int i = 0; i < MAX_SLOTS; i++)
        free(optimizer->slots[i]);
    *optimizer = (struct optimizer){.kind = NULL};
}

void optimizer_update(struct optimizer *optimizer, float *parameters, const float *gradients, int64_t step, uint64_t epoch)
{
    double rate = optimizer->rate * 2 / (double)(epoch + 1);
    optimizer->kind->update(parameters, gradients, optimizer->slots, optimizer->n, rate, step);
}
