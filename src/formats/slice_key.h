/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_SLICE_KEY_H
#define HS_FORMATS_SLICE_KEY_H

#include "base/buffer.h"
#include "formats/box.h"

/* The key under which an index has a slice of a tensor: the number 0; the tensor's name; the rank; then start and length of
 * each dimension, the length -1 where the slice is said to have all of it. All in a code whose bytes sort as what they
 * stand for:
 *
 *   A number that is never negative: how many bytes it has, and these, the highest first. 0 has none.
 *   A name: its bytes, 00 written as 00 ff and ff as ff 00; then 00 01.
 *   Any other number, of 1 to 10 bytes: as many ones as it has bytes, a zero, and the number in the remaining bits, the
 *   highest first; of one below 0 the two's complement, after as many zeros and a one. */

void hs__slice_key_put(hs__buffer *out, const char *name, const hs__box *box);
/* *name is to be freed, NULL if false is returned: the bytes are no such key, or one of a rank that we do not have, or
 * *no_memory says that there was none. */
bool hs__slice_key_get(const hs_env *env, hs_bytes key, char **name, hs__box *box, bool *no_memory);

#endif
