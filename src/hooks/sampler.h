/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_SAMPLER_H
#define HS_HOOKS_SAMPLER_H

#include "hooks/step_clock.h"
#include "hooks/timing.h"

/* For hooks that fetch names in some runs: decides before each run whether it is sampled, which means that the names are
 * fetched. The schedule continues after a resume. */
typedef struct hs__sampler {
    hs__timing timing;
    hs_run_args args; /* the names to fetch. Without names, only the schedule is used */
    bool unsaved;     /* the state is not saved, so `first` of the trigger fires after each restart */
    hs__step_clock clock;
    int64_t sampled_step; /* step of the last sample. -1: none */
    /* Before the first run after the creation of the session, a restore, or a decrease of the step */
    int64_t begin_step, begin_ns;
    bool begun, fires_first, samples_now;
} hs__sampler;

/* Call in begin. */
void hs__sampler_reset(hs__sampler *sampler);
/* Call in after_create_session, and after a restore: forgets the step. */
void hs__sampler_restart(hs__sampler *sampler);
/* Call in before_run: sets *args if this run is sampled. The errors are those of hs_run_context_global_step. */
static inline hs_code hs__sampler_before(hs__sampler *sampler, hs_run_context *run, const hs_run_args **args,
                                         hs_error *err);
/* Call in after_run: sets *samples to true if this run was sampled. A hook that may miss runs sets clock.has_step to
 * false. */
static inline hs_code hs__sampler_after(hs__sampler *sampler, hs_run_context *run, bool *samples, hs_error *err);
/* Call in end: if the trigger has `last` and this step was not sampled, fetches in a separate run. */
hs_code hs__sampler_end(hs__sampler *sampler, hs_raw_session *session, const hs_run_values **values, bool *samples,
                        hs_error *err);

/* 24 bytes. HS_DATA_LOSS for numbers that no run can have saved. */
hs_code hs__sampler_save(const hs__sampler *sampler, hs_state_writer *out, hs_error *err);
hs_code hs__sampler_load(hs__sampler *sampler, hs_state_reader *in, hs_error *err);

/* Only for the functions above. They are inline, so that a run that is not sampled makes a single call, to the timer. */

hs_code hs__sampler_find_step(hs__sampler *sampler, hs_run_context *run, hs_error *err);
void hs__sampler_begin_sample(hs__sampler *sampler, hs_run_context *run, const hs_run_args **args);
void hs__sampler_end_sample(hs__sampler *sampler, hs_run_context *run, bool *samples);
void hs__sampler_step_decreased(hs__sampler *sampler, hs_run_context *run, int64_t step);

static inline hs_code hs__sampler_before(hs__sampler *s, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    hs_code code = s->clock.has_step ? HS_OK : hs__sampler_find_step(s, run, err);
    if (code)
        return code;
    s->samples_now = hs_timer_due(s->timing.timer, run, hs__step_clock_next(&s->clock)) || s->fires_first;
    if (s->samples_now)
        hs__sampler_begin_sample(s, run, args);
    return HS_OK;
}

/* If the schedule is by seconds, the step is read only in sampled runs. */
static inline hs_code hs__sampler_after(hs__sampler *s, hs_run_context *run, bool *samples, hs_error *err)
{
    *samples = false;
    if (!s->samples_now && !s->timing.by_steps)
        return HS_OK;
    int64_t step = hs_run_context_global_step(run, err), before = s->clock.step;
    bool sampled = s->samples_now;
    if (step < 0)
        return err->code;
    hs__step_clock_advance(&s->clock, step, s->timing.by_steps);
    if (step < before)
        hs__sampler_step_decreased(s, run, step);
    if (sampled)
        hs__sampler_end_sample(s, run, samples);
    return HS_OK;
}

#endif
