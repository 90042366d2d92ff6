/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_NONFINITE_H
#define HS_HOOKS_NONFINITE_H

#include <hooksess/run.h>

/* Finds the numbers of a fetched tensor that are not finite. A large one on a device is counted there, and not copied to
 * the host.
 *
 * name   of the tensor, for the message of an error
 * env    memory for pieces of a tensor that its device cannot count
 * value  is set to the tensor in host memory, or to a large one on its device
 *
 * Errors: the code of copying from a device. */
hs_code hs__find_nonfinite(const hs_run_values *values, size_t index, const char *name, const hs_env *env, hs_tensor *value,
                           hs_nonfinite *found, hs_error *err);

/* Describes a tensor with NaN or infinities: which element is the first, how many there are, and the range of the others.
 *
 * what   its role, such as "gradient"
 * value  of hs__find_nonfinite. On a device: without the range of the other elements */
void hs__describe_nonfinite(char *text, size_t size, const char *what, const char *name, const hs_tensor *value,
                            const hs_nonfinite *bad);

#endif
