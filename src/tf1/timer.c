/* SPDX-License-Identifier: Apache-2.0 */
/* Timers: every N steps or every N seconds. */
#include <hooksess/tf1/timer.h>

struct hs_timer {
    hs_env env;
    int64_t every_n_steps, every_ns; /* one of them is 0: not used */
    bool has_step;                   /* the other two are valid */
    int64_t last_step, last_ns;
};

static hs_code check(const hs_trigger *when, hs_error *err)
{
    const bool secs = when->every_n_secs != 0, steps = when->every_n_steps != 0;
    if (when->at_steps || when->on_request || when->first || when->last || when->counts_runs)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "a timer has only every_n_secs or every_n_steps; other conditions are those of a hook's when");
    if (secs == steps)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s of every_n_secs and every_n_steps is given; give exactly one of the two",
                            secs ? "each" : "none");
    if (when->every_n_steps < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "every_n_steps is %lld; it must be at least 1",
                            (long long)when->every_n_steps);
    if (secs && !(when->every_n_secs > 0 && when->every_n_secs <= 1e9))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "every_n_secs is %g; it must be above 0 and at most 1e9",
                            when->every_n_secs);
    return HS_OK;
}

hs_timer *hs_timer_new(hs_trigger when, const hs_env *given, hs_error *err)
{
    hs_env env = HS_INIT(hs_env);
    if (check(&when, err) || (given && HS_STRUCT_TAKE(hs_env, files, &env, given, err)))
        return NULL;
    hs_timer *timer = hs_env_alloc(&env, sizeof *timer);
    if (!timer) {
        hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a timer");
        return NULL;
    }
    timer->env = env;
    timer->every_n_steps = when.every_n_steps;
    timer->every_ns = (int64_t)(when.every_n_secs * 1e9);
    if (!timer->every_n_steps && !timer->every_ns)
        timer->every_ns = 1;
    hs_error_clear(err);
    return timer;
}

void hs_timer_free(hs_timer *timer)
{
    if (!timer)
        return;
    hs_env env = timer->env;
    hs_env_free(&env, timer);
}

void hs_timer_reset(hs_timer *timer)
{
    if (timer)
        timer->has_step = false;
}

bool hs_timer_should_trigger_for_step(const hs_timer *timer, int64_t step)
{
    if (!timer || !timer->has_step)
        return timer != NULL;
    if (timer->every_n_steps)
        return step - timer->last_step >= timer->every_n_steps;
    return step != timer->last_step && hs_env_monotonic_ns(&timer->env) - timer->last_ns >= timer->every_ns;
}

bool hs_timer_update_last_triggered_step(hs_timer *timer, int64_t step, double *elapsed_secs, int64_t *elapsed_steps)
{
    if (!timer)
        return false;
    const bool had_step = timer->has_step;
    const int64_t now_ns = hs_env_monotonic_ns(&timer->env);
    if (had_step && elapsed_secs)
        *elapsed_secs = (double)(now_ns - timer->last_ns) / 1e9;
    if (had_step && elapsed_steps)
        *elapsed_steps = step - timer->last_step;
    timer->has_step = true;
    timer->last_step = step;
    timer->last_ns = now_ns;
    return had_step;
}

int64_t hs_timer_last_triggered_step(const hs_timer *timer)
{
    return timer && timer->has_step ? timer->last_step : -1;
}
