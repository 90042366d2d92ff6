/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_PROGRESS_H
#define HOOKSESS_HOOKS_PROGRESS_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Shows people how far the training is: "step 1200/10000 12.0%, 85.3 steps/s, 1:43 left, loss = 0.25". Beyond TensorFlow,
 * whose Keras has a ProgbarLogger.
 *
 * On a terminal it is one line that is rewritten in place, cut to the terminal's width, a few times a second. Elsewhere (a
 * file, a pipe) it is whole lines at a slower pace, without a carriage return, so that logs can be read. The rate is that
 * of this session's own steps, the latest half a minute above all, so it is right at once after a resume; a recovery or a
 * step that goes back begins the count anew. A last line says how long it took, where the session ends well.
 *
 * The text goes to the descriptor as it is, not through the log callback and not through stdio: the one exception, which
 * whoever lists this hook has asked for. A write that fails is never the training's failure, and raises no SIGPIPE: what a
 * descriptor cannot take now is left out, and one that is closed or broken is not written to again.
 *
 * A program that writes to the same terminal prints its lines by hs_progress_print, or calls hs_progress_clear before. So
 * must its log: without a logger of the program's, log lines begin where the progress line ends (examples/trainer/log.c).
 * Nothing of this hook is saved in checkpoints. */

HS_BEGIN_DECLS

typedef struct hs_progress_options {
    size_t size;
    /* Shown by name, of larger ones the first element; ended by NULL. Fetched only in the runs after which a line is shown.
     * NULL: none */
    const char *const *tensors;
    int64_t last_step;         /* the step at which the training is done, for percentage and time left. 0: not known */
    int64_t every_n_steps;     /* elsewhere: steps between lines. None of every_n_steps, every_n_secs and trigger: 10 s */
    double every_n_secs;       /* elsewhere: seconds between lines, instead of every_n_steps */
    const hs_trigger *trigger; /* elsewhere: instead of every_n_steps and every_n_secs */
    double times_a_second;     /* on a terminal: the most that the line is rewritten, 0.001 to 1000. 0: 5 */
    int64_t descriptor;        /* a file descriptor, which stays the caller's. 0: 2, the standard error */
    bool plain;                /* whole lines on a terminal too */
    unsigned char reserved[7];
    const hs_env *env; /* NULL: the system's. Copied */
} hs_progress_options;

/* Threads: any. The graph needs a global step. */
HS_API hs_hook hs_progress_hook(const hs_progress_options *options);
#define hs_progress(...) hs_progress_hook(HS_OPTIONS(hs_progress_options, __VA_ARGS__))

/* Prints a line above the progress line, which stays the last line of its terminal. If the hook shows nothing now, or not
 * on a terminal, it is just printed. For loggers: give the environment one that calls this (examples/trainer/log.c).
 *
 * hook  one of hs_progress_hook; otherwise nothing is printed
 * text  without the end of the line
 *
 * Write errors are ignored, as the hook does. Any thread, as long as the hook lives: with the session, or longer
 * (hs_hook_hold). Beyond TensorFlow. */
HS_API void hs_progress_print(hs_hook hook, const char *text);

/* Takes the line off its terminal; it comes again when it is due. Without effect where none is shown. Works as long as
 * the hook lives: with the session, or longer (hs_hook_hold). The hook must be one of hs_progress_hook. */
HS_API void hs_progress_clear(hs_hook hook);

HS_END_DECLS

#endif
