/* SPDX-License-Identifier: Apache-2.0 */
/* The loss is lowest at step 10, then at step 30: these two and the newest checkpoint must be kept. */
#include <assert.h>
#include <hooksess/hooksess.h>
#include <stdio.h>

int main(void)
{
    float loss = 9;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    /* BLOCK */
    while (hs_step_begin(s)) {
        int64_t step = hs_session_global_step(s, NULL) + 1;
        loss = step == 10 ? 1 : step == 30 ? 2 : 5;
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_saver_free(saver);
    hs_graph_free(g);
    assert(outcome.step == 50);
    for (int64_t step = 0; step <= 50; step += 10) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "run/model.ckpt-%lld", (long long)step);
        assert(hs_checkpoint_exists(NULL, prefix) == (step == 10 || step == 30 || step == 50));
    }
    return hs_outcome_exit_code(&outcome);
}
