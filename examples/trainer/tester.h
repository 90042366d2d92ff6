/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_TESTER_H
#define TRAINER_TESTER_H

#include "trainer.h"

/* A second model with its own graph, into which checkpoints are restored. It shares no memory with the trained model.
 *
 *   variables   as in trainer_graph; global_step; counts, a local variable: not saved, 0 when a session begins
 *   ops         count, which tests the next batch; means over the counted images, with the names of the curves
 *               classify, the next batch of chosen images: their numbers, classes and probabilities */
struct tester {
    struct mlp model;
    struct dataset test;
    hs_graph *graph;
    const int64_t *images; /* numbers of the chosen images */
    size_t n_images;
    int64_t classes[TEST_ROWS];
    float probabilities[TEST_ROWS];
};

/* Pass a tester that is all zero. Call tester_free also if it fails. */
hs_code tester_init(struct tester *tester, const struct options *options, const hs_env *env, hs_error *err);
void tester_free(struct tester *tester);

/* Names for hs_estimator_spec and hs_evaluate_once_options. */
extern const char *const tester_metrics[], *const tester_predictions[];

#endif
