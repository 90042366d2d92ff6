/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_HOOKS_POISONED_H
#define HS_TESTS_HOOKS_POISONED_H

#include "hooks/stage.h"

/* A stage with a model whose data have bad batches. Each element of the gradient of batch n is n; a bad batch has a NaN at
 * [1,2]. A step adds the first element, times the learning rate, to the weight. So the weight remains finite, only a guard
 * detects a bad batch, and the weight shows which batches were trained on. */
typedef struct poisoned {
    stage *s;
    hs_graph *graph;
    float weight, rate, gradient[6];
    int64_t label;    /* the batch's number */
    int64_t position; /* number of batches drawn; saved in checkpoints */
    int64_t length;   /* number of batches */
    int64_t bad[4];   /* the bad batches. 0: none */
    bool all_bad;     /* all batches from bad[0] on are bad */
} poisoned;

int poisoned_setup(void **state);
int poisoned_teardown(void **state);
#define with_poisoned(test) cmocka_unit_test_setup_teardown(test, poisoned_setup, poisoned_teardown)

/* Builds the graph: variables "weight", "rate" and "global_step", values "gradient" and "label", and ops
 *   draw     draws a batch
 *   compute  draws a batch and computes its gradient
 *   update   applies the gradient and advances the step
 *   train    compute and update */
void poisoned_build(poisoned *p, const hs_env *env);
/* Opens a session. If `resumes`, it restores the newest checkpoint of the stage's directory. */
hs_code poisoned_open(poisoned *p, bool resumes, const hs_hook *hooks, size_t n);
/* Runs `op` `times` times, or until a stop. */
hs_code poisoned_run(poisoned *p, const char *op, int times);
/* Saves to the stage's directory. */
#define poisoned_saver(p, ...) hs_checkpoint_saver(.checkpoint_dir = (p)->s->directory, __VA_ARGS__)

#endif
