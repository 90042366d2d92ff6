/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of the block must end when the loss is small, with exit code 0. */
#include <assert.h>
#include <hooksess/hooksess.h>

static float loss = 1;

static void train_step(void)
{
    loss /= 2;
}

int main(void)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 1000))), NULL);
    /* BLOCK */
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    assert(outcome.step == 20 && outcome.last_saved_step == 20 && !outcome.interrupted);
    return hs_outcome_exit_code(&outcome);
}
