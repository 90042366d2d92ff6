/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices are row-major. d_x is the gradient of the loss by x. Gradients of parameters are added up over a step. */
#include "gpt_naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The tensors of a block, in the order of model.c. */
enum { LN_1, LN_1_BIAS, QKV, QKV_BIAS, PROJECT, PROJECT_BIAS, LN_2, LN_2_BIAS, EXPAND, EXPAND_BIAS, SHRINK, SHRINK_BIAS };

struct values {
    float *in, *norm_1, *qkv, *attention, *mixed, *middle, *norm_2, *hidden, *active;
};

struct naive {
    const struct gpt *model; /* its sizes and tensors */
    int rows;
    float *parameters, *gradients, *mean, *square;
    struct values blocks[MAX_LAYERS + 1]; /* the last one has only `in` */
    struct values d;                      /* gradients of one block at a time; d.middle is that of its output, too */
    float *norm_f, *d_norm_f, *logits;
    float *memory;
};

static float *next_floats(float *base, size_t *used, size_t n)
{
    float *at = base ? base + *used : NULL;
    *used += n;
    return at;
}

static void place_block(struct naive *n, struct values *v, float *base, size_t *used)
{
    const struct gpt *m = n->model;
    size_t row = (size_t)n->rows * (size_t)m->width;
    v->in = next_floats(base, used, row);
    v->norm_1 = next_floats(base, used, row);
    v->qkv = next_floats(base, used, 3 * row);
    v->attention = next_floats(base, used, (size_t)m->heads * (size_t)n->rows * (size_t)m->context);
    v->mixed = next_floats(base, used, row);
    v->middle = next_floats(base, used, row);
    v->norm_2 = next_floats(base, used, row);
    v->hidden = next_floats(base, used, 4 * row);
    v->active = next_floats(base, used, 4 * row);
}

static size_t place(struct naive *n, float *base)
{
    const struct gpt *m = n->model;
    size_t used = 0, row = (size_t)n->rows * (size_t)m->width;
    n->parameters = next_floats(base, &used, m->n_parameters);
    n->gradients = next_floats(base, &used, m->n_parameters);
    n->mean = next_floats(base, &used, m->n_parameters);
    n->square = next_floats(base, &used, m->n_parameters);
    for (int i = 0; i < m->layers; i++)
        place_block(n, &n->blocks[i], base, &used);
    n->blocks[m->layers].in = next_floats(base, &used, row);
    place_block(n, &n->d, base, &used);
    n->norm_f = next_floats(base, &used, row);
    n->d_norm_f = next_floats(base, &used, row);
    n->logits = next_floats(base, &used, (size_t)n->rows * VOCABULARY);
    return used;
}

struct naive *naive_new(const struct gpt *model)
{
    struct naive *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->model = model;
    n->rows = model->batch * model->context;
    if (!(n->memory = calloc(place(n, NULL), sizeof(float)))) {
        free(n);
        return NULL;
    }
    place(n, n->memory);
    memcpy(n->parameters, model->parameters, model->n_parameters * sizeof(float));
    return n;
}

void naive_free(struct naive *n)
{
    free(n ? n->memory : NULL);
    free(n);
}

/* out = in weights + bias */
static void linear(float *out, const float *in, const float *weights, const float *bias, int rows, int n_in, int n_out)
{
#pragma omp parallel for
    for (int row = 0; row < rows; row++) {
        float *to = out + (size_t)row * (size_t)n_out;
        memcpy(to, bias, (size_t)n_out * sizeof *to);
        for (int i = 0; i < n_in; i++)
            for (int k = 0; k < n_out; k++)
                to[k] += in[(size_t)row * (size_t)n_in + (size_t)i] * weights[(size_t)i * (size_t)n_out + (size_t)k];
    }
}

static void linear_backward(float *d_in, float *d_weights, float *d_bias, const float *d_out, const float *in,
                            const float *weights, int rows, int n_in, int n_out)
{
#pragma omp parallel for
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < n_in; i++) {
            float sum = 0;
            for (int k = 0; k < n_out; k++)
                sum += d_out[(size_t)row * (size_t)n_out + (size_t)k] * weights[(size_t)i * (size_t)n_out + (size_t)k];
            d_in[(size_t)row * (size_t)n_in + (size_t)i] = sum;
        }
