/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BENCH_GPT_NAIVE_H
#define HS_TESTS_BENCH_GPT_NAIVE_H

#include "model.h"

/* The model of examples/gpt as plain loops with OpenMP, without a matrix library: what a first version in C looks like. */
struct naive;

/* With a copy of the model's parameters. NULL if memory runs out. */
struct naive *naive_new(const struct gpt *model);
void naive_free(struct naive *naive);

/* Makes one step of AdamW, without dropout and clipping, with model->batch sequences. Returns the loss before it. `step`
 * counts from 1. */
double naive_step(struct naive *naive, const int32_t *tokens, const int32_t *targets, float rate, int step);
/* Returns the gradients of the last step, in the layout of the parameters. */
const float *naive_gradients(const struct naive *naive);

#endif
