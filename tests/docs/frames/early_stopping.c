/* SPDX-License-Identifier: Apache-2.0 */
/* The validation loss is lowest at step 20: the training must end at step 50 with the weights of step 20. */
#include <assert.h>
#include <hooksess/hooksess.h>
#include <math.h>

struct model {
    float weight;
};

static double validation_loss(void *model)
{
    return fabs((double)((struct model *)model)->weight - 20);
}

/* BLOCK */

int main(void)
{
    struct model model = {0};
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weight", HS_FLOAT, HS_SCALAR, &model.weight);
    /* BLOCK */
    int64_t n_steps = 0;
    while (hs_step_begin(s)) {
        model.weight += 1;
        n_steps++;
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    assert(n_steps == 50 && model.weight == 20);
    assert(hs_checkpoint_exists(NULL, "run/model.ckpt-20"));
    return hs_outcome_exit_code(&outcome);
}
