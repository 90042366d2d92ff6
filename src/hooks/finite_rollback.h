/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_FINITE_ROLLBACK_H
#define HS_HOOKS_FINITE_ROLLBACK_H

#include <hooksess/hooks/finite_guard.h>

#include "hooks/number.h"

/* Restores the last good state after a bad step, and changes the training that follows: a lower learning rate, other
 * batches. */

/* The part of the hook's state that is saved in checkpoints. */
typedef struct hs__rollback_count {
    int64_t rollbacks;
    int64_t skipped; /* batches that were drawn but not trained on, up to this state */
} hs__rollback_count;

typedef struct hs__rollback {
    hs_saver *saver;
    int64_t most; /* max_rollbacks. HS_NEVER: no limit */
    char *learning_rate, *skip_op;
    double factor;
    int64_t skip_batches;
    hs__number number;                  /* the learning rate */
    hs__rollback_count count, restored; /* now; in the last restored state */
    char history[512];                  /* "step 12 to 8, ...", of this session */
} hs__rollback;

hs_code hs__rollback_begin(hs__rollback *rollback, hs_backend backend, hs_error *err);
/* False: max_rollbacks is reached. */
bool hs__rollback_allowed(const hs__rollback *rollback);
/* Rolls back from the bad step. On failure the state in memory is undefined, and saves are refused. */
hs_code hs__rollback_restore(hs__rollback *rollback, hs_run_context *run, int64_t bad_step, const char *why, hs_error *err);
/* Call in load_state. */
hs_code hs__rollback_load(hs__rollback *rollback, const hs__rollback_count *loaded, hs_error *err);

#endif
