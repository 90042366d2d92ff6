/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPT_DATA_H
#define GPT_DATA_H

#include "rng.h"

#include <hooksess/status.h>

/* A text of bytes. Each tenth of its hundred pieces is for validation, so that both parts have text of all kinds. */
struct text {
    unsigned char *train, *validation;
    size_t n_train, n_validation;
    char identity[80]; /* length and checksum */
};

/* Reads a text that is long enough for sequences of `context` bytes. Call text_free also if it fails. */
hs_code text_load(struct text *text, const char *path, int context, hs_error *err);
void text_free(struct text *text);

/* Write a sequence of `context` bytes to `inputs`, and the successor of each to `targets`: one from anywhere in the text
 * for training, or number `index` of `count` that are evenly spaced in the text for validation. */
void text_draw(const struct text *text, struct rng *rng, int context, int32_t *inputs, int32_t *targets);
void text_validation(const struct text *text, int index, int count, int context, int32_t *inputs, int32_t *targets);

#endif
