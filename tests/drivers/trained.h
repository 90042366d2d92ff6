/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_DRIVERS_TRAINED_H
#define HS_TESTS_DRIVERS_TRAINED_H

#include "checkpoint/model.h"
#include "hooks/stage.h"

/* Training sessions of the model, in the directory of a stage `s`. */

typedef struct {
    stage *s;
    model m;
} training;

/* Options with the stage's directory as checkpoint_dir. */
#define SAVING(...) (*HS_TRAINING_OPTIONS(.checkpoint_dir = s->directory, __VA_ARGS__))

/* Opens a training session on a new model with variables of step 0. */
void begin_training(training *t, stage *s, hs_training_options options);
/* Closes the session, which must not fail. */
void end_training(training *t);
/* Fetches the global step in a run. */
int64_t fetch_step(stage *s);
/* The global step that a second session with default options restores. */
int64_t step_of_second_session(stage *s);
/* Opening must fail with HS_INVALID_ARGUMENT and this message, and leave no files. */
void refuses(stage *s, hs_training_options options, const char *message);

#endif
