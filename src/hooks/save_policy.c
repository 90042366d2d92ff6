/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/save_policy.h"

const hs_env *hs__env_of_run(const hs_run_context *run)
{
    return hs_backend_env(hs_raw_session_backend(hs_run_context_session(run)));
}

/* Is it a failure of the file system, or of memory? A later save may succeed. A lost session is the session's to recover.
 */
static bool may_pass(hs_code code, const hs_error *error)
{
    if (code == HS_ABORTED || code == HS_UNAVAILABLE)
        return false;
    return code == HS_RESOURCE_EXHAUSTED || (code && error->os_error);
}

static int64_t backoff_ns(const hs__save_policy *policy)
{
    enum { MOST_DOUBLINGS = 6 };
    const int64_t SECOND = 1000000000;
    return SECOND << (policy->tries - 1 < MOST_DOUBLINGS ? policy->tries - 1 : MOST_DOUBLINGS);
}

bool hs__save_again(const hs__save_policy *policy, hs_run_context *run, hs_code code, const hs_error *error)
{
    enum { MOST_TRIES = 5 };
    if (!may_pass(code, error))
        return false;
    bool ends = hs_run_context_boundary(run) == HS_BOUNDARY_END;
    bool pauses = policy->on_failure == HS_SAVE_FAILURE_PAUSE;
    bool stops = !ends && hs_raw_session_stop_requested(hs_run_context_session(run));
    if (pauses ? stops : !(ends && policy->on_failure == HS_SAVE_FAILURE_RETRY && policy->tries < MOST_TRIES))
        return false;
    if (policy->tries == 1)
        hs_log(hs__env_of_run(run), HS_LOG_WARNING, "%s; retrying", error->message);
    hs_env_sleep_ns(hs__env_of_run(run), pauses ? 1000000000 : backoff_ns(policy));
    return true;
}

bool hs__save_passes(const hs__save_policy *policy, hs_code code, const hs_error *error)
{
    return policy->on_failure != HS_SAVE_FAILURE_FAIL && may_pass(code, error);
}

void hs__go_on_unsaved(hs__save_policy *policy, hs_run_context *run, int64_t step, const hs_error *error)
{
    policy->retry_ns = hs_run_context_now(run) + backoff_ns(policy);
    hs_raw_session_report_failure(hs_run_context_session(run), "checkpoint_saver", error);
    hs_log(hs__env_of_run(run), HS_LOG_WARNING, "step %lld: not saved, training continues: %s", (long long)step,
           error->message);
}

/* PAUSE waits in the boundary, and comes here only where a stop cut the waiting short. */
bool hs__save_retries(const hs__save_policy *policy)
{
    return policy->tries && (policy->on_failure == HS_SAVE_FAILURE_PAUSE || policy->on_failure == HS_SAVE_FAILURE_RETRY);
}

bool hs__save_retry_due(const hs__save_policy *policy, hs_run_context *run)
{
    return policy->on_failure == HS_SAVE_FAILURE_PAUSE || hs_run_context_now(run) >= policy->retry_ns;
}
