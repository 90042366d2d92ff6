/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TRIGGER_H
#define HOOKSESS_TRIGGER_H

#include <hooksess/status.h>

#include <stdbool.h>

/* When a hook acts: `when` of a hook (hook.h), and of the options of hooks with a schedule. Beyond TensorFlow.
 *
 *     hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = "run", .when = HS_EVERY_SECS(600));
 *     hs_hook logger = hs_logging_tensor(.tensors = HS_NAMES("loss"),
 *                                        .when = HS_TRIGGER(.every_n_steps = 1000, .at_steps = HS_STEPS(1, 10, 100)));
 *
 * The hook acts once if any condition holds. every_n_steps or every_n_secs of a ready-made hook is a trigger with this
 * interval, and with `first` if the hook's header says so. */

HS_BEGIN_DECLS

/* Conditions; 0 and false: not used. Without any, as in HS_EVERY_STEPS(0), a hook acts in each run. HS_INVALID_ARGUMENT for
 * a negative number, and if the only condition is an empty list. Frozen. */
typedef struct hs_trigger {
    /* Steps between two firings, from the step at which the session began, or with `first` from the first run. Other
     * conditions and a resume do not shift them */
    int64_t every_n_steps;
    /* Seconds since it last fired by any condition, or since the session began; at most 1e9. A hook that only has after_run
     * then waits until the global step has changed */
    double every_n_secs;
    /* HS_STEPS(1, 10, 100), in any order: when the global step reaches or passes one of them. Steps before the session
     * and steps that fired before a resume do not fire. The session's first step fires in the first run (checkpoint_saver:
     * at creation). Copied when the session is opened; a ready-made hook copies it at once */
    const int64_t *at_steps;
    /* On hs_session_request_save, or SIGUSR1 with hs_session_options.signals. A request that no hook has seen survives a
     * recovery. In a group, those of rank 0 count, in the next run */
    bool on_request;
    /* In the first run of the session, and after a recovery or a rollback; with every_n_steps or at_steps, not in a
     * resumed, recovered or rolled back run. checkpoint_saver: at creation, unless the session was just restored from the
     * same checkpoint */
    bool first;
    /* When the session ends normally after a run, unless it fired at that step. checkpoint_saver saves then in any case;
     * profiler, nan_tensor, finite_guard and replica_check refuse it */
    bool last;
    /* Steps are the successful runs of the hook's kinds (hs_hook.flags), not global steps. logging_tensor, nan_tensor and
     * finite_guard count so in any case */
    bool counts_runs;
    unsigned char reserved[4];
} hs_trigger;

#define HS_TRIGGER(...)   HS__VALUE(hs_trigger, __VA_ARGS__)
#define HS_EVERY_STEPS(n) HS_TRIGGER(.every_n_steps = (n))
#define HS_EVERY_SECS(n)  HS_TRIGGER(.every_n_secs = (n))
/* .when = HS_AT_STEPS(1, 10, 100) */
#define HS_AT_STEPS(...)  HS_TRIGGER(.at_steps = HS_STEPS(__VA_ARGS__))
#define HS_STEPS(...)     HS__LIST(int64_t, __VA_ARGS__, -1)

HS_END_DECLS

#endif
