/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_SLICE_KEY_H
#define HS_FORMATS_SLICE_KEY_H

#include "base/buffer.h"
#include "formats/box.h"

/* The key of a slice in an index: the count 0; the tensor's name; the rank, a count; then start and length of each
 * dimension, two numbers. A length of -1 means the whole dimension. The encoding keeps the order, so that keys sort by
 * these values:
 *
 *   count   the number of its bytes (none for 0), then the bytes, most significant first;
 *   name    its bytes, with 00 written as 00 ff and ff as ff 00; then 00 01;
 *   number  1 to 10 bytes. If it is at least 0: one 1 bit per byte, a 0 bit, then the number in the remaining bits, most
 *           significant first. If it is negative: one 0 bit per byte, a 1 bit, then the two's complement. */

void hs__slice_key_put(hs__buffer *out, const char *name, const hs__box *box);
/* Parses a key. The caller frees *name with hs__free. False, with *name NULL: the bytes are not a slice's key, the rank is
 * not supported, or memory is out, which sets *no_memory. */
bool hs__slice_key_get(const hs_env *env, hs_bytes key, char **name, hs__box *box, bool *no_memory);

#endif
