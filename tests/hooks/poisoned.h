/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_HOOKS_POISONED_H
#define HS_TESTS_HOOKS_POISONED_H

#include "hooks/stage.h"

/* A stage with a model whose data have bad batches. Batch n, the n-th that is drawn, has the gradient n everywhere, or a
 * NaN at [1,2]; the weight grows by its first element times the learning rate, and so stays finite: nobody but a guard sees
 * that a batch is bad. Everything follows from the batches that were trained on,
 * so a look at the weight tells which they were. */
typedef struct poisoned {
    stage *s;
    hs_graph *graph;
    float weight, rate, gradient[6];
    int64_t label;    /* the batch's number */
    int64_t position; /* how many batches were drawn; rides in checkpoints */
    int64_t length;   /* of the data */
    int64_t bad[4];   /* batches; 0: none */
    bool all_bad;     /* of those from bad[0] on */
} poisoned;

int poisoned_setup(void **state);
int poisoned_teardown(void **state);
#define with_poisoned(test) cmocka_unit_test_setup_teardown(test, poisoned_setup, poisoned_teardown)

/* The graph: variables "weight", "rate" and "global_step", values "gradient" and "label", ops
 *   draw     draws a batch
 *   compute  draws one, and computes its gradient
 *   update   applies the gradient, and advances the step
 *   train    all of it */
void poisoned_build(poisoned *p, const hs_env *env);
/* Opens a session, which restores the newest checkpoint of the stage's directory if `resumes`. */
hs_code poisoned_open(poisoned *p, bool resumes, const hs_hook *hooks, size_t n);
/* Runs `op` so often, but no more after a stop. */
hs_code poisoned_run(poisoned *p, const char *op, int times);
/* Saves every so many steps to the stage's directory. */
#define poisoned_saver(p, ...) hs_checkpoint_saver(.checkpoint_dir = (p)->s->directory, __VA_ARGS__)

#endif
