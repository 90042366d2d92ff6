/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

/* BLOCK */

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    /* BLOCK */
    while (hs_step_begin(s)) {
        int64_t step = hs_session_global_step(s, NULL);
        add_gradients(&m, next_batch(&data));
        update(&m, step < 500 ? 0.1f : -0.001f); /* becomes worse from step 500 on */
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    CHECK(hs_outcome_exit_code(&outcome) == 0 && strcmp(outcome.hook, "early_stopping") == 0);
    CHECK(data.position == outcome.last_saved_step * BATCH); /* the state is that of the best step */
    CHECK(outcome.last_saved_step <= 500 && outcome.last_saved_step % 100 == 0);
    CHECK(test_loss(&m) < 0.001);
    hs_graph_free(g);
}
