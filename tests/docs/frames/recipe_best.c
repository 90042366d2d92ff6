/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

/* The model is best at step 300. */
static hs_code evaluate(void *user, hs_op *op, hs_error *err)
{
    int64_t step = hs_op_global_step(op, err);
    (void)user;
    *(double *)hs_op_output(op, 0)->data = fabs((double)step - 300);
    return step < 0 ? HS_INTERNAL : HS_OK;
}

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    hs_graph_global_step(g, NULL, NULL);
    hs_graph_op(g, .name = "test_loss", .run = evaluate, .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}));
    /* BLOCK */
    CHECK(hs_outcome_exit_code(&outcome) == 0);
    CHECK(exists("run/model.ckpt-300.index") && exists("run/model.ckpt-900.index") && exists("run/model.ckpt-1000.index"));
    CHECK(!exists("run/model.ckpt-200.index") && !exists("run/model.ckpt-800.index"));
    hs_graph_free(g);
}
