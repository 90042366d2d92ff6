/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_CHECKPOINT_MANAGER_H
#define HOOKSESS_CHECKPOINT_MANAGER_H

#include <hooksess/checkpoint.h>

/* Checkpoints of one directory, for loops without hooks: restore the newest, then save every N steps. TensorFlow:
 * CheckpointManager.
 *
 *     int64_t step = 0; // a variable of the model
 *     hs_checkpoint_manager *manager = hs_checkpoint_manager_new(
 *         HS_CHECKPOINT_MANAGER_OPTIONS(.checkpoint_dir = "run", .every_n_steps = 100, .step = &step), &err);
 *     hs_code code = hs_checkpoint_manager_restore_or_initialize(manager, raw, NULL, NULL, &err);
 *     while (!code && step < 1000) {
 *         train_step(&step);
 *         code = hs_checkpoint_manager_save(manager, raw, step, NULL, NULL, &err);
 *     }
 *     hs_checkpoint_manager_free(manager);
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_checkpoint_manager hs_checkpoint_manager;

typedef struct hs_checkpoint_manager_options {
    size_t size;
    const char *checkpoint_dir; /* (required) created if its parent exists */
    const char *name;           /* checkpoints are called CHECKPOINT_DIR/NAME-NUMBER. NULL: "ckpt" */
    /* Variables, and checkpoints to keep. With max_to_keep HS_NEVER, the state file lists all. NULL: the defaults */
    const hs_saver_options *saver;
    int64_t every_n_steps;    /* steps between saves. 0: each call of hs_checkpoint_manager_save saves; HS_NEVER: none */
    const int64_t *step;      /* the step counter. Borrowed. NULL: the global step */
    const int64_t *last_step; /* every_n_steps counts from it. Copied. NULL: the first call saves */
    /* Initializes the model if nothing is restored, after the session's init op. NULL: none */
    hs_code (*init_fn)(void *user, hs_raw_session *session, hs_error *err);
    void *user; /* for init_fn */
} hs_checkpoint_manager_options;
#define HS_CHECKPOINT_MANAGER_OPTIONS(...) HS_OPTIONS(hs_checkpoint_manager_options, __VA_ARGS__)

/* Creates a manager. Does not access files. HS_INVALID_ARGUMENT: no checkpoint_dir, an empty name or one with a slash, an
 * interval below HS_NEVER, or invalid saver options. */
HS_API hs_checkpoint_manager *hs_checkpoint_manager_new(const hs_checkpoint_manager_options *options, hs_error *err);
/* Waits for a background save, and unlocks the directory. */
HS_API void hs_checkpoint_manager_free(hs_checkpoint_manager *manager);

/* Locks the directory as hs_saver_hold does, until the manager is freed. Then restores the newest valid checkpoint, of any
 * name, or calls init_fn if the directory has no checkpoint.
 *
 * options   NULL: everything
 * restored  set to the prefix, valid until the session's next restore; NULL if nothing was restored. May be NULL
 *
 * The manager adopts the checkpoints that the state file names. HS_DATA_LOSS or HS_NOT_FOUND: no checkpoint is valid.
 * Others: those of hs_saver_hold, hs_saver_restore and init_fn. */
HS_API hs_code hs_checkpoint_manager_restore_or_initialize(hs_checkpoint_manager *manager, hs_raw_session *session,
                                                           const hs_restore_options *options, const char **restored,
                                                           hs_error *err);

/* Saves if every_n_steps steps have passed since the last save or restore, or if the counter has decreased.
 *
 * number   of the checkpoint. Negative: one above the highest in the directory
 * options  NULL: the defaults
 * saved    set to the prefix, valid until the next save; NULL if nothing was saved. May be NULL
 *
 * HS_FAILED_PRECONDITION: an interval without a step counter, or after hs_raw_session_refuse_saves. Others: those of
 * hs_saver_save. After a failure, the next call retries. */
HS_API hs_code hs_checkpoint_manager_save(hs_checkpoint_manager *manager, hs_raw_session *session, int64_t number,
                                          const hs_save_options *options, const char **saved, hs_error *err);
/* Saves without waiting for the interval. With an interval, no step is saved twice. TensorFlow: check_interval=False. */
HS_API hs_code hs_checkpoint_manager_save_now(hs_checkpoint_manager *manager, hs_raw_session *session, int64_t number,
                                              const hs_save_options *options, const char **saved, hs_error *err);

/* Returns the manager's saver, for hs_saver_checkpoint, hs_saver_last_path and hs_saver_poll. */
HS_API hs_saver *hs_checkpoint_manager_saver(const hs_checkpoint_manager *manager);

HS_END_DECLS

#endif
