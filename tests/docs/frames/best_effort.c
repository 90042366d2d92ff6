/* SPDX-License-Identifier: Apache-2.0 */
/* The block's hook must fail without an end of the training. */
#include <assert.h>
#include <hooksess/hooksess.h>

int main(void)
{
    float loss = 0.5f;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    hs_session *s;
    {
        /* BLOCK */
        s = hs_training_session_open(hs_graph_backend(g),
                                     HS_TRAINING_OPTIONS(.hooks = HS_HOOKS(hs_stop_at_step(.last_step = 10), rows)), NULL);
    }
    while (hs_step_begin(s))
        hs_step_end(s);
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    assert(outcome.step == 10 && outcome.failing_hooks == 1);
    return hs_outcome_exit_code(&outcome);
}
