/* SPDX-License-Identifier: Apache-2.0 */
/* How long callbacks take. Reading the clock takes longer than most callbacks. So boundaries are always timed, other
 * callbacks in the first 61 runs, in every 61st run, and while spans are recorded. */
#include "session/session.h"

#include <stdio.h>

/* A prime, so that work of every 2, 10 or 64 steps is met as often as it happens. */
enum { TIMED_EVERY = 61, LOGGED_SHARE = 20 };

void hs__callback_timing_free(struct hs_session *session)
{
    hs__free(&session->env, session->timing.spans);
}

void hs__decide_timing(struct hs_session *session)
{
    const uint64_t run = session->timing.n_runs;
    session->timing.runs_per_timed = 0;
    if (run >= session->timing.next_timed) { /* a session of a few long runs is timed in each */
        session->timing.runs_per_timed = run <= TIMED_EVERY ? 1 : TIMED_EVERY;
        session->timing.next_timed = run + (run < TIMED_EVERY ? 1 : TIMED_EVERY);
    }
    if (session->timing.span_runs)
        session->timing.span_runs--;
    session->timing.n_spans = 0;
    session->timing.on = session->timing.runs_per_timed || session->timing.span_runs;
}

static void record_span(struct hs_session *session, const hs__hook *hook, const char *callback, int64_t began,
                        int64_t ended)
{
    hs_error error = {0};
    if (hs__reserve(&session->env, &session->timing.spans, &session->timing.spans_capacity, session->timing.n_spans + 1,
                    sizeof *session->timing.spans, &error))
        hs_log(&session->env, HS_LOG_WARNING, "hook '%s', %s: cannot record its span: %s", hook->cold->ops.name, callback,
               error.message);
    else
        session->timing.spans[session->timing.n_spans++] = (hs__hook_span){hook->cold->ops.name, callback, began, ended};
}

void hs__timed_callback(struct hs_session *session, const hs__hook *hook, const char *callback, int64_t began,
                        int64_t calls)
{
    int64_t ended = hs_env_monotonic_ns(&session->env), duration_ns = ended - began;
    hook->cold->cost.total_ns += duration_ns * calls;
    if (duration_ns > hook->cold->cost.largest_ns || !hook->cold->cost.slowest) {
        const hs_run_context *run = &session->context;
        hook->cold->cost.largest_ns = duration_ns;
        hook->cold->cost.largest_calls = calls;
        hook->cold->cost.slowest = callback;
        hook->cold->cost.largest_step = run->has_step[1] ? run->step[1] : run->has_step[0] ? run->step[0] : -1;
    }
    if (session->timing.span_runs)
        record_span(session, hook, callback, began, ended);
}

static int64_t count_runs(const struct hs_session *session, const hs__hook *hook)
{
    uint64_t runs = 0;
    for (int kind = HS_RUN_TRAIN; kind <= HS_RUN_AUX; kind++)
        if (hook->cold->wanted_kinds >> kind & 1)
            runs += session->timing.n_runs_of_kind[kind];
    return (int64_t)runs;
}

bool hs_session_hook_cost(const hs_session *session, size_t index, hs_hook_cost *cost)
{
    if (!session || !cost || index >= session->n_hooks)
        return false;
    const hs__hook *hook = &session->hooks[index];
    /* The longest call counts once: it may have waited for a processor. */
    int64_t excess_ns = hook->cold->cost.largest_ns * (hook->cold->cost.largest_calls - 1);
    *cost = (hs_hook_cost){
        .name = hook->cold->ops.name,
        .slowest = hook->cold->cost.slowest ? hook->cold->cost.slowest : "",
        .runs = count_runs(session, hook),
        .total_ns = hook->cold->cost.total_ns - excess_ns,
        .largest_ns = hook->cold->cost.largest_ns,
        .largest_step = hook->cold->cost.slowest ? hook->cold->cost.largest_step : -1,
    };
    return true;
}

void hs__log_costs(const struct hs_session *session)
{
    hs_hook_cost cost;
    int64_t session_ns = hs_env_monotonic_ns(&session->env) - session->timing.opened_ns;
    for (size_t i = 0; hs_session_hook_cost(session, i, &cost); i++) {
        char at[48] = ""; /* no hook had read the step */
        if (cost.largest_step >= 0)
            snprintf(at, sizeof at, " at step %lld", (long long)cost.largest_step);
        if (cost.total_ns > session_ns) /* the total is an estimate */
            cost.total_ns = session_ns;
        if (cost.total_ns > 1000000000 && cost.total_ns > session_ns / LOGGED_SHARE)
            hs_log(&session->env, HS_LOG_INFO,
                   "hook '%s' took %.0f %% of the session's %.1f s: %.1f s in %lld runs, the longest %.3f s in %s%s",
                   cost.name, 100.0 * (double)cost.total_ns / (double)session_ns, (double)session_ns * 1e-9,
                   (double)cost.total_ns * 1e-9, (long long)cost.runs, (double)cost.largest_ns * 1e-9, cost.slowest, at);
    }
}

/* Spans. */

void hs__run_context_record_spans(hs_run_context *run)
{
    run->session->timing.span_runs = 2; /* the rest of this run, and the next run */
    run->session->timing.on = run->session->observed = true;
}

const hs__hook_span *hs__run_context_spans(const hs_run_context *run, size_t *n)
{
    *n = run->session->timing.n_spans;
    return run->session->timing.spans;
}
