/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_MLP_H
#define TRAINER_MLP_H

#include "rng.h"

#include <hooksess/status.h>

/* A multilayer perceptron: each layer is x W + b, with a rectifier (ReLU) after all but the last. mlp_init
 * allocates all memory. CBLAS computes the matrix products. */

enum { MAX_LAYERS = 9 };

/* The memory of a layer. Matrices are row-major. Weights and biases are parts of mlp.parameters, their gradients parts of
 * mlp.gradients at the same offsets. */
struct layer {
    int inputs, outputs;
    float *weights, *biases; /* [inputs][outputs], [outputs] */
    float *weight_gradients, *bias_gradients;
    float *values; /* [rows][outputs], after the rectifier */
    float *deltas; /* [rows][outputs], gradient of the loss before the rectifier */
};

struct mlp {
    int n_layers, rows; /* rows: largest batch */
    struct layer layers[MAX_LAYERS];
    size_t n_parameters; /* length of both arrays; each matrix begins on a new cache line, the padding is 0 */
    float *parameters, *gradients;
    float *pixels;      /* [rows][inputs of the first layer], memory for a batch */
    const float *batch; /* argument of the last mlp_forward */
    float *work;        /* memory of pixels, values and deltas */
};

/* widths[0] is the number of inputs, widths[n_layers] the number of classes. Weights are uniform and scaled to the layer's
 * width (Glorot and Bengio), biases 0. */
hs_code mlp_init(struct mlp *mlp, const int *widths, int n_layers, int rows, uint64_t seed, hs_error *err);
void mlp_free(struct mlp *mlp);

/* Returns the scores, [rows][classes]: the values of the last layer for the first `rows` rows of `batch`. `batch` must stay
 * valid until mlp_backward. */
const float *mlp_forward(struct mlp *mlp, const float *batch, int rows);
/* Call after mlp_forward. Returns the mean cross-entropy of the softmax of the scores, and computes its gradients. */
float mlp_backward(struct mlp *mlp, const unsigned char *labels, int rows);

/* The matrix products of mlp_forward and mlp_backward, which take nearly all of the time: the values of a layer, the
 * gradients of its weights, the deltas of the previous layer. */
void mlp_multiply_values(struct mlp *mlp, int layer, int rows);
void mlp_multiply_gradients(struct mlp *mlp, int layer, int rows);
void mlp_multiply_deltas(struct mlp *mlp, int layer, int rows);

/* Zeroed memory that begins on a cache line; free it with free(). */
float *floats_alloc(size_t n);

#endif
