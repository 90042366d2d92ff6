/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_TENSOR_H
#define HS_BASE_TENSOR_H

#include <hooksess/tensor.h>

#include "base/env.h"

/* Adds the numbers that are not finite in `bytes` of whole elements, which begin at byte `at` of the tensor. */
void hs__add_nonfinite(hs_nonfinite *all, hs_dtype dtype, const void *data, uint64_t at, size_t bytes);
/* True if `shape` matches the open shape `open`, in which -1 matches any dimension. */
bool hs__shape_fits(const hs_shape *open, const hs_shape *shape);
/* HS_OK if a tensor can have this shape. `open`: dimensions of -1 are allowed. `of` is for the message. */
hs_code hs__shape_check(const hs_shape *shape, bool open, const char *of, hs_error *err);
bool hs__dtype_valid(int64_t dtype);
/* True if hs_dtype_name returns this text for a valid dtype. */
bool hs__is_dtype_name(const char *text);

#endif
