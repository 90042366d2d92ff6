/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_TRAINER_H
#define TRAINER_TRAINER_H

#include "idx.h"
#include "input.h"
#include "mlp.h"
#include "optimizer.h"
#include "options.h"
#include "replicas.h"
#include "report.h"

#include <hooksess/hooksess.h>

/* Images are tested in batches of one size, so that the accuracy does not depend on that of the training's. */
enum { TEST_ROWS = 250 };

/* All that is trained, and what it is trained with. */
struct trainer {
    struct dataset train, test;
    struct input input;
    struct mlp model;
    struct optimizer optimizer;
    struct replicas replicas;
    float loss;
    struct tested tested; /* by the op test_accuracy */
    struct report report;
    const char *histograms; /* the op that merges those; the graph's */
};

/* Reads the data, and makes the rest, in a trainer that is all zero at first. trainer_free is to be called also when they
 * fail. */
hs_code trainer_load(struct trainer *trainer, const char *directory, hs_error *err);
hs_code trainer_init(struct trainer *trainer, const struct options *options, hs_error *err);
void trainer_free(struct trainer *trainer);
/* The model of the command line, for images of so many pixels. */
hs_code trainer_model(struct mlp *model, size_t pixels, const struct options *options, hs_error *err);

/* The trainer as a graph, which has
 *
 *   variables   w1, b1, w2, b2 ...; what the optimizer keeps for each, as in momentum/w1; global_step
 *   queue       input: batches that a thread makes ahead, with the position in the data
 *   ops         train, which makes a step; test_accuracy; summary/loss, summary/test_accuracy and summary/report;
 *               summary/weights/w1 ..., summary/gradients/w1 ..., and what merges these
 *   values      loss and gradients/w1 ..., of the last step's batch
 *
 * NULL without memory. */
hs_graph *trainer_graph(struct trainer *trainer, const hs_env *env);

/* Adds a model's parameters to a graph, under the names that they have in the trainer's. */
void trainer_add_parameters(hs_graph *graph, const struct mlp *model);

/* The gradients and the loss of so many rows, which may be none. */
void trainer_compute(struct trainer *trainer, const float *pixels, const unsigned char *labels, int rows);
/* A step with a batch of so many rows. */
void trainer_learn(struct trainer *trainer, const float *pixels, const unsigned char *labels, int rows, uint64_t epoch,
                   int64_t step);

/* The class of the largest score. */
int best_class(const float *scores);
/* What the model says of the test images. */
void trainer_test(struct trainer *trainer, struct tested *tested);

#endif
