/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_RECORDS_H
#define HS_FORMATS_RECORDS_H

#include "base/buffer.h"
#include "formats/byte_source.h"

/* TFRecord framing: length (8 bytes, little-endian), its masked CRC-32C, the data, the data's masked CRC-32C. */

enum { HS__RECORD_HEADER = 12, HS__RECORD_FOOTER = 4 };

#define HS__RECORD_LIMIT (1u << 31)

/* Appends a record. */
void hs__record_append(hs__buffer *out, const void *data, size_t bytes);
/* The same in two steps, for data that is appended to `out` in between. Pass the result of begin to end. */
size_t hs__record_begin(hs__buffer *out);
void hs__record_end(hs__buffer *out, size_t begun);
/* Ends a record without checksums, which is faster. hs__records_seal adds them later. */
void hs__record_end_unsealed(hs__buffer *out, size_t begun);
/* Adds the checksums to whole records without checksums. */
void hs__records_seal(unsigned char *records, size_t bytes);
/* Counts the whole records, with or without checksums, in the first `limit` bytes. *end is the end of the last one. */
size_t hs__records_count(const unsigned char *records, size_t limit, size_t *end);

/* INVALID_ARGUMENT: one of these options of the struct `of` is invalid. */
hs_code hs__record_check_options(const char *of, hs_record_compression compression, int64_t buffer_bytes, hs_error *err);

/* Reads a file of records, from its beginning or from `offset`, which the caller may set. */
struct hs_record_reader {
    hs_env env;
    hs__byte_source source;
    uint64_t offset;                /* of the next record */
    uint64_t limit;                 /* maximum size of a record's data */
    uint64_t lost_at, searched;     /* no intact record is between the damage at `lost_at` and `searched` */
    uint64_t wrong_at, wrong_bytes; /* a record with a valid length and damaged data, and the data's size */
    uint64_t wasted, tried; /* bytes read for large records that turned out to be damaged, at offsets before `tried` */
    hs__buffer record;
    bool is_counted;
    hs_record_totals totals;
};

/* Opens a reader that is not allocated. Close it with hs_record_reader_close. `env` must outlive it, and may be its own.
 * `window`: bytes to read at once. */
hs_code hs__record_reader_open(hs_record_reader *reader, const hs_env *env, const char *path,
                               hs_record_compression compression, size_t window, hs_error *err);

/* For recovery: reads header or data of the record at an offset. The data is read into reader->record. */
typedef struct hs__record_header {
    uint64_t bytes;
    bool is_sound; /* the checksum of the length is right */
} hs__record_header;
hs_code hs__record_read_header(hs_record_reader *reader, uint64_t offset, hs__record_header *header, hs_error *err);
hs_code hs__record_read_data(hs_record_reader *reader, uint64_t offset, uint64_t bytes, hs_error *err);
/* DATA_LOSS if the file ends inside the record. */
hs_code hs__record_check_length(hs_record_reader *reader, uint64_t offset, uint64_t bytes, hs_error *err);

/* record_recovery.c: hs_record_reader_recover, without its checks. */
hs_code hs__record_recover(hs_record_reader *reader, uint64_t *lost, hs_error *err);

#endif
