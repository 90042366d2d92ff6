/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/outcome.h>

int hs_outcome_exit_code(const hs_outcome *outcome)
{
    return outcome && outcome->reason != HS_REASON_FAILED ? 0 : 1;
}

const char *hs_reason_name(int32_t reason)
{
    static const char *const names[] = {"failed", "closed", "stopped", "end of input", "already done"};
    return reason >= 0 && reason < (int32_t)(sizeof names / sizeof *names) ? names[reason] : "unknown";
}
