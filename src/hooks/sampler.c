/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/sampler.h"

void hs__sampler_reset(hs__sampler *s)
{
    hs__sampler_restart(s);
    hs__step_clock_reset(&s->clock);
    s->sampled_step = -1;
    hs_timer_reset(s->timing.timer);
}

void hs__sampler_restart(hs__sampler *s)
{
    s->begun = s->clock.has_step = s->samples_now = false;
    s->fires_first = s->unsaved && s->timing.first;
}

static void begin_at(hs__sampler *s, hs_run_context *run, int64_t step)
{
    s->begun = true;
    s->begin_step = step;
    s->begin_ns = hs_run_context_now(run);
}

hs_code hs__sampler_find_step(hs__sampler *s, hs_run_context *run, hs_error *err)
{
    int64_t step = hs_run_context_global_step(run, err);
    if (step < 0)
        return err->code;
    s->clock.step = step;
    s->clock.has_step = true;
    if (s->sampled_step > step)
        s->sampled_step = -1;
    if (!s->begun)
        begin_at(s, run, step);
    hs_timer_start(s->timing.timer, step);
    hs_timer_begin(s->timing.timer, run, step);
    return HS_OK;
}

void hs__sampler_begin_sample(hs__sampler *s, hs_run_context *run, const hs_run_args **args)
{
    if (s->timing.by_secs) /* here, so that each step longer than the interval is sampled */
        hs_timer_mark(s->timing.timer, run, hs__step_clock_next(&s->clock), NULL, NULL);
    if (s->args.names)
        *args = &s->args;
}

void hs__sampler_end_sample(hs__sampler *s, hs_run_context *run, bool *samples)
{
    if (!s->timing.by_secs)
        hs_timer_mark(s->timing.timer, run, s->clock.step, NULL, NULL);
    s->fires_first = false;
    s->sampled_step = s->clock.step;
    *samples = true;
}

/* The step decreased without a restore: the program has set it. */
void hs__sampler_step_decreased(hs__sampler *s, hs_run_context *run, int64_t step)
{
    hs__sampler_restart(s);
    begin_at(s, run, step);
}

hs_code hs__sampler_end(hs__sampler *s, hs_raw_session *session, const hs_run_values **values, bool *samples, hs_error *err)
{
    *values = NULL;
    *samples = false;
    if (!s->timing.last)
        return HS_OK;
    s->clock.step = hs_raw_session_global_step(session, err);
    if (s->clock.step < 0 || s->clock.step == s->sampled_step)
        return err->code;
    hs_code code = s->args.names ? hs_raw_session_run(session, &s->args, values, err) : HS_OK;
    *samples = !code;
    s->sampled_step = s->clock.step;
    return code;
}

hs_code hs__sampler_save(const hs__sampler *s, hs_state_writer *out, hs_error *err)
{
    return hs__step_clock_save(&s->clock, s->timing.timer, out, err);
}

hs_code hs__sampler_load(hs__sampler *s, hs_state_reader *in, hs_error *err)
{
    hs_code code = hs__step_clock_load(&s->clock, s->timing.timer, in, err);
    if (!code)
        hs__sampler_restart(s);
    return code;
}
