/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_TIMING_H
#define HS_HOOKS_TIMING_H

#include <hooksess/timer.h>

/* The schedule of a hook, from its options every_n_secs, every_n_steps and when. */
typedef struct hs__timing_options {
    double secs;
    int64_t steps;
    hs_trigger when;
    bool first;    /* every_n_secs and every_n_steps also fire in the first run */
    bool optional; /* all three may be missing; then the timer is NULL, which never fires */
} hs__timing_options;

typedef struct hs__timing {
    hs_timer *timer;
    bool first, last;       /* as in hs_trigger; the hook implements `last` */
    bool by_steps, by_secs; /* by_steps: the timer needs the step of each run */
} hs__timing;

/* HS_INVALID_ARGUMENT, HS_RESOURCE_EXHAUSTED. hs_timer_free frees the timer. */
hs_code hs__timing_init(hs__timing *timing, const hs__timing_options *options, const hs_env *env, hs_error *err);

#endif
