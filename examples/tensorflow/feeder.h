/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_GRAPH_FEEDER_H
#define TRAIN_GRAPH_FEEDER_H

#include "input.h"

#include <hooksess/hook.h>

/* A hook that feeds each training run with the next batch of a labeled set of pictures. Checkpoints contain its position in
 * the data: a resumed run feeds the same batches as an uninterrupted run. */

enum { MAX_FEEDS = 8 };

enum feed_kind {
    FEED_IMAGES, /* HS_FLOAT, [pictures, pixels], from 0 to 1 */
    FEED_LABELS  /* HS_INT64, [pictures] */
};

/* A tensor of the graph, and what to feed it with. */
struct feed_spec {
    const char *tensor;
    enum feed_kind kind;
};

struct feeder {
    struct dataset data;
    struct input input;
    const struct feed_spec *specs;
    size_t n_specs;
    float *pixels;
    unsigned char *classes;
    int64_t *labels;
    hs_feed feeds[MAX_FEEDS + 1];
    hs_run_args wanted;
};

struct feeder_options {
    const char *data; /* directory of the data set */
    size_t batch_size;
    uint64_t seed;
    const struct feed_spec *specs; /* borrowed: must outlive the feeder */
    size_t n_specs;
};

/* Reads the data. The caller zeroes `feeder` first, and calls feeder_free afterwards, also on failure. */
hs_code feeder_init(struct feeder *feeder, const struct feeder_options *options, hs_error *err);
void feeder_free(struct feeder *feeder);
/* `feeder` must outlive the session. */
hs_hook feeder_hook(struct feeder *feeder);

#endif
