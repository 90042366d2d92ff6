/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_NONFINITE_H
#define HS_HOOKS_NONFINITE_H

#include <hooksess/tensor.h>

/* Describes a tensor with NaN or infinities: which element is the first, how many there are, and the range of the others.
 *
 * what  its role, such as "gradient"
 * host  in host memory
 * bad   of hs_tensor_nonfinite */
void hs__describe_nonfinite(char *text, size_t size, const char *what, const char *name, const hs_tensor *host,
                            const hs_nonfinite *bad);

#endif