#pragma omp parallel for
    for (int i = 0; i < n_in; i++)
        for (int row = 0; row < rows; row++)
            for (int k = 0; k < n_out; k++)
                d_weights[(size_t)i * (size_t)n_out + (size_t)k] +=
                    in[(size_t)row * (size_t)n_in + (size_t)i] * d_out[(size_t)row * (size_t)n_out + (size_t)k];
    for (int row = 0; row < rows; row++)
        for (int k = 0; k < n_out; k++)
            d_bias[k] += d_out[(size_t)row * (size_t)n_out + (size_t)k];
}

static void moments(const float *x, int width, float *mean, float *scale)
{
    float sum = 0, squares = 0;
    for (int i = 0; i < width; i++)
        sum += x[i];
    *mean = sum / (float)width;
    for (int i = 0; i < width; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *scale = 1 / sqrtf(squares / (float)width + 1e-5f);
}

static void norm(float *out, const float *in, const float *weight, const float *bias, int rows, int width)
{
#pragma omp parallel for
    for (int row = 0; row < rows; row++) {
        const float *x = in + (size_t)row * (size_t)width;
        float mean, scale;
        moments(x, width, &mean, &scale);
        for (int i = 0; i < width; i++)
            out[(size_t)row * (size_t)width + (size_t)i] = (x[i] - mean) * scale * weight[i] + bias[i];
    }
}

/* Adds to d_in. */
static void norm_backward(float *d_in, float *d_weight, float *d_bias, const float *d_out, const float *in,
                          const float *weight, int rows, int width)
{
    for (int row = 0; row < rows; row++) {
        const float *x = in + (size_t)row * (size_t)width, *d = d_out + (size_t)row * (size_t)width;
        float mean, scale, a = 0, b = 0;
        moments(x, width, &mean, &scale);
        for (int i = 0; i < width; i++) {
            a += d[i] * weight[i] / (float)width;
            b += d[i] * weight[i] * (x[i] - mean) * scale / (float)width;
            d_weight[i] += d[i] * (x[i] - mean) * scale;
            d_bias[i] += d[i];
        }
        for (int i = 0; i < width; i++)
            d_in[(size_t)row * (size_t)width + (size_t)i] += (d[i] * weight[i] - a - (x[i] - mean) * scale * b) * scale;
    }
}

/* Attention, for each sequence and head. `qkv` has the queries, keys and values of a row. */

static void attention(const struct naive *n, const struct values *v)
{
    const int context = n->model->context, width = n->model->width, heads = n->model->heads, size = width / heads;
    const float scale = 1 / sqrtf((float)size);
#pragma omp parallel for
    for (int at = 0; at < n->model->batch * heads; at++)
        for (int i = 0; i < context; i++) {
            const size_t first = (size_t)(at / heads) * (size_t)context, column = (size_t)(at % heads * size);
            const float *query = v->qkv + (first + (size_t)i) * 3 * (size_t)width + column;
            float *p = v->attention + ((size_t)at * (size_t)context + (size_t)i) * (size_t)context;
            float *out = v->mixed + (first + (size_t)i) * (size_t)width + column, most = -1e30f, sum = 0;
            for (int k = 0; k <= i; k++) {
                const float *key = v->qkv + (first + (size_t)k) * 3 * (size_t)width + (size_t)width + column;
                p[k] = 0;
                for (int c = 0; c < size; c++)
                    p[k] += query[c] * key[c] * scale;
                most = fmaxf(most, p[k]);
            }
            for (int k = 0; k <= i; k++)
                sum += p[k] = expf(p[k] - most);
            memset(out, 0, (size_t)size * sizeof *out);
            for (int k = 0; k <= i; k++) {
                const float *value = v->qkv + (first + (size_t)k) * 3 * (size_t)width + 2 * (size_t)width + column;
                p[k] /= sum;
                for (int c = 0; c < size; c++)
                    out[c] += p[k] * value[c];
            }
        }
}

static void attention_backward(const struct naive *n, const struct values *v, const struct values *d)
{
    const int context = n->model->context, width = n->model->width, heads = n->model->heads, size = width / heads;
    const float scale = 1 / sqrtf((float)size);
    memset(d->qkv, 0, (size_t)n->rows * 3 * (size_t)width * sizeof(float));
#pragma omp parallel for
    for (int at = 0; at < n->model->batch * heads; at++)
        for (int i = 0; i < context; i++) {
            const size_t first = (size_t)(at / heads) * (size_t)context, column = (size_t)(at % heads * size);
            const size_t row = (first + (size_t)i) * 3 * (size_t)width + column;
            const float *p = v->attention + ((size_t)at * (size_t)context + (size_t)i) * (size_t)context;
            const float *d_out = d->mixed + (first + (size_t)i) * (size_t)width + column;
            float *d_p = d->attention + ((size_t)at * (size_t)context + (size_t)i) * (size_t)context, sum = 0;
            for (int k = 0; k <= i; k++) {
                const size_t values = (first + (size_t)k) * 3 * (size_t)width + 2 * (size_t)width + column;
                d_p[k] = 0;
                for (int c = 0; c < size; c++) {
                    d_p[k] += d_out[c] * v->qkv[values + (size_t)c];
                    d->qkv[values + (size_t)c] += p[k] * d_out[c];
                }
                sum += p[k] * d_p[k];
            }
            for (int k = 0; k <= i; k++) {
                const size_t keys = (first + (size_t)k) * 3 * (size_t)width + (size_t)width + column;
                const float d_score = p[k] * (d_p[k] - sum) * scale;
                for (int c = 0; c < size; c++) {
                    d->qkv[row + (size_t)c] += d_score * v->qkv[keys + (size_t)c];
                    d->qkv[keys + (size_t)c] += d_score * v->qkv[row + (size_t)c];
                }
            }
        }
}

/* GELU as in GPT-2. */

static const float slope = 0.7978845608f, cube = 0.044715f;

static void gelu(float *out, const float *in, int n)
{
#pragma omp parallel for
    for (int i = 0; i < n; i++)
        out[i] = 0.5f * in[i] * (1 + tanhf(slope * (in[i] + cube * in[i] * in[i] * in[i])));
}

static void gelu_backward(float *d, const float *in, int n)
{
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
        float x = in[i], t = tanhf(slope * (x + cube * x * x * x));
        d[i] *= 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * slope * (1 + 3 * cube * x * x);
    }
}

