/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/timer.h"

hs_code hs__timer_init(hs__timer *timer, double every_secs, int64_t every_steps, const char *secs_name,
                       const char *steps_name, hs_error *err)
{
    *timer = (hs__timer){0};
    if ((every_secs != 0) == (every_steps != 0))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s of %s and %s is given; give exactly one of the two",
                            every_steps ? "each" : "none", secs_name, steps_name);
    if (every_steps < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %lld; it must be at least 1", steps_name,
                            (long long)every_steps);
    if (every_secs != 0 && !(every_secs > 0 && every_secs <= 1e9))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %g; it must be above 0 and at most 1e9", secs_name,
                            every_secs);
    timer->every_steps = every_steps;
    timer->every_ns = (int64_t)(every_secs * 1e9);
    return HS_OK;
}

bool hs__timer_may_be_due(const hs__timer *timer, hs_run_context *run)
{
    return !timer->marked || timer->every_steps || hs_run_context_now(run) - timer->last_ns >= timer->every_ns;
}

bool hs__timer_due(const hs__timer *timer, int64_t step, int64_t now_ns)
{
    if (!timer->marked)
        return true;
    if (timer->every_steps)
        return step >= timer->last_step && (uint64_t)step - (uint64_t)timer->last_step >= (uint64_t)timer->every_steps;
    return now_ns - timer->last_ns >= timer->every_ns;
}

bool hs__timer_mark(hs__timer *timer, int64_t step, int64_t now_ns, double *elapsed_secs, int64_t *elapsed_steps)
{
    bool before = timer->marked;
    if (before && elapsed_secs)
        *elapsed_secs = (double)(now_ns - timer->last_ns) / 1e9;
    if (before && elapsed_steps)
        *elapsed_steps = step - timer->last_step;
    timer->marked = true;
    timer->last_ns = now_ns;
    timer->last_step = step;
    return before;
}

void hs__timer_reset(hs__timer *timer)
{
    timer->marked = false;
}

hs_code hs__timer_save(const hs__timer *timer, hs_state_writer *out, hs_error *err)
{
    int64_t last = timer->marked && timer->every_steps ? timer->last_step : -1;
    return hs_state_write(out, &last, sizeof last, err);
}

hs_code hs__timer_load(hs__timer *timer, int64_t now_ns, hs_state_reader *in, hs_error *err)
{
    int64_t last;
    hs_code code = hs_state_read(in, &last, sizeof last, err);
    if (code)
        return code;
    hs__timer_reset(timer);
    if (last >= 0 && timer->every_steps)
        hs__timer_mark(timer, last, now_ns, NULL, NULL);
    return HS_OK;
}

void hs__timer_forget_later(hs__timer *timer, int64_t step)
{
    if (timer->last_step > step)
        hs__timer_reset(timer);
}
