/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

/* BLOCK */

/* Writes the weights of another program. */
static void pretrain(void)
{
    float linear[2] = {5, 7};
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "model.linear", HS_FLOAT, HS_SHAPE(2), linear);
    hs_session *s = hs_session_open(hs_graph_backend(g), NULL, NULL);
    CHECK(hs_safetensors_save(hs_session_raw(s), "pretrained.safetensors", NULL, NULL) == HS_OK);
    hs_outcome outcome = hs_session_close(s, NULL);
    CHECK(outcome.reason == HS_REASON_CLOSED);
    hs_graph_free(g);
}

int main(void)
{
    pretrain();
    for (int start = 0; start < 2; start++) {
        model m = {0};
        reader data = {0};
        float head[1] = {3};
        hs_graph *g = new_graph(&m, &data);
        hs_graph_variable(g, "head", HS_FLOAT, HS_SHAPE(1), head);
        /* BLOCK */
        hs_session *s = hs_training_session_open(hs_graph_backend(g),
                                                 HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .scaffold = scaffold,
                                                                     .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 1000))),
                                                 NULL);
        CHECK(s);
        if (start == 0)
            CHECK(m.weights[0] == 5 && m.weights[1] == 7 && head[0] == 3);
        else
            CHECK(test_loss(&m) < 0.001); /* the second start resumes */
        train(s, &m, &data);
        finish(s, g, 1000);
        hs_scaffold_free(scaffold);
    }
}
