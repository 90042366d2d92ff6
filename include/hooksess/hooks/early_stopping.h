/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_EARLY_STOPPING_H
#define HOOKSESS_HOOKS_EARLY_STOPPING_H

#include <hooksess/hook.h>

/* Stops the training when a metric has stopped improving, and can restore the best state. TensorFlow:
 * stop_if_no_decrease_hook; Keras: EarlyStopping.
 *
 *     hs_hook hook = hs_early_stopping(.metric = "eval/loss", .patience = 5, .restore_best = true);
 *
 * A metric is read from the session (hs_raw_session_metric). List the evaluation hook before this one, and savers after
 * it. Only values of later steps count; NaN is never better. A tensor is fetched in every run.
 *
 * Checkpoints save the best value. A stopped run that is started again ends with HS_REASON_ALREADY_DONE, unless
 * `patience` has grown. A checkpoint of another metric or direction is refused with HS_FAILED_PRECONDITION
 * (hs_restore_options.any_identity accepts it).
 *
 * With restore_best, each improvement copies the state in memory (hs_raw_session_copy_state). The hook's `end` restores
 * the copy, or without one, as after a resume, the checkpoint of the best step (hs_saver_options.keep_best keeps it): the
 * last checkpoint then has the best step, and later checkpoints are renamed. Without both, as for a metric reported for
 * another step than the current one, the log gets a warning, and the state stays.
 *
 * In a group the values of rank 0 count, and all ranks act together. With a tensor, each run then has a boundary; with
 * agree_every_n_steps of N, only every N-th value counts.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_early_stopping_options {
    size_t size;
    const char *metric; /* name of a metric, such as "eval/accuracy". Set either metric or tensor */
    const char *tensor; /* name of a tensor or value of one number */
    /* Values in a row without improvement that stop the training. 0: 1. HS_NEVER: no stop, for restore_at_any_end */
    int64_t patience;
    double min_delta;   /* an improvement must be larger. 0: any counts */
    int64_t start_step; /* first step whose values count */
    bool larger_is_better;
    bool restore_best; /* restores the best state if this hook stopped the training */
    /* Restores it at each normal end. A resumed run then continues from the best step */
    bool restore_at_any_end;
    unsigned char reserved[5];
} hs_early_stopping_options;

HS_API hs_hook hs_early_stopping_hook(const hs_early_stopping_options *options);
#define hs_early_stopping(...) hs_early_stopping_hook(HS_OPTIONS(hs_early_stopping_options, __VA_ARGS__))

HS_END_DECLS

#endif
