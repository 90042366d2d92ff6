/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_FORMATS_PACKED_H
#define HS_TESTS_FORMATS_PACKED_H

#include "base/buffer.h"

/* Snappy compression, which the library only reads. */

/* Appends the compressed bytes, with every kind of element. */
void pack(const void *data, size_t bytes, hs__buffer *out);

/* Appends a table that the library has written, with compressed blocks: what TensorFlow's TableBuilder makes of its option
 * kSnappyCompression. */
void pack_table(hs_bytes table, hs__buffer *out);

/* The same for the index of a checkpoint, in its place. */
void pack_index(const char *path);

#endif
