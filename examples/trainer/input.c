/* SPDX-License-Identifier: Apache-2.0 */
/* Shuffles the images of each epoch, and copies them to batches; save and load make the position resumable. */
#include "input.h"

#include "vector.h"

#include <stdio.h>
#include <stdlib.h>

enum { INPUT_STREAM = 1, PREFETCH_AHEAD = 2 };

hs_code input_init(struct input *input, const struct dataset *data, size_t batch_size, uint64_t seed, hs_error *err)
{
    *input = (struct input){.data = data, .batch_size = batch_size, .position = data->n};
    input->order = malloc(data->n * sizeof *input->order);
    if (!input->order)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for the order of %zu images", data->n);
    rng_seed(&input->rng, seed, INPUT_STREAM);
    input->epoch_rng = input->rng;
    snprintf(input->identity, sizeof input->identity, "%zu images of %zu pixels, CRC-32 %08lx and %08lx", data->n,
             data->pixels, data->checksums[0], data->checksums[1]);
    return HS_OK;
}

void input_free(struct input *input)
{
    free(input->order);
    input->order = NULL;
}

/* Starts from the sorted order, so that the new order depends on the generator alone. */
static void shuffle(struct input *input)
{
    uint32_t *order = input->order, n = (uint32_t)input->data->n;
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t last = n; last-- > 1;) { /* Fisher and Yates */
        uint32_t other = rng_below(&input->rng, last + 1), image = order[other];
        order[other] = order[last];
        order[last] = image;
    }
}

size_t input_next(struct input *input, float *pixels, unsigned char *labels)
{
    const struct dataset *data = input->data;
    if (input->position == data->n) { /* begin an epoch */
        input->epoch_rng = input->rng;
        shuffle(input);
        input->epoch++;
        input->position = 0;
    }
    size_t left = data->n - input->position, n = input->batch_size < left ? input->batch_size : left;
    const uint32_t *order = input->order + input->position;
    for (size_t i = 0; i < n; i++) {
        size_t image = order[i];
        if (i + PREFETCH_AHEAD < n) /* their order in memory is random */
            prefetch(data->images + order[i + PREFETCH_AHEAD] * data->pixels, data->pixels);
        pixels_to_floats(pixels + i * data->pixels, data->images + image * data->pixels, data->pixels);
        labels[i] = data->labels[image];
    }
    input->position += n;
    return n;
}

VECTORIZED void pixels_to_floats(float *restrict to, const unsigned char *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)from[i] * (1 / 255.0f);
}

static hs_code save(void *self, hs_state_writer *out, hs_error *err)
{
    const struct input *input = self;
    uint64_t numbers[] = {input->epoch, input->position};
    hs_code code = hs_state_writer_write(out, numbers, sizeof numbers, err);
    return code ? code : hs_state_writer_write(out, &input->epoch_rng, sizeof input->epoch_rng, err);
}

static hs_code load(void *self, hs_state_reader *in, hs_error *err)
{
    struct input *input = self;
    struct rng epoch_rng;
    uint64_t numbers[2];
    hs_code code = hs_state_reader_read(in, numbers, sizeof numbers, err);
    if (code || (code = hs_state_reader_read(in, &epoch_rng, sizeof epoch_rng, err)))
        return code;
    if (numbers[1] > input->data->n)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "saved at image %llu, but the data has only %zu",
                            (unsigned long long)numbers[1], input->data->n);
    input->rng = input->epoch_rng = epoch_rng;
    input->epoch = numbers[0];
    input->position = (size_t)numbers[1];
    if (input->epoch)
        shuffle(input);
    return HS_OK;
}

hs_state_provider input_state(struct input *input)
{
    return (hs_state_provider)HS_INIT(hs_state_provider, .name = "input", .save = save, .load = load, .self = input,
                                      .identity = input->identity);
}
