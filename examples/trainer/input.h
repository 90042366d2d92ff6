/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_INPUT_H
#define TRAINER_INPUT_H

#include "idx.h"
#include "rng.h"

#include <hooksess/state.h>

/* The training data in batches. Each epoch has each image once, in a new random order; its last batch may be smaller. The
 * position is saved with the model, so that a resumed run reads the same batches. */
struct input {
    const struct dataset *data;
    size_t batch_size;
    uint32_t *order;      /* image numbers of this epoch, [data->n] */
    size_t position;      /* the next image in `order` */
    uint64_t epoch;       /* from 1; 0 before the first batch */
    struct rng rng;       /* shuffles */
    struct rng epoch_rng; /* `rng` before this epoch was shuffled: enough to make `order` again */
    char identity[96];    /* identifies the data by their contents; a resume with other data fails */
};

/* Borrows `data`, which must outlive the input. */
hs_code input_init(struct input *input, const struct dataset *data, size_t batch_size, uint64_t seed, hs_error *err);
void input_free(struct input *input);

/* Copies the next batch: pixels from 0 to 1, and labels. Returns its number of images. */
size_t input_next(struct input *input, float *pixels, unsigned char *labels);

/* The position, to be saved in checkpoints. */
hs_state_provider input_state(struct input *input);

/* Converts bytes to floats from 0 to 1. */
void pixels_to_floats(float *to, const unsigned char *from, size_t n);

#endif
