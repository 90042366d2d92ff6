/* SPDX-License-Identifier: Apache-2.0 */
/* The block must read the weights of the checkpoint, without a session. */
#include <assert.h>
#include <hooksess/hooksess.h>
#include <stdio.h>

static void save(void)
{
    float weights[2] = {0};
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(2), weights);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 2000))), NULL);
    while (hs_step_begin(s)) {
        weights[0] = 3;
        weights[1] = -1;
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    assert(hs_outcome_exit_code(&outcome) == 0);
}

int main(void)
{
    float weights[2] = {0};
    hs_error err;
    save();
    /* BLOCK */
    assert(weights[0] == 3 && weights[1] == -1);
}
