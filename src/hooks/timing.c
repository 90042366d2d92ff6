/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/timing.h"

#include "base/error.h"
#include "base/trigger.h"

hs_code hs__timing_init(hs__timing *timing, const hs__timing_options *options, const hs_env *env, hs_error *err)
{
    const bool secs = options->secs != 0, steps = options->steps != 0, given = hs__trigger_is_set(&options->when);
    hs_trigger when = options->when;
    hs_error error;
    *timing = (hs__timing){.timer = NULL};
    if (given && (secs || steps))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "each of when and %s is given; give exactly one of the two",
                            steps ? "every_n_steps" : "every_n_secs");
    if (!given) {
        if (!secs && !steps && options->optional)
            return HS_OK;
        if (secs == steps)
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "%s of every_n_secs and every_n_steps is given; give exactly one of the two, or when",
                                secs ? "each" : "none");
        when = (hs_trigger){.every_n_steps = options->steps, .every_n_secs = options->secs, .first = options->first};
    }
    timing->first = when.first;
    timing->last = when.last;
    timing->by_steps = when.every_n_steps || (when.at_steps && when.at_steps[0] != -1);
    timing->by_secs = when.every_n_secs != 0;
    if ((timing->timer = hs_timer_new(when, env, &error)))
        return HS_OK;
    if (given)
        hs_error_prefix(&error, "when");
    return hs__error_copy(err, &error);
}
