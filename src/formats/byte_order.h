/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BYTE_ORDER_H
#define HS_FORMATS_BYTE_ORDER_H

#include <hooksess/tensor.h>

/* Bundles hold numbers in the order of the machine that wrote them. */

/* This machine's. */
static inline bool hs__big_endian(void)
{
    const uint16_t one = 1;
    return *(const unsigned char *)&one == 0;
}

/* Turns the bytes of each element round, those of both parts of a complex number apart; `data` may lie anywhere. Elements
 * of one byte, and strings, stay as they are. */
void hs__swap_bytes(hs_dtype dtype, void *data, size_t bytes);

#endif
