/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_RECORDS_H
#define HS_FORMATS_RECORDS_H

#include "base/buffer.h"
#include "base/files.h"

/* TFRecord framing: length (8 bytes, little endian), its masked CRC-32C, the data, their masked CRC-32C. */

enum { HS__RECORD_HEADER = 12, HS__RECORD_FOOTER = 4 };

/* Appends a record. */
void hs__record_append(hs__buffer *out, const void *data, size_t bytes);
/* The same in two steps, for data that are put together in place: begin gives the position to end with. */
size_t hs__record_begin(hs__buffer *out);
void hs__record_end(hs__buffer *out, size_t begun);
/* Ends one whose checksums are left to hs__records_seal: for those who have no time. */
void hs__record_end_unsealed(hs__buffer *out, size_t begun);
/* Puts the checksums into records, all of them whole, that have none yet. */
void hs__records_seal(unsigned char *records, size_t bytes);
/* How many records, sealed or not, lie whole in the first `limit` bytes of some; *end is where the last of them ends. */
size_t hs__records_count(const unsigned char *records, size_t limit, size_t *end);

/* Reading a file of records from its beginning on. */
typedef struct hs__record_reader {
    hs__file file;
    char *path;
    uint64_t offset; /* of the next record */
    hs__buffer record;
} hs__record_reader;

hs_code hs__record_reader_open(hs__record_reader *reader, const hs_env *env, const char *path, hs_error *err);
void hs__record_reader_close(hs__record_reader *reader);
/* The next record, until the next call. OUT_OF_RANGE: the file ends here, cleanly. DATA_LOSS: it ends inside a record
 * (asking again when it has grown is fine), or a checksum is wrong. */
hs_code hs__record_reader_next(hs__record_reader *reader, hs_bytes *record, hs_error *err);

#endif
