/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/timing.h"

#include "base/error.h"

/* The options as a trigger. */
static hs_code as_trigger(hs_trigger *trigger, const hs__timing *timing, hs_error *err)
{
    bool secs = timing->secs != 0, steps = timing->steps != 0;
    if (timing->trigger && (secs || steps))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "each of trigger and %s is given; give exactly one of the two",
                            steps ? "every_n_steps" : "every_n_secs");
    if (timing->trigger)
        return HS_STRUCT_TAKE(hs_trigger, reserved, trigger, timing->trigger, err);
    if (secs == steps && !(timing->optional && !secs))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s of every_n_secs and every_n_steps is given; give one of the two, or a trigger",
                            secs ? "each" : "none");
    trigger->every_n_secs = timing->secs;
    trigger->every_n_steps = timing->steps;
    trigger->first = timing->first && (secs || steps);
    return HS_OK;
}

hs_code hs__schedule_init(hs__schedule *schedule, const hs__timing *timing, const hs_env *env, hs_error *err)
{
    hs_trigger trigger = HS_INIT(hs_trigger);
    hs_error error;
    hs_code code = as_trigger(&trigger, timing, err);
    if (code)
        return code;
    *schedule = (hs__schedule){.first = trigger.first,
                               .last = trigger.last,
                               .by_steps = trigger.every_n_steps || (trigger.at_steps && trigger.at_steps[0] != -1),
                               .by_secs = trigger.every_n_secs != 0};
    if (timing->optional && !timing->trigger && timing->secs == 0 && !timing->steps)
        return HS_OK;
    if ((schedule->timer = hs_timer_new(&trigger, env, &error)))
        return HS_OK;
    if (timing->trigger)
        hs_error_prefix(&error, "trigger");
    return hs__error_copy(err, &error);
}
