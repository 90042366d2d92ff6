/* SPDX-License-Identifier: Apache-2.0 */
/* The first before_run waits until the global step reaches wait_until_step. */
#include <hooksess/hooks/global_step_waiter.h>

#include "hooks/lookup.h"
#include "hooks/make.h"

static const int64_t LOG_EVERY_NS = INT64_C(60000000000);
static const int64_t POLL_NS = 500000000; /* between reads of the step, as in TensorFlow */

typedef struct {
    hs__hook_base base;
    int64_t wait_until_step;
    bool released;
} global_step_waiter;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    ((global_step_waiter *)self)->released = false;
    return hs_backend_check_global_step(backend, err);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    global_step_waiter *hook = self;
    long long wait_until = hook->wait_until_step;
    (void)args;
    if (hook->released || !wait_until)
        return HS_OK;
    hs_raw_session *session = hs_run_context_session(run);
    const hs_env *env = hs__session_env(session);
    int64_t logged_ns = hs_env_monotonic_ns(env);
    hs_log(env, HS_LOG_INFO, "waiting for global step %lld before training begins", wait_until);
    while (!hs_raw_session_stop_requested(session)) {
        int64_t step = hs_raw_session_global_step(session, err);
        hook->released = step >= wait_until;
        if (step < 0 || hook->released)
            return err->code;
        int64_t now_ns = hs_env_monotonic_ns(env);
        if (now_ns - logged_ns >= LOG_EVERY_NS) {
            hs_log(env, HS_LOG_INFO, "still waiting for global step %lld; the current step is %lld", wait_until,
                   (long long)step);
            logged_ns = now_ns;
        }
        hs_env_sleep_ns(env, POLL_NS);
    }
    return HS_OK;
}

static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "global_step_waiter", .begin = begin, .before_run = before_run,
                                       .destroy = hs__hook_free, .rank_identity = hs__hook_rank_identity);

static hs_code check(const void *given, hs_error *err)
{
    const hs_global_step_waiter_options *options = given;
    if (options->wait_until_step < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "wait_until_step is %lld; it must be at least 0",
                            (long long)options->wait_until_step);
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    global_step_waiter *hook = self;
    const hs_global_step_waiter_options *options = given;
    (void)err;
    hook->wait_until_step = options->wait_until_step;
    return HS_OK;
}

static const hs__rank_option same[] = {
    HS__RANK_OPTION(hs_global_step_waiter_options, wait_until_step),
    {0},
};

hs_hook hs_global_step_waiter_hook(const hs_global_step_waiter_options *given)
{
    return HS__HOOK_MAKE(&ops, global_step_waiter, hs_global_step_waiter_options, wait_until_step, check, fill, same,
                         given);
}
