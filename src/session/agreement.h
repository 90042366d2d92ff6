/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_AGREEMENT_H
#define HS_SESSION_AGREEMENT_H

#include <hooksess/session.h>

#include "ranks/ranks.h"

#include <stdatomic.h>

/* clang-format off */
/* The decisions that the sessions of a group make together: whether a run has failed, why the sessions stop, whether the
 * boundary comes. Each is a message of the ranks (ranks.h):
 *
 *   agreement          when
 *   end of a run       after after_run of all hooks, or after the failure, of each training run at level 0; again on a rank
 *                      where a boundary of the run returns HS_STOP
 *   gate               hs_op_pass_gate, hs_step_pass_gate: before the first collective operation of the program's step
 *   opening, recovery  after each part that can fail on one rank
 *   stop               after the boundaries of the stop, until all ranks have called them
 *   closing            repeated until all ranks are closing; after the last boundaries, until all have called them. Then a
 *                      barrier: if a rank died after it had sent its part, all other ranks fail
 *
 * A rank that fails, or closes its session, joins the message in which the others wait, whichever it is: after a failure in
 * a boundary of a run, when the program closes the session. But if its step fails behind the gate, the others may wait in
 * the program's collective operation. Then it leaves the group, and all ranks end. It does not after the failure of a hook,
 * as hooks are called after the operation, nor after a loss, which is mostly that of the operation, on all ranks. */
/* clang-format on */

typedef struct hs__agreement {
    hs__ranks ranks; /* of no group: no function below is called */
    hs_replica_options options;
    uint64_t word;    /* word 0 of the last message */
    bool all_closing; /* in the last message */
    bool all_ended;
    atomic_uint stops;       /* agreed hs__stop bits; any thread reads them */
    int64_t runs_to_end;     /* training runs until the next agreement at the end of a run */
    bool boundary_requested; /* by a hook, since the last agreement at the end of a run */
    unsigned sent_requests;  /* save requests of this rank that all ranks know */
    /* All ranks know how this call has failed: `failure`, also HS_STOP and HS_OUT_OF_RANGE. Until
     * hs__forget_agreed_failure, agreements return it and send nothing */
    bool settled;
    hs_error failure;
    int32_t cause_rank; /* whose error ends the session; -1: none */
    bool input_ended;   /* of this rank */
    bool broken;        /* a rank has failed: the group is unusable */
    bool behind_gate;   /* this rank is in a step, behind its gate: others may wait for it outside of agreements */
    /* The global step, and the saved step, at the last agreement in a run, for the thread of an abandonment. -1: none */
    _Atomic int64_t last_step, last_saved_step;
} hs__agreement;

/* agreement.c */

hs_code hs__agreement_init(struct hs_session *session, const hs_session_options *options, hs_error *err);

#endif
