/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_RECORDS_H
#define HOOKSESS_RECORDS_H

#include <hooksess/env.h>

/* Reads and writes TFRecord files: TensorFlow's data sets and event files (docs/file-formats.md). The whole file may be
 * compressed.
 *
 *     hs_record_reader *reader = hs_record_reader_open("data.tfrecord", NULL, &err);
 *     hs_bytes record;
 *     while (hs_record_reader_next(reader, &record, &err) == HS_OK)
 *         use(record.data, record.size);
 *     hs_record_reader_free(reader);
 *
 * Offsets are bytes of the file before compression. TensorFlow: io::RecordReader, io::RecordWriter, tf.io.TFRecordWriter,
 * tf.data.TFRecordDataset.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

/* The compression of a file, with TensorFlow's numbers. */
typedef enum hs_record_compression { HS_RECORDS_PLAIN = 0, HS_RECORDS_ZLIB = 1, HS_RECORDS_GZIP = 2 } hs_record_compression;

/* Sets *compression by TensorFlow's name: "", NULL, "ZLIB" or "GZIP". HS_UNIMPLEMENTED: "SNAPPY". HS_INVALID_ARGUMENT:
 * other names. */
HS_API hs_code hs_record_compression_named(const char *name, hs_record_compression *compression, hs_error *err);

/* Reading. */

typedef struct hs_record_reader hs_record_reader;

typedef struct hs_record_reader_options {
    size_t size;
    const hs_env *env;
    hs_record_compression compression; /* 0: HS_RECORDS_PLAIN */
    int32_t reserved;
    int64_t buffer_bytes;     /* bytes to read at a time, up to 2^30. 0: 64 KiB */
    int64_t max_record_bytes; /* a longer record is HS_RESOURCE_EXHAUSTED. 0: 2 GiB; HS_NEVER: no limit */
} hs_record_reader_options;
#define HS_RECORD_READER_OPTIONS(...) HS_OPTIONS(hs_record_reader_options, __VA_ARGS__)

/* Opens a file, which may grow. `options` may be NULL. */
HS_API hs_record_reader *hs_record_reader_open(const char *path, const hs_record_reader_options *options, hs_error *err);
/* Closes the file. Later calls return HS_FAILED_PRECONDITION; a second close has no effect. */
HS_API void hs_record_reader_close(hs_record_reader *reader);
/* Closes the file and frees the reader. */
HS_API void hs_record_reader_free(hs_record_reader *reader);

/* Reads the next record, valid until the next call with `reader`. After an error, the next call reads the same record
 * again.
 *
 *   HS_OUT_OF_RANGE         the end of the file, which may grow
 *   HS_DATA_LOSS            a wrong checksum or compression; or the file ends inside the record, and may grow
 *   HS_RESOURCE_EXHAUSTED   a record above max_record_bytes, or out of memory */
HS_API hs_code hs_record_reader_next(hs_record_reader *reader, hs_bytes *record, hs_error *err);

/* Returns the offset of the next record. */
HS_API uint64_t hs_record_reader_offset(const hs_record_reader *reader);
/* Sets the offset of the next record; the next read verifies it. Going back in a compressed file decompresses it again. */
HS_API hs_code hs_record_reader_seek(hs_record_reader *reader, uint64_t offset, hs_error *err);

/* Skips `n` records, verifying only their lengths.
 *
 * skipped  set to the number of skipped records, also after an error. May be NULL
 *
 * HS_OUT_OF_RANGE: the end of the file. HS_INVALID_ARGUMENT: `n` is negative. */
HS_API hs_code hs_record_reader_skip(hs_record_reader *reader, int64_t n, int64_t *skipped, hs_error *err);

/* After HS_DATA_LOSS: moves to the end of the record, if a checksum confirms its length, or else to the next intact record,
 * but not in a compressed file. Not for a file that is being written: its last record may be complete soon.
 *
 * lost  set to the number of bytes that are passed over; 0 if the record is complete now. May be NULL
 *
 * HS_OUT_OF_RANGE: no such place; the position is unchanged. */
HS_API hs_code hs_record_reader_recover(hs_record_reader *reader, uint64_t *lost, hs_error *err);

/* The content of a file. Frozen. */
typedef struct hs_record_totals {
    int64_t records;
    uint64_t data_bytes; /* without lengths and checksums */
} hs_record_totals;

/* Counts the records by their lengths, at the first call only. The position is unchanged. Errors: as hs_record_reader_next.
 * TensorFlow: RecordReader::GetMetadata. */
HS_API hs_code hs_record_reader_totals(hs_record_reader *reader, hs_record_totals *totals, hs_error *err);

/* Writing. */

typedef struct hs_record_writer hs_record_writer;

typedef struct hs_record_writer_options {
    size_t size;
    const hs_env *env;
    hs_record_compression compression; /* 0: HS_RECORDS_PLAIN */
    int32_t reserved;
    int64_t level;        /* with compression: 1 (fast) to 9 (small). 0: zlib's default */
    int64_t buffer_bytes; /* bytes to collect before writing, up to 2^30. 0: 64 KiB */
} hs_record_writer_options;
#define HS_RECORD_WRITER_OPTIONS(...) HS_OPTIONS(hs_record_writer_options, __VA_ARGS__)

/* Creates or replaces a file (HS_OPEN_WRITE). The directory must exist. `options` may be NULL. */
HS_API hs_record_writer *hs_record_writer_open(const char *path, const hs_record_writer_options *options, hs_error *err);
/* Adds a record. `data` may be NULL if `bytes` is 0. After an I/O error, all later calls return this error.
 * HS_FAILED_PRECONDITION: the writer is closed. */
HS_API hs_code hs_record_writer_write(hs_record_writer *writer, const void *data, size_t bytes, hs_error *err);
/* Writes the added records to the file, and with `sync` to the disk. Errors: as hs_record_writer_write. */
HS_API hs_code hs_record_writer_flush(hs_record_writer *writer, bool sync, hs_error *err);
/* Writes the added records and closes the file. Returns the first I/O error. HS_OK for a second call. */
HS_API hs_code hs_record_writer_close(hs_record_writer *writer, hs_error *err);
/* Closes the file if it is open, logging an error, and frees the writer. */
HS_API void hs_record_writer_free(hs_record_writer *writer);

HS_END_DECLS

#endif
