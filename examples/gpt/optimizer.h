/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPT_OPTIMIZER_H
#define GPT_OPTIMIZER_H

#include "model.h"

/* AdamW (Loshchilov and Hutter). Matrices decay, vectors do not. */
struct adamw {
    float *mean, *square; /* moments of the gradients, in the layout of the parameters */
};

hs_code adamw_init(struct adamw *adamw, const struct gpt *model, hs_error *err);
void adamw_free(struct adamw *adamw);

/* Clips the gradients to a norm of at most 1, updates the parameters, and clears the gradients. Returns the norm before the
 * clipping. `step` counts from 1. */
float adamw_update(struct adamw *adamw, struct gpt *model, double learning_rate, int64_t step);

#endif
