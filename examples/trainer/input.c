/* SPDX-License-Identifier: Apache-2.0 */
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
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the order of %zu images", data->n);
    rng_seed(&input->rng, seed, INPUT_STREAM);
    input->begun = input->rng;
    snprintf(input->identity, sizeof input->identity, "%zu images of %zu pixels, CRC-32 %08lx and %08lx", data->n,
             data->pixels, data->checksums[0], data->checksums[1]);
    return HS_OK;
}

void input_free(struct input *input)
{
    free(input->order);
    input->order = NULL;
}

/* Begins with the same order each time, so that the generator alone says what comes out. */
static void shuffle(struct input *input)
{
    uint32_t *order = input->order, n = (uint32_t)input->data->n;
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t left = n; left > 1; left--) {
        uint32_t at = rng_below(&input->rng, left), taken = order[at];
        order[at] = order[left - 1];
        order[left - 1] = taken;
    }
}

static void begin_epoch(struct input *input)
{
    input->begun = input->rng;
    shuffle(input);
    input->epoch++;
    input->position = 0;
}

size_t input_next(struct input *input, float *pixels, unsigned char *labels)
{
    const struct dataset *data = input->data;
    if (input->position == data->n)
        begin_epoch(input);
    size_t left = data->n - input->position, n = input->batch_size < left ? input->batch_size : left;
    const uint32_t *order = input->order + input->position;
    for (size_t i = 0; i < n; i++) {
        size_t image = order[i];
        if (i + PREFETCH_AHEAD < n) /* they lie anywhere in memory */
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

/* Version 0 had the number of images first; it is a part of the identity now. */
enum { STATE_VERSION = 1 };

static hs_code save(void *self, hs_state_writer *out, hs_error *err)
{
    const struct input *input = self;
    uint64_t numbers[] = {input->epoch, input->position};
    hs_code code = hs_state_writer_write(out, numbers, sizeof numbers, err);
    return code ? code : hs_state_writer_write(out, &input->begun, sizeof input->begun, err);
}

static hs_code load(void *self, hs_state_reader *in, hs_error *err)
{
    struct input *input = self;
    struct rng begun;
    uint64_t n = input->data->n, numbers[2];
    hs_code code = hs_state_reader_version(in) == 0 ? hs_state_reader_read(in, &n, sizeof n, err) : HS_OK;
    if (code || (code = hs_state_reader_read(in, numbers, sizeof numbers, err)) ||
        (code = hs_state_reader_read(in, &begun, sizeof begun, err)))
        return code;
    if (n != input->data->n || numbers[1] > n)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "it was saved at image %llu of %llu; here are %zu",
                            (unsigned long long)numbers[1], (unsigned long long)n, input->data->n);
    input->rng = input->begun = begun;
    input->epoch = numbers[0];
    input->position = (size_t)numbers[1];
    if (input->epoch)
        shuffle(input);
    return HS_OK;
}

hs_state_provider input_state(struct input *input)
{
    return (hs_state_provider)HS_INIT(hs_state_provider, .name = "input", .save = save, .load = load, .self = input,
                                      .version = STATE_VERSION, .identity = input->identity);
}
