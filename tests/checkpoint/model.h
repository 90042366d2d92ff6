/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_CHECKPOINT_MODEL_H
#define HS_TESTS_CHECKPOINT_MODEL_H

#include "support/test.h"

/* A small model in the program's memory. Its step determines all values, so that a test can check which step it has. */
typedef struct model {
    hs_graph *graph;
    hs_session *session;
    float weights[6];
    double bias[2];
    int64_t step;
    hs_error err;
} model;

void model_set(model *m, int64_t step);
/* Returns true if all values are those of this step. */
bool model_is(const model *m, int64_t step);

/* Builds a graph with the variables "weights" [2,3], "bias" [2] and "global_step", and an op "train" that increments the
 * step. Opening a session reports errors. */
void model_build(model *m, const hs_env *env);
/* Builds the graph and opens a session that restores from `directory` (may be NULL). Does not initialize the values. */
hs_code model_open(model *m, const hs_env *env, const char *directory);
hs_raw_session *model_raw(const model *m);
hs_code model_train(model *m, int steps);
/* Closes the session and frees the graph. */
hs_outcome model_close(model *m);

/* An empty directory, and a model and a saver on an environment that counts allocations and calls. */
typedef struct fixture {
    test_env t;
    char *directory;
    model m;
    hs_saver *saver;
    hs_error err;
    char restored[1024]; /* path of the checkpoint of restore_newest */
} fixture;

int fixture_setup(void **state);
/* Fails if memory was not freed. */
int fixture_teardown(void **state);
#define with_fixture(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

/* Asserts which variables of a model of step 9 were restored from step 3. */
void assert_came(const fixture *f, bool weights, bool bias, bool step);

/* Replaces the fixture's saver. Without an environment in the options it gets the fixture's. */
void use_saver(fixture *f, hs_saver_options options);
/* Sets the model to `step` and saves it to DIRECTORY/model.ckpt-STEP. */
void save_at(fixture *f, int64_t step);
/* Restores the newest of the directory into a model that was at another step. */
hs_code restore_newest(fixture *f);
/* The same with a new model and a new saver, as after a restart. */
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
