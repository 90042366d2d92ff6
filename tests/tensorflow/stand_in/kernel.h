/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_TENSORFLOW_STAND_IN_KERNEL_H
#define HS_TESTS_TENSORFLOW_STAND_IN_KERNEL_H

/* TensorFlow ops that call a function of the test program:
 *
 *     HooksessCall(in: Tin, ...)    any inputs, no output
 *     HooksessValue() -> dtype      no input, one output
 *
 * Their attribute `target`, an int, is the number of a kernel_target, which must outlive all sessions of the graph. */

#include "tensorflow/tf_backend.h"

#include <hooksess/backend.h>

typedef struct kernel_target {
    hs_backend tf;
    size_t number; /* set by kernel_add */
    /* Called in a TensorFlow thread, one call at a time. `output` is copied after the call. NULL: a HooksessCall. */
    hs_code (*run)(struct kernel_target *target, const hs_tensor *inputs, size_t n_inputs, hs_tensor *output,
                   hs_error *err);
} kernel_target;

/* Sets the target's number to the first free one, so that a graph that is built twice has the same numbers. */
void kernel_add(kernel_target *target);
void kernel_remove(const kernel_target *target);

/* Registers the ops once per process. TensorFlow must be loaded. */
hs_code kernel_register(hs_error *err);

#endif
