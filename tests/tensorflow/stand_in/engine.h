/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_TENSORFLOW_STAND_IN_ENGINE_H
#define HS_TESTS_TENSORFLOW_STAND_IN_ENGINE_H

/* Shared by the stand-ins: a TensorFlow graph to which ops are added when a test defines them. */

#include "support/test.h"

#include <hooksess/tensorflow.h>

/* Opens a graph with only the int64 resource variable global_step and two placeholders: the variable is initialized to
 * global_step/first (0 if it is not fed), and ops that advance the step may add global_step/by (1 if it is not fed). */
hs_backend engine_open(const hs_env *env, hs_error *err);
/* Number of TensorFlow graphs that the stand-ins have made. A test that made none did not use TensorFlow. */
extern size_t engine_graphs;
/* Sessions find a script's variable initialized, as if by a chief in another process. */
extern bool engine_has_chief;

/* Adds an op, even to a finalized graph. An op named "init" initializes the step. `type_attr` is the name of the attribute
 * for `dtype`; NULL: none. */
hs_code engine_add(hs_backend tf, const char *type, const char *name, const char *const *inputs, const char *type_attr,
                   hs_dtype dtype, hs_error *err);

#endif
