/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_DIFFERENCE_H
#define TOOL_DIFFERENCE_H

#include <hooksess/tensor.h>

/* What differs between two host tensors of the same dtype and shape. */
typedef struct difference {
    uint64_t elements, differing; /* bit by bit */
    uint64_t first;               /* the first that differs, flat */
    long double absolute;         /* the largest |a - b|, and ... */
    long double relative;         /* ... the largest |a - b| / max(|a|, |b|); both 0 of strings */
} difference;

difference difference_of(const hs_tensor *a, const hs_tensor *b);
/* The index of element `flat` of that shape, a number for each dimension. */
hs_shape index_in(const hs_shape *shape, uint64_t flat);

#endif
