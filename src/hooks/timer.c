/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/timer.h"

#include "base/env.h"

#include <stdlib.h>
#include <string.h>

static const int64_t NO_STEP = INT64_MAX;

enum { UNKNOWN = -1, NO_MARK = -1, MARK_BEFORE_ZERO = -2 };

/* What is given, a pair or a trigger, as a trigger. */
static hs_code as_trigger(hs_trigger *trigger, const hs__timing *timing, hs_error *err)
{
    bool secs = timing->secs != 0, steps = timing->steps != 0;
    if (timing->trigger && (secs || steps))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "each of trigger and %s is given; give exactly one of the two",
                            steps ? timing->steps_name : timing->secs_name);
    if (timing->trigger)
        return hs_struct_take(trigger, sizeof *trigger, timing->trigger, "hs_trigger", err);
    if (secs && steps)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "each of %s and %s is given; give one of the two, or a trigger",
                            timing->secs_name, timing->steps_name);
    if (!secs && !steps && !timing->optional)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "none of %s and %s is given; give one of the two, or a trigger",
                            timing->secs_name, timing->steps_name);
    *trigger = (hs_trigger){
        .every_n_secs = timing->secs, .every_n_steps = timing->steps, .first = timing->first && (secs || steps)};
    return HS_OK;
}

static hs_code check_intervals(const hs_trigger *trigger, const hs__timing *timing, hs_error *err)
{
    const char *secs_name = timing->trigger ? "trigger: every_n_secs" : timing->secs_name;
    const char *steps_name = timing->trigger ? "trigger: every_n_steps" : timing->steps_name;
    if (trigger->every_n_steps < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %lld; it must be at least 1", steps_name,
                            (long long)trigger->every_n_steps);
    if (trigger->every_n_secs != 0 && !(trigger->every_n_secs > 0 && trigger->every_n_secs <= 1e9))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %g; it must be above 0 and at most 1e9", secs_name,
                            trigger->every_n_secs);
    return HS_OK;
}

static size_t count_steps(const hs_trigger *trigger)
{
    size_t n = 0;
    while (trigger->at_steps && trigger->at_steps[n] != -1)
        n++;
    return n;
}

static hs_code check_list(const hs_trigger *trigger, hs_error *err)
{
    for (size_t i = 0; i < count_steps(trigger); i++)
        if (trigger->at_steps[i] < 0 || trigger->at_steps[i] == NO_STEP)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "trigger: at_steps[%zu] is %lld, no step", i,
                                (long long)trigger->at_steps[i]);
    return HS_OK;
}

static hs_code check(const hs_trigger *trigger, const hs__timing *timing, hs_error *err)
{
    bool fires = trigger->every_n_steps || trigger->every_n_secs != 0 || count_steps(trigger) || trigger->on_request ||
                 trigger->first || trigger->last;
    hs_code code = check_intervals(trigger, timing, err);
    if (code || (code = check_list(trigger, err)))
        return code;
    if (timing->trigger && !fires)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "trigger: a trigger that never fires; give it a condition, such as every_n_steps");
    return HS_OK;
}

