/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_TESTER_H
#define TRAINER_TESTER_H

#include "trainer.h"

/* A model that checkpoints are read into, and a graph of its own: nothing of it lies in the memory of one that trains.
 *
 *   variables   w1, b1, w2, b2 ...; global_step; counts, which are the session's own, and zero when it begins
 *   ops         count, a batch of the test set; test_accuracy and loss, of what was counted
 *               classify, a batch of the chosen images: their numbers, classes and probabilities */
struct tester {
    struct mlp model;
    struct dataset test;
    hs_graph *graph;
    const int64_t *images; /* the chosen ones */
    size_t n_images;
    int64_t classes[TEST_ROWS];
    float probabilities[TEST_ROWS];
};

/* In a tester that is all zero at first. tester_free is to be called also when it fails. */
hs_code tester_init(struct tester *tester, const struct options *options, const hs_env *env, hs_error *err);
void tester_free(struct tester *tester);

/* For hs_estimator_spec and hs_evaluate_once_options. */
extern const char *const tester_metrics[], *const tester_predictions[];

#endif
