/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_DIRECTORY_H
#define HS_CHECKPOINT_DIRECTORY_H

#include "base/env.h"
#include "base/map.h"
#include "checkpoint/state_file.h"

/* A directory that checkpoints are saved to. One process at a time holds it, by a lock of the kernel on the file
 * HS_CHECKPOINT_LOCK in it. The lock ends with the process. Readers ignore the lock, and write nothing. */

typedef struct hs__held_directory {
    char *path;              /* NULL: none is held */
    void *lock;              /* NULL: the file system has no locks */
    bool branch_clear;       /* later checkpoints of an abandoned branch were renamed (hs__abandon_later) */
    bool needs_sweep;        /* that failed half-way: leftovers are to be removed again */
    bool deletions_finished; /* hs__finish_deleting was called */
} hs__held_directory;

/* Locks `directory`, which must exist, and releases the directory that was held before. If the lock is new, or the
 * directory needs a sweep, removes the files of interrupted saves: of checkpoints BASE and BASE-STEP, and temporary files
 * of safetensors files and of the state file "checkpoint". `base` NULL: nothing is removed. FAILED_PRECONDITION names the
 * process that holds the lock. */
hs_code hs__hold_directory(hs__held_directory *held, const hs_env *env, const char *directory, const char *base,
                           hs_error *err);
/* Deletes the checkpoints that the state file lists as to be deleted, except the `n` kept ones, once per lock. Call before
 * the state file is replaced, and not sooner, as a restore may need one of them if newer ones are damaged. Does nothing
 * while another saver of this process holds the directory, apart from the claim of this session (hs_saver_hold).
 * `state_file` NULL: "checkpoint". */
void hs__finish_deleting(hs__held_directory *held, const hs_env *env, const char *state_file,
                         const hs__kept_checkpoint *kept, size_t n);
void hs__release_directory(hs__held_directory *held, const hs_env *env);

/* Appended to the name of a checkpoint of an abandoned branch. */
#define HS__ABANDONED ".abandoned"

/* Appended to the name of a checkpoint: the directory in which hs_saver_options.save_variables writes. */
#define HS__VARIABLES_TMP ".tmp-variables"

/* The step in the name of a checkpoint BASE-STEP; -1: none. */
int64_t hs__step_in(const char *path);
/* Returns true if both names are BASE-STEP with the same BASE. */
bool hs__same_series(const char *name, const char *other);

/* Renames the checkpoints BASE-STEP of the directory that are later than `step` and not among the `n` kept ones: they
 * belong to an abandoned branch of the training, and a restore would take them as later than `step`. */
hs_code hs__abandon_later(const hs__held_directory *held, const hs_env *env, const char *base, int64_t step,
                          const hs__kept_checkpoint *kept, size_t n, hs_error *err);

/* Returns true if the checkpoint certainly does not exist. As hs__file_missing. */
bool hs__checkpoint_missing(const hs_env *env, const char *prefix);

/* The data files of a checkpoint: n files, PREFIX.data-FIRST-of-OF and the following numbers. n is less than OF if the
 * numbers do not begin at 0. */
typedef struct hs__data_range {
    int32_t first, n, of;
} hs__data_range;

/* Deletes checkpoints of one directory, indexes first. Without its index a checkpoint does not exist. A file that cannot be
 * removed is a warning. The directory is listed once. */
typedef struct hs__deletion {
    const hs_env *env;
    char *directory;       /* NULL: nothing was added yet */
    hs__map names;         /* of the checkpoints */
    hs__data_range except; /* data files that stay */
} hs__deletion;

void hs__deletion_begin(hs__deletion *deletion, const hs_env *env);
/* Removes the index. Returns false if it cannot be removed: then the checkpoint is unchanged. */
bool hs__deletion_add(hs__deletion *deletion, const char *prefix);
/* Removes the other files. */
void hs__deletion_end(hs__deletion *deletion);

/* The same for one checkpoint. */
bool hs__delete_checkpoint(const hs_env *env, const char *prefix);
/* Removes the data files of a checkpoint except these. n 0: all. */
void hs__delete_stale_data(const hs_env *env, const char *prefix, hs__data_range except);

#endif
