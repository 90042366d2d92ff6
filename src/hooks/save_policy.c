/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/save_policy.h"

#include "base/backoff.h"

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

/* After a signal the process may be killed soon. There must be time to wait, to save and to close the session. */
static bool is_time_left(const hs_raw_session *session, double left_secs, double wait_secs)
{
    enum { CLOSING_SECS = 5 };
    return left_secs == HS_NEVER || left_secs >= wait_secs + hs_raw_session_save_secs(session) + CLOSING_SECS;
}

bool hs__save_again(const hs__save_policy *policy, hs_run_context *run, hs_code code, hs_error *error)
{
    enum { MOST_TRIES = 5 };
    hs_raw_session *session = hs_run_context_session(run);
    if (!may_pass(code, error))
        return false;
    bool ends = hs_run_context_boundary(run) == HS_BOUNDARY_END;
    bool pauses = policy->on_failure == HS_SAVE_FAILURE_PAUSE;
    bool stops = !ends && hs_raw_session_stop_requested(session);
    int64_t wait_ns = pauses ? 1000000000 : hs__backoff_ns(policy->tries);
    if (pauses ? stops : !(ends && policy->on_failure == HS_SAVE_FAILURE_RETRY && policy->tries < MOST_TRIES))
        return false;
    if (ends && !is_time_left(session, hs_raw_session_grace_left_secs(session), (double)wait_ns / 1e9)) {
        hs_error_prefix(error, "not saved; after the request to stop there is no time to retry");
        return false;
    }
    if (policy->tries == 1)
        hs_log(hs__env_of_run(run), HS_LOG_WARNING, "%s; retrying", error->message);
    hs_env_sleep_ns(hs__env_of_run(run), wait_ns);
    return true;
}

bool hs__save_passes(const hs__save_policy *policy, hs_code code, const hs_error *error)
{
    return policy->on_failure != HS_SAVE_FAILURE_FAIL && may_pass(code, error);
}

void hs__go_on_unsaved(hs__save_policy *policy, hs_run_context *run, int64_t step, const hs_error *error)
{
    policy->retry_ns = hs_run_context_now(run) + hs__backoff_ns(policy->tries);
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
