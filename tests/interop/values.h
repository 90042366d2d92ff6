/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_INTEROP_VALUES_H
#define HS_TESTS_INTEROP_VALUES_H

#include <hooksess/tensor.h>

/* The values of the variables: a formula of name, type and index. values.py has the same. */

/* Sets `n` elements at `data`. Each generation has different values. */
void values_fill(const char *name, hs_dtype dtype, unsigned generation, void *data, size_t n);

#endif