static void add(float *out, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + b[i];
}

static void forward_block(const struct naive *n, int layer, float *const *w)
{
    const struct values *v = &n->blocks[layer];
    const int rows = n->rows, width = n->model->width;
    const size_t all = (size_t)rows * (size_t)width;
    float *out = v[1].in;
    norm(v->norm_1, v->in, w[LN_1], w[LN_1_BIAS], rows, width);
    linear(v->qkv, v->norm_1, w[QKV], w[QKV_BIAS], rows, width, 3 * width);
    attention(n, v);
    linear(v->middle, v->mixed, w[PROJECT], w[PROJECT_BIAS], rows, width, width);
    add(v->middle, v->middle, v->in, all);
    norm(v->norm_2, v->middle, w[LN_2], w[LN_2_BIAS], rows, width);
    linear(v->hidden, v->norm_2, w[EXPAND], w[EXPAND_BIAS], rows, width, 4 * width);
    gelu(v->active, v->hidden, 4 * rows * width);
    linear(out, v->active, w[SHRINK], w[SHRINK_BIAS], rows, 4 * width, width);
    add(out, out, v->middle, all);
}

/* From the gradients of the block's output, in d.middle, to those of its input, in the same memory. */
static void backward_block(const struct naive *n, int layer, float *const *w, float *const *g)
{
    const struct values *v = &n->blocks[layer], *d = &n->d;
    const int rows = n->rows, width = n->model->width;
    linear_backward(d->active, g[SHRINK], g[SHRINK_BIAS], d->middle, v->active, w[SHRINK], rows, 4 * width, width);
    gelu_backward(d->active, v->hidden, 4 * rows * width);
    linear_backward(d->norm_2, g[EXPAND], g[EXPAND_BIAS], d->active, v->norm_2, w[EXPAND], rows, width, 4 * width);
    norm_backward(d->middle, g[LN_2], g[LN_2_BIAS], d->norm_2, v->middle, w[LN_2], rows, width);
    linear_backward(d->mixed, g[PROJECT], g[PROJECT_BIAS], d->middle, v->mixed, w[PROJECT], rows, width, width);
    attention_backward(n, v, d);
    linear_backward(d->norm_1, g[QKV], g[QKV_BIAS], d->qkv, v->norm_1, w[QKV], rows, width, 3 * width);
    norm_backward(d->middle, g[LN_1], g[LN_1_BIAS], d->norm_1, v->in, w[LN_1], rows, width);
}

