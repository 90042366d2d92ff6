/* SPDX-License-Identifier: Apache-2.0 */
/* The framing of records; the internal reader, whose `advance` reads or skips a record; and the public reader, which adds
 * checks of arguments and the totals of a file. */
#include "formats/records.h"

#include "base/crc32c.h"

#include <string.h>

size_t hs__record_begin(hs__buffer *out)
{
    size_t begun = out->size;
    if (hs__buffer_room(out, HS__RECORD_HEADER))
        out->size += HS__RECORD_HEADER;
    return begun;
}

void hs__record_end_unsealed(hs__buffer *out, size_t begun)
{
    if (hs__buffer_room(out, HS__RECORD_FOOTER)) {
        hs__put64(out->data + begun, out->size - begun - HS__RECORD_HEADER);
        out->size += HS__RECORD_FOOTER;
    }
}

void hs__records_seal(unsigned char *records, size_t bytes)
{
    uint64_t length = 0;
    uint32_t crc = hs__crc32c_mask(hs__crc32c(0, (unsigned char[8]){0}, 8)); /* of the length; lengths often repeat */
    for (unsigned char *at = records, *end = records + bytes; at < end;) {
        uint64_t next = hs__get64(at);
        if (next != length)
            crc = hs__crc32c_mask(hs__crc32c(0, at, 8));
        length = next;
        hs__put32(at + 8, crc);
        at += HS__RECORD_HEADER;
        hs__put32(at + length, hs__crc32c_mask(hs__crc32c(0, at, (size_t)length)));
        at += length + HS__RECORD_FOOTER;
    }
}

void hs__record_end(hs__buffer *out, size_t begun)
{
    hs__record_end_unsealed(out, begun);
    if (!out->failed)
        hs__records_seal(out->data + begun, out->size - begun);
}

size_t hs__records_count(const unsigned char *records, size_t limit, size_t *end)
{
    size_t n = 0, at = 0;
    while (limit - at >= HS__RECORD_HEADER + HS__RECORD_FOOTER &&
           hs__get64(records + at) <= limit - at - HS__RECORD_HEADER - HS__RECORD_FOOTER) {
        at += HS__RECORD_HEADER + (size_t)hs__get64(records + at) + HS__RECORD_FOOTER;
        n++;
    }
    *end = at;
    return n;
}

void hs__record_append(hs__buffer *out, const void *data, size_t bytes)
{
    size_t begun = hs__record_begin(out);
    hs__buffer_append(out, data, bytes);
    hs__record_end(out, begun);
}

hs_code hs__record_reader_open(hs_record_reader *reader, const hs_env *env, const char *path,
                               hs_record_compression compression, size_t window, hs_error *err)
{
    *reader = (hs_record_reader){.env = *env, .limit = HS__RECORD_LIMIT, .wrong_at = UINT64_MAX};
    hs__buffer_init(&reader->record, env);
    return hs__source_open(&reader->source, env, path, compression, window, err);
}

static hs_code damaged(const hs_record_reader *reader, const char *what, uint64_t offset, hs_error *err)
{
    return hs_error_set(err, HS_DATA_LOSS, "%s: %s the record at byte %llu", reader->source.path, what,
                        (unsigned long long)offset);
}

hs_code hs__record_read_header(hs_record_reader *reader, uint64_t offset, hs__record_header *header, hs_error *err)
{
    unsigned char bytes[HS__RECORD_HEADER];
    size_t got;
    *header = (hs__record_header){0, false};
    hs_code code = hs__source_read(&reader->source, offset, bytes, sizeof bytes, &got, err);
    if (code)
        return code;
    if (got == 0)
        return hs_error_set(err, HS_OUT_OF_RANGE, "%s: end of file", reader->source.path);
    if (got < sizeof bytes)
        return damaged(reader, "the file ends inside the header of", offset, err);
    header->bytes = hs__get64(bytes);
    header->is_sound = hs__crc32c_unmask(hs__get32(bytes + 8)) == hs__crc32c(0, bytes, 8);
    return HS_OK;
}

hs_code hs__record_check_length(hs_record_reader *reader, uint64_t offset, uint64_t bytes, hs_error *err)
{
    enum { FRAME = HS__RECORD_HEADER + HS__RECORD_FOOTER };
    unsigned char footer[HS__RECORD_FOOTER];
    size_t got = 0;
    if (bytes <= UINT64_MAX - FRAME && offset <= UINT64_MAX - FRAME - bytes) {
        uint64_t at = offset + HS__RECORD_HEADER + bytes;
        hs_code code = hs__source_read(&reader->source, at, footer, sizeof footer, &got, err);
        if (code)
            return code;
    }
    return got == sizeof footer ? HS_OK : damaged(reader, "the file ends inside", offset, err);
}

/* Checks that the file has all of the record, before its memory is allocated. The size of a compressed file is unknown:
 * there memory grows with the data. */
