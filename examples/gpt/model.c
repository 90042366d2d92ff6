/* SPDX-License-Identifier: Apache-2.0 */
/* The mathematics of the model. Each thread computes its sequences through all blocks. The gradients of the
 * parameters are sums over all rows: there, each thread computes some of the columns. */
#include "model.h"

#include "layers.h"
#include "rng.h"
#include "threads.h"

#include <cblas.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The parameters. */

enum { WTE, WPE, FIRST_BLOCK };
enum { LN_1, LN_1_BIAS, QKV, QKV_BIAS, PROJECT, PROJECT_BIAS, LN_2, LN_2_BIAS, EXPAND, EXPAND_BIAS, SHRINK, SHRINK_BIAS };

static void add_tensor(struct gpt *model, const char *name, int rows, int columns)
{
    struct gpt_tensor *tensor = &model->tensors[model->n_tensors++];
    *tensor = (struct gpt_tensor){.rows = rows, .columns = columns, .at = model->n_parameters};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    model->n_parameters += (size_t)(rows ? rows : 1) * (size_t)columns;
}

static void list_tensors(struct gpt *model)
{
    int width = model->width;
    const struct {
        const char *name;
        int rows, columns;
    } block[BLOCK_TENSORS] = {
        {"ln_1.weight", 0, width},
        {"ln_1.bias", 0, width},
        {"attn.c_attn.weight", width, 3 * width},
        {"attn.c_attn.bias", 0, 3 * width},
        {"attn.c_proj.weight", width, width},
        {"attn.c_proj.bias", 0, width},
        {"ln_2.weight", 0, width},
        {"ln_2.bias", 0, width},
        {"mlp.c_fc.weight", width, 4 * width},
        {"mlp.c_fc.bias", 0, 4 * width},
        {"mlp.c_proj.weight", 4 * width, width},
        {"mlp.c_proj.bias", 0, width},
    };
    add_tensor(model, "wte.weight", VOCABULARY, width);
    add_tensor(model, "wpe.weight", model->context, width);
    for (int layer = 0; layer < model->layers; layer++)
        for (int i = 0; i < BLOCK_TENSORS; i++) {
            char name[40];
            snprintf(name, sizeof name, "h.%d.%s", layer, block[i].name);
            add_tensor(model, name, block[i].rows, block[i].columns);
        }
    add_tensor(model, "ln_f.weight", 0, width);
    add_tensor(model, "ln_f.bias", 0, width);
}

/* As GPT-2: matrices are normally distributed, and smaller where a block adds to its input. */
static void init_parameters(struct gpt *model, uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed, 1);
    for (int i = 0; i < model->n_tensors; i++) {
        const struct gpt_tensor *tensor = &model->tensors[i];
        float *values = model->parameters + tensor->at;
        double deviation = strstr(tensor->name, "c_proj") ? 0.02 / sqrt(2 * model->layers) : 0.02;
        for (size_t k = 0; k < (size_t)tensor->rows * (size_t)tensor->columns; k++) {
            double u = ((double)(rng_next(&rng) >> 11) + 1) * 0x1p-53, angle = (double)(rng_next(&rng) >> 11) * 0x1p-53;
            values[k] = (float)(deviation * sqrt(-2 * log(u)) * cos(2 * acos(-1) * angle));
        }
        for (int k = 0; k < tensor->columns && !tensor->rows; k++)
            values[k] = strstr(tensor->name, "ln_") && strstr(tensor->name, "weight");
    }
}

/* Returns a tensor of a block in `base`, the parameters or the gradients. */
static float *of_block(const struct gpt *model, float *base, int layer, int tensor)
{
    return base + model->tensors[FIRST_BLOCK + layer * BLOCK_TENSORS + tensor].at;
}

static float *of_last_norm(const struct gpt *model, float *base, int bias)
{
    return base + model->tensors[model->n_tensors - 2 + bias].at;
}

/* Memory. */

/* Returns the next `n` floats of `base`, on a new cache line. If `base` is NULL, only counts them in *used. */
static float *next_floats(float *base, size_t *used, size_t n)
{
    float *at = base ? base + *used : NULL;
    *used += (n + 15) / 16 * 16;
    return at;
}

