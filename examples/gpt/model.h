/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPT_MODEL_H
#define GPT_MODEL_H

#include <hooksess/status.h>

#include <stdint.h>

/* A transformer with the architecture of GPT-2, and with its names: embeddings of tokens and positions, `layers` blocks of
 * attention and a perceptron, a last layer norm. The embeddings of the tokens are also the weights of the logits. A token
 * is a byte. CBLAS computes the matrix products. Matrices are row-major. */

enum { VOCABULARY = 256 };
enum { CONTEXT, LAYERS, HEADS, WIDTH, N_SIZES }; /* indexes of `sizes` */
enum { MAX_LAYERS = 64, BLOCK_TENSORS = 12, MAX_TENSORS = 4 + MAX_LAYERS * BLOCK_TENSORS };

/* A tensor of parameters. */
struct gpt_tensor {
    char name[40];
    int rows, columns; /* rows 0: a vector */
    size_t at;         /* index of its first number in parameters and gradients */
};

/* What a block computes for each row, which is a token of a batch. The rows of a sequence follow each other. */
struct gpt_block {
    float *in;                    /* [rows][width]; the output of the block is the input of the next one */
    float *norm_1, *norm_2;       /* [rows][width], normalized in and middle */
    float *moments_1, *moments_2; /* [rows][2], mean and 1 / standard deviation */
    float *qkv;                   /* [rows][3 * width], queries, keys and values */
    float *attention;             /* [sequences][heads][context][context], probabilities */
    float *mixed;                 /* [rows][width], the attention's output */
    float *middle;                /* [rows][width], between attention and perceptron */
    float *hidden, *active;       /* [rows][4 * width], before and after GELU */
};

struct gpt {
    int context, layers, heads, width;
    int batch, threads; /* batch: most sequences */
    float dropout;      /* probability */
    int first;          /* number of the first sequence in a batch that several processes share: dropout depends on it */
    int n_tensors;
    struct gpt_tensor tensors[MAX_TENSORS]; /* wte, wpe, those of the blocks, ln_f */
    size_t n_parameters;
    float *parameters, *gradients;

    struct gpt_block blocks[MAX_LAYERS + 1]; /* the last one has only `in` */
    float *norm_f, *moments_f;
    float *logits; /* [rows][VOCABULARY]; gpt_loss replaces them by their gradients */
    float *losses; /* [rows] */
    /* Gradients of the values with these names, of one block at a time */
    float *d_out, *d_mlp, *d_active, *d_norm_2, *d_projected, *d_mixed, *d_qkv, *d_norm_1;
    float *scratch; /* [threads][2][context][context] */
    float *memory;  /* holds all arrays */

    /* The last call of gpt_forward. */
    struct {
        const int32_t *tokens, *targets;
        int sequences, from, to, layer;
        uint64_t dropout_key;
        float scale;
    } pass;
};

/* Allocates all memory and sets the first parameters. `sizes` has N_SIZES numbers; the width is a multiple of the heads. */
hs_code gpt_init(struct gpt *model, const int32_t *sizes, int batch, int threads, uint64_t seed, hs_error *err);
void gpt_free(struct gpt *model);

/* Computes the logits of the positions from `from` to `to` - 1 of each sequence. Those before `from` must be computed
 * already, and with `from` above 0 there is only one sequence.
 *
 * tokens       [sequences][context], borrowed until gpt_backward
 * dropout_key  the key of the random masks. 0: no dropout */
void gpt_forward(struct gpt *model, const int32_t *tokens, int sequences, int from, int to, uint64_t dropout_key);
/* Returns the mean cross-entropy of the logits of whole sequences, and computes their gradients, times `scale`. */
double gpt_loss(struct gpt *model, const int32_t *targets, float scale);
/* Adds the gradients of the parameters to model->gradients. */
void gpt_backward(struct gpt *model);

/* Returns the operations of training one token: 6 per parameter in matrix products, and those of attention. */
double gpt_flops_per_token(const struct gpt *model);
/* Measures the operations per second of a block's largest matrix product, on all threads. Overwrites values of the last
 * pass. */
double gpt_measure_peak(struct gpt *model);

#endif
