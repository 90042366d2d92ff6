/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOK_PRINTED_H
#define HOOK_PRINTED_H

#include "model.h"

/* Trains up to these steps, ended by 0, with a new session and a new model each time, and the checkpoints in "run". Returns
 * what the hook has printed, to be freed. */
static inline char *printed_by(hs_hook hook, const int64_t *steps)
{
    CHECK(freopen("printed", "w", stdout));
    for (; *steps; steps++) {
        model m = {0};
        reader data = {0};
        hs_graph *g = new_graph(&m, &data);
        hs_session *s = hs_training_session_open(
            hs_graph_backend(g),
            HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(hook, hs_stop_at_step(.last_step = *steps))),
            NULL);
        train(s, &m, &data);
        finish(s, g, *steps);
    }
    CHECK(fflush(stdout) == 0);
    return contents("printed");
}

#endif