static hs_code check_size(hs_record_reader *reader, uint64_t offset, uint64_t bytes, hs_error *err)
{
    const hs_env *env = reader->source.file.env;
    hs_file_stat found;
    uint64_t ready = reader->source.at + reader->source.filled; /* end of the bytes in memory */
    if (reader->source.inflater || (ready > offset && ready - offset >= HS__RECORD_HEADER + HS__RECORD_FOOTER &&
                                    bytes <= ready - offset - HS__RECORD_HEADER - HS__RECORD_FOOTER))
        return HS_OK;
    hs_code code = hs__stat(env, reader->source.path, &found, err);
    if (code == HS_NOT_FOUND) /* it was deleted, but is open and can be read */
        return hs__record_check_length(reader, offset, bytes, err);
    if (code)
        return code;
    uint64_t remaining = found.bytes > offset ? found.bytes - offset : 0;
    if (remaining < HS__RECORD_HEADER + HS__RECORD_FOOTER || bytes > remaining - HS__RECORD_HEADER - HS__RECORD_FOOTER)
        return damaged(reader, "the file ends inside", offset, err);
    return HS_OK;
}

hs_code hs__record_read_data(hs_record_reader *reader, uint64_t offset, uint64_t bytes, hs_error *err)
{
    hs_code code = check_size(reader, offset, bytes, err);
    if (code)
        return code;
    if (bytes > reader->limit || bytes > SIZE_MAX - HS__RECORD_FOOTER)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "%s: the record at byte %llu has %llu bytes; the limit is %llu",
                            reader->source.path, (unsigned long long)offset, (unsigned long long)bytes,
                            (unsigned long long)reader->limit);
    hs__buffer_clear(&reader->record);
    size_t missing = (size_t)bytes + HS__RECORD_FOOTER, piece = 1 << 20;
    while (missing) { /* all in one read if the file is known to have it, otherwise in pieces of doubling size */
        size_t n = !reader->source.inflater || missing < piece ? missing : piece, got;
        unsigned char *to = hs__buffer_room(&reader->record, n);
        if (!to)
            return hs__no_memory(err, reader->record.size + n, "a record");
        uint64_t from = offset + HS__RECORD_HEADER + reader->record.size;
        if ((code = hs__source_read(&reader->source, from, to, n, &got, err)))
            return code;
        if (got < n)
            return damaged(reader, "the file ends inside", offset, err);
        reader->record.size += n;
        missing -= n;
        piece *= 2;
    }
    const unsigned char *data = reader->record.data;
    if (hs__crc32c_unmask(hs__get32(data + bytes)) != hs__crc32c(0, data, (size_t)bytes))
        return damaged(reader, "wrong data checksum of", offset, err);
    return HS_OK;
}

/* Reads (or skips, without reading its data) the record at the offset. */
static hs_code read_record(hs_record_reader *reader, bool skip, hs__record_header *header, hs_error *err)
{
    reader->source.mark = reader->offset;
    hs_code code = hs__record_read_header(reader, reader->offset, header, err);
    if (!code && !header->is_sound)
        code = damaged(reader, "wrong length checksum of", reader->offset, err);
    if (code)
        return code;
    if (skip)
        return hs__record_check_length(reader, reader->offset, header->bytes, err);
    hs__buffer_clear(&reader->record);
    code = hs__record_read_data(reader, reader->offset, header->bytes, err);
    if (code == HS_DATA_LOSS && reader->record.size == header->bytes + HS__RECORD_FOOTER) { /* the record is complete */
        reader->wrong_at = reader->offset;
        reader->wrong_bytes = header->bytes;
    }
    return code;
}

/* Reads or skips the next record and moves behind it. */
static hs_code advance(hs_record_reader *reader, bool skip, hs__record_header *header, hs_error *err)
{
    hs_code code = read_record(reader, skip, header, err);
    if (code == HS_DATA_LOSS && !reader->source.inflater) {
        /* the window may be outdated: a writer truncates a torn record before it continues */
        hs__source_forget(&reader->source);
        code = read_record(reader, skip, header, err);
    }
    if (code)
        return code;
    reader->offset += HS__RECORD_HEADER + header->bytes + HS__RECORD_FOOTER;
    hs__clear(err);
    return HS_OK;
}

/* The public functions. */

hs_code hs_record_compression_named(const char *name, hs_record_compression *compression, hs_error *err)
{
    static const char *const names[] = {"", "ZLIB", "GZIP"};
    hs_error_clear(err);
    if (!compression)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_record_compression_named: compression is NULL");
    if (name && strcmp(name, "SNAPPY") == 0)
        return hs_error_set(err, HS_UNIMPLEMENTED, "compression SNAPPY of records is not supported; use ZLIB or GZIP");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name ? name : "", names[i]) == 0) {
            *compression = (hs_record_compression)i;
            return HS_OK;
        }
    return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' is not a compression of records; give \"\", ZLIB or GZIP", name);
}

hs_code hs__record_check_options(const char *of, hs_record_compression compression, int64_t buffer_bytes, hs_error *err)
{
    if ((unsigned)compression > HS_RECORDS_GZIP)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s.compression is %d, not an hs_record_compression", of,
                            (int)compression);
    if (buffer_bytes < 0 || buffer_bytes > 1 << 30)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s.buffer_bytes is %lld; it must be from 0 to 2^30", of,
                            (long long)buffer_bytes);
    return HS_OK;
}

