/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_STOP_AFTER_H
#define HOOKSESS_HOOKS_STOP_AFTER_H

#include <hooksess/hook.h>

/* Ends the training before its time is up, early enough for the save at the end: when what is left is less than the longest
 * step of this session so far, one and a half times what a save takes (hs_raw_session_save_secs), and margin_secs. A step
 * counts from the end of the one before, with all that was done in between (evaluations, saves, the program's own work).
 * The session is interrupted (hs_outcome.interrupted): once it is saved, hs_outcome_exit_code is 75. The log says which
 * limit it was, how much is left of it, and what was reckoned with. Beyond TensorFlow.
 *
 *   total_secs          over all runs: the time that was used is saved in the checkpoint. Time is used from the hook's
 *                       begin on, so that restoring counts, too.
 *   this_run_secs       of this session alone, from the hook's begin.
 *   deadline_unix_secs  a time of day, in seconds since 1970 (UTC). The wall clock is looked at every ten seconds, so that
 *                       setting it is noticed.
 *
 * Where total_secs are used up already when a checkpoint is resumed (no further step and save would fit in what is left, by
 * what the earlier run knew of both), nothing is left to do, as with a step that is reached: HS_REASON_ALREADY_DONE. The
 * other limits say nothing of the training's end: where one of them is over when the session is created, it is interrupted
 * before its first run.
 *
 * A run costs a look at the session's clock (hs_run_context_now: tens of nanoseconds, shared with all hooks that go by
 * time), and a few nanoseconds besides. Only training runs are looked at.
 *
 * The hook saves the time used in checkpoints (hooksess/hook/stop_after), which is different in two runs of the same steps:
 * hooksess verify-resume --ignore hooksess/hook/stop_after. */

HS_BEGIN_DECLS

typedef struct hs_stop_after_options {
    size_t size;
    /* Seconds over all runs. 0 and HS_NEVER: no limit. At least one of the three is required */
    double total_secs;
    double this_run_secs;      /* seconds of this session. 0 and HS_NEVER: no limit */
    double deadline_unix_secs; /* seconds since 1970. 0 and HS_NEVER: no limit */
    double margin_secs;        /* seconds kept for what comes after the last save. 0: none */
    const hs_env *env;         /* NULL: the system's. Copied */
} hs_stop_after_options;

/* Threads: any. */
HS_API hs_hook hs_stop_after_hook(const hs_stop_after_options *options);
#define hs_stop_after(...) hs_stop_after_hook(HS_OPTIONS(hs_stop_after_options, __VA_ARGS__))

HS_END_DECLS

#endif
