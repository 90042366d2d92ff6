/* SPDX-License-Identifier: Apache-2.0 */
/* after_create_session turns a number of steps into the last step, from which on the session calls after_run. */
#include <hooksess/hooks/stop_at_step.h>

#include "hooks/lookup.h"
#include "hooks/make.h"

typedef struct {
    hs__hook_base base;
    int64_t num_steps, last_step; /* last_step -1: not set yet */
} stop_at_step;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    (void)self;
    return hs_backend_check_global_step(backend, err);
}

/* num_steps counts from the first creation of the session, not from each recovery. */
static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    stop_at_step *hook = self;
    int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0)
        return err->code;
    if (hook->last_step < 0)
        hook->last_step = step > INT64_MAX - hook->num_steps ? INT64_MAX : step + hook->num_steps;
    hs_raw_session_due_from(session, hook->last_step);
    if (step >= hook->last_step) {
        hs_log(hs__session_env(session), HS_LOG_INFO, "step %lld: training is already done: last_step is %lld",
               (long long)step, (long long)hook->last_step);
        hs_coordinator_request_stop(coordinator, NULL);
    }
    return HS_OK;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    const stop_at_step *hook = self;
    (void)values;
    int64_t step = hs_run_context_global_step(run, err);
    if (step >= hook->last_step)
        hs_run_context_request_stop(run);
    return err->code;
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "stop_at_step", .begin = begin, .after_create_session = after_create_session,
            .after_run = after_run, .destroy = hs__hook_free, .rank_identity = hs__hook_rank_identity);

static hs_code check(const void *given, hs_error *err)
{
    const hs_stop_at_step_options *options = given;
    if (options->num_steps && options->last_step)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "each of num_steps and last_step is given; give at most one of the two");
    if (!options->num_steps && !options->last_step)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "neither num_steps nor last_step is given, or it is 0; give one of the two");
    if (options->num_steps < 0 || options->last_step < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %lld; it must be at least 1",
                            options->num_steps ? "num_steps" : "last_step",
                            (long long)(options->num_steps + options->last_step));
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    stop_at_step *hook = self;
    const hs_stop_at_step_options *options = given;
    (void)err;
    hook->num_steps = options->num_steps;
    hook->last_step = options->num_steps ? -1 : options->last_step;
    return HS_OK;
}

static const hs__rank_option same[] = {
    HS__RANK_OPTION(hs_stop_at_step_options, num_steps),
    HS__RANK_OPTION(hs_stop_at_step_options, last_step),
    {0},
};

hs_hook hs_stop_at_step_hook(const hs_stop_at_step_options *given)
{
    return HS__HOOK_MAKE(&ops, stop_at_step, hs_stop_at_step_options, last_step, check, fill, same, given);
}
