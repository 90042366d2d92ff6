/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose size size.sh measures: a session with a checkpoint saver and a NaN hook. */
#include <hooksess/hooksess.h>

int main(void)
{
    float weights[100] = {0}, loss = 0;
    int64_t step = 0;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(100), weights);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    hs_graph_global_step(g, NULL, &step);
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = "run", .every_n_steps = 100);
    hs_session *s = hs_session_open(
        hs_graph_backend(g),
        HS_SESSION_OPTIONS(.checkpoint_dir = "run",
                           .hooks = HS_HOOKS(saver, hs_stop_at_step(.last_step = 1000), hs_nan_tensor(.tensor = "loss"))),
        NULL);
    while (hs_step_begin(s)) {
        weights[step % 100] += 1;
        loss = 1 / weights[step % 100];
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}