static hs_code check_options(const hs_record_reader_options *options, hs_error *err)
{
    if (options->max_record_bytes < HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_record_reader_options.max_record_bytes is %lld; it must be at least 0, or HS_NEVER",
                            (long long)options->max_record_bytes);
    return hs__record_check_options("hs_record_reader_options", options->compression, options->buffer_bytes, err);
}

hs_record_reader *hs_record_reader_open(const char *path, const hs_record_reader_options *given, hs_error *err)
{
    enum { SMALLEST_WINDOW = 64 };
    hs_record_reader_options options = HS_INIT(hs_record_reader_options);
    hs_env env;
    hs_error_clear(err);
    if (!path || !*path) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_record_reader_open: path is missing");
        return NULL;
    }
    if ((given && HS_STRUCT_TAKE(hs_record_reader_options, max_record_bytes, &options, given, err)) ||
        check_options(&options, err) || hs__env_copy(&env, options.env, err))
        return NULL;
    hs_record_reader *reader = hs__alloc(&env, 1, sizeof *reader);
    if (!reader) {
        hs__no_memory(err, sizeof *reader, "a reader of records");
        return NULL;
    }
    reader->env = env;
    size_t window = options.buffer_bytes ? (size_t)options.buffer_bytes : (size_t)HS__SOURCE_WINDOW;
    window = window < SMALLEST_WINDOW ? SMALLEST_WINDOW : window;
    hs_code code = hs__record_reader_open(reader, &reader->env, path, options.compression, window, err);
    if (options.max_record_bytes)
        reader->limit = options.max_record_bytes == HS_NEVER ? UINT64_MAX : (uint64_t)options.max_record_bytes;
    if (code) {
        hs__free(&env, reader);
        return NULL;
    }
    hs_error_clear(err);
    return reader;
}

void hs_record_reader_close(hs_record_reader *reader)
{
    if (!reader || !reader->source.path)
        return;
    hs__source_close(&reader->source);
    hs__buffer_free(&reader->record);
}

void hs_record_reader_free(hs_record_reader *reader)
{
    if (!reader)
        return;
    hs_env env = reader->env;
    hs_record_reader_close(reader);
    hs__free(&env, reader);
}

static hs_code check_reader(const hs_record_reader *reader, hs_error *err)
{
    hs_error_clear(err);
    if (!reader)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the record reader is NULL");
    if (!reader->source.path)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "the record reader is closed");
    return HS_OK;
}

static hs_code no_place(hs_error *err)
{
    return hs_error_set(err, HS_INVALID_ARGUMENT, "a pointer for the result is NULL");
}

hs_code hs_record_reader_next(hs_record_reader *reader, hs_bytes *record, hs_error *err)
{
    hs_code code = check_reader(reader, err);
    if (code || !record)
        return code ? code : no_place(err);
    hs__record_header header;
    if (!(code = advance(reader, false, &header, err)))
        *record = (hs_bytes){reader->record.data, (size_t)header.bytes};
    return code;
}

uint64_t hs_record_reader_offset(const hs_record_reader *reader)
{
    return reader ? reader->offset : 0;
}

hs_code hs_record_reader_seek(hs_record_reader *reader, uint64_t offset, hs_error *err)
{
    hs_code code = check_reader(reader, err);
    if (!code)
        reader->offset = offset;
    return code;
}

hs_code hs_record_reader_skip(hs_record_reader *reader, int64_t n, int64_t *skipped, hs_error *err)
{
    int64_t done = 0;
    hs__record_header header;
    hs_code code = check_reader(reader, err);
    if (!code && n < 0)
        code =
            hs_error_set(err, HS_INVALID_ARGUMENT, "hs_record_reader_skip: n is %lld; it must be at least 0", (long long)n);
    while (!code && done < n)
        if (!(code = advance(reader, true, &header, err)))
            done++;
    if (skipped)
        *skipped = done;
    return code;
}

hs_code hs_record_reader_recover(hs_record_reader *reader, uint64_t *lost, hs_error *err)
{
    uint64_t bytes = 0;
    hs_code code = check_reader(reader, err);
    if (!code)
        code = hs__record_recover(reader, &bytes, err);
    if (lost)
        *lost = bytes;
    return code;
}

hs_code hs_record_reader_totals(hs_record_reader *reader, hs_record_totals *totals, hs_error *err)
{
    hs_code code = check_reader(reader, err);
    if (code || !totals)
        return code ? code : no_place(err);
    if (!reader->is_counted) {
        hs_record_totals counted = {0, 0};
        hs__record_header header;
        uint64_t before = reader->offset;
        reader->offset = 0;
        while (!(code = advance(reader, true, &header, err))) {
            counted.records++;
            counted.data_bytes += header.bytes;
        }
        reader->offset = before;
        if (code != HS_OUT_OF_RANGE)
            return code;
        reader->totals = counted;
        reader->is_counted = true;
        hs_error_clear(err);
    }
    *totals = reader->totals;
    return HS_OK;
}
