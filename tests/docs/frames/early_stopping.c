/* SPDX-License-Identifier: Apache-2.0 */
/* The validation loss is lowest at step 20. The training is interrupted at step 35. It must continue, end at step 50 with
 * the weights of step 20, and rename later checkpoints. */
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

/* Trains up to the given step at most, and returns the last step that was made. */
static int64_t train(int64_t until, struct model *trained)
{
    struct model model = {0};
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weight", HS_FLOAT, HS_SCALAR, &model.weight);
    /* BLOCK */
    int64_t made = 0;
    while (hs_step_begin(s)) {
        made = hs_session_global_step(s, NULL) + 1;
        model.weight += 1;
        if (made == until)
            hs_session_interrupt(s);
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_saver_free(saver);
    hs_graph_free(g);
    assert(outcome.reason == HS_REASON_STOPPED);
    *trained = model;
    return made;
}

int main(void)
{
    struct model model;
    assert(train(35, &model) == 35 && model.weight == 35);
    assert(train(HS_NEVER, &model) == 50 && model.weight == 20);
    assert(hs_checkpoint_exists(NULL, "run/model.ckpt-20"));
    assert(!hs_checkpoint_exists(NULL, "run/model.ckpt-50"));
    assert(hs_checkpoint_exists(NULL, "run/model.ckpt-50.abandoned"));
}
