/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_TIMER_H
#define HS_HOOKS_TIMER_H

#include <hooksess/hook.h>

/* When something that is done every so many seconds, or every so many steps, is due. TensorFlow: SecondOrStepTimer. A timer
 * that has never been marked is due. */
typedef struct hs__timer {
    int64_t every_ns, every_steps; /* one of the two is 0 */
    bool marked;
    int64_t last_ns, last_step;
} hs__timer;

/* Exactly one of the two is given (not 0) and positive. `secs_name` and `steps_name` are the options', for the message. */
hs_code hs__timer_init(hs__timer *timer, double every_secs, int64_t every_steps, const char *secs_name,
                       const char *steps_name, hs_error *err);
/* May it be due after this run? Reads the clock (shared by all hooks) only if it goes by time, and never the step: what may
 * be due is worth reading it for. */
bool hs__timer_may_be_due(const hs__timer *timer, hs_run_context *run);
bool hs__timer_due(const hs__timer *timer, int64_t step, int64_t now_ns);
/* Marks that it was done. The time and the steps since the mark before; false if there was none. */
bool hs__timer_mark(hs__timer *timer, int64_t step, int64_t now_ns, double *elapsed_secs, int64_t *elapsed_steps);
void hs__timer_reset(hs__timer *timer);

/* For a hook's save_state and load_state, so that a resumed run goes on in the rhythm of the one before. Only steps are
 * remembered: a timer that goes by seconds begins anew, and two runs of the same steps save the same bytes. Time that has
 * elapsed is reckoned from `now_ns`, the moment of the loading. */
hs_code hs__timer_save(const hs__timer *timer, hs_state_writer *out, hs_error *err);
hs_code hs__timer_load(hs__timer *timer, int64_t now_ns, hs_state_reader *in, hs_error *err);
/* A mark that was loaded and lies beyond where the counting stands is none. */
void hs__timer_forget_later(hs__timer *timer, int64_t step);

#endif
