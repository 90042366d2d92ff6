/* SPDX-License-Identifier: Apache-2.0 */
/* The multilayer perceptron: memory, matrix products, and the loops over rows between them. mlp_forward and mlp_backward
 * are at the end. */
#include "mlp.h"

#include "vector.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT_STREAM = 2, LINE_FLOATS = 16 };

/* Memory. */

static size_t whole_lines(size_t n)
{
    return (n + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
}

float *floats_alloc(size_t n)
{
    size_t bytes = whole_lines(n) * sizeof(float);
    float *floats = aligned_alloc(LINE_FLOATS * sizeof(float), bytes);
    return floats ? memset(floats, 0, bytes) : NULL;
}

/* Returns the next `n` floats of `base`, on a new cache line. If `base` is NULL, only counts them in *used. */
static float *next_floats(float *base, size_t *used, size_t n)
{
    float *at = base ? base + *used : NULL;
    *used += whole_lines(n);
    return at;
}

static void place_parameters(struct mlp *mlp)
{
    size_t used = 0, same = 0;
    for (int i = 0; i < mlp->n_layers; i++) {
        struct layer *layer = &mlp->layers[i];
        size_t inputs = (size_t)layer->inputs, outputs = (size_t)layer->outputs;
        layer->weights = next_floats(mlp->parameters, &used, inputs * outputs);
        layer->biases = next_floats(mlp->parameters, &used, outputs);
        layer->weight_gradients = next_floats(mlp->gradients, &same, inputs * outputs);
        layer->bias_gradients = next_floats(mlp->gradients, &same, outputs);
    }
    mlp->n_parameters = used;
}

static size_t place_work(struct mlp *mlp)
{
    size_t used = 0, rows = (size_t)mlp->rows;
    mlp->batch = mlp->pixels = next_floats(mlp->work, &used, rows * (size_t)mlp->layers[0].inputs);
    for (int i = 0; i < mlp->n_layers; i++) {
        struct layer *layer = &mlp->layers[i];
        layer->values = next_floats(mlp->work, &used, rows * (size_t)layer->outputs);
        layer->deltas = next_floats(mlp->work, &used, rows * (size_t)layer->outputs);
    }
    return used;
}

static void init_weights(struct mlp *mlp, uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed, WEIGHT_STREAM);
    for (int i = 0; i < mlp->n_layers; i++) {
        const struct layer *layer = &mlp->layers[i];
        float limit = sqrtf(6.0f / (float)(layer->inputs + layer->outputs));
        for (size_t k = 0; k < (size_t)layer->inputs * (size_t)layer->outputs; k++)
            layer->weights[k] = rng_symmetric(&rng) * limit;
    }
}

hs_code mlp_init(struct mlp *mlp, const int *widths, int n_layers, int rows, uint64_t seed, hs_error *err)
{
    *mlp = (struct mlp){.n_layers = n_layers, .rows = rows};
    for (int i = 0; i < n_layers; i++)
        mlp->layers[i] = (struct layer){.inputs = widths[i], .outputs = widths[i + 1]};
    place_parameters(mlp);
    mlp->parameters = floats_alloc(mlp->n_parameters);
    mlp->gradients = floats_alloc(mlp->n_parameters);
    mlp->work = floats_alloc(place_work(mlp));
    if (!mlp->parameters || !mlp->gradients || !mlp->work) {
        mlp_free(mlp);
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for a model of %zu parameters", mlp->n_parameters);
    }
    place_parameters(mlp);
    place_work(mlp);
    init_weights(mlp, seed);
    return HS_OK;
}

void mlp_free(struct mlp *mlp)
{
    free(mlp->parameters);
    free(mlp->gradients);
    free(mlp->work);
    mlp->parameters = mlp->gradients = mlp->work = NULL;
}

/* The matrix products. */

static const float *inputs_of(const struct mlp *mlp, int layer)
{
    return layer ? mlp->layers[layer - 1].values : mlp->batch;
}

void mlp_multiply_values(struct mlp *mlp, int index, int rows)
{
    const struct layer *layer = &mlp->layers[index];
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, layer->outputs, layer->inputs, 1, inputs_of(mlp, index),
                layer->inputs, layer->weights, layer->outputs, 0, layer->values, layer->outputs);
}

