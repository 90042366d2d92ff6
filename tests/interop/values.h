/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_INTEROP_VALUES_H
#define HS_TESTS_INTEROP_VALUES_H

#include <hooksess/tensor.h>

/* What the variables hold: a formula of name, type and index, which values.py has too. */

/* Fills `n` elements at `data`. Another generation has other values. */
void values_fill(const char *name, hs_dtype dtype, unsigned generation, void *data, size_t n);

#endif
