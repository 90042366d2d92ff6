/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_SNAPPY_H
#define HS_FORMATS_SNAPPY_H

#include "base/buffer.h"

/* Google's Snappy format, only reading.
 *
 *   Stream:  varint: bytes of the contents. Then elements, until the end.
 *   Element: a byte, whose two lowest bits are the type, then the numbers of the type, little-endian.
 *     0      literal: length - 1 in the upper six bits, or in the next 1 to 4 bytes if these are 60 to 63. Then the bytes.
 *     1      copy of earlier contents: length - 4 in three bits, the upper 3 bits of 11 of the offset, 1 byte of offset.
 *     2, 3   copy: length - 1 in the upper six bits, offset in the next 2 or 4 bytes.
 *   Offset:  from the end of the contents so far, backwards. A copy may repeat the bytes that it produces. */

/* The number of bytes of the contents. False: not a Snappy stream. A stream that claims more than 22 times its own bytes is
 * not one, so that a small file cannot make its reader allocate much. */
bool hs__snappy_size(hs_bytes packed, size_t *bytes);
/* Writes the contents. False: not a Snappy stream of this many bytes. */
bool hs__snappy_unpack(hs_bytes packed, void *to, size_t bytes);

#endif
