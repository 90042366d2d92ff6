/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_GLOBAL_STEP_WAITER_H
#define HOOKSESS_HOOKS_GLOBAL_STEP_WAITER_H

#include <hooksess/hook.h>

/* Holds the first run back until others have brought the global step to a number: workers that start one after the other.
 * TensorFlow: GlobalStepWaiterHook.
 *
 * It reads the step in before_run, again and again, and sleeps in between by the clock of the backend's environment. The
 * log has a line when it begins to wait, and how far the step is at most once a minute. Once the step is there it never
 * waits again, also after a recovery. A stop that is requested ends the waiting within a second: the run is then made, as
 * any that is under way. A step that cannot be read fails the run.
 *
 * List it before hooks that look at the step or the clock: what they have read before the wait is old after it. */

HS_BEGIN_DECLS

typedef struct hs_global_step_waiter_options {
    size_t size;
    int64_t wait_until_step; /* 0: does not wait */
    double poll_secs;        /* seconds between two looks at the step. 0: 0.5 */
    const hs_env *env;       /* NULL: the system's. Copied */
} hs_global_step_waiter_options;

/* Threads: any. */
HS_API hs_hook hs_global_step_waiter_hook(const hs_global_step_waiter_options *options);
#define hs_global_step_waiter(...) hs_global_step_waiter_hook(HS_OPTIONS(hs_global_step_waiter_options, __VA_ARGS__))

HS_END_DECLS

#endif
