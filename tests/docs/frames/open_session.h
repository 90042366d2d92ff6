/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPEN_SESSION_H
#define OPEN_SESSION_H

#include "model.h"

static int64_t last_step = 1000;

static inline hs_session *open_session(hs_graph *g)
{
    return hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(hs_stop_at_step(.last_step = last_step))), NULL);
}

#endif
