/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TIMER_H
#define HOOKSESS_TIMER_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* A timer says in which runs a hook acts, by its trigger. With its saved state, a resumed run fires at the same steps as an
 * uninterrupted one. TensorFlow: SecondOrStepTimer.
 *
 *   constructor            hs_timer_new. On failure, hs_hook_broken
 *   begin                  hs_timer_reset
 *   after_create_session   hs_timer_start, with the step of hs_raw_session_global_step
 *   after_run              hs_timer_fires
 *   save_state, load_state hs_timer_save, hs_timer_load
 *   destroy                hs_timer_free
 *
 * A hook that fetches values decides before the run:
 *
 *   before_run             with the step of hs_run_context_global_step:
 *                          hs_timer_begin(h->timer, run, step);
 *                          h->acts = hs_timer_due(h->timer, run, step + 1);
 *   after_run              if (h->acts)
 *                              hs_timer_mark(h->timer, run, step, NULL, NULL);
 *
 * The step is the global step, or a number that the hook counts and saves. For the trigger's `last`, the hook acts in
 * `end`, unless it has acted at that step. A NULL timer never fires.
 *
 * Threads: the session's thread only. */

HS_BEGIN_DECLS

typedef struct hs_timer hs_timer;

/* Creates a timer. The list of `when` is copied. HS_INVALID_ARGUMENT: it never fires or has an invalid number. */
HS_API hs_timer *hs_timer_new(hs_trigger when, const hs_env *env, hs_error *err);
HS_API void hs_timer_free(hs_timer *timer);

/* Clears the timer for another session. */
HS_API void hs_timer_reset(hs_timer *timer);
/* Sets the step at which the session begins. Call it after each creation of the session, in after_create_session or the
 * first before_run, and before the first hs_timer_due after a load. A mark at a later step is cleared. Listed steps before
 * `step` do not fire. */
HS_API void hs_timer_start(hs_timer *timer, int64_t step);
/* Call it in before_run, before hs_timer_due: every_n_steps and every_n_secs then count from `step` and the time of `run`.
 * Returns true if it had an effect. It has none in later runs, with `first`, and after hs_timer_load. */
HS_API bool hs_timer_begin(hs_timer *timer, hs_run_context *run, int64_t step);

/* For after_run: sets *fires if the trigger fires at the global step, and marks the timer. every_n_secs waits for a run
 * that advances the step. On an error of hs_run_context_global_step, *fires is false. */
HS_API hs_code hs_timer_fires(hs_timer *timer, hs_run_context *run, bool *fires, hs_error *err);

/* For a hook that decides before the run or counts steps itself, in place of hs_timer_fires. */

/* Returns false if the timer cannot fire in this run, whatever the step. */
HS_API bool hs_timer_may_fire(hs_timer *timer, hs_run_context *run);
/* Returns true if the timer fires at `step`. In before_run, pass the step after the run. */
HS_API bool hs_timer_due(hs_timer *timer, hs_run_context *run, int64_t step);
/* Records that the hook acted at `step`. every_n_secs counts from here, and every_n_steps only if it fired itself. Returns
 * true if the intervals had begun.
 *
 * elapsed_secs, elapsed_steps  then set to the time, from a load on, and the steps since the last mark. May be NULL */
HS_API bool hs_timer_mark(hs_timer *timer, hs_run_context *run, int64_t step, double *elapsed_secs, int64_t *elapsed_steps);

/* For save_state and load_state: 16 bytes, at any place in the hook's state. Only steps are saved; seconds count from the
 * load. Saved values that do not fit the trigger are ignored. Errors: as hs_state_writer_write and hs_state_reader_read. */
HS_API hs_code hs_timer_save(const hs_timer *timer, hs_state_writer *out, hs_error *err);
HS_API hs_code hs_timer_load(hs_timer *timer, hs_state_reader *in, hs_error *err);

HS_END_DECLS

#endif
