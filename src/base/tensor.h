/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_TENSOR_H
#define HS_BASE_TENSOR_H

#include <hooksess/tensor.h>

#include "base/env.h"

/* Is `shape` one that the open shape `open` (with -1) takes? */
bool hs__shape_fits(const hs_shape *open, const hs_shape *shape);
/* HS_OK for a shape that a tensor can have; `open`: -1 is allowed. */
hs_code hs__shape_check(const hs_shape *shape, bool open, const char *of, hs_error *err);
bool hs__dtype_valid(int64_t dtype);

#endif
