/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_STRINGS_H
#define HS_FORMATS_BUNDLE_STRINGS_H

#include "formats/bundle.h"

#include "base/buffer.h"

/* String tensors in a bundle: the length of each element as a varint; the masked CRC-32C of all lengths, each as 4 bytes (8
 * if it does not fit) in the bundle's byte order; the elements' bytes. The entry's checksum covers those lengths, that
 * checksum and the bytes. */

/* Appends what comes before the elements' bytes, and returns the checksum so far. */
uint32_t hs__bundle_put_lengths(hs__buffer *out, const hs_string *strings, size_t n, bool big_endian);
/* Reads an entry that was located. `to` has hs__bundle_read_bytes: the elements, and the data as they are stored, into
 * which the elements point. */
hs_code hs__bundle_read_strings(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_string *to, hs_error *err);
/* Verifies an entry that was located, whatever its size, in the HS__BUNDLE_PIECE bytes at `piece`. */
hs_code hs__bundle_verify_strings(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *piece, hs_error *err);

#endif
