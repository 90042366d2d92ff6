/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_WATCHDOG_H
#define HOOKSESS_HOOKS_WATCHDOG_H

#include <hooksess/hook.h>

/* Notices when a session does not move any more, says where, and may end the run. Beyond TensorFlow.
 *
 * A thread of the hook's own looks at the session's phase (hs_raw_session_phase), once a second and without a lock, from
 * the hook's begin to its close; list the hook first, and that is from the first begin to the last close. The longest that
 * a phase may go without a sign of life is the larger of its floor and `factor` times the longest it ever went, in this run
 * and, as that rides in the checkpoint, in those that it resumes. Only what has ended counts: a stall is not learned from
 * before it is over. Time in which the whole process stood, stopped or suspended, does not count. Signs of life are the
 * runs of the session, the raw runs of hooks, each change of phase or of the hook that is called, and whoever polls
 * (hs_session_poll, hs_raw_session_stop_requested): a long phase that polls is none that stalls. An op that asks
 * hs_op_stop_requested is not heard of, and neither is a dequeue that waits: that is phase DATA.
 *
 * Past the limit there is a warning in the log: the phase, the hook that is being called, for how long, the limit and where
 * it comes from, and the threads of the session's coordinator that are alive; another one each time the stall has become
 * twice as long; and a line when the session moves again. */

HS_BEGIN_DECLS

typedef enum hs_watchdog_action {
    HS_WATCHDOG_WARN = 0,
    /* Warns, asks the session to stop, and its coordinator, with HS_DEADLINE_EXCEEDED, of which the session fails. Whoever
     * waits for an element of a queue, or polls, leaves; nobody else can be made to, and the process is never killed: that
     * is for whoever watches the heartbeat. What can be saved is saved at the end. A phase SAVE or END is only warned of,
     * for what it does is what an end would be for; so is the opening, until hooks are told of the session. */
    HS_WATCHDOG_ABORT_RUN = 1
} hs_watchdog_action;

typedef struct hs_watchdog_options {
    size_t size;
    double floor_secs;         /* 0: 600. HS_NEVER, here and below: not watched */
    double factor;             /* at least 1. 0: 10. HS_NEVER: nothing is learned, and the floors are the limits */
    hs_watchdog_action action; /* 0: HS_WATCHDOG_WARN */
    int32_t reserved_action;
    /* A file that is replaced every heartbeat_secs, from a thread of its own, whether the session moves or not, by one
     * line:
     *
     *     {"time": 1700000000.123, "pid": 4711, "phase": "step", "hook": "", "progress": 123, "still_secs": 2.5,
     *      "stalled": false}
     *
     * time is since 1970; progress changes whenever something goes on; still_secs says for how long nothing has, up to the
     * second, and stalled whether that is beyond the limit. A heartbeat whose time is old is that of a process that is
     * gone, or cannot write; the last one of a session has the phase "closed". The file's directory is made if only its
     * last level is missing. That it cannot be written is a warning, once. NULL: none */
    const char *heartbeat;
    double heartbeat_secs; /* 0: 10 */
    /* Floors of single phases (hs_phase). 0: floor_secs, and three times that for the making of a session */
    double init_floor_secs, data_floor_secs, step_floor_secs, eval_floor_secs, save_floor_secs, end_floor_secs;
    const hs_env *env; /* NULL: the system's. Copied */
} hs_watchdog_options;

/* Threads: any.
 *
 * The hook's begin fails too if a thread cannot be started. If floors are below 20 seconds, the hook looks 20 times in the
 * smallest of them. */
HS_API hs_hook hs_watchdog_hook(const hs_watchdog_options *options);
/* hs_watchdog(.action = HS_WATCHDOG_ABORT_RUN, .heartbeat = "model/heartbeat.json") */
#define hs_watchdog(...) hs_watchdog_hook(HS_OPTIONS(hs_watchdog_options, __VA_ARGS__))

HS_END_DECLS

#endif
