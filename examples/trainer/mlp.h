/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_MLP_H
#define TRAINER_MLP_H

#include "rng.h"

#include <hooksess/status.h>

/* A multilayer perceptron: each layer is x W + b, with a rectifier (ReLU) after all but the last. All memory is taken when
 * it is made. Matrix products are CBLAS's. */

enum { MOST_LAYERS = 9 };

/* A layer's memory. Matrices are row-major; the parameters lie in the model's `parameters`, their gradients at the same
 * places of `gradients`. */
struct layer {
    int inputs, outputs;
    float *weights, *biases; /* [inputs][outputs], [outputs] */
    float *weight_gradients, *bias_gradients;
    float *values; /* [rows][outputs], after the rectifier */
    float *deltas; /* [rows][outputs], the loss's gradient before it */
};

struct mlp {
    int n_layers, rows; /* rows: the most of a batch */
    struct layer layers[MOST_LAYERS];
    size_t n_parameters; /* of both arrays; each matrix begins on a cache line of its own, with zeros in between */
    float *parameters, *gradients;
    float *pixels;      /* [rows][inputs of the first layer]: a place for a batch */
    const float *batch; /* the one that is in work, there or elsewhere */
    float *work;        /* what pixels, values and deltas lie in */
};

/* widths[0] is the number of inputs, widths[n_layers] that of the classes. Weights are uniform and scaled to the layer's
 * width (Glorot and Bengio), biases 0. */
hs_code mlp_init(struct mlp *mlp, const int *widths, int n_layers, int rows, uint64_t seed, hs_error *err);
void mlp_free(struct mlp *mlp);

/* The scores of each class for the first `rows` rows of a batch, which must stay until mlp_backward: the values of the last
 * layer. */
const float *mlp_forward(struct mlp *mlp, const float *batch, int rows);
/* After mlp_forward: the mean cross-entropy of its scores' softmax and these labels, and the gradients of that. */
float mlp_backward(struct mlp *mlp, const unsigned char *labels, int rows);

/* The matrix products of the two, which are all that takes long: a layer's values, its weights' gradients, and the deltas
 * of the layer before it. */
void mlp_multiply_values(struct mlp *mlp, int layer, int rows);
void mlp_multiply_gradients(struct mlp *mlp, int layer, int rows);
void mlp_multiply_deltas(struct mlp *mlp, int layer, int rows);

/* Zeroed memory that begins on a cache line; free it with free(). */
float *floats_alloc(size_t n);

#endif
