/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/byte_order.h"

static void reverse(unsigned char *number, size_t size)
{
    for (size_t i = 0; i < size / 2; i++) {
        unsigned char low = number[i];
        number[i] = number[size - 1 - i];
        number[size - 1 - i] = low;
    }
}

void hs__swap_bytes(hs_dtype dtype, void *data, size_t bytes)
{
    unsigned char *at = data;
    size_t size = dtype == HS_STRING ? 1 : hs_dtype_size(dtype);
    if (dtype == HS_COMPLEX64 || dtype == HS_COMPLEX128)
        size /= 2;
    for (size_t i = 0; size > 1 && i + size <= bytes; i += size)
        reverse(at + i, size);
}
