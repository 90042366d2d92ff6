/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_RAW_SESSION_H
#define HS_BACKENDS_RAW_SESSION_H

#include <hooksess/raw_session.h>

#include "backends/backend.h"
#include "base/state.h"

/* A backend's open session, and facts that outlive a run: its state providers, last restore and last save.
 *
 * raw_session.c writes its fields, with these exceptions: `loading_states` and `unallocated_logged` belong to
 * src/checkpoint. src/checkpoint fills `unclaimed`, and src/session frees it; it owns `rank_parts`. src/session sets
 * `runs_queues`, `values_computed`, `guards_updates`, `ranks`, `rank`, `rank_count` and hs__state_slot.varies. */

/* A registered provider of state. */
typedef struct hs__state_slot {
    char *key;     /* in the checkpoint, with the prefix; of this rank */
    char *base;    /* HS_STATE_PER_RANK: the key without the rank. NULL: HS_STATE_SHARED */
    char *old_key; /* key and base in older checkpoints, read if a checkpoint lacks the state. NULL: the same */
    char *old_base;
    char *identity; /* NULL: none */
    int64_t version;
    size_t bytes; /* estimate; 0: unknown */
    bool varies;  /* HS_HOOK_STATE_VARIES */
    hs_save_state_fn save;
    hs_load_state_fn load;
    hs_code (*reshard)(void *self, hs_state_reader *const *saved, int32_t n_saved, int32_t rank, int32_t rank_count,
                       hs_error *err);
    void *self;
} hs__state_slot;

/* A piece of state as a checkpoint has it. */
typedef struct hs__stored_state {
    char *key;
    char *identity; /* NULL: none */
    int64_t version;
    unsigned char *data; /* NULL: no data for that key, or too large for memory (bytes is not 0) */
    size_t bytes;
    uint32_t crc;     /* of the data, from the checkpoint */
    bool is_borrowed; /* the data are not freed with the item */
    /* HS_STATE_PER_RANK, saved by another number of ranks: the state of each of them. Else NULL */
    struct hs__stored_state *ranks;
    int32_t n_ranks;
} hs__stored_state;

/* The states in a checkpoint. */
typedef struct hs__stored_states {
    char *path; /* the checkpoint's; NULL: no checkpoint */
    hs__stored_state *items;
    size_t n, capacity;
    bool any_identity; /* hs_restore_options.any_identity */
    bool unreported;   /* the log has not named the unclaimed ones yet */
    char *unused;      /* tensors that no variable of the program uses, for the log; NULL: none */
} hs__stored_states;

struct hs_session;

/* Functions that lower folders call of the session that owns the raw session, `owner`. */
typedef struct hs__raw_session_owner_ops {
    void (*saved)(struct hs_session *owner);               /* a checkpoint is complete */
    bool (*stops_unsaved)(const struct hs_session *owner); /* a second signal: nothing more may be saved */
    /* a restore: no step of this state has computed the values of the graph */
    void (*forget_values)(struct hs_session *owner);
} hs__raw_session_owner_ops;

/* A return to an earlier step. Later checkpoints that were saved before it are of an abandoned branch of the training. */
typedef struct hs__return {
    int64_t step, restores; /* hs_raw_session.restores after it */
} hs__return;

struct hs_raw_session {
    hs_env env; /* the backend's, complete */
    hs_backend backend;
    hs_backend_ops ops;       /* the backend's, complete */
    void *handle;             /* the backend's session; NULL: not open */
    uint64_t opened;          /* number of the open session, never used twice in a process; 0: none was opened yet */
    uint64_t first_opened;    /* the same when it was opened first. A recovery opens it again */
    bool runs_queues;         /* the hooked session has started the backend's queue runners itself */
    struct hs_session *owner; /* the session around it */
    const hs__raw_session_owner_ops *owner_ops;
    const struct hs__ranks *ranks;     /* NULL: the session is not in a group */
    int32_t rank, rank_count;          /* 0 and 1 without a group */
    struct hs__rank_parts *rank_parts; /* in a save of the chief: the other ranks' states (rank_parts.h). Else NULL */
    hs__state_slot *states;
    size_t n_states, states_capacity;
    hs__stored_states unclaimed; /* of the last restored checkpoint: no provider has claimed them yet */
    bool loading_states;         /* a provider is loading: none can be added */
    bool unallocated_logged;     /* the log has named variables without memory */
    char *restored_from;         /* path of the last restored checkpoint; NULL: none */
    int64_t restores;            /* number of restores */
    int64_t restored_step;       /* the global step after the last one since the opening; -1: there was none */
    hs_error saves_refused;      /* the reason; HS_OK: saves are allowed */
    uint64_t moves;              /* number of times that the global step may have changed outside of the hooked run */
    int64_t saved_step;          /* of the newest complete checkpoint; -1: none */
    bool is_return;              /* the session has restored restored_from, not the program */
    bool is_newest;              /* and it was the newest intact checkpoint of its directory */
    hs__return *returns;         /* in their order, without those that a later return to an earlier step includes */
    size_t n_returns, returns_capacity;
    /* Bits 1 << HS_RUN_TRAIN and 1 << HS_RUN_EVAL: such a run was made since then, and has computed values of the graph. */
    uint8_t values_computed;
    bool guards_updates; /* the program calls hs_step_before_update before it changes variables */
};

void hs__raw_session_init(hs_raw_session *raw, const hs_env *env, hs_backend backend, const hs_backend_ops *ops,
                          const hs__raw_session_owner_ops *owner_ops, struct hs_session *owner);
