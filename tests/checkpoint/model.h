/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_CHECKPOINT_MODEL_H
#define HS_TESTS_CHECKPOINT_MODEL_H

#include "support/test.h"

/* A small model in the program's memory. All of it follows from one number, its step, so that a look tells of which moment
 * it is. */
typedef struct model {
    hs_graph *graph;
    hs_session *session;
    float weights[6];
    double bias[2];
    int64_t step;
    hs_error err;
} model;

void model_set(model *m, int64_t step);
/* Is it whole, and at this step? */
bool model_is(const model *m, int64_t step);

/* A graph with the variables "weights" [2,3], "bias" [2] and "global_step", and an op "train" that makes one step. What
 * fails is reported when a session is opened. */
void model_build(model *m, const hs_env *env);
/* Builds it and opens a session that restores from `directory` (may be NULL). The values stay as they are. */
hs_code model_open(model *m, const hs_env *env, const char *directory);
hs_raw_session *model_raw(const model *m);
hs_code model_train(model *m, int steps);
/* Closes the session and frees the graph. */
hs_outcome model_close(model *m);

/* What a test begins and ends with: an empty directory, and a model and a saver on an environment that counts. */
typedef struct fixture {
    test_env t;
    char *directory;
    model m;
    hs_saver *saver;
    hs_error err;
    char restored[1024]; /* what restore_newest took */
} fixture;

int fixture_setup(void **state);
/* Fails if anything is left allocated. */
int fixture_teardown(void **state);
#define with_fixture(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

/* What restoring step 3 leaves of a model of step 9: which variables came from there. */
void assert_came(const fixture *f, bool weights, bool bias, bool step);

/* A new saver of these options instead of the fixture's, on its environment unless they name one. */
void use_saver(fixture *f, hs_saver_options options);
/* Brings the model to `step` and saves it to DIRECTORY/model.ckpt-STEP. */
void save_at(fixture *f, int64_t step);
/* Restores the newest of the directory into a model that was at another step. */
hs_code restore_newest(fixture *f);
/* The same with a model and a saver that know nothing yet: after a restart. */
hs_code restart(fixture *f);

/* "DIRECTORY/model.ckpt-STEP.ENDING"; without an ending the checkpoint's prefix. One of a few static buffers. */
const char *file_of(const fixture *f, int64_t step, const char *ending);
bool has_file(const fixture *f, int64_t step, const char *ending);
#define DATA "data-00000-of-00001"

void flip_bit(const char *path, size_t bit);
void truncate_to(const char *path, size_t bytes);
/* Overwrites the state file with this text. */
void write_state(const fixture *f, const char *text);

#endif
