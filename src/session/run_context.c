/* SPDX-License-Identifier: Apache-2.0 */
/* The context of a run: what hooks query and request. */
#include "session/session.h"

#include <stdio.h>

const hs_run_args *hs_run_context_original_args(const hs_run_context *run)
{
    return run ? run->args : NULL;
}

hs_raw_session *hs_run_context_session(const hs_run_context *run)
{
    return run ? &run->session->raw : NULL;
}

hs_run_kind hs_run_context_kind(const hs_run_context *run)
{
    return run ? run->kind : HS_RUN_AUX;
}

hs_boundary hs_run_context_boundary(const hs_run_context *run)
{
    return run ? run->boundary : (hs_boundary)0;
}

/* Not inlined: only the first hook that needs the step calls it. */
__attribute__((noinline)) static int64_t read_step(hs_run_context *run, hs_error *err)
{
    if (!run) {
        hs_error_set(err, HS_FAILED_PRECONDITION, "there is no run to read the global step of");
        return -1;
    }
    bool after = run->after;
    hs_raw_session *raw = &run->session->raw;
    if (hs__raw_session_read_step(raw, &run->step[after], err))
        return -1;
    run->has_step[after] = true;
    run->has_step[!after] &= run->moves == raw->moves;
    run->moves = raw->moves;
    return run->step[after];
}

int64_t hs_run_context_global_step(hs_run_context *run, hs_error *err)
{
    hs__clear(err);
    bool known = run && run->has_step[run->after] && run->moves == run->session->raw.moves;
    return known ? run->step[run->after] : read_step(run, err);
}

int64_t hs_run_context_now(hs_run_context *run)
{
    if (!run)
        return 0;
    bool after = run->after;
    if (!run->has_now[after]) {
        const hs_clock *clock = &run->session->env.clock;
        run->now[after] = clock->monotonic_ns(clock->user);
        run->has_now[after] = true;
    }
    return run->now[after];
}

int64_t hs__run_context_coarse_now(hs_run_context *run)
{
    int64_t now;
    return run && !run->has_now[run->after] && hs__env_coarse_ns(&run->session->env, &now) ? now : hs_run_context_now(run);
}

void hs_run_context_request_stop(hs_run_context *run)
{
    if (run)
        run->stop = HS__STOP_HOOK_DONE;
}

void hs_run_context_interrupt(hs_run_context *run)
{
    if (run && !run->stop)
        run->stop = HS__STOP_HOOK_INTERRUPTED;
}

void hs_run_context_request_save(hs_run_context *run)
{
    if (run)
        hs_session_request_save(run->session);
}

bool hs_run_context_stop_requested(const hs_run_context *run)
{
    return !run || run->stop;
}

void hs_run_context_request_boundary(hs_run_context *run)
{
    if (run)
        run->boundary_requested = true;
}
