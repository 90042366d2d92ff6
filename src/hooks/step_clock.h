/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_STEP_CLOCK_H
#define HS_HOOKS_STEP_CLOCK_H

#include <hooksess/timer.h>

/* Predicts the global step after a run, for hooks that decide before the run whether they act. */
typedef struct hs__step_clock {
    int64_t step;    /* the global step after the last run that the hook looked at */
    int64_t per_run; /* steps of the last run that advanced the global step */
    bool has_step;   /* `step` is known */
} hs__step_clock;

/* Call in begin. */
static inline void hs__step_clock_reset(hs__step_clock *clock)
{
    clock->per_run = 1;
    clock->has_step = false;
}

/* Call in before_run: the step after this run. */
static inline int64_t hs__step_clock_next(const hs__step_clock *clock)
{
    return clock->step + clock->per_run;
}

/* Call in after_run. `every_run`: the hook calls it after each run, so that the difference is the steps of one run. */
static inline void hs__step_clock_advance(hs__step_clock *clock, int64_t step, bool every_run)
{
    if (every_run && step > clock->step)
        clock->per_run = step - clock->step;
    clock->step = step;
}

/* Call in save_state and load_state. The state has 24 bytes, with the state of the timer. The step is unknown after a load.
 * HS_DATA_LOSS for a number of steps that no run can have saved. */
hs_code hs__step_clock_save(const hs__step_clock *clock, const hs_timer *timer, hs_state_writer *out, hs_error *err);
hs_code hs__step_clock_load(hs__step_clock *clock, hs_timer *timer, hs_state_reader *in, hs_error *err);

#endif
