/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_CHECK_H
#define HS_FORMATS_CHECK_H

#include "base/env.h"

#include <hooksess/tensor.h>

/* Checksum and check for NaN, computed over a tensor's bytes while they are written. */
typedef struct hs__checked {
    uint32_t crc; /* CRC-32C, not masked */
    hs_nonfinite nonfinite;
} hs__checked;

/* Adds the next piece of a tensor: `n` bytes, whole elements, at offset `at`. Initialize `checked` with HS__NOT_CHECKED. */
void hs__check_piece(hs__checked *checked, hs_dtype dtype, const void *piece, size_t at, size_t n);
#define HS__NOT_CHECKED                                                                                                    \
    {                                                                                                                      \
        .crc = 0, .nonfinite = {.first_index = -1 }                                                                        \
    }

#endif
