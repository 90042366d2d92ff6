/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TF1_TIMER_H
#define HOOKSESS_TF1_TIMER_H

#include <hooksess/env.h>
#include <hooksess/trigger.h>

/* Decides every N steps or every N seconds, for loops that call no hooks. A hook has `when` instead (hook.h): then the
 * session decides, and a resumed run acts at the same steps. Link with libhooksess_tf1. TensorFlow: SecondOrStepTimer.
 *
 *     hs_timer *timer = hs_timer_new(HS_EVERY_STEPS(100), NULL, &err);
 *     for (step = 1; step <= 1000; step++)
 *         if (hs_timer_should_trigger_for_step(timer, step)) {
 *             hs_timer_update_last_triggered_step(timer, step, NULL, NULL);
 *             printf("step %lld\n", (long long)step);
 *         }
 *     hs_timer_free(timer);
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_timer hs_timer;

/* Creates a timer. HS_INVALID_ARGUMENT: `when` has not exactly one of every_n_steps and every_n_secs, has another
 * condition, or an invalid number. */
HS_API hs_timer *hs_timer_new(hs_trigger when, const hs_env *env, hs_error *err);
HS_API void hs_timer_free(hs_timer *timer);

/* Forgets the last triggered step: the timer triggers for any step. */
HS_API void hs_timer_reset(hs_timer *timer);
/* Returns true if no step was recorded since the timer was created or reset, or if the interval has passed since the last
 * one. False for that step itself, and for a NULL timer. */
HS_API bool hs_timer_should_trigger_for_step(const hs_timer *timer, int64_t step);
/* Records that the caller acts at `step`, and the monotonic time of `env`.
 *
 * elapsed_secs, elapsed_steps  set to the time and the steps since the last triggered step. May be NULL
 *
 * Returns false, and sets neither, if there was none. */
HS_API bool hs_timer_update_last_triggered_step(hs_timer *timer, int64_t step, double *elapsed_secs,
                                                int64_t *elapsed_steps);
/* -1: none. */
HS_API int64_t hs_timer_last_triggered_step(const hs_timer *timer);

HS_END_DECLS

#endif
