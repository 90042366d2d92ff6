/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_RECORDS_H
#define HOOKSESS_RECORDS_H

#include <hooksess/env.h>

/* Files of records, as TensorFlow's data sets (TFRecord) and event files are: each record is its length (8 bytes, little
 * endian), the length's masked CRC-32C, the data, their masked CRC-32C; the whole file may be compressed.
 *
 * Threads: one at a time per object.
 * TensorFlow: io::RecordReader, io::RecordWriter, tf.io.TFRecordWriter, tf.data.TFRecordDataset. */

HS_BEGIN_DECLS

/* How the whole file is compressed; the numbers are TensorFlow's. */
typedef enum hs_record_compression { HS_RECORDS_PLAIN = 0, HS_RECORDS_ZLIB = 1, HS_RECORDS_GZIP = 2 } hs_record_compression;

/* The compression that TensorFlow's options mean by a name: "" and NULL none, "ZLIB", "GZIP". HS_UNIMPLEMENTED for
 * "SNAPPY", HS_INVALID_ARGUMENT for any other name. */
HS_API hs_code hs_record_compression_named(const char *name, hs_record_compression *compression, hs_error *err);

/* Reading. */

typedef struct hs_record_reader hs_record_reader;

typedef struct hs_record_reader_options {
    size_t size;
    const hs_env *env;                 /* NULL: the system's. Copied */
    hs_record_compression compression; /* 0: HS_RECORDS_PLAIN */
    int32_t reserved;
    int64_t buffer_bytes; /* 0: 64 KiB. Read from the file at once, where records are smaller */
    int64_t max_record_bytes; /* 0: 2 GiB; HS_NEVER: no limit. Longer records are refused before there is memory for them */
} hs_record_reader_options;
#define HS_RECORD_READER_OPTIONS(...) HS_OPTIONS(hs_record_reader_options, __VA_ARGS__)

/* The file may grow while it is read. `options` may be NULL. HS_NOT_FOUND, HS_INVALID_ARGUMENT, HS_RESOURCE_EXHAUSTED. The
 * caller's to free. */
HS_API hs_record_reader *hs_record_reader_open(const char *path, const hs_record_reader_options *options, hs_error *err);
/* Closes the file; reading is HS_FAILED_PRECONDITION from then on. Closing twice, or NULL, is fine. */
HS_API void hs_record_reader_close(hs_record_reader *reader);
/* Closes and frees. NULL is allowed. */
HS_API void hs_record_reader_free(hs_record_reader *reader);

/* The next record, the reader's until the next call with it.
 *
 *   HS_OUT_OF_RANGE         the file ends here, between two records; it may be asked again when the file has grown
 *   HS_DATA_LOSS            the file ends inside the record (it may be asked again when it has grown), a checksum is wrong,
 *                           or the file is not compressed as was said. Offsets in messages are those of the data as they
 *                           are before they are compressed
 *   HS_RESOURCE_EXHAUSTED   the record is longer than max_record_bytes, or there is no memory for it
 *
 * A failure leaves the reader where it was: asking again reads the same record again. */
HS_API hs_code hs_record_reader_next(hs_record_reader *reader, hs_bytes *record, hs_error *err);

/* Where the next record is: bytes from the beginning of the file, as it is before it is compressed. */
HS_API uint64_t hs_record_reader_offset(const hs_record_reader *reader);
/* Goes to an offset, forwards or back, where a record must begin (the next read will tell). In a compressed file going back
 * means to decompress it from its beginning. */
HS_API hs_code hs_record_reader_seek(hs_record_reader *reader, uint64_t offset, hs_error *err);
/* Reads the record at *offset, which then is that of the record after it; stays as it is on failure. Errors as of next. */
HS_API hs_code hs_record_reader_read_at(hs_record_reader *reader, uint64_t *offset, hs_bytes *record, hs_error *err);

/* Passes over `n` records without reading their data: only the lengths are verified. *skipped (may be NULL) is how many it
 * were, fewer only with an error, HS_OUT_OF_RANGE at the end of the file. HS_INVALID_ARGUMENT: `n` is negative. */
HS_API hs_code hs_record_reader_skip(hs_record_reader *reader, int64_t n, int64_t *skipped, hs_error *err);

/* After HS_DATA_LOSS: goes to where reading can go on, *lost bytes (may be NULL) further: after this record where its
 * length can be trusted (by its own checksum, or by that of the data), else, in a file that is not compressed, to the next
 * intact record. A record that has become whole meanwhile is not lost: *lost is 0. HS_OUT_OF_RANGE: there is none (yet),
 * and the reader stays. Not for files that are being written: their last record may be whole in a moment.
 *
 * A reader reads at most 1 GiB of what only looks like records; after that it finds no record of more than 4096 bytes
 * behind damage whose length cannot be trusted. */
HS_API hs_code hs_record_reader_recover(hs_record_reader *reader, uint64_t *lost, hs_error *err);

/* What a file holds. Frozen. */
typedef struct hs_record_totals {
    int64_t records;
    uint64_t data_bytes; /* the data alone, without lengths and checksums */
} hs_record_totals;

/* Counts all records of the file by their lengths, as skip does, at the first call; later ones give the same. The reader
 * stays where it is. TensorFlow: RecordReader::GetMetadata. */
HS_API hs_code hs_record_reader_totals(hs_record_reader *reader, hs_record_totals *totals, hs_error *err);

/* Writing. */

typedef struct hs_record_writer hs_record_writer;

typedef struct hs_record_writer_options {
    size_t size;
    const hs_env *env;                 /* NULL: the system's. Copied */
    hs_record_compression compression; /* 0: HS_RECORDS_PLAIN */
    int32_t reserved;
    int64_t level;        /* 0: zlib's default; 1 (fast) to 9 (small) */
    int64_t buffer_bytes; /* 0: 64 KiB. Gathered before they are written */
} hs_record_writer_options;
#define HS_RECORD_WRITER_OPTIONS(...) HS_OPTIONS(hs_record_writer_options, __VA_ARGS__)

/* A new file; a file or a link that has the name is replaced (HS_OPEN_WRITE). The directory must exist. `options` may be
 * NULL. The caller's to free. */
HS_API hs_record_writer *hs_record_writer_open(const char *path, const hs_record_writer_options *options, hs_error *err);
/* Adds a record. `data` may be NULL if `bytes` is 0. After an error of the disk, which may have cut a record, all further
 * writes, flushes and the close give that error. HS_FAILED_PRECONDITION: the writer was closed. */
HS_API hs_code hs_record_writer_write(hs_record_writer *writer, const void *data, size_t bytes, hs_error *err);
/* All that was added is in the file (handed to the system; sync: on the disk), and a reader finds it there, compressed or
 * not. HS_FAILED_PRECONDITION: the writer was closed. */
HS_API hs_code hs_record_writer_flush(hs_record_writer *writer, bool sync, hs_error *err);
/* Writes what is left, ends the compressed stream and closes the file. Closing again, or NULL, is HS_OK. */
HS_API hs_code hs_record_writer_close(hs_record_writer *writer, hs_error *err);
/* Closes, where that was not done (an error then is a line in the log), and frees. NULL is allowed. */
HS_API void hs_record_writer_free(hs_record_writer *writer);

HS_END_DECLS

#endif