/* Returns the number of floats that the model needs. */
static size_t place_arrays(struct gpt *model)
{
    float *base = model->memory;
    size_t used = 0, rows = (size_t)model->batch * (size_t)model->context, width = (size_t)model->width;
    size_t square = (size_t)model->context * (size_t)model->context;
    model->parameters = next_floats(base, &used, model->n_parameters);
    model->gradients = next_floats(base, &used, model->n_parameters);
    for (int layer = 0; layer < model->layers; layer++) {
        struct gpt_block *block = &model->blocks[layer];
        block->in = next_floats(base, &used, rows * width);
        block->norm_1 = next_floats(base, &used, rows * width);
        block->moments_1 = next_floats(base, &used, rows * 2);
        block->qkv = next_floats(base, &used, rows * 3 * width);
        block->attention = next_floats(base, &used, (size_t)model->batch * (size_t)model->heads * square);
        block->mixed = next_floats(base, &used, rows * width);
        block->middle = next_floats(base, &used, rows * width);
        block->norm_2 = next_floats(base, &used, rows * width);
        block->moments_2 = next_floats(base, &used, rows * 2);
        block->hidden = next_floats(base, &used, rows * 4 * width);
        block->active = next_floats(base, &used, rows * 4 * width);
    }
    model->blocks[model->layers].in = next_floats(base, &used, rows * width);
    model->norm_f = next_floats(base, &used, rows * width);
    model->moments_f = next_floats(base, &used, rows * 2);
    model->logits = next_floats(base, &used, rows * VOCABULARY);
    model->losses = next_floats(base, &used, rows);
    model->d_out = next_floats(base, &used, rows * width);
    model->d_mlp = next_floats(base, &used, rows * width);
    model->d_active = next_floats(base, &used, rows * 4 * width);
    model->d_norm_2 = next_floats(base, &used, rows * width);
    model->d_projected = next_floats(base, &used, rows * width);
    model->d_mixed = next_floats(base, &used, rows * width);
    model->d_qkv = next_floats(base, &used, rows * 3 * width);
    model->d_norm_1 = next_floats(base, &used, rows * width);
    model->scratch = next_floats(base, &used, (size_t)model->threads * 2 * square);
    return used;
}

hs_code gpt_init(struct gpt *model, const int32_t *sizes, int batch, int threads, uint64_t seed, hs_error *err)
{
    *model = (struct gpt){.context = sizes[CONTEXT],
                          .layers = sizes[LAYERS],
                          .heads = sizes[HEADS],
                          .width = sizes[WIDTH],
                          .batch = batch,
                          .threads = threads};
    if (model->width % model->heads)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "--width %d is not a multiple of --heads %d", model->width,
                            model->heads);
    list_tensors(model);
    model->memory = model->n_parameters <= INT32_MAX ? calloc(place_arrays(model), sizeof(float)) : NULL;
    if (!model->memory)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for a model of %zu parameters", model->n_parameters);
    place_arrays(model);
    init_parameters(model, seed);
    return HS_OK;
}

void gpt_free(struct gpt *model)
{
    free(model->memory);
    model->memory = NULL;
}

/* Matrix products. */

/* c[m][n] = beta * c + alpha * a b. `lda`, `ldb` and `ldc` are the lengths of rows in memory. */
static void multiply(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                     const float *b, int ldb, float beta, float *c, int ldc)
{
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, m, n, k,
                alpha, a, lda, b, ldb, beta, c, ldc);
}

/* out[rows][n_out] = in weights + bias */
static void linear(float *out, const float *in, const float *weights, const float *bias, int rows, int n_in, int n_out)
{
    for (int row = 0; row < rows; row++)
        memcpy(out + (size_t)row * (size_t)n_out, bias, (size_t)n_out * sizeof *out);
    multiply(false, false, rows, n_out, n_in, 1, in, n_in, weights, n_out, 1, out, n_out);
}

/* d_in[rows][n_in] = d_out weights^T */
static void linear_backward(float *d_in, const float *d_out, const float *weights, int rows, int n_in, int n_out)
{
    multiply(false, true, rows, n_in, n_out, 1, d_out, n_out, weights, n_out, 0, d_in, n_in);
}

/* Dropout. */

enum { MASK_EMBEDDING, MASK_ATTENTION, MASK_PROJECTED, MASK_MLP };

