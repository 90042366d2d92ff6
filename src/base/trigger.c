/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trigger.h"

bool hs__trigger_is_set(const hs_trigger *when)
{
    return when->every_n_steps || when->every_n_secs != 0 || when->at_steps || when->on_request || when->first ||
           when->last;
}

hs_code hs__trigger_check(const hs_trigger *when, hs_error *err)
{
    const int64_t *steps = when->at_steps;
    if (when->every_n_steps < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "every_n_steps is %lld; it must be at least 1",
                            (long long)when->every_n_steps);
    if (when->every_n_secs != 0 && !(when->every_n_secs > 0 && when->every_n_secs <= 1e9))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "every_n_secs is %g; it must be above 0 and at most 1e9",
                            when->every_n_secs);
    for (size_t i = 0; steps && steps[i] != -1; i++)
        if (steps[i] < 0 || steps[i] == INT64_MAX)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "at_steps[%zu] is %lld, which is not a step", i,
                                (long long)steps[i]);
    const bool fires = when->every_n_steps || when->every_n_secs != 0 || (steps && steps[0] != -1) || when->on_request ||
                       when->first || when->last;
    return fires ? HS_OK : hs_error_set(err, HS_INVALID_ARGUMENT, "it never fires; set a condition, such as every_n_steps");
}
