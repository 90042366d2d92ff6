/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_STOP_H
#define HS_SESSION_STOP_H

#include <hooksess/session.h>

/* Why a session stops: bits of hs_session.stops, as there may be several causes. */
typedef enum hs__stop {
    HS__STOP_NONE = 0,
    HS__STOP_HOOK_INTERRUPTED = 1 << 0, /* a hook ends the loop; the training is not complete */
    HS__STOP_HOOK_DONE = 1 << 1,        /* a hook: the training is complete */
    HS__STOP_STEP = 1 << 2,             /* a step function or an own step of the caller ended the loop */
    HS__STOP_FAILED = 1 << 3,           /* an own step failed, or a callback threw an exception */
    HS__STOP_LOST = 1 << 4,             /* the backend's session is lost and could not be recovered */
    HS__STOP_INPUT_ENDED = 1 << 5,      /* the last run reached the end of the input; the next run clears it */
    HS__STOP_REQUESTED = 1 << 6,        /* by the program or a signal */
    HS__STOP_UNSAVED = 1 << 7,          /* a second signal: stop without a save */
    HS__STOP_PROGRAM_DONE = 1 << 8,     /* hs_session_request_stop */
    HS__STOP_THREADS = 1 << 9,          /* the coordinator requests a stop; only in hs__stop_causes */
    HS__STOP_CLOSED = 1 << 10,          /* a rank of the group has closed its session */

    HS__STOP_HOOK = HS__STOP_HOOK_INTERRUPTED | HS__STOP_HOOK_DONE,
    HS__STOP_OUTSIDE = HS__STOP_REQUESTED | HS__STOP_UNSAVED,
    /* In a group, these take effect when the ranks have agreed on them (agreement.c). */
    HS__STOP_AGREED = HS__STOP_HOOK | HS__STOP_OUTSIDE | HS__STOP_PROGRAM_DONE | HS__STOP_THREADS,
} hs__stop;

/* All causes of this process, with HS__STOP_THREADS if the coordinator requests a stop. Any thread, but no signal handler.
 */
unsigned hs__own_stop_causes(const struct hs_session *session);
/* All causes that have taken effect. 0: the session does not stop. Any thread, but no signal handler. */
unsigned hs__stop_causes(const struct hs_session *session);
/* Adds HS__STOP_STEP, unless the step ends the loop because the program or a signal requested it. */
void hs__stop_step(struct hs_session *session);
/* Adds `how`: HS__STOP_HOOK_INTERRUPTED or _DONE. `hook` is its name; "": the library. */
void hs__stop_by_hook(struct hs_session *session, const char *hook, hs__stop how);
/* True if a hook, a step, a thread, the program or a signal requested a stop. Failures and the end of input do not count.
 * Any thread, but no signal handler. */
bool hs__stop_requested(const struct hs_session *session);

/* Calls the boundaries of the stop, if one has taken effect: once, before the session's thread returns to the program,
 * which may then change what a checkpoint contains. Call it when a step or run has ended, and before hs_step_begin refuses
 * a step. */
void hs__reach_stop_boundary(struct hs_session *session);
/* Logs the signal that stops the session. Not called by the signal handler, which cannot log. */
void hs__log_stop_signal(const struct hs_session *session, unsigned stops);

#endif
