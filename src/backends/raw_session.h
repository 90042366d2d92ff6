/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_RAW_SESSION_H
#define HS_BACKENDS_RAW_SESSION_H

#include <hooksess/graph.h>
#include <hooksess/hook.h>

#include "backends/backend.h"
#include "base/state.h"

/* A backend's session with the state that belongs to it: what is saved and restored. The session core makes it; savers use
 * it. */

/* A provider that has its place. */
typedef struct hs__state_slot {
    char *key;      /* in the checkpoint, with the prefix */
    char *identity; /* NULL: none */
    int64_t version;
    size_t bytes; /* about; 0: not known */
    bool varies;  /* HS_HOOK_STATE_VARIES */
    hs_save_state_fn save;
    hs_load_state_fn load;
    void *self;
} hs__state_slot;

/* A variable that was added while the session was open. */
typedef struct hs__late_variable {
    char *name;
    hs_variable_def def; /* complete; its name is this one */
    bool recovered;      /* known since before a recovery: it may be added again */
} hs__late_variable;

/* A piece of state as a checkpoint has it, or a variable that is added late. */
typedef struct hs__stored_state {
    char *key;      /* of a variable: its name */
    hs_dtype dtype; /* of a variable; HS_DTYPE_NONE: it is state */
    hs_shape shape; /* of a variable */
    char *identity; /* NULL: none */
    int64_t version;
    unsigned char *data; /* NULL: it has none of that key, or too much to be kept in memory (bytes is not 0) */
    size_t bytes;
    uint32_t crc; /* of the data, as the checkpoint has it */
    bool is_lent; /* the data belong to somebody else */
} hs__stored_state;

/* What a checkpoint has of them. */
typedef struct hs__stored_states {
    char *path; /* the checkpoint's; NULL: there is none */
    hs__stored_state *items;
    size_t n, capacity;
    bool any_identity; /* as its restore was told */
    bool untold;       /* there are some that nobody takes, and nobody was told yet */
} hs__stored_states;

/* What somebody has said of the model. */
typedef struct hs__metric {
    char *name;
    double value;
    int64_t step;
    int64_t restores; /* how many there had been when it was said */
} hs__metric;

struct hs_raw_session {
    hs_env env; /* the backend's, complete */
    hs_backend backend;
    hs_backend_ops ops;          /* the backend's, complete */
    void *handle;                /* the backend's session; NULL: not open */
    uint64_t opened;             /* tells the session that is open from all others there were; 0: none was yet */
    bool runs_queues;            /* the hooked session has started the backend's queue runners itself */
    struct hs_session *owner;    /* the hooked session around it */
    struct hs__sharing *sharing; /* several threads run it; NULL: one does */
    hs__state_slot *states;
    size_t n_states, states_capacity;
    hs__late_variable *late; /* behind those of the session: those that a recovery has lost, until it is complete */
    size_t n_late, n_lost, late_capacity;
    size_t late_from;          /* the index of the first of them: there are as many of the backend's */
    hs__stored_states waiting; /* of the checkpoint that was restored last: what nobody has taken yet */
    bool loading_states;       /* a provider is loading: none can be added */
    bool told_without_memory;  /* the log has named variables without memory */
    char *restored_from;
    int64_t restores;       /* how many there were */
    hs_error saves_refused; /* why; HS_OK: they are not */
    uint64_t moves;         /* how often the global step may have changed otherwise than by the hooked run */
    int64_t saved_step;     /* the newest step that is durable; -1: none */
    bool went_back;         /* the last restore was from memory, which no saver knows of: */
    int64_t went_back_to;   /* to this step */
    hs__metric *metrics;
    size_t n_metrics, metrics_capacity;
};

#endif