static struct mask mask_of(const struct gpt *model, int layer, int place)
{
    uint64_t key = model->pass.dropout_key;
    if (!key || model->dropout <= 0)
        return (struct mask){0, 0, 1, 0};
    key = (key ^ (uint64_t)(layer * 4 + place)) * 0x9e3779b97f4a7c15u;
    int of_token = place == MASK_ATTENTION ? model->heads * model->context : model->width; /* numbers */
    return (struct mask){(uint32_t)(key >> 32), (uint32_t)(model->dropout * 0x1p32f), 1 / (1 - model->dropout),
                         (uint32_t)model->first * (uint32_t)model->context * (uint32_t)of_token};
}

/* Attention. */

/* The sequences of a thread, and their rows. */
struct part {
    int index, sequence, end;
    size_t row;
    int rows;
};

static struct part part_of(const struct gpt *model, int index, int count)
{
    struct part part = {.index = index};
    share(model->pass.sequences, index, count, &part.sequence, &part.end);
    part.row = (size_t)part.sequence * (size_t)model->context + (size_t)model->pass.from;
    part.rows = (part.end - part.sequence - 1) * model->context + model->pass.to - model->pass.from;
    return part;
}

/* For each head: probabilities = softmax(queries keys^T / sqrt(size)) for the tokens so far, mixed = probabilities values.
 */
static void attention_forward(const struct gpt *model, int layer, const struct part *part)
{
    const struct gpt_block *block = &model->blocks[layer];
    struct mask mask = mask_of(model, layer, MASK_ATTENTION);
    int context = model->context, width = model->width, size = width / model->heads, triple = 3 * width;
    int from = model->pass.from, to = model->pass.to;
    size_t square = (size_t)context * (size_t)context;
    float *dropped = model->scratch + (size_t)part->index * 2 * square;
    for (int head = part->sequence * model->heads; head < part->end * model->heads; head++) {
        size_t row = (size_t)(head / model->heads) * (size_t)context, column = (size_t)(head % model->heads * size);
        const float *keys = block->qkv + row * (size_t)triple + (size_t)width + column, *values = keys + width;
        const float *queries = keys - width + (size_t)from * (size_t)triple;
        size_t at = (size_t)head * square + (size_t)from * (size_t)context;
        float *p = block->attention + at;
        multiply(false, true, to - from, to, size, 1 / sqrtf((float)size), queries, triple, keys, triple, 0, p, context);
        for (int i = from; i < to; i++) {
            float *probabilities = p + (size_t)(i - from) * (size_t)context;
            softmax(probabilities, i + 1);
            memset(probabilities + i + 1, 0, (size_t)(to - i - 1) * sizeof *p);
        }
        if (mask.limit) {
            drop(dropped, p, square, at, mask);
            p = dropped;
        }
        multiply(false, false, to - from, size, to, 1, p, context, values, triple, 0,
                 block->mixed + (row + (size_t)from) * (size_t)width + column, width);
    }
}

static void attention_backward(const struct gpt *model, int layer, const struct part *part)
{
    const struct gpt_block *block = &model->blocks[layer];
    struct mask mask = mask_of(model, layer, MASK_ATTENTION);
    int context = model->context, width = model->width, size = width / model->heads, triple = 3 * width;
    float scale = 1 / sqrtf((float)size);
    size_t square = (size_t)context * (size_t)context;
    float *d = model->scratch + (size_t)part->index * 2 * square, *dropped = d + square;
    for (int head = part->sequence * model->heads; head < part->end * model->heads; head++) {
        size_t row = (size_t)(head / model->heads) * (size_t)context, column = (size_t)(head % model->heads * size);
        size_t at = row * (size_t)triple + column;
        const float *queries = block->qkv + at, *keys = queries + width, *values = keys + width;
        float *d_queries = model->d_qkv + at, *d_keys = d_queries + width, *d_values = d_keys + width;
        const float *d_mixed = model->d_mixed + row * (size_t)width + column;
        const float *p = block->attention + (size_t)head * square, *used = p;
        multiply(false, true, context, context, size, 1, d_mixed, width, values, triple, 0, d, context);
        if (mask.limit) {
            drop(dropped, d, square, (size_t)head * square, mask);
            memcpy(d, dropped, square * sizeof *d);
            drop(dropped, p, square, (size_t)head * square, mask);
            used = dropped;
        }
        multiply(true, false, context, size, context, 1, used, context, d_mixed, width, 0, d_values, triple);
        for (int i = 0; i < context; i++) {
            float *d_row = d + (size_t)i * (size_t)context;
            softmax_backward(d_row, p + (size_t)i * (size_t)context, i + 1);
            memset(d_row + i + 1, 0, (size_t)(context - i - 1) * sizeof *d);
        }
        multiply(false, false, context, size, context, scale, d, context, keys, triple, 0, d_queries, triple);
        multiply(true, false, context, size, context, scale, d, context, queries, triple, 0, d_keys, triple);
    }
}

