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

/* TensorBoard sorts charts by tag and unfolds the first groups. */
#define LOSS_TAG     "curves/loss"
#define ACCURACY_TAG "curves/test_accuracy"

/* The batch size of tests. It is constant, so that the accuracy does not depend on --batch-size. */
enum { TEST_ROWS = 250 };

/* The data, the model, and its optimizer. */
struct trainer {
    struct dataset train, test;
    struct input input;
    struct mlp model;
    struct optimizer optimizer;
    struct replicas replicas;
    float loss;
    struct test_result result; /* written by the op test_accuracy */
    struct report report;
    const char *histograms; /* name of the op that merges the histograms; owned by the graph */
};

/* trainer_load reads the data into a trainer that is all zero; then trainer_init makes the model. Call trainer_free also if
 * they fail. */
hs_code trainer_load(struct trainer *trainer, const char *directory, hs_error *err);
hs_code trainer_init(struct trainer *trainer, const struct options *options, hs_error *err);
void trainer_free(struct trainer *trainer);
/* Makes the model that `options` describe, for images of `pixels` pixels. */
hs_code trainer_model(struct mlp *model, size_t pixels, const struct options *options, hs_error *err);

/* Makes the graph of a trainer:
 *
 *   variables   model/w1, model/b1, model/w2 ...; the optimizer's slots of each, for example momentum/w1; global_step
 *   queue       input: batches that a thread prepares ahead, with the position in the data
 *   ops         train, which makes one step; test_accuracy; summary/mistakes, and summary/TAG of the curves;
 *               summary/weights/w1 ..., summary/gradients/w1 ..., and an op that merges these
 *   values      loss and gradients/w1 ..., of the batch of the last step
 *
 * Returns NULL if memory runs out. Free it before the trainer. */
hs_graph *trainer_graph(struct trainer *trainer, const hs_env *env);

/* Adds the parameters of a model to a graph, with the same names as in trainer_graph. */
void trainer_add_parameters(hs_graph *graph, const struct mlp *model);

/* Computes loss and gradients of the first `rows` rows. 0 rows: both are 0. */
void trainer_compute(struct trainer *trainer, const float *pixels, const unsigned char *labels, int rows);
/* Makes one step with a batch: trainer_compute, and an update of the parameters. `epoch` and `step` count from 1. */
void trainer_learn(struct trainer *trainer, const float *pixels, const unsigned char *labels, int rows, uint64_t epoch,
                   int64_t step);

/* Returns the class with the highest score. */
int best_class(const float *scores);
/* Classifies all test images. */
void trainer_test(struct trainer *trainer, struct test_result *result);

#endif
