/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TIMER_H
#define HOOKSESS_TIMER_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* A timer decides in which runs a hook acts, as its trigger says, and resumes exactly: its state is saved in the
 * checkpoint, and a resumed run fires at the steps at which the whole run would have. The built-in hooks use it.
 * TensorFlow: SecondOrStepTimer.
 *
 * A hook that acts after a run:
 *
 *     constructor            h->timer = hs_timer_new(HS_TRIGGER(.every_n_steps = 100), NULL, &error);
 *     begin                  hs_timer_reset(h->timer);
 *     after_create_session   hs_timer_start(h->timer, step); with the step of hs_raw_session_global_step
 *     after_run              if ((code = hs_timer_fires(h->timer, run, &fires, err)) || !fires)
 *                                return code;
 *     save_state             hs_timer_save(h->timer, out, err)
 *     load_state             hs_timer_load(h->timer, in, err)
 *     destroy                hs_timer_free(h->timer);
 *
 * A hook that fetches values has to decide before the run:
 *
 *     before_run             with the step of hs_run_context_global_step:
 *                            hs_timer_begin(h->timer, run, step);
 *                            h->acts = hs_timer_due(h->timer, run, step + 1);
 *     after_run              if (h->acts)
 *                                hs_timer_mark(h->timer, run, step, NULL, NULL);
 *
 * The trigger's `last` is left to the hook: it acts in end, unless it has acted at that step.
 *
 * The step is the global step, or a number that the hook counts itself and saves, such as its runs.
 *
 * Each function accepts NULL as the timer: that one never fires.
 *
 * Threads: the session's only. */

HS_BEGIN_DECLS

typedef struct hs_timer hs_timer;

/* Makes a timer.
 *
 * trigger  copied
 * env      memory; NULL: malloc
 *
 * The caller frees it with hs_timer_free. NULL after an error: HS_INVALID_ARGUMENT for a trigger that is NULL, never fires
 * or has an invalid number, HS_RESOURCE_EXHAUSTED. A constructor reports the error with hs_hook_broken. */
HS_API hs_timer *hs_timer_new(const hs_trigger *trigger, const hs_env *env, hs_error *err);
HS_API void hs_timer_free(hs_timer *timer);

/* Forgets what fired and what was requested. Call it in begin, so that the hook can be used in another session. */
HS_API void hs_timer_reset(hs_timer *timer);
/* The session is at `step`. Call it after each creation of the session (after_create_session, or the first before_run
 * after that) and, for hs_timer_due, before the first run after a load. What fired at a later step is forgotten; listed
 * steps before this one have passed. */
HS_API void hs_timer_start(hs_timer *timer, int64_t step);
/* The intervals begin at `step` and at the time of `run`, unless they have begun, were loaded, or the trigger has `first`.
 * Returns true if they begin. hs_timer_fires does it after the first run, from the step of hs_timer_start; call this to
 * begin elsewhere, or for hs_timer_due. */
HS_API bool hs_timer_begin(hs_timer *timer, hs_run_context *run, int64_t step);

/* For after_run: sets *fires if the trigger fires at the global step, and marks the timer. If only seconds have passed, it
 * does not fire in a run that does not advance the step: the next step fires. Reads the step and the clock only if the
 * trigger needs them. The errors are those of hs_run_context_global_step, and *fires is false. */
HS_API hs_code hs_timer_fires(hs_timer *timer, hs_run_context *run, bool *fires, hs_error *err);

/* The parts of hs_timer_fires, for a hook that decides before the run or counts its own steps. */

/* False if the timer does not fire in this run, whatever the step is: the step need not be read. */
HS_API bool hs_timer_may_fire(hs_timer *timer, hs_run_context *run);
/* True if the timer fires at `step`: in before_run, the step after the run. */
HS_API bool hs_timer_due(hs_timer *timer, hs_run_context *run, int64_t step);
/* The hook has acted at `step`: every_n_secs and every_n_steps count from here, but every_n_steps not if something else
 * fired. Returns true if the intervals had begun before, with the time and the steps since they began or the last mark;
 * both pointers may be NULL. After a load the time is counted from the load. */
HS_API bool hs_timer_mark(hs_timer *timer, hs_run_context *run, int64_t step, double *elapsed_secs, int64_t *elapsed_steps);

/* For save_state and load_state: 16 bytes, wherever they are in the hook's state. Only steps are saved: seconds count from
 * the load, so that equal runs save equal bytes. What another trigger has saved is ignored where it does not fit. The
 * errors are those of hs_state_writer_write and hs_state_reader_read. */
HS_API hs_code hs_timer_save(const hs_timer *timer, hs_state_writer *out, hs_error *err);
HS_API hs_code hs_timer_load(hs_timer *timer, hs_state_reader *in, hs_error *err);

HS_END_DECLS

#endif
