/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/byte_order.h"

void hs__swap_bytes(hs_dtype dtype, void *data, size_t bytes)
{
    unsigned char *at = data;
    size_t size = dtype == HS_STRING ? 1 : hs_dtype_size(dtype);
    if (dtype == HS_COMPLEX64 || dtype == HS_COMPLEX128)
        size /= 2;
    for (; size > 1 && bytes >= size; at += size, bytes -= size)
        for (size_t low = 0, high = size - 1; low < high; low++, high--) {
            unsigned char byte = at[low];
            at[low] = at[high];
            at[high] = byte;
        }
}