/* Forward. */

static void forward_block(struct gpt *model, int layer, const struct part *part)
{
    const struct gpt_block *block = &model->blocks[layer];
    const float *weights[BLOCK_TENSORS];
    int width = model->width, rows = part->rows;
    size_t at = part->row * (size_t)width, n = (size_t)rows * (size_t)width;
    float *out = model->blocks[layer + 1].in + at;
    for (int i = 0; i < BLOCK_TENSORS; i++)
        weights[i] = of_block(model, model->parameters, layer, i);
    layer_norm(block->norm_1 + at, block->moments_1 + part->row * 2, block->in + at, weights[LN_1], weights[LN_1_BIAS],
               rows, width);
    linear(block->qkv + at * 3, block->norm_1 + at, weights[QKV], weights[QKV_BIAS], rows, width, 3 * width);
    attention_forward(model, layer, part);
    linear(block->middle + at, block->mixed + at, weights[PROJECT], weights[PROJECT_BIAS], rows, width, width);
    add_residual(block->middle + at, block->in + at, n, at, mask_of(model, layer, MASK_PROJECTED));
    layer_norm(block->norm_2 + at, block->moments_2 + part->row * 2, block->middle + at, weights[LN_2], weights[LN_2_BIAS],
               rows, width);
    linear(block->hidden + at * 4, block->norm_2 + at, weights[EXPAND], weights[EXPAND_BIAS], rows, width, 4 * width);
    gelu(block->active + at * 4, block->hidden + at * 4, n * 4);
    linear(out, block->active + at * 4, weights[SHRINK], weights[SHRINK_BIAS], rows, 4 * width, width);
    add_residual(out, block->middle + at, n, at, mask_of(model, layer, MASK_MLP));
}

static void forward_part(void *user, int index, int count)
{
    struct gpt *model = user;
    const struct part part = part_of(model, index, count);
    const float *wte = model->parameters + model->tensors[WTE].at, *wpe = model->parameters + model->tensors[WPE].at;
    size_t width = (size_t)model->width, at = part.row * width;
    if (part.end == part.sequence)
        return;
    for (size_t row = part.row; row < part.row + (size_t)part.rows; row++) {
        const float *token = wte + (size_t)model->pass.tokens[row] * width;
        const float *position = wpe + row % (size_t)model->context * width;
        for (size_t i = 0; i < width; i++)
            model->norm_f[row * width + i] = token[i] + position[i];
    }
    drop(model->blocks[0].in + at, model->norm_f + at, (size_t)part.rows * width, at, mask_of(model, 0, MASK_EMBEDDING));
    for (int layer = 0; layer < model->layers; layer++)
        forward_block(model, layer, &part);
    layer_norm(model->norm_f + at, model->moments_f + part.row * 2, model->blocks[model->layers].in + at,
               of_last_norm(model, model->parameters, 0), of_last_norm(model, model->parameters, 1), part.rows, (int)width);
    multiply(false, true, part.rows, VOCABULARY, (int)width, 1, model->norm_f + at, (int)width, wte, (int)width, 0,
             model->logits + part.row * VOCABULARY, VOCABULARY);
}

void gpt_forward(struct gpt *model, const int32_t *tokens, int sequences, int from, int to, uint64_t dropout_key)
{
    model->pass.tokens = tokens;
    model->pass.sequences = sequences;
    model->pass.from = from;
    model->pass.to = to;
    model->pass.dropout_key = dropout_key;
    parallel(sequences < model->threads ? sequences : model->threads, forward_part, model);
}

static void loss_part(void *user, int index, int count)
{
    struct gpt *model = user;
    const struct part part = part_of(model, index, count);
    for (size_t row = part.row; part.end > part.sequence && row < part.row + (size_t)part.rows; row++) {
        float *logits = model->logits + row * VOCABULARY;
        int target = model->pass.targets[row];
        softmax(logits, VOCABULARY);
        model->losses[row] = -logf(logits[target]);
        logits[target] -= 1;
        for (int i = 0; i < VOCABULARY; i++)
            logits[i] *= model->pass.scale;
    }
}

