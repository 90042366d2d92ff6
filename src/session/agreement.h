/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_AGREEMENT_H
#define HS_SESSION_AGREEMENT_H

#include <hooksess/session.h>

#include "ranks/group.h"

#include <stdatomic.h>

/* clang-format off */
/* The decisions that the sessions of a group (group.h) make together: whether a run has failed, why the sessions stop,
 * which hooks act in a boundary.
 *
 * An agreement is one bitwise-OR allreduce of five words:
 *
 *   word 0         what holds on at least one rank: bits 0 to 15 are the causes of its stop (enum hs__stop), then
 *                  HS__WORD_*, from bit 32 on the hooks that requested a boundary
 *   word 1         what does not hold on at least one rank (HS__WORD1_*). A clear bit means that it holds on all ranks
 *   words 2 and 3  the global step and its complement. (word 2 & word 3) != 0: the steps differ
 *   word 4         the clock of rank 0, for the schedule of hooks; 0 on the others
 *
 * If the combined words contain news (a failure, a new cause of a stop, a rank that closes), each rank sends a report to
 * the chief, which merges them and broadcasts the result. All ranks see the same words, so that all make the same calls.
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
 * All these are the same call. So a rank that fails, or closes its session, joins the agreement in which the others wait.
 * But if its step fails behind the gate, the others may wait in the program's collective operation. Then it leaves the
 * group, and all ranks end. */
/* clang-format on */

/* Bits of word 0. */
#define HS__WORD_STOPS         ((uint64_t)0xffff)
#define HS__WORD_FAILED        ((uint64_t)1 << 16) /* the run or the call has failed */
#define HS__WORD_LOST          ((uint64_t)1 << 17) /* the backend's session is lost (HS_ABORTED, HS_UNAVAILABLE) */
#define HS__WORD_END_OF_INPUT  ((uint64_t)1 << 18)
#define HS__WORD_RUN_STOPPED   ((uint64_t)1 << 19) /* the run returned HS_STOP */
#define HS__WORD_CLOSING       ((uint64_t)1 << 20)
#define HS__WORD_BOUNDARY      ((uint64_t)1 << 21) /* a hook has requested the boundary */
#define HS__WORD_ALREADY_DONE  ((uint64_t)1 << 22) /* a hook reported at the opening that the training is complete */
#define HS__WORD_SAVES_REFUSED ((uint64_t)1 << 23)
#define HS__WORD_YES           ((uint64_t)1 << 24) /* the answer to the question of this agreement */
#define HS__WORD_ENDED         ((uint64_t)1 << 25) /* after the boundaries of a stop, or of the close */
#define HS__WORD_SAVE_REQUEST  ((uint64_t)1 << 26) /* hs_session_request_save */
#define HS__WORD_TRIGGER_SHIFT 32

/* Bits of word 1. */
#define HS__WORD1_NOT_CLOSING ((uint64_t)1 << 0)
#define HS__WORD1_NOT_ENDED   ((uint64_t)1 << 1)
#define HS__WORD1_HAS_INPUT   ((uint64_t)1 << 2)

enum { HS__AGREEMENT_WORDS = 5, HS__TRIGGER_BITS = 32, HS__NO_TRIGGER = 255 };

/* What a rank reports to the chief if an agreement contains news, and what the chief broadcasts. */
typedef struct hs__rank_report {
    int32_t rank;   /* whose error it is; -1: no rank has failed */
    int32_t signal; /* the first signal that requested a stop; 0: none */
    int64_t saved_step;
    char stop_hook[64], failed_hook[64];
    hs_error error;
} hs__rank_report;

typedef struct hs__agreement {
    hs_group group; /* ops NULL: the session is not in a group. Then no function below is called */
    int32_t rank, rank_count;
    hs_replica_options options;
    uint64_t word;     /* word 0 of the last agreement, */
    uint64_t run_word; /* and of the last one at the end of a run */
    bool all_closing;  /* in the last agreement */
    bool all_ended;
    atomic_uint stops;   /* agreed hs__stop bits; any thread reads them */
    int64_t runs_to_end; /* training runs until the next agreement at the end of a run */
    uint64_t triggers;   /* bits of the hooks that requested a boundary since the last agreement at the end of a run */
    bool boundary_requested;
    unsigned sent_requests; /* save requests of this rank that all ranks know */
    bool settled;           /* the failure of this call is agreed, */
    hs_error failure;       /* and is this one, or HS_STOP and HS_OUT_OF_RANGE */
    int32_t cause_rank;     /* whose error ends the session; -1: none */
    bool input_ended;       /* of this rank */
    bool broken;            /* a rank has failed: the group is unusable */
    bool behind_gate;       /* this rank is in a step, behind its gate: others may wait for it outside of agreements */
    /* The global step, and the saved step, at the last agreement in a run, for the thread of an abandonment. -1: none */
    _Atomic int64_t last_step, last_saved_step;
} hs__agreement;

/* agreement.c */

hs_code hs__agreement_copy_options(hs__agreement *agreement, const hs_session_options *options, hs_error *err);
/* For a rank that cannot open a session: the other ranks wait for it in their opening. `error` is sent to them, and
 * receives the agreed error. */
void hs__agreement_refuse(const hs_group *group, hs_error *error);

#endif
