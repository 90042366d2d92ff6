/* SPDX-License-Identifier: Apache-2.0 */
#include "feeder.h"

#include <stdlib.h>

hs_code feeder_init(struct feeder *feeder, const struct feeder_options *options, hs_error *err)
{
    size_t batch = options->batch_size;
    feeder->specs = options->specs;
    feeder->n_specs = options->n_specs;
    hs_code code = dataset_load(&feeder->data, options->data, "train", err);
    if (code || (code = input_init(&feeder->input, &feeder->data, batch, options->seed, err)))
        return code;
    feeder->pixels = calloc(batch * feeder->data.pixels, sizeof *feeder->pixels);
    feeder->classes = calloc(batch, sizeof *feeder->classes);
    feeder->labels = calloc(batch, sizeof *feeder->labels);
    if (!feeder->pixels || !feeder->classes || !feeder->labels)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for batches of %zu images", batch);
    return HS_OK;
}

void feeder_free(struct feeder *feeder)
{
    free(feeder->pixels);
    free(feeder->classes);
    free(feeder->labels);
    input_free(&feeder->input);
    dataset_free(&feeder->data);
}

/* Called for each session that is created, also after a recovery: each one needs the state added. */
static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    struct feeder *feeder = self;
    (void)coordinator;
    const hs_state_provider state = input_state(&feeder->input);
    return hs_raw_session_add_state(session, &state, err);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    struct feeder *feeder = self;
    (void)run, (void)err;
    int64_t n = (int64_t)input_next(&feeder->input, feeder->pixels, feeder->classes);
    for (int64_t i = 0; i < n; i++)
        feeder->labels[i] = feeder->classes[i];
    const hs_tensor images = hs_tensor_of(HS_FLOAT, HS_SHAPE(n, (int64_t)feeder->data.pixels), feeder->pixels);
    const hs_tensor labels = hs_tensor_of(HS_INT64, HS_SHAPE(n), feeder->labels);
    for (size_t i = 0; i < feeder->n_specs; i++)
        feeder->feeds[i] = (hs_feed){feeder->specs[i].tensor, feeder->specs[i].kind == FEED_IMAGES ? images : labels};
    feeder->feeds[feeder->n_specs].name = NULL;
    feeder->wanted = (hs_run_args)HS_INIT(hs_run_args, .feeds = feeder->feeds);
    *args = &feeder->wanted;
    return HS_OK;
}

hs_hook feeder_hook(struct feeder *feeder)
{
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "feeder", .after_create_session = after_create_session, .before_run = before_run);
    return (hs_hook){.ops = &ops, .self = feeder};
}
