/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_FINITE_ROLLBACK_H
#define HS_HOOKS_FINITE_ROLLBACK_H

#include <hooksess/hooks/finite_guard.h>

#include "hooks/number.h"

/* Going back to the last good state, and making what follows another than it was. */

/* What rides in checkpoints. */
typedef struct hs__rollback_count {
    int64_t rollbacks;
    int64_t skipped; /* batches that were drawn and not trained on, up to this state */
} hs__rollback_count;

typedef struct hs__rollback {
    hs_saver *saver;
    hs_scaffold *scaffold;
    int64_t most; /* HS_NEVER: no limit */
    char *learning_rate, *skip_op;
    double factor;
    int64_t skip_batches, snapshot_limit;
    hs__number number;                  /* the learning rate */
    bool wants_copy;                    /* no run was made since the session was created */
    hs_state_copy *copy;                /* of the state before the first run; NULL: there is none */
    hs__rollback_count count, restored; /* now; in the state that was restored last */
    char history[512];                  /* "step 12 to 8, ...", of this session */
} hs__rollback;

hs_code hs__rollback_begin(hs__rollback *rollback, hs_backend backend, hs_error *err);
/* Before the first run after a creation: copies the state where there is nothing else to go back to. */
hs_code hs__rollback_snapshot(hs__rollback *rollback, hs_raw_session *session, hs_error *err);
/* Before any other run: lets go of the copy where a later state was saved. */
void hs__rollback_drop_outdated(hs__rollback *rollback, const hs_raw_session *session);
/* Is there one left? */
bool hs__rollback_allowed(const hs__rollback *rollback);
/* Goes back from the bad step. On failure the state is not to be trained on. */
hs_code hs__rollback_restore(hs__rollback *rollback, hs_run_context *run, int64_t bad_step, const char *why, hs_error *err);
/* For load_state. */
hs_code hs__rollback_load(hs__rollback *rollback, const hs__rollback_count *loaded, hs_error *err);
void hs__rollback_close(hs__rollback *rollback);

#endif
