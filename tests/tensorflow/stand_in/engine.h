/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_TENSORFLOW_STAND_IN_ENGINE_H
#define HS_TESTS_BACKENDS_TENSORFLOW_STAND_IN_ENGINE_H

/* What the stand-ins share: a graph of TensorFlow's that ops are added to as a test defines them. */

#include "support/test.h"

#include <hooksess/tensorflow.h>

/* A graph with nothing but the int64 resource variable global_step, which is initialized with what is fed to
 * global_step/first, 0 where nothing is; and global_step/by, 1 where nothing is fed: what advances the step may add it. */
hs_backend engine_open(const hs_env *env, hs_error *err);
/* How many graphs of TensorFlow's the stand-ins have made so far: a test that made none has not been here. */
extern size_t engine_graphs;
/* Sessions find a script's variable initialized, as by a chief somewhere else. */
extern bool engine_has_chief;

/* Adds an op, "init" as one that initializes the step, to a finalized graph too. `type_attr` (NULL: none) is the attribute
 * that takes `dtype`. */
hs_code engine_add(hs_backend tf, const char *type, const char *name, const char *const *inputs, const char *type_attr,
                   hs_dtype dtype, hs_error *err);

#endif
