/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_OUTCOME_H
#define HOOKSESS_OUTCOME_H

#include <hooksess/status.h>

/* How a session ended.
 *
 * Threads: any. */

HS_BEGIN_DECLS

typedef enum hs_reason {
    HS_REASON_FAILED = 0,       /* `error` says why */
    HS_REASON_CLOSED = 1,       /* the caller closed it, of its own accord */
    HS_REASON_STOPPED = 2,      /* a stop was requested; `hook` names the hook, where it was one, and `interrupted` says
                                 * whether it was to end before it was done */
    HS_REASON_END_OF_INPUT = 3, /* a run came to the end of the data (HS_OUT_OF_RANGE) */
    HS_REASON_ALREADY_DONE = 4  /* a hook found at the start that nothing was left to do */
} hs_reason;

/* Travels by value, frozen: no pointers, room left. */
typedef struct hs_outcome {
    hs_reason reason;
    int32_t signal;          /* the signal that ended it (hs_session_options.signals); 0: none */
    int64_t step;            /* the global step at the end; -1: not known */
    int64_t last_saved_step; /* the newest durable checkpoint of this run, restored or written; -1: none */
    char hook[64];           /* the hook that asked to stop, or that failed; "" if none did, or no session was opened */
    /* The first error; code HS_OK: none. A session that stopped well may have one: a last save that failed makes the
     * reason HS_REASON_FAILED */
    hs_error error;
    /* Not 0: it was stopped from outside before it was done, by hs_session_request_stop, a signal, a limit of its time
     * or an order, and goes on from last_saved_step when it is opened again */
    int32_t interrupted;
    int32_t failing_hooks; /* hooks with failures that the training got over (hs_raw_session_failure) */
    int64_t failures;      /* how many of these there were */
    unsigned char reserved[48];
} hs_outcome;

/* For main's return, and for schedulers that look at it:
 *   0       it is done: closed by the caller, stopped by a hook of its own or by hs_session_request_done, at the end of the
 *           input, done already; or interrupted where nothing is ever saved
 *   75      interrupted, and its state is saved (EX_TEMPFAIL: start it again, and it goes on)
 *   128+n   ended by signal n, and the state of its last step is not saved
 *   1       failed, or interrupted and not saved. Of NULL, too */
HS_API int hs_outcome_exit_code(const hs_outcome *outcome);
/* The outcome of a training for which no session could be opened: HS_REASON_FAILED with a copy of `error`. If `error` is
 * NULL or its code is HS_OK, the outcome's error is HS_FAILED_PRECONDITION. */
HS_API hs_outcome hs_outcome_from_error(const hs_error *error);
/* "failed", "closed", "stopped", "end of input", "already done". Static. */
HS_API const char *hs_reason_name(hs_reason reason);

HS_END_DECLS

#endif
