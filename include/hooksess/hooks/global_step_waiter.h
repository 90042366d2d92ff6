/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_GLOBAL_STEP_WAITER_H
#define HOOKSESS_HOOKS_GLOBAL_STEP_WAITER_H

#include <hooksess/hook.h>

/* Delays the first run until other processes have advanced the global step, so that workers start one after the other.
 * TensorFlow: GlobalStepWaiterHook.
 *
 *     hs_hook hook = hs_global_step_waiter(.wait_until_step = 100);
 *
 * It reads the step every half second by the environment's clock. The log gets a line at the start and one a minute. The
 * hook waits only once, even after a recovery. A requested stop ends the wait; the current run is still made. If the step
 * cannot be read, the run fails. List this hook before hooks that read the step or the clock.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_global_step_waiter_options {
    size_t size;
    int64_t wait_until_step; /* 0: does not wait */
} hs_global_step_waiter_options;

HS_API hs_hook hs_global_step_waiter_hook(const hs_global_step_waiter_options *options);
#define hs_global_step_waiter(...) hs_global_step_waiter_hook(HS_OPTIONS(hs_global_step_waiter_options, __VA_ARGS__))

HS_END_DECLS

#endif
