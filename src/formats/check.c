/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/check.h"

#include "base/crc32c.h"

void hs__check_piece(hs__checked *checked, hs_dtype dtype, const void *piece, size_t at, size_t n)
{
    size_t size = hs_dtype_size(dtype);
    hs_tensor tensor = hs_tensor_of(dtype, (hs_shape){.rank = 1, .dims = {(int64_t)(n / size)}}, piece);
    hs_nonfinite found = hs_tensor_nonfinite(&tensor);
    hs_nonfinite *all = &checked->nonfinite;
    if (all->first_index < 0 && found.first_index >= 0)
        all->first_index = found.first_index + (int64_t)(at / size);
    all->nan += found.nan;
    all->positive_infinity += found.positive_infinity;
    all->negative_infinity += found.negative_infinity;
    checked->crc = hs__crc32c(checked->crc, piece, n);
}
