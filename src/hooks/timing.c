/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/timing.h"

#include "base/error.h"

/* Converts the options to a trigger. */
static hs_code as_trigger(hs_trigger *trigger, const hs__timing_options *options, hs_error *err)
{
    bool secs = options->secs != 0, steps = options->steps != 0;
    if (options->trigger && (secs || steps))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "each of trigger and %s is given; give exactly one of the two",
                            steps ? "every_n_steps" : "every_n_secs");
    if (options->trigger)
        return HS_STRUCT_TAKE(hs_trigger, reserved, trigger, options->trigger, err);
    if (secs == steps && !(options->optional && !secs))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s of every_n_secs and every_n_steps is given; give exactly one of the two, or a trigger",
                            secs ? "each" : "none");
    trigger->every_n_secs = options->secs;
    trigger->every_n_steps = options->steps;
    trigger->first = options->first && (secs || steps);
    return HS_OK;
}

hs_code hs__timing_init(hs__timing *timing, const hs__timing_options *options, const hs_env *env, hs_error *err)
{
    hs_trigger trigger = HS_INIT(hs_trigger);
    hs_error error;
    hs_code code = as_trigger(&trigger, options, err);
    if (code)
        return code;
    *timing = (hs__timing){.first = trigger.first,
                           .last = trigger.last,
                           .by_steps = trigger.every_n_steps || (trigger.at_steps && trigger.at_steps[0] != -1),
                           .by_secs = trigger.every_n_secs != 0};
    if (options->optional && !options->trigger && options->secs == 0 && !options->steps)
        return HS_OK;
    if ((timing->timer = hs_timer_new(&trigger, env, &error)))
        return HS_OK;
    if (options->trigger)
        hs_error_prefix(&error, "trigger");
    return hs__error_copy(err, &error);
}
