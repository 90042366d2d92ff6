/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_STATE_FILE_H
#define HS_CHECKPOINT_STATE_FILE_H

#include "base/env.h"
#include "base/map.h"

/* An entry of the list of kept checkpoints. */
typedef struct hs__kept_checkpoint {
    char *path;
    double timestamp; /* seconds since 1970; 0: not in the file */
    double metric;    /* hs_save_options.metric; NaN: not set */
    bool pinned;
    bool stays;   /* not expired (hs__expire) */
    size_t order; /* while the list is sorted (hs__expire): its place before */
} hs__kept_checkpoint;

/* Adds the last parts of the paths to a map, each with the index of the first entry that has it. */
hs_code hs__kept_names(hs__map *names, const hs__kept_checkpoint *kept, size_t n, hs_error *err);

/* The state file `checkpoint` of a directory: the newest checkpoint, and the kept ones, oldest first. Paths in the file are
 * relative to the directory. Here they begin with it; of an absolute path, if a checkpoint of that name is in the
 * directory, which may have been moved. Comments in the file have more, which only this library reads. */
typedef struct hs__checkpoint_state {
    const hs_env *env;
    char *newest;
    hs__kept_checkpoint *kept;
    size_t n;
    double last_preserved; /* time of the checkpoint that was last kept forever; 0: not in the file */
    char **expired;        /* checkpoints that are to be deleted */
    size_t n_expired, expired_capacity;
    bool unedited; /* the newest is the checkpoint that was saved last: the file was not edited since */
} hs__checkpoint_state;

/* Reads a state file. NOT_FOUND: it does not exist. DATA_LOSS: it is not a state file. INVALID_ARGUMENT: it does not name
 * the newest checkpoint. hs__is_damage tells these from failures of the system. */
hs_code hs__checkpoint_state_read(hs__checkpoint_state *state, const hs_env *env, const char *directory, const char *name,
                                  hs_error *err);
void hs__checkpoint_state_free(hs__checkpoint_state *state);

/* The contents of a new state file. The first `n_expired` of the list are to be deleted. */
typedef struct hs__checkpoint_list {
    const char *newest;
    const hs__kept_checkpoint *kept;
    size_t n, n_expired;
    double last_preserved;
} hs__checkpoint_list;

/* Replaces the file durably. FAILED_PRECONDITION if `newest` is the file itself. */
hs_code hs__checkpoint_state_write(const hs_env *env, const char *directory, const char *name,
                                   const hs__checkpoint_list *list, hs_error *err);

#endif
