/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_STATE_FILE_H
#define HS_CHECKPOINT_STATE_FILE_H

#include "base/env.h"

/* A checkpoint that is kept. */
typedef struct hs__kept_checkpoint {
    char *path;
    double timestamp; /* seconds since 1970; 0 where the file has none */
    double metric;    /* how good it is; NaN: nobody said */
    bool pinned;
    bool stays; /* hs__retain keeps it */
} hs__kept_checkpoint;

/* The file `checkpoint` of a directory: which checkpoint is the newest, and which others are kept, oldest first. In the
 * file, paths inside the directory are relative to it; here they have it before them. What only this library reads are
 * comments to others. */
typedef struct hs__checkpoint_state {
    const hs_env *env;
    char *newest;
    hs__kept_checkpoint *kept;
    size_t n;
    double last_preserved; /* the time of the one that was last kept forever; 0: the file has none */
    char **expired;        /* that are to be deleted now that they are not kept any more */
    size_t n_expired, expired_capacity;
    bool untouched; /* it is as a saver wrote it: nobody has named another one the newest since */
} hs__checkpoint_state;

/* NOT_FOUND: there is no such file. DATA_LOSS: it cannot be read as what it should be. INVALID_ARGUMENT: it names no newest
 * one. */
hs_code hs__checkpoint_state_read(hs__checkpoint_state *state, const hs_env *env, const char *directory, const char *name,
                                  hs_error *err);
void hs__checkpoint_state_free(hs__checkpoint_state *state);

/* What is written: the checkpoints that are kept, oldest first; the first `n_expired` of them are not any more. */
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
