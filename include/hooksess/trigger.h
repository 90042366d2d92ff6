/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TRIGGER_H
#define HOOKSESS_TRIGGER_H

#include <hooksess/status.h>

#include <stdbool.h>

/* When a hook does what it does from time to time: an option `trigger` of every such hook, instead of TensorFlow's pair of
 * steps and seconds, of which one may be given. Beyond TensorFlow.
 *
 *     hs_checkpoint_saver(.checkpoint_dir = directory,
 *                         .trigger = HS_TRIGGER(.every_n_steps = 1000, .every_n_secs = 600,
 *                                               .at_steps = HS_AT_STEPS(1, 10, 100)))
 *
 * Any of its conditions fires, and several at once fire once. A pair is a trigger with one of the two intervals, and with
 * `first` where the hook's header says that the first run fires.
 *
 * A hook of the program's own makes a timer of a trigger: timer.h. */

HS_BEGIN_DECLS

/* What is 0 is not asked for; all of it 0 is HS_INVALID_ARGUMENT, as are negative numbers. Copied, with its list. */
typedef struct hs_trigger {
    size_t size;
    /* Every so many global steps (logging_tensor, nan_tensor: their own runs), from the step at which the session began; or
     * with `first`, from the first run. What else fires does not shift it. It rides in the checkpoint: a resumed run fires
     * where the run that it resumes would have. */
    int64_t every_n_steps;
    /* So many seconds after it fired last, whatever made it fire, or after the session began. At most 1e9.
     * checkpoint_saver and evaluation: if the global step is still the same then, the next step fires. */
    double every_n_secs;
    /* When the global step has reached or passed one of these; in any order. A step that was passed before the session was
     * created does not fire, and one that has fired does not again when a run is resumed; the very step at which the
     * session begins, such as 0, fires in the first run (checkpoint_saver: at the creation). The list ends with -1:
     * .at_steps = HS_AT_STEPS(1, 10, 100). */
    const int64_t *at_steps;
    /* hs_session_request_save, or SIGUSR1 where the session looks at signals. A request that no hook had the time to see
     * before the session was lost is seen after the recovery; one that was seen does not come again. */
    bool on_request;
    /* In the first run of the session, or after a recovery; where steps are given, not in that of a run that is resumed or
     * recovered: it goes on as it stood.
     * checkpoint_saver: when the session is created, unless it was just restored from what would be saved. */
    bool first;
    /* At the end of a session that ends well, unless it has fired at that step already. checkpoint_saver saves at the end
     * in any case; profiler, nan_tensor and finite_guard refuse it, for no run comes at the end. */
    bool last;
    unsigned char reserved[5];
} hs_trigger;

/* HS_TRIGGER(.at_steps = HS_AT_STEPS(1, 10, 100), .last = true) */
#define HS_TRIGGER(...)  HS_OPTIONS(hs_trigger, __VA_ARGS__)
#define HS_AT_STEPS(...) HS__LIST(int64_t, __VA_ARGS__, -1)

HS_END_DECLS

#endif
