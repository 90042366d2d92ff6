/* SPDX-License-Identifier: Apache-2.0 */
/* Timers: they decide by a trigger in which runs a hook acts. */
#include <hooksess/timer.h>

#include "base/env.h"
#include "base/trigger.h"
#include "session/services.h"

#include <stdlib.h>
#include <string.h>

static const int64_t NO_STEP = INT64_MAX;

enum { UNKNOWN = -1, NO_MARK = -1 };

struct hs_timer {
    hs_env env;
    int64_t every_ns, every_n_steps; /* 0: not used */
    int64_t *steps;                  /* the listed steps, ascending */
    size_t n_steps;
    bool on_request, first;  /* first: fires until it is marked */
    bool started, loaded;    /* since the reset. loaded: and not started since */
    bool marked, has_time;   /* has_time: last_ns is valid */
    bool by_steps;           /* every_n_steps or `first` fired in the last hs_timer_due: its mark restarts every_n_steps */
    int64_t requests;        /* save requests up to the last mark */
    int64_t next_listed;     /* the next of the listed steps. NO_STEP: none. UNKNOWN: not started */
    int64_t last_ns;         /* time of the last mark, or of the first run after a load */
    int64_t last_step;       /* every_n_steps counts from this step */
    int64_t last_acted_step; /* step of the last mark or of the start. every_n_secs does not fire again at this step */
};