double gpt_loss(struct gpt *model, const int32_t *targets, float scale)
{
    size_t rows = (size_t)model->pass.sequences * (size_t)model->context;
    double sum = 0;
    model->pass.targets = targets;
    model->pass.scale = scale / (float)rows;
    parallel(model->threads, loss_part, model);
    for (size_t row = 0; row < rows; row++)
        sum += (double)model->losses[row];
    return sum / (double)rows;
}

/* Backward. */

/* From the gradients of the logits to those of the last block's output. */
static void backward_head(void *user, int index, int count)
{
    struct gpt *model = user;
    const struct part part = part_of(model, index, count);
    int width = model->width;
    size_t at = part.row * (size_t)width;
    if (part.end == part.sequence)
        return;
    multiply(false, false, part.rows, width, VOCABULARY, 1, model->logits + part.row * VOCABULARY, VOCABULARY,
             model->parameters + model->tensors[WTE].at, width, 0, model->d_norm_1 + at, width);
    memset(model->d_out + at, 0, (size_t)part.rows * (size_t)width * sizeof(float));
    layer_norm_backward(model->d_out + at, model->d_norm_1 + at, model->blocks[model->layers].in + at,
                        model->moments_f + part.row * 2, of_last_norm(model, model->parameters, 0), part.rows, width);
}

static void head_gradients(void *user, int index, int count)
{
    struct gpt *model = user;
    int rows = model->pass.sequences * model->context, width = model->width, begin, end;
    float *wte = model->gradients + model->tensors[WTE].at;
    share(VOCABULARY, index, count, &begin, &end);
    multiply(true, false, end - begin, width, rows, 1, model->logits + begin, VOCABULARY, model->norm_f, width, 1,
             wte + (size_t)begin * (size_t)width, width);
    share(width, index, count, &begin, &end);
    layer_norm_gradients(of_last_norm(model, model->gradients, 0), of_last_norm(model, model->gradients, 1),
                         model->d_norm_1, model->blocks[model->layers].in, model->moments_f, rows, width, begin, end);
}

/* From the gradients of a block's output, d_out, to those of its input, in the same memory. */
static void backward_block(void *user, int index, int count)
{
    struct gpt *model = user;
    const struct part part = part_of(model, index, count);
    const struct gpt_block *block = &model->blocks[model->pass.layer];
    const float *weights[BLOCK_TENSORS];
    int width = model->width, rows = part.rows, layer = model->pass.layer;
    size_t at = part.row * (size_t)width, n = (size_t)rows * (size_t)width;
    if (part.end == part.sequence)
        return;
    for (int i = 0; i < BLOCK_TENSORS; i++)
        weights[i] = of_block(model, model->parameters, layer, i);
    drop(model->d_mlp + at, model->d_out + at, n, at, mask_of(model, layer, MASK_MLP));
    linear_backward(model->d_active + at * 4, model->d_mlp + at, weights[SHRINK], rows, 4 * width, width);
    gelu_backward(model->d_active + at * 4, block->hidden + at * 4, n * 4);
    linear_backward(model->d_norm_2 + at, model->d_active + at * 4, weights[EXPAND], rows, width, 4 * width);
    layer_norm_backward(model->d_out + at, model->d_norm_2 + at, block->middle + at, block->moments_2 + part.row * 2,
                        weights[LN_2], rows, width);
    drop(model->d_projected + at, model->d_out + at, n, at, mask_of(model, layer, MASK_PROJECTED));
    linear_backward(model->d_mixed + at, model->d_projected + at, weights[PROJECT], rows, width, width);
    attention_backward(model, layer, &part);
    linear_backward(model->d_norm_1 + at, model->d_qkv + at * 3, weights[QKV], rows, width, 3 * width);
    layer_norm_backward(model->d_out + at, model->d_norm_1 + at, block->in + at, block->moments_1 + part.row * 2,
                        weights[LN_1], rows, width);
}

/* Adds this thread's columns of in^T d_out to the gradients of a layer's weights, and the sums of d_out to the bias's. */
static void linear_gradients(const struct gpt *model, int tensor, const float *in, const float *d_out, int n_in, int n_out,
                             int index, int count)
{
    int rows = model->pass.sequences * model->context, begin, end;
    share(n_out, index, count, &begin, &end);
    multiply(true, false, n_in, end - begin, rows, 1, in, n_in, d_out + begin, n_out, 1,
             of_block(model, model->gradients, model->pass.layer, tensor) + begin, n_out);
    add_columns(of_block(model, model->gradients, model->pass.layer, tensor + 1), d_out, rows, n_out, begin, end);
}

