/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_RECOVERY_H
#define HS_SESSION_RECOVERY_H

#include <hooksess/raw_session.h>
#include <hooksess/session.h>

/* The recovery of a lost session. recovery.c writes the members. */
typedef struct hs__recovery {
    hs_recovery options; /* max_attempts HS_NEVER: no recovery */
    int64_t attempts;    /* since training last went beyond `furthest` */
    int64_t furthest;    /* the highest step at which the session was lost */
    int64_t completed;
    bool cut_short; /* a stop request ended the backoff before an attempt */
} hs__recovery;

hs_code hs__recovery_copy_options(struct hs_session *session, const hs_recovery *given, hs_error *err);
/* hs__create at the opening, repeated as often as hs_recovery allows; then the copy of the state (last_good.h). */
hs_code hs__create_with_retries(struct hs_session *session, hs_error *err);
/* True if a thread has reported that the session is lost, and no stop was requested. */
bool hs__threads_are_lost(const struct hs_session *session, hs_error *why);
/* Returns why a run failed with `code`: its own error, or the error of a thread if exactly one of the two reports a lost
 * session. A failure that the ranks of a group have agreed on stays as it is. */
hs_code hs__find_cause(const struct hs_session *session, hs_code code, hs_error *error);

/* How a call continues that has failed. */
typedef enum hs__recovery_end {
    HS__NOT_RECOVERED = 0, /* the call fails: the session was not lost, or could not be recovered */
    HS__RECOVERED,         /* the session repeats the call */
    HS__RECOVERED_REPEAT,  /* the caller repeats the call (HS_ABORTED) */
    HS__RECOVERED_DONE,    /* at the restored step the training is already complete (HS_STOP) */
} hs__recovery_end;

/* A call has failed with *code and *err. If they, or a thread, report that the session is lost, creates it again from the
 * newest checkpoint or the copy of its initial state. *code and *err receive the result of the call: of HS__RECOVERED
 * HS_OK. In a step function the session is recovered after the whole function. */
hs__recovery_end hs__recover(struct hs_session *session, bool caller_repeats, hs_code *code, hs_error *err);

#endif