hs_code hs__raw_session_open(hs_raw_session *raw, const char *target, hs_bytes config, hs_error *err);
/* Closes the backend's session, if it is open. Removes its states. */
hs_code hs__raw_session_close(hs_raw_session *raw, hs_error *err);
/* Frees the rest of a closed session, but for `unclaimed`. */
void hs__raw_session_free(hs_raw_session *raw);

/* The variables of the session's backend, by index. Returns false after the last. */
bool hs__session_variable(const hs_raw_session *session, size_t index, hs_variable *out);
/* Finds a variable by its name. Returns false if no variable has it. */
bool hs__session_find_variable(const hs_raw_session *session, const char *name, size_t *index, hs_variable *out);
/* Sets *value to a view of the variable, in host or device memory. value->data NULL: the variable has no memory. */
hs_code hs__session_read(const hs_raw_session *session, size_t index, const char *name, hs_tensor *value, hs_error *err);
/* Sets the variable to a host tensor, or to its first value if value->data is NULL. */
hs_code hs__session_write(const hs_raw_session *session, size_t index, const char *name, const hs_tensor *value,
                          hs_error *err);
/* Call before writing. Allocates the variable's memory if it does not exist. Sets *memory to the memory of `bytes` for
 * the caller to fill, maybe on a device; without data, the caller must use hs__session_write. */
hs_code hs__session_lend(const hs_raw_session *session, size_t index, const hs_variable *variable, size_t bytes,
                         hs_tensor *memory, hs_error *err);
/* Sets *has to whether the variable has memory. Reads no value. The first one sets *device to that of a variable that may
 * move, otherwise to NULL. */
hs_code hs__session_place(const hs_raw_session *session, size_t index, const hs_variable *variable, bool *has,
                          const hs_memory **device, hs_error *err);
hs_code hs__session_has_memory(const hs_raw_session *session, size_t index, const hs_variable *variable, bool *has,
                               hs_error *err);

/* Sets the error of hs__raw_session_read_step. */
hs_code hs__raw_session_step_unread(const hs_raw_session *raw, hs_code code, const int64_t *step, hs_error *err);
/* Reads the global step of an open session. */
static inline hs_code hs__raw_session_read_step(const hs_raw_session *raw, int64_t *step, hs_error *error)
{
    hs_code code = raw->ops.global_step ? raw->ops.global_step(raw->handle, step, error) : HS_OK;
    return code || !raw->ops.global_step || *step < 0 ? hs__raw_session_step_unread(raw, code, step, error) : HS_OK;
}

/* Records that the global step may have changed outside of the hooked run. */
static inline void hs__raw_session_moved(hs_raw_session *raw)
{
    raw->moves++;
}
/* Makes room for a return, so that recording the next restore cannot fail. */
hs_code hs__raw_session_reserve_return(hs_raw_session *raw, hs_error *err);
/* Records a restore of the checkpoint `path`, which it adopts. Later checkpoints in its directory are of an abandoned
 * branch. `step`: in its name; -1: none. `restores`: number of restores when its directory was saved to last; the
 * checkpoint is of before the returns since. Returns the previous path; free it with hs__free. */
char *hs__raw_session_restored(hs_raw_session *raw, char *path, int64_t step, int64_t restores);
/* After it: the session has restored it, not the program, so that later checkpoints in all directories in which it has
 * saved are of an abandoned branch. `newest`: this was the newest intact checkpoint of its directory. Later ones there are
 * damaged, and of no branch. */
void hs__raw_session_returned(hs_raw_session *raw, bool newest);
/* Records that the variables were initialized again, after hs__raw_session_reserve_return. */
void hs__raw_session_reinitialized(hs_raw_session *raw);
/* The step after which checkpoints that were saved before restore number `restores` + 1 are of an abandoned branch. -1:
 * none are known. */
int64_t hs__raw_session_branch_step(const hs_raw_session *raw, int64_t restores);
/* Records the return to an earlier state, from memory or from a checkpoint that is not the newest: later checkpoints are of
 * an abandoned branch, in all directories, and this state counts as not saved. step -1: unknown. */
void hs__raw_session_restored_earlier(hs_raw_session *raw, int64_t step);
/* Drops the path of the last restore and the refusal of saves, before the session is opened again. */
void hs__raw_session_forget_restore(hs_raw_session *raw);

/* The key of a state of one of `rank_count` ranks, for hs__free. NULL: out of memory. */
char *hs__rank_state_key(const hs_env *env, const char *base, int32_t rank, int32_t rank_count);
/* Copies a complete provider to *slot, for the session's rank. Adopts the key, without the rank; NULL:
 * HS_RESOURCE_EXHAUSTED.
 */
hs_code hs__state_slot_init(hs__state_slot *slot, const hs_raw_session *raw, char *key, const hs_state_provider *provider,
                            hs_error *err);
/* Adopts the key in older checkpoints, without the rank. NULL: HS_RESOURCE_EXHAUSTED. */
hs_code hs__state_slot_set_old_key(hs__state_slot *slot, const hs_raw_session *raw, char *key, hs_error *err);
void hs__state_slot_free(const hs__state_slot *slot, const hs_env *env);
/* Makes room for a slot, so that hs__raw_session_add_slot cannot fail. HS_ALREADY_EXISTS: another slot has the key. */
hs_code hs__raw_session_reserve_slot(hs_raw_session *raw, const char *key, hs_error *err);
void hs__raw_session_add_slot(hs_raw_session *raw, const hs__state_slot *slot);

#endif