static void block_gradients(void *user, int index, int count)
{
    struct gpt *model = user;
    const struct gpt_block *block = &model->blocks[model->pass.layer];
    int rows = model->pass.sequences * model->context, width = model->width, layer = model->pass.layer, begin, end;
    linear_gradients(model, SHRINK, block->active, model->d_mlp, 4 * width, width, index, count);
    linear_gradients(model, EXPAND, block->norm_2, model->d_active, width, 4 * width, index, count);
    linear_gradients(model, PROJECT, block->mixed, model->d_projected, width, width, index, count);
    linear_gradients(model, QKV, block->norm_1, model->d_qkv, width, 3 * width, index, count);
    share(width, index, count, &begin, &end);
    layer_norm_gradients(of_block(model, model->gradients, layer, LN_2),
                         of_block(model, model->gradients, layer, LN_2_BIAS), model->d_norm_2, block->middle,
                         block->moments_2, rows, width, begin, end);
    layer_norm_gradients(of_block(model, model->gradients, layer, LN_1),
                         of_block(model, model->gradients, layer, LN_1_BIAS), model->d_norm_1, block->in, block->moments_1,
                         rows, width, begin, end);
}

static void embedding_gradients(void *user, int index, int count)
{
    struct gpt *model = user;
    struct mask mask = mask_of(model, 0, MASK_EMBEDDING);
    size_t rows = (size_t)model->pass.sequences * (size_t)model->context, width = (size_t)model->width;
    int begin, end;
    share(model->width, index, count, &begin, &end);
    for (size_t row = 0; row < rows; row++) {
        float *token = model->gradients + model->tensors[WTE].at + (size_t)model->pass.tokens[row] * width;
        float *position = model->gradients + model->tensors[WPE].at + row % (size_t)model->context * width;
        for (size_t i = (size_t)begin; i < (size_t)end; i++) {
            float d = masked(mask, (uint32_t)(row * width + i), model->d_out[row * width + i]);
            token[i] += d;
            position[i] += d;
        }
    }
}

void gpt_backward(struct gpt *model)
{
    parallel(model->threads, backward_head, model);
    parallel(model->threads, head_gradients, model);
    for (int layer = model->layers - 1; layer >= 0; layer--) {
        model->pass.layer = layer;
        parallel(model->threads, backward_block, model);
        parallel(model->threads, block_gradients, model);
    }
    parallel(model->threads, embedding_gradients, model);
}

/* Speed. */

double gpt_flops_per_token(const struct gpt *model)
{
    double in_products = (double)(model->n_parameters - (size_t)model->context * (size_t)model->width);
    return 6 * in_products + 12.0 * model->layers * model->width * model->context;
}

struct speed {
    struct gpt *model;
    double rates[MAX_THREADS]; /* operations per second of each thread */
};

/* Measures processor time, so that the result does not depend on other programs. */
static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void measure_part(void *user, int index, int count)
{
    struct speed *speed = user;
    const struct gpt *model = speed->model;
    const struct gpt_block *block = &model->blocks[0];
    int begin, end, width = model->width;
    share(model->batch * model->context, index, count, &begin, &end);
    double start = thread_seconds(), now = start;
    while (now - start < 0.03) {
        double before = now, flops = 0;
        do {
            multiply(false, false, end - begin, 4 * width, width, 1, block->norm_2 + (size_t)begin * (size_t)width, width,
                     of_block(model, model->parameters, 0, EXPAND), 4 * width, 0,
                     block->hidden + (size_t)begin * 4 * (size_t)width, 4 * width);
            flops += 8.0 * (end - begin) * width * width;
            now = thread_seconds();
        } while (now - before < 0.001); /* a product of a small model takes no measurable time */
        speed->rates[index] = fmax(speed->rates[index], flops / (now - before));
    }
}

double gpt_measure_peak(struct gpt *model)
{
    struct speed speed = {.model = model};
    double sum = 0;
    parallel(model->threads, measure_part, &speed);
    for (int i = 0; i < model->threads; i++)
        sum += speed.rates[i];
    return sum;
}
