/* SPDX-License-Identifier: Apache-2.0 */
/* The outcome of a session: its exit code, and the names of reasons. */
#include <hooksess/outcome.h>

int hs_outcome_exit_code(const hs_outcome *outcome)
{
    enum { FAILED = 1, RESUMABLE = 75, BY_SIGNAL = 128 };
    if (!outcome)
        return FAILED;
    bool failed = outcome->reason == HS_REASON_FAILED;
    if (!failed && !outcome->interrupted)
        return 0;
    if (!failed && outcome->step >= 0 && outcome->last_saved_step == outcome->step)
        return RESUMABLE;
    const bool is_rank_lost = outcome->cause_rank >= 0 && outcome->last_saved_step >= 0;
    if (failed && outcome->error.code == HS_UNAVAILABLE && (is_rank_lost || outcome->opening))
        return RESUMABLE; /* new processes can continue */
    if (outcome->signal)
        return BY_SIGNAL + outcome->signal;
    return failed || outcome->last_saved_step >= 0 ? FAILED : 0;
}

hs_outcome hs_outcome_from_error(const hs_error *error)
{
    hs_outcome outcome = {.reason = HS_REASON_FAILED, .step = -1, .last_saved_step = -1, .cause_rank = -1, .opening = true};
    if (error && error->code)
        outcome.error = *error;
    else
        hs_error_set(&outcome.error, HS_FAILED_PRECONDITION, "session is NULL; it was not opened, or is already closed");
    return outcome;
}

const char *hs_reason_name(hs_reason reason)
{
    static const char *const names[] = {"failed", "closed", "stopped", "end of input", "already done"};
    return reason >= 0 && reason < (int32_t)(sizeof names / sizeof *names) ? names[reason] : "unknown";
}
