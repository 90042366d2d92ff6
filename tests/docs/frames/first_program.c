/* SPDX-License-Identifier: Apache-2.0 */
/* The model approaches 2 and 3. The blocks must train it. */
#include <hooksess/hooksess.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct model {
    float *weights;
    float loss;
};

static void model_step(struct model *m)
{
    m->loss = fabsf(m->weights[0] - 2) + fabsf(m->weights[1] - 3);
    m->weights[0] += 0.1f * (2 - m->weights[0]);
    m->weights[1] += 0.1f * (3 - m->weights[1]);
}

/* BLOCK */

int main(void)
{
    float weights[2] = {0};
    struct model m = {weights, 0};
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(2), m.weights);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &m.loss);
    /* BLOCK */
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 1000))), NULL);
    /* BLOCK */
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    if (outcome.last_saved_step != 1000 || m.loss > 1e-3f)
        abort();
    return hs_outcome_exit_code(&outcome);
}
