/* SPDX-License-Identifier: Apache-2.0 */
/* Two passes over the gradients: their norm, then the update. Each thread has a share of each tensor. */
#include "optimizer.h"

#include "threads.h"
#include "vector.h"

#include <math.h>
#include <stdlib.h>

static const float max_norm = 1, beta1 = 0.9f, beta2 = 0.95f, weight_decay = 0.1f, epsilon = 1e-8f;

hs_code adamw_init(struct adamw *adamw, const struct gpt *model, hs_error *err)
{
    adamw->mean = calloc(model->n_parameters, sizeof(float));
    adamw->square = calloc(model->n_parameters, sizeof(float));
    if (adamw->mean && adamw->square)
        return HS_OK;
    return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for the moments of %zu parameters", model->n_parameters);
}

void adamw_free(struct adamw *adamw)
{
    free(adamw->mean);
    free(adamw->square);
}

/* One update, as its threads see it. */
struct update {
    struct adamw *adamw;
    struct gpt *model;
    float scale;              /* of the gradients, which clips them */
    float rate;               /* the learning rate */
    float by_mean, by_square; /* corrections of the moments, which begin at 0 */
    double sums[MAX_THREADS]; /* of squared gradients */
};

VECTORIZED static double sum_of_squares(const float *numbers, size_t n)
{
    enum { LANES = 8 };
    double sums[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += (double)numbers[i + (size_t)lane] * (double)numbers[i + (size_t)lane];
    for (; i < n; i++)
        sum += (double)numbers[i] * (double)numbers[i];
    for (int lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

static void sum_part(void *user, int index, int count)
{
    struct update *update = user;
    int begin, end;
    share((int)update->model->n_parameters, index, count, &begin, &end);
    update->sums[index] = sum_of_squares(update->model->gradients + begin, (size_t)(end - begin));
}

VECTORIZED static void update_numbers(const struct update *update, float *restrict parameters, float *restrict gradients,
                                      float *restrict mean, float *restrict square, size_t n, float by_decay)
{
    float scale = update->scale, rate = update->rate * update->by_mean, by_square = update->by_square;
    for (size_t i = 0; i < n; i++) {
        float g = gradients[i] * scale;
        float m = beta1 * mean[i] + (1 - beta1) * g;
        float v = beta2 * square[i] + (1 - beta2) * g * g;
        mean[i] = m;
        square[i] = v;
        gradients[i] = 0;
        parameters[i] -= by_decay * parameters[i] + rate * m / (sqrtf(v * by_square) + epsilon);
    }
}

static void update_part(void *user, int index, int count)
{
    const struct update *update = user;
    const struct gpt *model = update->model;
    for (int i = 0; i < model->n_tensors; i++) {
        const struct gpt_tensor *tensor = &model->tensors[i];
        int begin, end;
        share((tensor->rows ? tensor->rows : 1) * tensor->columns, index, count, &begin, &end);
        size_t at = tensor->at + (size_t)begin;
        update_numbers(update, model->parameters + at, model->gradients + at, update->adamw->mean + at,
                       update->adamw->square + at, (size_t)(end - begin), tensor->rows ? update->rate * weight_decay : 0);
    }
}

float adamw_update(struct adamw *adamw, struct gpt *model, double learning_rate, int64_t step)
{
    struct update update = {.adamw = adamw, .model = model};
    double sum = 0, count = (double)step;
    parallel(model->threads, sum_part, &update);
    for (int i = 0; i < model->threads; i++)
        sum += update.sums[i];
    float norm = (float)sqrt(sum);
    update.scale = norm <= max_norm ? 1 : max_norm / norm; /* NaN stays NaN */
    update.rate = (float)learning_rate;
    update.by_mean = (float)(1 / (1 - pow((double)beta1, count)));
    update.by_square = (float)(1 / (1 - pow((double)beta2, count)));
    parallel(model->threads, update_part, &update);
    return norm;
}
