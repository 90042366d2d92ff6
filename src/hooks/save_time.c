/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/save_time.h"

#include "hooks/save_policy.h"

/* A save is given so much more time than the longest of the last few took; the longest is forgotten by so much at each
 * save; and where it does not fit, saving takes at most one part in so many of the time. */
static const double MARGIN = 1.25, KEPT = 0.9;
enum { SHARE = 20 };

void hs__save_time_begin(hs__save_time *time, const hs_run_context *run)
{
    time->began_ns = time->last_ns = hs_env_monotonic_ns(hs__env_of_run(run)); /* also where it fails */
}

double hs__save_time_last(const hs__save_time *time)
{
    return (double)(time->last_ns - time->began_ns) / 1e9;
}

void hs__save_time_end(hs__save_time *time, const hs_run_context *run)
{
    hs_raw_session *session = hs_run_context_session(run);
    time->last_ns = hs_env_monotonic_ns(hs__env_of_run(run));
    double secs = hs__save_time_last(time), before = hs_raw_session_save_secs(session) * KEPT;
    hs_raw_session_set_save_secs(session, secs > before ? secs : before);
    hs__save_time_tell(time, run);
}

void hs__save_time_tell(hs__save_time *time, const hs_run_context *run)
{
    const hs_raw_session *session = hs_run_context_session(run);
    double grace = hs_raw_session_grace_secs(session), secs = hs_raw_session_save_secs(session);
    if (!(grace > 0) || !(secs > 0))
        return;
    bool fits = secs * MARGIN <= grace;
    time->often_ns = fits ? 0 : (int64_t)(secs * SHARE * 1e9);
    if (time->told ? fits == time->fits : secs * 2 < grace)
        return;
    time->told = true;
    time->fits = fits;
    if (!fits)
        hs_log(hs__env_of_run(run), HS_LOG_WARNING,
               "a save takes %.3g s, but the process may be killed %.3g s after a signal (signal_grace_secs), so the last "
               "steps may be lost; saving at least every %.3g s until saves are faster",
               secs, grace, secs * SHARE);
    else
        hs_log(hs__env_of_run(run), HS_LOG_INFO,
               "a save takes %.3g s of the %.3g s that the process has after a signal (signal_grace_secs)", secs, grace);
}

bool hs__save_time_due(const hs__save_time *time, hs_run_context *run)
{
    return time->often_ns && hs_run_context_now(run) - time->last_ns >= time->often_ns;
}
