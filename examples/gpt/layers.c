/* SPDX-License-Identifier: Apache-2.0 */
/* A compiler turns these loops into vector instructions. */
#include "layers.h"

#include "vector.h"

#include <math.h>

/* The sums keep the order of their lanes, so that every processor computes the same. */
enum { LANES = 16 };

static inline float sum_lanes(const float *lanes)
{
    float sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += lanes[i];
    return sum;
}

/* e^x with a relative error below 1e-7. NaN stays NaN. */
static inline float exponential(float x)
{
    const float magic = 12582912; /* 1.5 * 2^23: adding it rounds to an integer */
    union {
        float number;
        uint32_t bits;
    } rounded, power;
    x = x < -87 ? -87 : x > 88 ? 88 : x;
    rounded.number = x * 1.44269504f + magic;
    float n = rounded.number - magic, r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    power.bits = (rounded.bits + 127u) << 23;
    return (p * r * r + r + 1) * power.number;
}

static const float epsilon = 1e-5f;

VECTORIZED void layer_norm(float *restrict out, float *restrict moments, const float *restrict in,
                           const float *restrict weight, const float *restrict bias, int rows, int width)
{
    for (int row = 0; row < rows; row++, in += width, out += width, moments += 2) {
        float sums[LANES] = {0}, squares[LANES] = {0};
        for (int i = 0; i < width; i++)
            sums[i % LANES] += in[i];
        float mean = sum_lanes(sums) / (float)width;
        for (int i = 0; i < width; i++)
            squares[i % LANES] += (in[i] - mean) * (in[i] - mean);
        float scale = 1 / sqrtf(sum_lanes(squares) / (float)width + epsilon);
        for (int i = 0; i < width; i++)
            out[i] = (in[i] - mean) * scale * weight[i] + bias[i];
        moments[0] = mean;
        moments[1] = scale;
    }
}

VECTORIZED void layer_norm_backward(float *restrict d_in, const float *restrict d_out, const float *restrict in,
                                    const float *restrict moments, const float *restrict weight, int rows, int width)
{
    for (int row = 0; row < rows; row++, in += width, d_in += width, d_out += width, moments += 2) {
        float mean = moments[0], scale = moments[1], sums[LANES] = {0}, products[LANES] = {0};
        for (int i = 0; i < width; i++) {
            float d = d_out[i] * weight[i];
            sums[i % LANES] += d;
            products[i % LANES] += d * (in[i] - mean);
        }
        float a = sum_lanes(sums) / (float)width, b = sum_lanes(products) / (float)width * scale * scale;
        for (int i = 0; i < width; i++)
            d_in[i] += (d_out[i] * weight[i] - a - (in[i] - mean) * b) * scale;
    }
}

VECTORIZED void layer_norm_gradients(float *restrict d_weight, float *restrict d_bias, const float *restrict d_out,
                                     const float *restrict in, const float *restrict moments, int rows, int width,
                                     int begin, int end)
{
    for (int row = 0; row < rows; row++, in += width, d_out += width, moments += 2)
        for (int i = begin; i < end; i++) {
            d_weight[i] += d_out[i] * (in[i] - moments[0]) * moments[1];
            d_bias[i] += d_out[i];
        }
}

VECTORIZED void add_columns(float *restrict sums, const float *restrict d_out, int rows, int width, int begin, int end)
{
    for (int row = 0; row < rows; row++, d_out += width)
        for (int i = begin; i < end; i++)
            sums[i] += d_out[i];
}

/* GELU as in GPT-2: x / 2 (1 + tanh(u)), with u = sqrt(2 / pi) (x + 0.044715 x^3). It equals x / (1 + e^(-2u)). */
static const float gelu_slope = 1.59576912f, gelu_cube = 0.044715f;

VECTORIZED void gelu(float *restrict out, const float *restrict in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = in[i] / (1 + exponential(-gelu_slope * (in[i] + gelu_cube * in[i] * in[i] * in[i])));
}

VECTORIZED void gelu_backward(float *restrict d, const float *restrict in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = in[i], sigmoid = 1 / (1 + exponential(-gelu_slope * (x + gelu_cube * x * x * x)));
        d[i] *= sigmoid + x * sigmoid * (1 - sigmoid) * gelu_slope * (1 + 3 * gelu_cube * x * x);
    }
}

/* Dropout. A mask is a function of its key and of the position of a number. So it is not stored, and does not depend on the
 * thread. */

VECTORIZED void drop(float *restrict out, const float *restrict in, size_t n, size_t first, struct mask mask)
{
    for (size_t i = 0; i < n; i++)
        out[i] = masked(mask, (uint32_t)(first + i), in[i]);
}

VECTORIZED void add_residual(float *restrict out, const float *restrict in, size_t n, size_t first, struct mask mask)
{
    for (size_t i = 0; i < n; i++)
        out[i] = in[i] + masked(mask, (uint32_t)(first + i), out[i]);
}

VECTORIZED void softmax(float *row, int n)
{
    float most = row[0], sums[LANES] = {0};
    for (int i = 1; i < n; i++)
        most = row[i] > most ? row[i] : most;
    for (int i = 0; i < n; i++)
        row[i] = exponential(row[i] - most);
    for (int i = 0; i < n; i++)
        sums[i % LANES] += row[i];
    float scale = 1 / sum_lanes(sums);
    for (int i = 0; i < n; i++)
        row[i] *= scale;
}

VECTORIZED void softmax_backward(float *restrict d, const float *restrict row, int n)
{
    float sums[LANES] = {0};
    for (int i = 0; i < n; i++)
        sums[i % LANES] += d[i] * row[i];
    float sum = sum_lanes(sums);
    for (int i = 0; i < n; i++)
        d[i] = (d[i] - sum) * row[i];
}
