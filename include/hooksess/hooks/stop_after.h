/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_STOP_AFTER_H
#define HOOKSESS_HOOKS_STOP_AFTER_H

#include <hooksess/hook.h>

/* Ends the training before its time is up, early enough for the last save. Beyond TensorFlow.
 *
 *     hs_hook hook = hs_stop_after(.this_run_secs = 4 * 3600, .margin_secs = 60);
 *
 * It stops when the remaining time is less than longest step + 1.5 * hs_raw_session_save_secs() + margin_secs. A step
 * includes evaluations, saves and the program's work since the step before. Only training runs count. The session is
 * interrupted (hs_outcome.interrupted), and hs_outcome_exit_code() returns 75 after the save.
 *
 * If a resumed training has no time left in total_secs for a step and a save, it ends with HS_REASON_ALREADY_DONE. If
 * another limit is over, the session is interrupted before its first run.
 *
 * The state "hooksess/hook/stop_after" in checkpoints is a time (HS_HOOK_STATE_VARIES).
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_stop_after_options {
    size_t size;
    /* Seconds over all starts of the program, from `begin`; checkpoints save the used time. 0, HS_NEVER: no limit. Set at
     * least one of the three limits */
    double total_secs;
    double this_run_secs;      /* seconds from this session's `begin`. 0, HS_NEVER: no limit */
    double deadline_unix_secs; /* seconds since 1970, UTC; read every 10 s. 0, HS_NEVER: no limit */
    double margin_secs;        /* seconds reserved for the time after the last save. 0: none */
} hs_stop_after_options;

HS_API hs_hook hs_stop_after_hook(const hs_stop_after_options *options);
#define hs_stop_after(...) hs_stop_after_hook(HS_OPTIONS(hs_stop_after_options, __VA_ARGS__))

HS_END_DECLS

#endif
