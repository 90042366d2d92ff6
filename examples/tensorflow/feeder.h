/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_GRAPH_FEEDER_H
#define TRAIN_GRAPH_FEEDER_H

#include "input.h"

#include <hooksess/hook.h>

/* A hook that feeds each training run with the next batch of a labeled set of pictures, and whose position in the data
 * rides in the checkpoint: whoever goes on from there sees the batches that a run without a pause would have seen. */

enum { MOST_FEEDS = 8 };

enum feed_kind {
    FEED_IMAGES, /* HS_FLOAT, [pictures, pixels], from 0 to 1 */
    FEED_LABELS  /* HS_INT64, [pictures] */
};

/* What a tensor of the graph is to be fed with. */
struct feed_wish {
    const char *tensor;
    enum feed_kind kind;
};

struct feeder {
    struct dataset data;
    struct input input;
    const struct feed_wish *wishes;
    size_t n_wishes;
    float *pixels;
    unsigned char *classes;
    int64_t *labels;
    hs_feed feeds[MOST_FEEDS + 1];
    hs_run_args wanted;
};

struct feeder_options {
    const char *data; /* the folder of the data set */
    size_t batch_size;
    uint64_t seed;
    const struct feed_wish *wishes; /* the caller's, to outlive it */
    size_t n_wishes;
};

/* Reads the data. The feeder is all zero at first; feeder_free is to be called also if it fails. */
hs_code feeder_init(struct feeder *feeder, const struct feeder_options *options, hs_error *err);
void feeder_free(struct feeder *feeder);
/* It outlives the session. */
hs_hook feeder_hook(struct feeder *feeder);

#endif
