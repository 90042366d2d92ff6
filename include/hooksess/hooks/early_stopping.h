/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_EARLY_STOPPING_H
#define HOOKSESS_HOOKS_EARLY_STOPPING_H

#include <hooksess/hook.h>

/* Requests a stop when a metric has not become better for a while, and can end with the best state there was. TensorFlow:
 * tf.estimator.experimental.stop_if_no_decrease_hook; Keras: EarlyStopping.
 *
 * A metric is looked for on the session's board (hs_raw_session_metric), where the evaluation hook leaves it: list that
 * hook first, and this one sees it in the same boundary. Only values of a later step than the last one seen count; NaN is
 * never better. A tensor is fetched in every run, and counts in every run. Savers come behind it in the list: what they
 * save then knows that it has stopped.
 *
 * What is known of the best rides in the checkpoint. A run that resumes one that was stopped has nothing left to do
 * (HS_REASON_ALREADY_DONE), unless it has more patience. A checkpoint of another metric, or of the other direction, is
 * refused (HS_FAILED_PRECONDITION; hs_restore_options.any_identity).
 *
 * With restore_best, the state is copied in memory whenever the metric becomes better (hs_raw_session_copy_state), and
 * restored in the hook's end, before the last boundary: the last checkpoint is that of the best step, and those later
 * than it are renamed aside. It is not in memory where the run was resumed since, or where the metric told of another step
 * than the one that training was at; then the log says so, where a checkpoint of it is if there is one, and the state
 * stays as it is. To have one, let the saver keep it (hs_saver_options.keep_best). */

HS_BEGIN_DECLS

typedef struct hs_early_stopping_options {
    size_t size;
    const char *metric; /* a metric of the session: "eval/accuracy". Exactly one of metric and tensor is required */
    const char *tensor; /* the name of a tensor, instead of metric */
    /* Stops after N values in a row that are not better. 0: 1. HS_NEVER: never, for restore_at_any_end */
    int64_t patience;
    double min_delta;   /* a value that is better by no more than this counts as not better. 0: any improvement counts */
    int64_t start_step; /* values of earlier steps do not count. 0: all count */
    bool larger_is_better;
    bool restore_best; /* restore the best state if this hook stopped the training */
    /* Restore it also if the session ends normally for another reason. A resumed run then continues from the best step,
     * not from the last one */
    bool restore_at_any_end;
    unsigned char reserved[5];
    const hs_env *env; /* NULL: the system's. Copied */
} hs_early_stopping_options;

/* Threads: any. */
HS_API hs_hook hs_early_stopping_hook(const hs_early_stopping_options *options);
#define hs_early_stopping(...) hs_early_stopping_hook(HS_OPTIONS(hs_early_stopping_options, __VA_ARGS__))

HS_END_DECLS

#endif
