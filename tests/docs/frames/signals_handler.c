/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <signal.h>

/* BLOCK */

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    /* BLOCK */
    while (hs_step_begin(running)) {
        m.loss = add_gradients(&m, next_batch(&data));
        update(&m, 0.1f);
        if (hs_session_global_step(running, NULL) == 41)
            raise(SIGUSR2);
        hs_step_end(running);
    }
    hs_outcome outcome = hs_session_close(running, NULL);
    CHECK(hs_outcome_exit_code(&outcome) == 75 && outcome.last_saved_step == 42);
    hs_graph_free(g);
}
