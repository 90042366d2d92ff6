/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_DIRECTORY_H
#define HS_CHECKPOINT_DIRECTORY_H

#include "base/env.h"

/* A directory that checkpoints are saved to: one process at a time holds it, by a lock of the kernel's on the file
 * HS_CHECKPOINT_LOCK in it, which is given up however the process ends. Readers neither look at the lock nor write
 * anything. */

typedef struct hs__held_directory {
    bool (*is_kept)(void *user,
                    const char *path); /* checkpoints that are neither deleted nor abandoned; set by its owner */
    void *user;
    char *path;     /* NULL: none is held */
    void *lock;     /* NULL: the file system has no locks */
    bool continued; /* what is saved there from now on is one history */
    bool disturbed; /* leaving another one failed half-way: what lies about is to be cleared again */
    bool deleted;   /* hs__finish_deleting was called */
} hs__held_directory;

/* Holds `directory`, which exists, in place of what was held before. When it is taken hold of, what saves that were cut
 * short have left of checkpoints called BASE or BASE-STEP is removed. If it was held already, this makes sure that it still
 * is, and that is removed only if it is disturbed. FAILED_PRECONDITION names the process that has it. `base` NULL: nothing
 * is removed. */
hs_code hs__hold_directory(hs__held_directory *held, const hs_env *env, const char *directory, const char *base,
                           hs_error *err);
/* Before the state file is replaced: deletes the checkpoints that it lists as to be deleted, once for each hold. Not
 * sooner, as a restore may need one of them, if newer ones are damaged. While another saver of this process holds the
 * directory, nothing is deleted. `state_file` NULL: "checkpoint". */
void hs__finish_deleting(hs__held_directory *held, const hs_env *env, const char *state_file);
void hs__release_directory(hs__held_directory *held, const hs_env *env);

/* What follows the name of a checkpoint that a rollback has left behind. */
#define HS__ABANDONED ".abandoned"

/* Of one that was not finite. */
#define HS__NONFINITE ".nonfinite"

/* Of what the graph's own save op writes, before it gets its name: all files and folders that begin with this are aside. */
#define HS__GRAPH_ASIDE ".tmp-graph"

/* The step in the name of a checkpoint BASE-STEP; -1: it has none. */
int64_t hs__step_in(const char *path);
/* Are both BASE-STEP, with one BASE? */
bool hs__same_series(const char *name, const char *other);

/* Renames the checkpoints BASE-STEP of the directory that are later than `step` and not kept: they belong to a history that
 * is being left, and would pass for what follows `step`. */
hs_code hs__abandon_later(const hs__held_directory *held, const hs_env *env, const char *base, int64_t step, hs_error *err);

/* Is there certainly none? As hs__file_missing. */
bool hs__checkpoint_missing(const hs_env *env, const char *prefix);
/* Deletes a checkpoint: the index first, from when on it is none any more. What cannot be removed is a warning. False: it
 * is the index, and the checkpoint is still there, whole. */
bool hs__delete_checkpoint(const hs_env *env, const char *prefix);
/* The data files of a checkpoint: PREFIX.data-FIRST-of-OF, and n in all. They are all OF of them, unless the first ones'
 * names are left out. */
typedef struct hs__data_range {
    int32_t first, n, of;
} hs__data_range;

/* Removes the data files of a checkpoint but for these; n 0: all. */
void hs__delete_stale_data(const hs_env *env, const char *prefix, hs__data_range but);

#endif
