/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_INPUT_H
#define TRAINER_INPUT_H

#include "idx.h"
#include "rng.h"

#include <hooksess/state.h>

/* The training data in batches: each epoch in an order of its own, every image once, the last batch as large as what is
 * left. Where it stands is saved with the model, so that a run which is resumed sees the same batches. */
struct input {
    const struct dataset *data;
    size_t batch_size;
    uint32_t *order;   /* of this epoch, [data->n] */
    size_t position;   /* in it */
    uint64_t epoch;    /* how many were begun */
    struct rng rng;    /* makes the orders */
    struct rng begun;  /* the same as this epoch began: all that is needed to make `order` again */
    char identity[96]; /* what the position is one in: the data, wherever their files are */
};

/* The data stay the caller's, and must outlive it. */
hs_code input_init(struct input *input, const struct dataset *data, size_t batch_size, uint64_t seed, hs_error *err);
void input_free(struct input *input);

/* The next batch: its pixels, 0 ... 1, and its labels. How many images it has. */
size_t input_next(struct input *input, float *pixels, unsigned char *labels);

/* The position as a piece of state. */
hs_state_provider input_state(struct input *input);

/* Bytes to floats, 0 ... 1. */
void pixels_to_floats(float *to, const unsigned char *from, size_t n);

#endif