static int by_number(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static hs_code copy_list(hs__timer *timer, const hs_trigger *trigger, const hs_env *env, hs_error *err)
{
    size_t n = count_steps(trigger);
    if (!n)
        return HS_OK;
    if (!(timer->at = hs__alloc(env, n, sizeof *timer->at)))
        return hs__no_memory(err, n, "the trigger's steps");
    memcpy(timer->at, trigger->at_steps, n * sizeof *timer->at);
    qsort(timer->at, n, sizeof *timer->at, by_number);
    timer->n_at = n;
    return HS_OK;
}

hs_code hs__timer_init(hs__timer *timer, const hs__timing *timing, const hs_env *env, hs_error *err)
{
    hs_trigger trigger;
    hs_code code = as_trigger(&trigger, timing, err);
    *timer = (hs__timer){0};
    if (code || (code = check(&trigger, timing, err)) || (code = copy_list(timer, &trigger, env, err)))
        return code;
    timer->every_n_steps = trigger.every_n_steps;
    timer->every_ns = (int64_t)(trigger.every_n_secs * 1e9);
    if (trigger.every_n_secs > 0 && !timer->every_ns)
        timer->every_ns = 1;
    timer->on_request = trigger.on_request || timing->on_request;
    timer->first = trigger.first;
    timer->last = trigger.last;
    hs__timer_reset(timer);
    return HS_OK;
}

void hs__timer_free(hs__timer *timer, const hs_env *env)
{
    hs__free(env, timer->at);
    timer->at = NULL;
    timer->n_at = 0;
}

/* The first of the listed steps that is not before this one. */
static int64_t listed_from(const hs__timer *timer, int64_t step)
{
    size_t low = 0, high = timer->n_at;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (timer->at[middle] < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < timer->n_at ? timer->at[low] : NO_STEP;
}

static int64_t listed_after(const hs__timer *timer, int64_t step)
{
    return step == INT64_MAX ? NO_STEP : listed_from(timer, step + 1);
}

/* As if nothing had been done; what was requested has been, whatever the variables are restored to. */
static void forget(hs__timer *timer)
{
    timer->marked = timer->by_steps = false;
    timer->listed = timer->n_at ? UNKNOWN : NO_STEP;
}

void hs__timer_reset(hs__timer *timer)
{
    forget(timer);
    timer->requests = 0;
}

void hs__timer_start(hs__timer *timer, int64_t step)
{
    timer->done_step = step;
    if (timer->last_step > step)
        timer->marked = false;
    if (timer->listed == UNKNOWN)
        timer->listed = listed_from(timer, step);
    else if (timer->listed > step) /* all up to this one were seen to; after a recovery it is another than it was */
        timer->listed = listed_after(timer, step);
    else /* it was reached, and not seen to */
        timer->listed = listed_from(timer, timer->listed);
}

static void set_mark(hs__timer *timer, int64_t step, int64_t now_ns)
{
    timer->marked = true;
    timer->last_ns = now_ns;
    timer->last_step = step;
}

void hs__timer_begin(hs__timer *timer, hs_run_context *run, int64_t step)
{
    if (!timer->marked && !timer->first)
        set_mark(timer, step, hs_run_context_now(run));
}

void hs__timer_go_on(hs__timer *timer, hs_run_context *run, int64_t step)
{
    hs__timer_start(timer, step);
    if (!timer->marked)
        set_mark(timer, step, hs_run_context_now(run));
}

static uint32_t requests_in(const hs__timer *timer, const hs_run_context *run)
{
    return timer->on_request ? hs_run_context_requests(run) : timer->requests;
}

bool hs__timer_is_requested(const hs__timer *timer, const hs_run_context *run)
{
    return requests_in(timer, run) != timer->requests;
}

static bool is_time(const hs__timer *timer, int64_t now_ns)
{
    return timer->every_ns && timer->marked && now_ns - timer->last_ns >= timer->every_ns;
}

static bool is_due_by_steps(const hs__timer *timer, int64_t step)
{
    if (!timer->marked)
        return timer->first;
    return timer->every_n_steps && step >= timer->last_step &&
           (uint64_t)step - (uint64_t)timer->last_step >= (uint64_t)timer->every_n_steps;
}

bool hs__timer_is_listed(const hs__timer *timer, int64_t step)
{
    return timer->listed != UNKNOWN && step >= timer->listed;
}

bool hs__timer_goes_by_steps(const hs__timer *timer)
{
    return timer->every_n_steps || timer->n_at;
}

static bool is_due_otherwise(const hs__timer *timer, hs_run_context *run)
{
    return hs__timer_is_requested(timer, run) || (timer->every_ns && is_time(timer, hs_run_context_coarse_now(run)));
}

bool hs__timer_may_be_due(const hs__timer *timer, hs_run_context *run)
{
    return !timer->marked || timer->every_n_steps || timer->listed != NO_STEP || is_due_otherwise(timer, run);
}

bool hs__timer_due(const hs__timer *timer, int64_t step, int64_t now_ns, uint32_t requests)
{
    return is_due_by_steps(timer, step) || hs__timer_is_listed(timer, step) ||
           (timer->on_request && requests != timer->requests) || is_time(timer, now_ns);
}

/* Hooks ask this in every step. */
bool hs__timer_due_in(hs__timer *timer, hs_run_context *run, int64_t step)
{
    timer->by_steps = is_due_by_steps(timer, step);
    if (timer->by_steps || hs__timer_is_listed(timer, step))
        return true;
    return timer->every_ns || timer->on_request ? is_due_otherwise(timer, run) : false;
}

bool hs__timer_mark(hs__timer *timer, int64_t step, int64_t now_ns, double *elapsed_secs, int64_t *elapsed_steps)
{
    bool before = timer->marked;
    if (before && elapsed_secs)
        *elapsed_secs = (double)(now_ns - timer->last_ns) / 1e9;
    if (before && elapsed_steps)
        *elapsed_steps = step - timer->last_step;
    set_mark(timer, step, now_ns);
    timer->done_step = step;
    timer->listed = listed_after(timer, step);
    return before;
}

bool hs__timer_mark_in(hs__timer *timer, hs_run_context *run, int64_t step, double *elapsed_secs)
{
    bool shifts = !timer->marked || !timer->every_n_steps || timer->by_steps;
    int64_t rhythm = shifts ? step : timer->last_step;
    int64_t now = timer->every_ns || elapsed_secs ? hs_run_context_now(run) : timer->last_ns;
    bool before = hs__timer_mark(timer, step, now, elapsed_secs, NULL);
    timer->last_step = rhythm;
    timer->by_steps = false;
    timer->requests = requests_in(timer, run);
    return before;
}

hs_code hs__timer_fires(hs__timer *timer, hs_run_context *run, bool *fires, hs_error *err)
{
    int64_t step;
    *fires = false;
    if (!hs__timer_may_be_due(timer, run))
        return HS_OK;
    hs_code code = hs_run_context_step(run, &step, err);
    if (code)
        return code;
    bool due = hs__timer_due_in(timer, run, step);
    bool by_time = due && !timer->by_steps && !hs__timer_is_listed(timer, step) && !hs__timer_is_requested(timer, run);
    *fires = due && !(by_time && step == timer->done_step);
    if (*fires)
        hs__timer_mark_in(timer, run, step, NULL);
    return HS_OK;
}

void hs__timer_take_request(hs__timer *timer, const hs_run_context *run)
{
    timer->requests = requests_in(timer, run);
}

hs_code hs__timer_save(const hs__timer *timer, hs_state_writer *out, hs_error *err)
{
    int64_t last = timer->marked && hs__timer_goes_by_steps(timer) ? timer->last_step : NO_MARK;
    if (timer->from_zero && last >= 0)
        last = last ? last - 1 : MARK_BEFORE_ZERO;
    hs_code code = hs_state_writer_write(out, &last, sizeof last, err);
    return code || !timer->n_at ? code : hs_state_writer_write(out, &timer->listed, sizeof timer->listed, err);
}

static void restore_mark(hs__timer *timer, int64_t last, int64_t now_ns)
{
    if (timer->from_zero && (last == MARK_BEFORE_ZERO || (last >= 0 && last < INT64_MAX)))
        last = last >= 0 ? last + 1 : 0;
    if (last >= 0 && hs__timer_goes_by_steps(timer))
        set_mark(timer, last, now_ns);
}

hs_code hs__timer_load(hs__timer *timer, int64_t now_ns, hs_state_reader *in, hs_error *err)
{
    int64_t last, listed = UNKNOWN;
    hs_code code = hs_state_reader_read(in, &last, sizeof last, err);
    if (code || (hs_state_reader_remaining(in) && (code = hs_state_reader_read(in, &listed, sizeof listed, err))))
        return code;
    forget(timer);
    restore_mark(timer, last, now_ns);
    if (timer->n_at && listed >= 0)
        timer->listed = listed;
    return HS_OK;
}
