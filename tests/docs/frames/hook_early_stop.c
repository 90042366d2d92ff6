/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

/* BLOCK */

/* The validation loss falls until step 1500. Returns the number of steps.
 *
 * patience  0: that of the block */
static int64_t run(int64_t last_step, long patience)
{
    float validation_loss = 0;
    int64_t step = 0, steps = 0;
    hs_graph *g = hs_graph_new(NULL);
    /* BLOCK */
    if (patience)
        h.patience = patience;
    hs_graph_global_step(g, NULL, &step);
    hs_graph_value(g, "validation_loss", HS_FLOAT, HS_SCALAR, &validation_loss);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(hook, hs_stop_at_step(.last_step = last_step))),
        NULL);
    for (; hs_step_begin(s); steps++) {
        validation_loss = step < 1500 ? 1 / (float)(step + 1) : 2;
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    CHECK(hs_outcome_exit_code(&outcome) == 0);
    hs_graph_free(g);
    return steps;
}

int main(void)
{
    CHECK(run(2750, 0) == 2750);
    CHECK(run(100000, 0) == 1250); /* the fifth time in a row, at step 4000 */
    CHECK(run(100000, 0) == 0);    /* already complete */
    CHECK(run(100000, 7) == 1000); /* checkpoints do not hold the option */

    /* A wrong name is reported before the first step. */
    hs_error err;
    early_stop h = {.patience = 5, .seen = {.best = INFINITY}};
    hs_graph *g = hs_graph_new(NULL);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g), HS_TRAINING_OPTIONS(.hooks = HS_HOOKS(HS_HOOK(.ops = &early_stop_ops, .self = &h))), &err);
    CHECK(!s && err.code == HS_NOT_FOUND && strstr(err.message, "hook 'early_stop'"));
    hs_graph_free(g);
}
