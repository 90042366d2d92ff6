/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_PROGRESS_H
#define HOOKSESS_HOOKS_PROGRESS_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Shows the progress of a training. Beyond TensorFlow (Keras has a ProgbarLogger).
 *
 *     hs_hook hook = hs_progress(.tensors = HS_NAMES("loss"), .last_step = 10000);
 *
 * On a terminal it rewrites one line, at most five times a second, with a bar if last_step is set and the line has room:
 * "step 1200/10000 12.0% [=>             ], 80 steps/s, 1:50 left, loss = 0.25". Elsewhere it writes whole lines.
 *
 * The rate is that of the last steps (half-life 30 s). At a normal end, a last line has the total time. A restore or a
 * decreasing step restarts both. Checkpoints have only the position of its schedule by steps.
 *
 * The hook writes to the descriptor directly, not through the log or stdio. A failing write never fails the training and
 * raises no SIGPIPE: text for a full descriptor is dropped, and after another error the hook writes nothing more.
 *
 * The default log blanks the progress line before it writes to the same terminal. If the program or its own logger writes
 * there, call hs_progress_print() for each line, or hs_progress_clear() before it (examples/trainer/log.c). In a group only
 * rank 0 calls the hook.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_progress_options {
    size_t size;
    /* Tensors or values whose first element is shown. Fetched only in runs after which a line is shown. NULL: none */
    const char *const *tensors;
    int64_t last_step;     /* end of the training, for percentage and time left. 0: unknown */
    int64_t every_n_steps; /* not on a terminal: steps between lines. Without a schedule: 10 seconds */
    double every_n_secs;   /* not on a terminal: or seconds between lines */
    hs_trigger when;       /* not on a terminal: or conditions */
    int64_t descriptor;    /* an open file descriptor, which the hook does not close. 0: 2, stderr */
} hs_progress_options;

/* The graph needs a global step. */
HS_API hs_hook hs_progress_hook(const hs_progress_options *options);
#define hs_progress(...) hs_progress_hook(HS_OPTIONS(hs_progress_options, __VA_ARGS__))

/* Prints a line, on a terminal above the progress line. Write errors are ignored.
 *
 * hook  made by hs_progress_hook(), not yet freed (hs_hook_hold); for another hook nothing is printed
 * text  without a newline */
HS_API void hs_progress_print(hs_hook hook, const char *text);

/* Removes the progress line from the terminal until its next update. `hook` as for hs_progress_print(). */
HS_API void hs_progress_clear(hs_hook hook);

HS_END_DECLS

#endif
