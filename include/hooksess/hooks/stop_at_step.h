/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_STOP_AT_STEP_H
#define HOOKSESS_HOOKS_STOP_AT_STEP_H

#include <hooksess/hook.h>

/* Requests a stop when the global step has reached a target: the training is done.
 *
 * If the target has been reached when the session is created, no run is made (HS_REASON_ALREADY_DONE, exit code 0), and the
 * log says why. So `.last_step = epochs * steps_per_epoch` is right for a training of 0 epochs. If neither field is set,
 * the target is step 0: no run is made either.
 *
 * The hook reads the step after each run. Nothing of it is saved in checkpoints: last_step counts from the beginning of the
 * training, num_steps from the beginning of this run.
 *
 * TensorFlow: StopAtStepHook. It refuses a hook without either field. */

HS_BEGIN_DECLS

typedef struct hs_stop_at_step_options {
    size_t size;
    /* Steps from the session's creation on, where the step may have been restored. 0: last_step counts */
    int64_t num_steps;
    int64_t last_step; /* the step at which training is done. Not together with num_steps. 0: no run is made */
    const hs_env *env; /* NULL: the system's. Copied */
} hs_stop_at_step_options;

/* Threads: any. */
HS_API hs_hook hs_stop_at_step_hook(const hs_stop_at_step_options *options);
#define hs_stop_at_step(...) hs_stop_at_step_hook(HS_OPTIONS(hs_stop_at_step_options, __VA_ARGS__))

HS_END_DECLS

#endif
