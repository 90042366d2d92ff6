/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_OUTCOME_H
#define HOOKSESS_OUTCOME_H

#include <hooksess/status.h>

/* How a session ended. hs_session_close returns it.
 *
 *     hs_outcome outcome = hs_session_close(session, &err);
 *     if (outcome.reason == HS_REASON_FAILED)
 *         fprintf(stderr, "%s\n", outcome.error.message);
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef enum hs_reason {
    HS_REASON_FAILED = 0,       /* see `error` */
    HS_REASON_CLOSED = 1,       /* the program closed it */
    HS_REASON_STOPPED = 2,      /* a stop was requested: see `hook` and `interrupted` */
    HS_REASON_END_OF_INPUT = 3, /* the input ended (HS_OUT_OF_RANGE) */
    HS_REASON_ALREADY_DONE = 4  /* a hook reported at the start that the training is complete */
} hs_reason;

/* Frozen. */
typedef struct hs_outcome {
    hs_reason reason;
    int32_t signal;          /* the signal that ended it (hs_session_options.signals). 0: none */
    int64_t step;            /* the last global step. -1: not known */
    int64_t last_saved_step; /* of the newest checkpoint restored or saved. -1: none */
    char hook[64];           /* the hook that requested the stop, or that failed. "": none */
    /* The first error. HS_OK: none. If the last save fails, a stopped session has HS_REASON_FAILED too */
    hs_error error;
    /* Not 0: stopped before the training was complete, by hs_session_interrupt, a signal, a time limit or a control file */
    int32_t interrupted;
    int32_t failing_hooks; /* hooks, and work of hooks, whose failures did not end the training (hs_raw_session_failure) */
    int64_t failures;      /* the number of these failures */
    int32_t rank;          /* of this process in its group (group.h). 0: the chief, or no group */
    int32_t cause_rank;    /* the rank whose failure ended the training. -1: none, or no group */
    bool opening;          /* no session could be opened */
    unsigned char reserved[39];
} hs_outcome;

/* clang-format off */
/* The exit code for main (docs/guide/signals.md). The first row that applies counts:
 *
 *   0       not failed, not interrupted: the training is complete, or the input has ended
 *   75      not failed, interrupted, and the last step is saved (EX_TEMPFAIL)
 *   75      a rank of the group died or was lost (HS_UNAVAILABLE with cause_rank), and a step is saved
 *   75      no session could be opened, because a rank or the backend's session was lost (HS_UNAVAILABLE)
 *   128+n   signal n ended it
 *   1       failed; or interrupted, and only an earlier step is saved; or `outcome` is NULL
 *   0       interrupted, and no step was ever saved */
/* clang-format on */
HS_API int hs_outcome_exit_code(const hs_outcome *outcome);
/* The outcome of a failed opening: HS_REASON_FAILED with a copy of `error`; for NULL and HS_OK, HS_FAILED_PRECONDITION. */
HS_API hs_outcome hs_outcome_from_error(const hs_error *error);
/* Returns "failed", "closed", "stopped", "end of input", "already done", or "unknown". */
HS_API const char *hs_reason_name(hs_reason reason);

HS_END_DECLS

#endif
