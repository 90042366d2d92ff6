/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

static double evaluated; /* slope that the last evaluation used */

static hs_code evaluate(void *user, hs_op *op, hs_error *err)
{
    (void)err;
    evaluated = ((model *)user)->weights[0];
    *(double *)hs_op_output(op, 0)->data = test_loss(user);
    return HS_OK;
}

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    hs_graph_global_step(g, NULL, NULL);
    hs_graph_op(g, .name = "test_loss", .run = evaluate, .user = &m, .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}));
    /* BLOCK */
    float slope = m.weights[0];
    finish(s, g, 1000);
    CHECK(m.weights[0] == slope);

    /* The file holds the averages, which the last evaluation used. */
    model averaged = {0};
    g = new_graph(&averaged, &data);
    s = hs_session_open(hs_graph_backend(g), NULL, NULL);
    CHECK(hs_safetensors_load(hs_session_raw(s), "averaged.safetensors", NULL, NULL) == HS_OK);
    CHECK(averaged.weights[0] != slope && averaged.weights[0] == (float)evaluated);
    CHECK(test_loss(&averaged) < 0.001);
    hs_outcome outcome = hs_session_close(s, NULL);
    CHECK(outcome.reason == HS_REASON_CLOSED);
    hs_graph_free(g);
}
