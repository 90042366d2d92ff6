/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_STRINGS_H
#define HS_FORMATS_BUNDLE_STRINGS_H

#include "formats/bundle.h"

#include "base/buffer.h"

/* The data of a string tensor in a bundle:
 * - the length of each element as a varint;
 * - the masked CRC-32C of all lengths, each as 4 bytes (8 if it does not fit) in the bundle's byte order;
 * - the bytes of the elements.
 * The entry's checksum covers the lengths as they are checksummed, their checksum, and the bytes. */

/* Appends the lengths and their checksum. Returns the checksum of both, to continue with the elements' bytes. */
uint32_t hs__bundle_put_lengths(hs__buffer *out, const hs_string *strings, size_t n, bool big_endian);
/* Reads the strings of an entry that hs__bundle_locate has checked. `to` has hs__bundle_read_bytes bytes: first the
 * hs_strings, then the stored data that they point to. Sets *crc to the checksum of the data, which the caller compares
 * with the entry's. */
hs_code hs__bundle_read_strings(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_string *to, uint32_t *crc,
                                hs_error *err);
/* Sets *crc as hs__bundle_read_strings does, but returns no strings. Reads an entry of any size piece by piece into
 * `piece`, which has HS__BUNDLE_PIECE bytes. */
hs_code hs__bundle_sum_strings(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *piece, uint32_t *crc,
                               hs_error *err);

#endif
