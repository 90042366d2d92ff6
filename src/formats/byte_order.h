/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BYTE_ORDER_H
#define HS_FORMATS_BYTE_ORDER_H

#include <hooksess/tensor.h>

/* Bundles have numbers in the byte order of the machine that wrote them. */

/* True if this machine is big-endian. */
static inline bool hs__big_endian(void)
{
    const uint16_t one = 1;
    return *(const unsigned char *)&one == 0;
}

/* Reverses the bytes of each number; of a complex number, those of both parts. `data` need not be aligned. Elements of one
 * byte and strings are unchanged. */
void hs__swap_bytes(hs_dtype dtype, void *data, size_t bytes);

#endif
