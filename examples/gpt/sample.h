/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPT_SAMPLE_H
#define GPT_SAMPLE_H

#include "model.h"
#include "rng.h"

#include <hooksess/checkpoint.h>
#include <hooksess/hook.h>
#include <hooksess/summary.h>

/* Sets the parameters to those of a checkpoint or of a safetensors file. */
hs_code sample_load(struct gpt *model, hs_checkpoint_reader *reader, hs_error *err);
/* Continues a text of `length` bytes, at least 1, until it has `total` bytes. */
hs_code sample_text(struct gpt *model, unsigned char *text, size_t length, size_t total, struct rng *rng, hs_error *err);

/* A hook that writes a sample to the log and to TensorBoard's tab Text. It belongs to one session, and is borrowed. */
struct sampler {
    struct gpt *model;
    uint64_t seed;
    hs_summary_writer *writer;
};
hs_hook sampler_hook(struct sampler *sampler, int64_t every_n_steps);

#endif
