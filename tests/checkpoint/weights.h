/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_CHECKPOINT_WEIGHTS_H
#define HS_TESTS_CHECKPOINT_WEIGHTS_H

/* Shared by the tests of safetensors files: the fixture's model and one file. */

#include "checkpoint/model.h"

/* DIRECTORY/m.safetensors. */
const char *weights_file(const fixture *f);
hs_code save_weights_with(fixture *f, const hs_safetensors_options *options);
/* Sets the model to `step` and saves all variables, which must succeed. */
void save_weights(fixture *f, int64_t step);
/* Loads into a model of step 9. */
hs_code load_weights(fixture *f, const hs_restore_options *options);
/* Returns true if the file has a tensor of that name. */
bool has_tensor(fixture *f, const char *name);

/* A graph with one variable, and a session on it. */
hs_session *open_single(fixture *f, hs_graph **graph, const hs_variable_def *def);

#endif
