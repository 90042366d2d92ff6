/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_RECORDS_H
#define HS_FORMATS_RECORDS_H

#include "base/buffer.h"
#include "formats/byte_source.h"

/* TFRecord framing: length (8 bytes, little endian), its masked CRC-32C, the data, their masked CRC-32C. */

enum { HS__RECORD_HEADER = 12, HS__RECORD_FOOTER = 4 };

#define HS__RECORD_LIMIT (1u << 31)

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

/* Reading a file of records from its beginning on, or from wherever `offset` is set to. */
typedef struct hs__record_reader {
    hs__byte_source source;
    uint64_t offset;                /* of the next record */
    uint64_t limit;                 /* longer records are refused */
    uint64_t lost_at, searched;     /* after the damage at lost_at there is no intact record before `searched` */
    uint64_t wrong_at, wrong_bytes; /* a record of which the data alone were found to be wrong, and their size */
    uint64_t wasted, tried;         /* bytes that were read for what looked like records before `tried`, and was none */
    hs__buffer record;
} hs__record_reader;

hs_code hs__record_reader_open(hs__record_reader *reader, const hs_env *env, const char *path, hs_error *err);
/* The same of a compressed file, with a window of another size. */
hs_code hs__record_reader_open_as(hs__record_reader *reader, const hs_env *env, const char *path,
                                  hs_record_compression compression, size_t window, hs_error *err);
void hs__record_reader_close(hs__record_reader *reader);
/* The next record, until the next call. OUT_OF_RANGE: the file ends here, cleanly. DATA_LOSS: it ends inside a record
 * (asking again when it has grown is fine), or a checksum is wrong. RESOURCE_EXHAUSTED: it is longer than the limit. */
hs_code hs__record_reader_next(hs__record_reader *reader, hs_bytes *record, hs_error *err);
/* Passes over one; *bytes is the length of its data. */
hs_code hs__record_reader_pass(hs__record_reader *reader, uint64_t *bytes, hs_error *err);

/* Between records.c and record_recovery.c: the parts of the record at an offset. The data are put into reader->record. */
typedef struct hs__record_header {
    uint64_t bytes;
    bool is_sound; /* its checksum is right */
} hs__record_header;
hs_code hs__record_read_header(hs__record_reader *reader, uint64_t offset, hs__record_header *header, hs_error *err);
hs_code hs__record_read_data(hs__record_reader *reader, uint64_t offset, uint64_t bytes, hs_error *err);
/* DATA_LOSS if the file ends inside the record. */
hs_code hs__record_check_length(hs__record_reader *reader, uint64_t offset, uint64_t bytes, hs_error *err);

/* After DATA_LOSS, or a record beyond the limit: goes to where reading can go on, which is here if the record has become
 * whole. OUT_OF_RANGE: nowhere (yet). */
hs_code hs__record_reader_recover(hs__record_reader *reader, uint64_t *lost, hs_error *err);

#endif
