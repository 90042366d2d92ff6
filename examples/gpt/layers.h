/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPT_LAYERS_H
#define GPT_LAYERS_H

#include <stddef.h>
#include <stdint.h>

/* The loops between the matrix products. Arrays are row-major, [rows][width]. d_x is the gradient of the loss by x. */

/* A layer norm: out = (in - mean) * scale * weight + bias. The pairs (mean, scale) of the rows are written to `moments`. */
void layer_norm(float *out, float *moments, const float *in, const float *weight, const float *bias, int rows, int width);
/* Adds to d_in. */
void layer_norm_backward(float *d_in, const float *d_out, const float *in, const float *moments, const float *weight,
                         int rows, int width);
/* Adds to the columns from `begin` to `end` - 1 of d_weight and d_bias. */
void layer_norm_gradients(float *d_weight, float *d_bias, const float *d_out, const float *in, const float *moments,
                          int rows, int width, int begin, int end);
/* Adds the columns from `begin` to `end` - 1 of all rows. */
void add_columns(float *sums, const float *d_out, int rows, int width, int begin, int end);

/* GELU with the approximation of GPT-2. gelu_backward turns d_out into d_in. */
void gelu(float *out, const float *in, size_t n);
void gelu_backward(float *d, const float *in, size_t n);

/* Replaces a row by its softmax, and d_out by d_in. */
void softmax(float *row, int n);
void softmax_backward(float *d, const float *row, int n);

/* The mask of a dropout is a function of its key and of the position of a number. So it need not be stored, and does not
 * depend on the thread that computes it. */
struct mask {
    uint32_t key, limit; /* a number is dropped if its hash is below the limit */
    float scale;         /* of the other numbers */
    uint32_t first;      /* is added to the positions */
};

static inline float masked(struct mask mask, uint32_t position, float value)
{
    uint32_t h = (mask.first + position) * 0x9e3779b9u ^ mask.key;
    h = (h ^ h >> 16) * 0x7feb352du;
    h = (h ^ h >> 15) * 0x846ca68bu;
    return (h ^ h >> 16) < mask.limit ? 0 : value * mask.scale;
}

/* out = dropout(in). `first` is the position of the first of the n numbers. */
void drop(float *out, const float *in, size_t n, size_t first, struct mask mask);
/* out = in + dropout(out) */
void add_residual(float *out, const float *in, size_t n, size_t first, struct mask mask);

#endif
