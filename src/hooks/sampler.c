/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/sampler.h"

static const int64_t MOST_PER_RUN = INT64_MAX / 2;

void hs__sampler_reset(hs__sampler *s)
{
    hs__sampler_restart(s);
    s->per_run = 1;
    s->sampled_step = -1;
    hs_timer_reset(s->timing.timer);
}

void hs__sampler_restart(hs__sampler *s)
{
    s->begun = s->has_step = s->samples_now = false;
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
    s->step = step;
    s->has_step = true;
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
    if (s->timing.by_secs) /* counted from here, so that each step that takes longer is sampled */
        hs_timer_mark(s->timing.timer, run, s->step + s->per_run, NULL, NULL);
    if (s->args.names)
        *args = &s->args;
}

void hs__sampler_end_sample(hs__sampler *s, hs_run_context *run, bool *samples)
{
    if (!s->timing.by_secs)
        hs_timer_mark(s->timing.timer, run, s->step, NULL, NULL);
    s->fires_first = false;
    s->sampled_step = s->step;
    *samples = true;
}

/* Not by a restore: the program has set it. */
void hs__sampler_go_back(hs__sampler *s, hs_run_context *run, int64_t step)
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
    s->step = hs_raw_session_global_step(session, err);
    if (s->step < 0 || s->step == s->sampled_step)
        return err->code;
    hs_code code = s->args.names ? hs_raw_session_run(session, &s->args, values, err) : HS_OK;
    *samples = !code;
    s->sampled_step = s->step;
    return code;
}

hs_code hs__sampler_save(const hs__sampler *s, hs_state_writer *out, hs_error *err)
{
    hs_code code = hs_state_writer_write(out, &s->per_run, sizeof s->per_run, err);
    return code ? code : hs_timer_save(s->timing.timer, out, err);
}

hs_code hs__sampler_load(hs__sampler *s, hs_state_reader *in, hs_error *err)
{
    int64_t per_run;
    hs_code code = hs_state_reader_read(in, &per_run, sizeof per_run, err);
    if (code)
        return code;
    if (per_run < 1 || per_run > MOST_PER_RUN)
        return hs_error_set(err, HS_DATA_LOSS, "invalid count: %lld steps per run", (long long)per_run);
    hs__sampler_restart(s);
    s->per_run = per_run;
    return hs_timer_load(s->timing.timer, in, err);
}
