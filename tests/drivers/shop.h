/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_DRIVERS_SHOP_H
#define HS_TESTS_DRIVERS_SHOP_H

#include "hooks/stage.h"

/* A model function and its input, on a stage. A training step adds 1 to the variable "w". The batches of an evaluation are
 * 1, 2, 3 ...: their mean is "loss", their sum "sum". Predictions are "pair", two rows for each batch, and "w". */
typedef struct shop {
    stage *s;
    const hs_env *env; /* of the graphs and the estimator */
    hs_estimator *e;
    int64_t batches;     /* of the input, before it ends; 0: without end */
    int64_t next;        /* the batch that is given next */
    hs_graph *graphs[4]; /* that were built, and not released yet */
    int open, released;
    hs_code model_fails; /* what the model function returns */
    int64_t max_to_keep, save_steps;
    const hs_hook *hooks;  /* of the model function */
    double loss, diverges; /* it is NaN when "w" is this; 0: never */
    bool no_loss;          /* the model function names none */
    double rows[64];       /* what was predicted */
    int64_t calls;
    int evaluations;
    int64_t steps[16]; /* of those that were told of */
    const char *const *predictions;
} shop;

int shop_setup(void **state);
/* Fails if a graph was not released. */
int shop_teardown(void **state);
#define with_shop(test) cmocka_unit_test_setup_teardown(test, shop_setup, shop_teardown)

/* The input of the shop: ops of its own. */
hs_input shop_input(shop *h);
hs_graph *shop_graph(shop *h, hs_mode mode);
/* Builds an estimator, once the shop is furnished. */
void shop_open(shop *h);
hs_outcome shop_train(shop *h, hs_estimator_train_options options);
/* Trains up to this step and no further. */
void shop_train_to(shop *h, int64_t step);
hs_evaluation_result *shop_evaluate(shop *h, hs_estimator_evaluate_options options);
/* A little of everything, by an estimator of its own on `env`, in a directory that is empty before and after. */
hs_code shop_try(shop *h, const hs_env *env, hs_error *err);
/* Notes each evaluation. */
hs_code shop_evaluated(void *user, const hs_evaluation_result *metrics, hs_error *err);
/* Removes the checkpoint of a step when a session begins; and may train on, as another process does. */
typedef struct thief {
    const char *directory;
    int64_t step;
    shop *trains; /* up to step 12; NULL: it does not */
} thief;
hs_hook thief_hook(thief *t);

#endif
