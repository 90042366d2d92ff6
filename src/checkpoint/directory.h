/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_DIRECTORY_H
#define HS_CHECKPOINT_DIRECTORY_H

#include "checkpoint/checkpoint_files.h"
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

/* Renames the checkpoints BASE-STEP of the directory that are later than `step` and not among the `n` kept ones: they
 * belong to an abandoned branch of the training, and a restore would take them as later than `step`. Logs each at `level`.
 */
hs_code hs__abandon_later(const hs__held_directory *held, const hs_env *env, const char *base, int64_t step,
                          const hs__kept_checkpoint *kept, size_t n, hs_log_level level, hs_error *err);

#endif
