/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_CHECKPOINT_MANAGER_H
#define HOOKSESS_CHECKPOINT_MANAGER_H

#include <hooksess/checkpoint.h>

/* The checkpoints of one directory, for programs that own their loop and want no hooks: go on from the newest or begin
 * anew, save every so many steps. TensorFlow: CheckpointManager.
 *
 *     int64_t step = 0; // a variable of the model
 *     hs_checkpoint_manager *manager = hs_checkpoint_manager_new(
 *         HS_CHECKPOINT_MANAGER_OPTIONS(.checkpoint_dir = "run", .every_n_steps = 100, .step = &step), &err);
 *     hs_code code = hs_checkpoint_manager_restore_or_initialize(manager, session, NULL, NULL, &err);
 *     while (!code && step < 1000) {
 *         train(&step);
 *         code = hs_checkpoint_manager_save(manager, session, step, NULL, NULL, &err);
 *     }
 *
 * Threads: one at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_checkpoint_manager hs_checkpoint_manager;

typedef struct hs_checkpoint_manager_options {
    size_t size;
    const char *checkpoint_dir;    /* (required) it must exist, or its parent must: one level is made. Copied */
    const char *name;              /* checkpoints are DIRECTORY/NAME-NUMBER; NULL: "ckpt". Copied */
    const hs_saver_options *saver; /* what is saved, and how much of it is kept; NULL: the defaults. Copied */
    int64_t every_n_steps;         /* 0: every save is made; else so many steps after the one before */
    const int64_t *step;           /* the counter that the interval goes by; NULL: the session's global step */
    int64_t last_step;             /* with has_last_step: as if a save had been made at this step */
    /* Called where there is nothing to restore; `session` has been initialized by its init op. NULL: nothing is done. */
    hs_code (*init_fn)(void *user, hs_raw_session *session, hs_error *err);
    void *user;
    bool has_last_step;
    unsigned char reserved[7];
} hs_checkpoint_manager_options;
#define HS_CHECKPOINT_MANAGER_OPTIONS(...) HS_OPTIONS(hs_checkpoint_manager_options, __VA_ARGS__)

/* The caller's to free, before `step` goes. Touches no file yet. HS_INVALID_ARGUMENT: no directory, a name with a slash, a
 * negative interval, or saver options that make no sense. */
HS_API hs_checkpoint_manager *hs_checkpoint_manager_new(const hs_checkpoint_manager_options *options, hs_error *err);
/* Waits for a save in the background. NULL is allowed. */
HS_API void hs_checkpoint_manager_free(hs_checkpoint_manager *manager);

/* Takes hold of the directory as hs_saver_hold does, until the manager is freed: a second process learns that it cannot
 * save there before anything of its model is changed. Then restores the newest valid checkpoint of the directory, whatever
 * its name, and calls init_fn if nothing was restored.
 * Checkpoints that the directory's state file names are from then on the manager's to keep and to delete. *restored (may be
 * NULL) is the one that was restored, the session's until it restores another; NULL: there was none. Where there are some
 * and none can be restored, that is an error, and init_fn is not called. Other errors are those of hs_saver_restore,
 * hs_saver_hold and init_fn. `options` may be NULL. */
HS_API hs_code hs_checkpoint_manager_restore_or_initialize(hs_checkpoint_manager *manager, hs_raw_session *session,
                                                           const hs_restore_options *options, const char **restored,
                                                           hs_error *err);

/* Saves if the interval is over since the last save or restore, or the counter has gone back. `number` is the checkpoint's;
 * negative: one more than the highest of that name that there is, in the directory or in the manager's list; so a run that
 * begins anew without having restored saves over nothing of an earlier one. *saved (may be NULL) is the checkpoint, the
 * manager's until the next one; NULL: it was not time. The errors are those of hs_saver_save; HS_FAILED_PRECONDITION also
 * where there is an interval and nothing to count it by, or saves are refused (hs_raw_session_refuse_saves). A save that
 * fails does not count: the next call tries again. One in the background counts when its copy is made. `options` may be
 * NULL. */
HS_API hs_code hs_checkpoint_manager_save(hs_checkpoint_manager *manager, hs_raw_session *session, int64_t number,
                                          const hs_save_options *options, const char **saved, hs_error *err);
/* Saves whether the interval is over or not, but no step twice: for the end of a loop. TensorFlow: check_interval=False. */
HS_API hs_code hs_checkpoint_manager_save_now(hs_checkpoint_manager *manager, hs_raw_session *session, int64_t number,
                                              const hs_save_options *options, const char **saved, hs_error *err);

/* The saver behind it, the manager's: hs_saver_checkpoint lists what is kept, hs_saver_last_path is the newest,
 * hs_saver_poll tells of saves in the background. */
HS_API hs_saver *hs_checkpoint_manager_saver(const hs_checkpoint_manager *manager);

HS_END_DECLS

#endif
