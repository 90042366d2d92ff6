/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_CHECKPOINT_MANAGED_H
#define HS_TESTS_CHECKPOINT_MANAGED_H

#include "checkpoint/model.h"

/* Checkpoint managers over the fixture's model. */

/* An init_fn sets the model to a step, or fails. */
typedef struct {
    model *m;
    int calls;
    hs_code fail;
} beginning;

hs_code begin_at_step_2(void *user, hs_raw_session *session, hs_error *err);

/* A manager of the fixture's directory and environment, unless the options name others. */
hs_checkpoint_manager *new_manager(fixture *f, hs_checkpoint_manager_options options);
#define manager_of(f, ...) new_manager(f, *HS_CHECKPOINT_MANAGER_OPTIONS(__VA_ARGS__))

/* Sets the model to `step` and saves it under `number`, if the interval has passed or with `now`. Returns the checkpoint's
 * name without the directory, or NULL. */
const char *save_as(fixture *f, hs_checkpoint_manager *manager, int64_t step, int64_t number, bool now);
const char *save_at_step(fixture *f, hs_checkpoint_manager *manager, int64_t step);
/* Under the next number. */
const char *save_next(fixture *f, hs_checkpoint_manager *manager);
/* The name of the checkpoint that was restored, or NULL. */
const char *restore_managed(fixture *f, hs_checkpoint_manager *manager);
/* The names of the kept checkpoints, each followed by a space. */
const char *kept_by(const hs_checkpoint_manager *manager);

#endif
