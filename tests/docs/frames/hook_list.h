/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOK_LIST_H
#define HOOK_LIST_H

#include "model.h"

/* Opens a session with a list of hooks that ends with {0}. */
static inline hs_session *open_with(hs_graph *g, const hs_hook *hooks)
{
    return hs_training_session_open(hs_graph_backend(g), HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = hooks),
                                    NULL);
}

#endif
