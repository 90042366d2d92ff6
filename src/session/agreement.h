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
    int64_t step;            /* the global step after the last run or, before the first one, after the creation */
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
    /* With options.step_secs: the step whose time is limited, since then (0: none); the number of such steps; the slowest
     * of the last 1 to 100 of them, and of the hundred before */
    int64_t limited_step, limited_since_ns, n_limited, slowest_ns[2];
    /* The global step, and the saved step, at the last agreement in a run, for the thread of an abandonment. -1: none */
    _Atomic int64_t last_step, last_saved_step;
} hs__agreement;

struct hs__hook;
struct hs__request;

hs_code hs__agreement_init(struct hs_session *session, const hs_session_options *options, hs_error *err);

/* The session was created, or again after a loss. A restore may return to an earlier step, and an earlier position of the
 * input. */
void hs__agreement_restart(struct hs_session *session);

/* The agreement after a part of the opening, the recovery or the close that can fail on one rank, unless the failure of
 * this call is agreed already. `word` has further bits of word 0; `code` and `err` are the result of this rank so far.
 * Returns the agreed code: without a group `code`; otherwise that of a rank that has failed, HS_OUT_OF_RANGE, this rank's
 * HS_STOP, or HS_OK. */
hs_code hs__agree_on_part(struct hs_session *session, uint64_t word, hs_code code, hs_error *err);

/* agreement.c. Only for sessions in a group (hs__is_in_group). */

/* The agreement at the end of a training run, whose result is `code` and `err`. Decides whether boundaries are called
 * (hs_run_context.boundary_requested). */
hs_code hs__agree_on_run(struct hs_session *session, hs_code code, hs_error *err);
/* The agreement before the first collective operation of the program's step. */
hs_code hs__pass_gate(struct hs_session *session, hs_error *err);
/* At the close: repeats the agreement until all ranks are closing. */
hs_code hs__agree_to_close(struct hs_session *session, hs_code code, hs_error *err);
/* What the program has reported in this step: a failure (hs_session_fail) in a group; or HS_OUT_OF_RANGE, if its input has
 * ended, and this ends the training. */
hs_code hs__check_program(const struct hs_session *session, hs_error *err);
/* A run has ended with HS_OUT_OF_RANGE. Returns true if it is to be repeated without input (HS_END_WITH_LAST_RANK). */
bool hs__continues_without_input(struct hs_session *session);
/* An agreement after the boundaries of a stop, or of the close. `word`: HS__WORD_CLOSING or 0. */
hs_code hs__agree_on_boundaries(struct hs_session *session, uint64_t word, hs_code code, hs_error *err);
/* After the last agreement of the close: if a rank has died since, all other ranks fail, whether or not they got its
 * result. */
void hs__agree_on_last_call(struct hs_session *session, hs_error *error);
/* From now on the engine may end this process, if a rank has failed and this session's thread does not return: the session
 * then records the outcome. */
void hs__allow_abandon(struct hs_session *session);
/* Before the session's hooks are closed. Waits until an abandonment is over. */
void hs__refuse_abandon(struct hs_session *session);
/* rank_calls.c: gives all ranks the same first values of the shared variables. Compares those that the program has set, and
 * sends the chief's of the others (hs_replica_options.initial_values). */
hs_code hs__share_variables(struct hs_session *session, hs_error *err);
/* collective_ops.c: fails if not all ranks call the hook, and its request executes a collective op that neither the program
 * nor a hook of all ranks requests in this run. `alone`: a run that the hook makes itself. */
hs_code hs__check_collective_ops(struct hs_session *session, const struct hs__hook *hook, const struct hs__request *request,
                                 bool alone, hs_error *err);

/* signature.c. Compares the hooks, the saved variables and the options of all ranks. */
hs_code hs__compare_ranks(struct hs_session *session, hs_error *err);

#endif
