/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_DRIVERS_SHOP_H
#define HS_TESTS_DRIVERS_SHOP_H

#include "hooks/stage.h"

/* A model function and its input, on a stage. A training step adds 1 to the variable "w". The batches of an evaluation
 * are 1, 2, 3 ... Their mean is "loss", their sum is "sum". Predictions are "pair", two rows for each batch, and "w". */
typedef struct shop {
    stage *s;
    const hs_env *env; /* of the graphs and the estimator */
    hs_estimator *e;
    int64_t batches;     /* of the input until it ends. 0: endless */
    int64_t next;        /* the next batch */
    hs_graph *graphs[4]; /* built and not yet released */
    int open, released;
    hs_code model_fails; /* what the model function returns */
    int64_t max_to_keep, save_steps;
    const hs_hook *hooks;  /* of the model function */
    double loss, diverges; /* the loss is NaN when "w" is this. 0: never */
    bool no_loss;          /* the model function sets no loss */
    double rows[64];       /* the predictions */
    int64_t calls;
    int evaluations;
    int64_t steps[16]; /* of the reported evaluations */
    const char *const *predictions;
} shop;

int shop_setup(void **state);
/* Fails if a graph was not released. */
int shop_teardown(void **state);
#define with_shop(test) cmocka_unit_test_setup_teardown(test, shop_setup, shop_teardown)

/* The input of the shop, which adds its own ops. */
hs_input shop_input(shop *h);
hs_graph *shop_graph(shop *h, hs_mode mode);
/* Creates the estimator from the shop's fields. */
void shop_open(shop *h);
hs_outcome shop_train(shop *h, hs_estimator_train_options options);
/* Trains up to this step. */
void shop_train_to(shop *h, int64_t step);
hs_evaluation_result *shop_evaluate(shop *h, hs_estimator_evaluate_options options);
/* Trains, evaluates and predicts with a new estimator on `env`, in a directory that is empty before and after. */
hs_code shop_try(shop *h, const hs_env *env, hs_error *err);
/* Records an evaluation. */
hs_code shop_evaluated(void *user, const hs_evaluation_result *metrics, hs_error *err);
/* A hook that removes the checkpoint of a step when a session begins, and may continue training, as another process
 * would. */
typedef struct thief {
    const char *directory;
    int64_t step;
    shop *trains; /* trains up to step 12. NULL: does not train */
} thief;
hs_hook thief_hook(thief *t);

#endif