static int compare_steps(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static hs_code copy_list(hs_timer *timer, const hs_trigger *trigger, hs_error *err)
{
    size_t n = 0;
    while (trigger->at_steps && trigger->at_steps[n] != -1)
        n++;
    if (!n)
        return HS_OK;
    if (!(timer->steps = hs__alloc(&timer->env, n, sizeof *timer->steps)))
        return hs__no_memory(err, n, "the trigger's steps");
    memcpy(timer->steps, trigger->at_steps, n * sizeof *timer->steps);
    qsort(timer->steps, n, sizeof *timer->steps, compare_steps);
    timer->n_steps = n;
    return HS_OK;
}

hs_timer *hs_timer_new(hs_trigger trigger, const hs_env *given_env, hs_error *err)
{
    hs_env env;
    hs__clear(err);
    if (hs__trigger_check(&trigger, err) || hs__env_copy(&env, given_env, err))
        return NULL;
    hs_timer *timer = hs__alloc(&env, 1, sizeof *timer);
    if (!timer) {
        hs__no_memory(err, sizeof *timer, "a timer");
        return NULL;
    }
    timer->env = env;
    timer->every_n_steps = trigger.every_n_steps;
    timer->every_ns = (int64_t)(trigger.every_n_secs * 1e9);
    if (trigger.every_n_secs > 0 && !timer->every_ns)
        timer->every_ns = 1;
    timer->on_request = trigger.on_request;
    timer->first = trigger.first;
    if (copy_list(timer, &trigger, err)) {
        hs_timer_free(timer);
        return NULL;
    }
    hs_timer_reset(timer);
    return timer;
}

void hs_timer_free(hs_timer *timer)
{
    if (!timer)
        return;
    hs_env env = timer->env;
    hs__free(&env, timer->steps);
    hs__free(&env, timer);
}

/* Returns the first listed step that is not before `step`. */
static int64_t listed_from(const hs_timer *timer, int64_t step)
{
    size_t low = 0, high = timer->n_steps;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (timer->steps[middle] < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < timer->n_steps ? timer->steps[low] : NO_STEP;
}

static int64_t listed_after(const hs_timer *timer, int64_t step)
{
    return step == INT64_MAX ? NO_STEP : listed_from(timer, step + 1);
}

/* Forgets all firings. Save requests that were seen do not fire again, whatever checkpoint is restored. */
static void clear_marks(hs_timer *timer)
{
    timer->marked = timer->has_time = timer->by_steps = timer->started = timer->loaded = false;
    timer->next_listed = timer->n_steps ? UNKNOWN : NO_STEP;
}

void hs_timer_reset(hs_timer *timer)
{
    if (!timer)
        return;
    clear_marks(timer);
    timer->requests = 0;
}

void hs_timer_start(hs_timer *timer, int64_t step)
{
    if (!timer)
        return;
    timer->started = true;
    timer->loaded = false;
    timer->last_acted_step = step;
    if (timer->last_step > step)
        timer->marked = false;
    if (timer->next_listed == UNKNOWN)
        timer->next_listed = listed_from(timer, step);
    else if (timer->next_listed > step) /* listed steps up to `step` have fired; a recovery may have changed it */
        timer->next_listed = listed_after(timer, step);
    else /* it was reached, but has not fired */
        timer->next_listed = listed_from(timer, timer->next_listed);
}

static void set_time(hs_timer *timer, int64_t now_ns)
{
    timer->last_ns = now_ns;
    timer->has_time = true;
}

static void set_mark(hs_timer *timer, hs_run_context *run, int64_t step)
{
    timer->marked = true;
    timer->last_step = step;
    set_time(timer, hs_run_context_now(run));
}

bool hs_timer_begin(hs_timer *timer, hs_run_context *run, int64_t step)
{
    if (!timer)
        return false;
    bool had_effect = !timer->marked && !timer->first;
    if (had_effect) {
        set_mark(timer, run, step);
        timer->last_acted_step = step;
    } else if (timer->marked && !timer->has_time) {
        set_time(timer, hs_run_context_now(run));
    }
    return had_effect;
}

static bool is_requested(const hs_timer *timer, const hs_run_context *run)
{
    return timer->on_request && hs__run_context_requests(run) != timer->requests;
}

static bool is_due_by_time(hs_timer *timer, hs_run_context *run)
{
    if (!timer->every_ns || !timer->marked)
        return false;
    int64_t now_ns = hs__run_context_coarse_now(run);
    if (!timer->has_time)
        set_time(timer, now_ns);
    return now_ns - timer->last_ns >= timer->every_ns;
}

static bool is_due_by_steps(const hs_timer *timer, int64_t step)
{
    if (!timer->marked)
        return timer->first;
    return timer->every_n_steps && step >= timer->last_step &&
           (uint64_t)step - (uint64_t)timer->last_step >= (uint64_t)timer->every_n_steps;
}

static bool is_listed(const hs_timer *timer, int64_t step)
{
    return timer->next_listed != UNKNOWN && step >= timer->next_listed;
}

bool hs_timer_may_fire(hs_timer *timer, hs_run_context *run)
{
    if (!timer)
        return false;
    return !timer->started || !timer->marked || timer->every_n_steps || timer->next_listed != NO_STEP ||
           is_requested(timer, run) || is_due_by_time(timer, run);
}

bool hs_timer_due(hs_timer *timer, hs_run_context *run, int64_t step)
{
    if (!timer)
        return false;
    timer->by_steps = is_due_by_steps(timer, step);
    return timer->by_steps || is_listed(timer, step) || is_requested(timer, run) || is_due_by_time(timer, run);
}

bool hs_timer_mark(hs_timer *timer, hs_run_context *run, int64_t step, double *elapsed_secs, int64_t *elapsed_steps)
{
    if (!timer)
        return false;
    bool was_marked = timer->marked;
    int64_t counts_from = was_marked && timer->every_n_steps && !timer->by_steps ? timer->last_step : step;
    if (was_marked && elapsed_secs)
        *elapsed_secs = timer->has_time ? (double)(hs_run_context_now(run) - timer->last_ns) / 1e9 : 0;
    if (was_marked && elapsed_steps)
        *elapsed_steps = step - timer->last_acted_step;
    set_mark(timer, run, counts_from);
    timer->started = true;
    timer->loaded = timer->by_steps = false;
    timer->last_acted_step = step;
    timer->next_listed = listed_after(timer, step);
    if (timer->on_request)
        timer->requests = hs__run_context_requests(run);
    return was_marked;
}

/* Starts the timer in a run: the session was restored after its first run, or the hook did not start the timer. */
static void start_late(hs_timer *timer, hs_run_context *run, int64_t step)
{
    bool was_loaded = timer->loaded;
    hs_timer_start(timer, step);
    if (was_loaded && !timer->marked) /* `first` does not fire again after a load */
        set_mark(timer, run, step);
}

hs_code hs_timer_fires(hs_timer *timer, hs_run_context *run, bool *fires, hs_error *err)
{
    *fires = false;
    if (!hs_timer_may_fire(timer, run)) {
        hs__clear(err);
        return HS_OK;
    }
    hs_error error;
    int64_t step = hs_run_context_global_step(run, &error);
    if (step < 0)
        return hs__error_copy(err, &error);
    hs__clear(err);
    if (!timer->started)
        start_late(timer, run, step);
    hs_timer_begin(timer, run, timer->last_acted_step);
    bool due = hs_timer_due(timer, run, step);
    bool by_time = due && !timer->by_steps && !is_listed(timer, step) && !is_requested(timer, run);
    *fires = due && !(by_time && step == timer->last_acted_step);
    if (*fires)
        hs_timer_mark(timer, run, step, NULL, NULL);
    return HS_OK;
}

/* The saved state: the step from which every_n_steps counts (0 if only the mark counts), or NO_MARK; the next listed step,
 * or UNKNOWN. */

hs_code hs_timer_save(const hs_timer *timer, hs_state_writer *out, hs_error *err)
{
    int64_t state[] = {NO_MARK, UNKNOWN};
    if (timer && timer->marked && (timer->every_n_steps || timer->n_steps))
        state[0] = timer->every_ns && !timer->every_n_steps
                       ? 0
                       : timer->last_step; /* otherwise the state would depend on the clock */
    if (timer && timer->n_steps)
        state[1] = timer->next_listed;
    return hs_state_writer_write(out, state, sizeof state, err);
}

hs_code hs_timer_load(hs_timer *timer, hs_state_reader *in, hs_error *err)
{
    int64_t state[2];
    hs_code code = hs_state_reader_read(in, state, sizeof state, err);
    if (code || !timer)
        return code;
    clear_marks(timer);
    timer->loaded = true;
    if (state[0] >= 0 && (timer->every_n_steps || timer->n_steps)) {
        timer->marked = true;
        timer->last_step = state[0];
    }
    if (timer->n_steps && state[1] >= 0)
        timer->next_listed = state[1];
    return HS_OK;
}
