/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_STOP_AT_STEP_H
#define HOOKSESS_HOOKS_STOP_AT_STEP_H

#include <hooksess/hook.h>

/* Stops the session when the global step reaches a target. The training is then done, with exit code 0. TensorFlow:
 * StopAtStepHook.
 *
 *     hs_hook hook = hs_stop_at_step(.last_step = 10000);
 *
 * If the target is reached when the session is created, no run is made (HS_REASON_ALREADY_DONE, exit code 0). One of the
 * two fields must be set, and above 0.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_stop_at_step_options {
    size_t size;
    /* Steps of this process, from the step at which the hook's first session begins. A restarted program makes as many
     * more; a recovery or a further session with the same hook (hs_hook_hold) does not */
    int64_t num_steps;
    int64_t last_step; /* or: steps of the whole training, over all starts of the program */
} hs_stop_at_step_options;

/* The graph needs a global step. */
HS_API hs_hook hs_stop_at_step_hook(const hs_stop_at_step_options *options);
#define hs_stop_at_step(...) hs_stop_at_step_hook(HS_OPTIONS(hs_stop_at_step_options, __VA_ARGS__))

HS_END_DECLS

#endif