void mlp_multiply_gradients(struct mlp *mlp, int index, int rows)
{
    const struct layer *layer = &mlp->layers[index];
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, layer->inputs, layer->outputs, rows, 1, inputs_of(mlp, index),
                layer->inputs, layer->deltas, layer->outputs, 0, layer->weight_gradients, layer->outputs);
}

void mlp_multiply_deltas(struct mlp *mlp, int index, int rows)
{
    const struct layer *layer = &mlp->layers[index];
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, layer->inputs, layer->outputs, 1, layer->deltas,
                layer->outputs, layer->weights, layer->outputs, 0, mlp->layers[index - 1].deltas, layer->inputs);
}

/* Loops over rows, which a compiler turns into vector instructions. */

VECTORIZED static void add_biases(float *restrict values, const float *restrict biases, int rows, int columns)
{
    for (int row = 0; row < rows; row++, values += columns)
        for (int i = 0; i < columns; i++)
            values[i] += biases[i];
}

/* NaN stays NaN, so that the loss shows it. */
VECTORIZED static void add_biases_and_rectify(float *restrict values, const float *restrict biases, int rows, int columns)
{
    for (int row = 0; row < rows; row++, values += columns)
        for (int i = 0; i < columns; i++) {
            float value = values[i] + biases[i];
            values[i] = value < 0 ? 0 : value;
        }
}

VECTORIZED static void rectify_deltas(float *restrict deltas, const float *restrict values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        deltas[i] = values[i] > 0 ? deltas[i] : 0;
}

VECTORIZED static void sum_rows(float *restrict sums, const float *restrict deltas, int rows, int columns)
{
    memset(sums, 0, (size_t)columns * sizeof *sums);
    for (int row = 0; row < rows; row++, deltas += columns)
        for (int i = 0; i < columns; i++)
            sums[i] += deltas[i];
}

/* Returns the cross-entropy of one row, and stores its gradient times `scale`. */
static double softmax_row(float *restrict deltas, const float *restrict scores, int classes, int label, float scale)
{
    float most = scores[0], sum = 0;
    for (int i = 1; i < classes; i++)
        most = scores[i] > most ? scores[i] : most;
    for (int i = 0; i < classes; i++)
        sum += deltas[i] = expf(scores[i] - most);
    for (int i = 0; i < classes; i++)
        deltas[i] = (deltas[i] / sum - (float)(i == label)) * scale;
    return log(sum) - (double)(scores[label] - most);
}

const float *mlp_forward(struct mlp *mlp, const float *batch, int rows)
{
    mlp->batch = batch;
    for (int i = 0; i < mlp->n_layers; i++) {
        const struct layer *layer = &mlp->layers[i];
        mlp_multiply_values(mlp, i, rows);
        if (i < mlp->n_layers - 1)
            add_biases_and_rectify(layer->values, layer->biases, rows, layer->outputs);
        else
            add_biases(layer->values, layer->biases, rows, layer->outputs);
    }
    return mlp->layers[mlp->n_layers - 1].values;
}

float mlp_backward(struct mlp *mlp, const unsigned char *labels, int rows)
{
    const struct layer *last = &mlp->layers[mlp->n_layers - 1];
    double loss = 0;
    for (int row = 0; row < rows; row++) {
        size_t at = (size_t)row * (size_t)last->outputs;
        loss += softmax_row(last->deltas + at, last->values + at, last->outputs, labels[row], 1 / (float)rows);
    }
    for (int i = mlp->n_layers - 1; i >= 0; i--) {
        const struct layer *layer = &mlp->layers[i];
        mlp_multiply_gradients(mlp, i, rows);
        sum_rows(layer->bias_gradients, layer->deltas, rows, layer->outputs);
        if (i == 0)
            break;
        mlp_multiply_deltas(mlp, i, rows);
        rectify_deltas(layer[-1].deltas, layer[-1].values, (size_t)rows * (size_t)layer->inputs);
    }
    return (float)(loss / rows);
}
