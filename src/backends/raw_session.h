/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_RAW_SESSION_H
#define HS_BACKENDS_RAW_SESSION_H

#include <hooksess/hook.h>

#include "backends/backend.h"
#include "base/state.h"

/* A backend's session with the state that belongs to it: what is saved and restored. The session core makes it; savers use
 * it. */

typedef struct hs__state_slot {
    char *key; /* in the checkpoint, with the prefix */
    hs_save_state_fn save;
    hs_load_state_fn load;
    void *self;
} hs__state_slot;

struct hs_raw_session {
    hs_env env; /* the backend's, complete */
    hs_backend backend;
    hs_backend_ops ops;       /* the backend's, complete */
    void *handle;             /* the backend's session; NULL: not open */
    struct hs_session *owner; /* the hooked session around it */
    hs__state_slot *states;
    size_t n_states;
    char *restored_from;
    char saves_refused[256]; /* why; "": they are not */
    uint64_t moves;          /* how often the global step may have changed otherwise than by the hooked run */
    int64_t saved_step;      /* the newest step that is durable; -1: none */
};

#endif
