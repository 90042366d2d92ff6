/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_WATCHDOG_H
#define HOOKSESS_HOOKS_WATCHDOG_H

#include <hooksess/hook.h>

/* Reports a session that does not make progress, and can end the run. List it first: it then watches from the first
 * `begin` to the last `close`. Beyond TensorFlow.
 *
 *     hs_hook hook = hs_watchdog(.action = HS_WATCHDOG_ABORT_RUN, .heartbeat = "run/heartbeat.json");
 *
 * A thread checks once a second, or every floor_secs / 20 if that is shorter. Signs of life are runs, raw runs, changes
 * of the phase or the called hook, and calls of hs_session_poll() and hs_raw_session_stop_requested(), but not of
 * hs_op_stop_requested(). A dequeue that waits is phase DATA.
 *
 * The limit of a phase is its floor, or `factor` times the longest time without a sign of life so far, whichever is
 * larger. Checkpoints save that time. Suspended time does not count.
 *
 * Past the limit the log gets a warning, with phase and hook, repeated each time the duration has doubled, and a line at
 * the end of the stall.
 *
 * In a group each rank watches itself, and needs its own heartbeat file.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef enum hs_watchdog_action {
    HS_WATCHDOG_WARN = 0,
    /* Warns, then stops the session and its coordinator with HS_DEADLINE_EXCEEDED, the session's error. Code that waits
     * for a queue or polls for a stop ends; other code continues. If the current run succeeds, the session saves as
     * usual. In the phases SAVE and END, and while the session is opened, it only warns. */
    HS_WATCHDOG_ABORT_RUN = 1
} hs_watchdog_action;

typedef struct hs_watchdog_options {
    size_t size;
    /* Least limit of a phase in seconds; for HS_PHASE_INIT three times as much. 0: 600. HS_NEVER: no limit */
    double floor_secs;
    double factor;             /* at least 1. 0: 10. HS_NEVER: the floor is the limit */
    hs_watchdog_action action; /* 0: HS_WATCHDOG_WARN */
    int32_t reserved_action;
    /* Path of a file that another thread writes every heartbeat_secs. The last level of its directory is created. If it
     * cannot be written, the log gets one warning. NULL: no file. One line of JSON:
     *
     *   time        seconds since 1970
     *   pid         of the process
     *   phase       as hs_phase_name() returns; "closed" in the last heartbeat
     *   hook        the called hook, or ""
     *   progress    changes with each sign of life
     *   still_secs  seconds since the last sign of life
     *   stalled     true: still_secs is beyond the limit */
    const char *heartbeat;
    double heartbeat_secs; /* seconds between heartbeats. 0: 10 */
} hs_watchdog_options;

/* `begin` also fails if a thread cannot be started. */
HS_API hs_hook hs_watchdog_hook(const hs_watchdog_options *options);
#define hs_watchdog(...) hs_watchdog_hook(HS_OPTIONS(hs_watchdog_options, __VA_ARGS__))

HS_END_DECLS

#endif
