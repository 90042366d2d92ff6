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
/* Reads a located entry. `to` has room for hs__bundle_read_bytes: the elements, and after them the stored data, into which
 * the elements point. `*crc` gets the checksum of the data, which the caller compares with the entry's. */
hs_code hs__bundle_read_strings(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_string *to, uint32_t *crc,
                                hs_error *err);
/* The same for a located entry of any size that is not kept: reads it through `piece`, which has HS__BUNDLE_PIECE bytes. */
hs_code hs__bundle_sum_strings(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *piece, uint32_t *crc,
                               hs_error *err);

#endif
