/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

/* BLOCK */

/* BLOCK */

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    /* BLOCK */
    int64_t good = 0, steps = 0;
    while (hs_step_begin(s)) {
        m.loss = add_gradients(&m, next_batch(&data));
        update(&m, 0.1f);
        good = m.loss < 0.05f ? good + 1 : 0;
        steps++;
        hs_step_end(s);
    }
    CHECK(good == 10);
    hs_outcome outcome = finish(s, g, steps);
    CHECK(strcmp(outcome.hook, "target") == 0);

    /* A wrong name is reported before the first step. */
    g = hs_graph_new(NULL);
    hs_error err;
    s = hs_training_session_open(
        hs_graph_backend(g), HS_TRAINING_OPTIONS(.hooks = HS_HOOKS(HS_HOOK(.ops = &target_ops, .self = &target))), &err);
    CHECK(!s && err.code == HS_NOT_FOUND && strstr(err.message, "loss"));
    hs_graph_free(g);
}
