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
    int64_t num_steps; /* this many more than the step at the session's creation (restored, or 0); or */
    int64_t last_step; /* this step. Exactly one of the two, at least 1 */
    const hs_env *env; /* the hook's own memory; NULL: malloc */
} hs_stop_at_step_options;

/* Options that make no sense, or no memory, are reported by the hook's begin. */
HS_API hs_hook hs_stop_at_step_hook(const hs_stop_at_step_options *options);
#define hs_stop_at_step(...) hs_stop_at_step_hook(HS_OPTIONS(hs_stop_at_step_options, __VA_ARGS__))

HS_END_DECLS

#endif
