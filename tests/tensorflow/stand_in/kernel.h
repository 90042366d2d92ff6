/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_TENSORFLOW_STAND_IN_KERNEL_H
#define HS_TESTS_BACKENDS_TENSORFLOW_STAND_IN_KERNEL_H

/* Ops of TensorFlow's that call a function of the test program's:
 *
 *     HooksessCall(in: Tin, ...)    any inputs, no output
 *     HooksessValue() -> dtype      no input, one output
 *
 * Their attribute `target`, an int, is the number of a kernel_target, which must outlive all sessions of the graph. */

#include "tensorflow/tf_backend.h"

#include <hooksess/backend.h>

typedef struct kernel_target {
    hs_backend tf;
    size_t number; /* written by kernel_add */
    /* Called in a thread of TensorFlow's, one at a time. `output` NULL: a HooksessCall. What it is set to is copied. */
    hs_code (*run)(struct kernel_target *target, const hs_tensor *inputs, size_t n_inputs, hs_tensor *output,
                   hs_error *err);
} kernel_target;

/* Gives a target the first number that is free, so that a graph that is built twice gets the same numbers. */
void kernel_add(kernel_target *target);
void kernel_remove(const kernel_target *target);

/* Makes the ops known to TensorFlow, which must have been loaded. Once in a process. */
hs_code kernel_register(hs_error *err);

#endif