/* Computes the loss and, in `logits`, its gradients. */
static double cross_entropy(struct naive *n, const float *wte, const int32_t *targets)
{
    const int width = n->model->width;
    double loss = 0;
#pragma omp parallel for reduction(+ : loss)
    for (int row = 0; row < n->rows; row++) {
        float *logits = n->logits + (size_t)row * VOCABULARY, most = -1e30f, sum = 0;
        for (int k = 0; k < VOCABULARY; k++) {
            logits[k] = 0;
            for (int i = 0; i < width; i++)
                logits[k] +=
                    n->norm_f[(size_t)row * (size_t)width + (size_t)i] * wte[(size_t)k * (size_t)width + (size_t)i];
            most = fmaxf(most, logits[k]);
        }
        for (int k = 0; k < VOCABULARY; k++)
            sum += logits[k] = expf(logits[k] - most);
        loss -= log((double)(logits[targets[row]] / sum));
        for (int k = 0; k < VOCABULARY; k++)
            logits[k] = (logits[k] / sum - (float)(k == targets[row])) / (float)n->rows;
    }
    return loss / n->rows;
}

static void head_backward(struct naive *n, const float *wte, float *d_wte)
{
    const int width = n->model->width;
#pragma omp parallel for
    for (int row = 0; row < n->rows; row++) {
        float *d = n->d_norm_f + (size_t)row * (size_t)width;
        memset(d, 0, (size_t)width * sizeof *d);
        for (int k = 0; k < VOCABULARY; k++)
            for (int i = 0; i < width; i++)
                d[i] += n->logits[(size_t)row * VOCABULARY + (size_t)k] * wte[(size_t)k * (size_t)width + (size_t)i];
    }
#pragma omp parallel for
    for (int k = 0; k < VOCABULARY; k++)
        for (int row = 0; row < n->rows; row++)
            for (int i = 0; i < width; i++)
                d_wte[(size_t)k * (size_t)width + (size_t)i] +=
                    n->logits[(size_t)row * VOCABULARY + (size_t)k] * n->norm_f[(size_t)row * (size_t)width + (size_t)i];
}

static void adamw(struct naive *n, float rate, int step)
{
    const float by_mean = 1 / (1 - powf(0.9f, (float)step)), by_square = 1 / (1 - powf(0.95f, (float)step));
    const int count = (int)n->model->n_parameters;
#pragma omp parallel for
    for (int i = 0; i < count; i++) {
        n->mean[i] = 0.9f * n->mean[i] + 0.1f * n->gradients[i];
        n->square[i] = 0.95f * n->square[i] + 0.05f * n->gradients[i] * n->gradients[i];
        n->parameters[i] -=
            rate * (0.1f * n->parameters[i] + n->mean[i] * by_mean / (sqrtf(n->square[i] * by_square) + 1e-8f));
    }
}

double naive_step(struct naive *n, const int32_t *tokens, const int32_t *targets, float rate, int step)
{
    const struct gpt *m = n->model;
    const size_t width = (size_t)m->width, context = (size_t)m->context;
    float *w[MAX_TENSORS], *g[MAX_TENSORS];
    for (int i = 0; i < m->n_tensors; i++) {
        w[i] = n->parameters + m->tensors[i].at;
        g[i] = n->gradients + m->tensors[i].at;
    }
    const int ln_f = m->n_tensors - 2;
    memset(n->gradients, 0, m->n_parameters * sizeof(float));
    for (size_t row = 0; row < (size_t)n->rows; row++)
        add(n->blocks[0].in + row * width, w[0] + (size_t)tokens[row] * width, w[1] + row % context * width, width);
    for (int layer = 0; layer < m->layers; layer++)
        forward_block(n, layer, w + 2 + layer * BLOCK_TENSORS);
    norm(n->norm_f, n->blocks[m->layers].in, w[ln_f], w[ln_f + 1], n->rows, m->width);
    double loss = cross_entropy(n, w[0], targets);
    head_backward(n, w[0], g[0]);
    memset(n->d.middle, 0, (size_t)n->rows * width * sizeof(float));
    norm_backward(n->d.middle, g[ln_f], g[ln_f + 1], n->d_norm_f, n->blocks[m->layers].in, w[ln_f], n->rows, m->width);
    for (int layer = m->layers - 1; layer >= 0; layer--)
        backward_block(n, layer, w + 2 + layer * BLOCK_TENSORS, g + 2 + layer * BLOCK_TENSORS);
    for (size_t row = 0; row < (size_t)n->rows; row++) {
        add(g[0] + (size_t)tokens[row] * width, g[0] + (size_t)tokens[row] * width, n->d.middle + row * width, width);
        add(g[1] + row % context * width, g[1] + row % context * width, n->d.middle + row * width, width);
    }
    adamw(n, rate, step);
    return loss;
}

const float *naive_gradients(const struct naive *n)
{
    return n->gradients;
}
