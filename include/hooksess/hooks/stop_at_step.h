/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_STOP_AT_STEP_H
#define HOOKSESS_HOOKS_STOP_AT_STEP_H

#include <hooksess/hook.h>

/* Requests a stop when the global step has reached a target. TensorFlow: StopAtStepHook.
 *
 * Reads the step after each run. It keeps nothing in the checkpoint: last_step is the whole training's, and num_steps are
 * this run's, also when it resumes another. A target that is reached already when the session is created stops it before
 * its first run (HS_REASON_ALREADY_DONE) and says so in the log. */

HS_BEGIN_DECLS

typedef struct hs_stop_at_step_options {
    size_t size;
    /* N steps more than at the session's creation (restored, or 0). Exactly one of num_steps and last_step is required */
    int64_t num_steps;
    int64_t last_step; /* this step, at least 1, instead of num_steps */
    const hs_env *env; /* NULL: the system's. Copied */
} hs_stop_at_step_options;

/* Threads: any. */
HS_API hs_hook hs_stop_at_step_hook(const hs_stop_at_step_options *options);
#define hs_stop_at_step(...) hs_stop_at_step_hook(HS_OPTIONS(hs_stop_at_step_options, __VA_ARGS__))

HS_END_DECLS

#endif
