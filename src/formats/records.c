/* SPDX-License-Identifier: Apache-2.0 */
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

void hs__record_end(hs__buffer *out, size_t begun)
{
    if (out->failed)
        return;
    unsigned char *header = out->data + begun;
    size_t bytes = out->size - begun - HS__RECORD_HEADER;
    uint32_t crc = hs__crc32c(0, header + HS__RECORD_HEADER, bytes);
    hs__put64(header, bytes);
    hs__put32(header + 8, hs__crc32c_mask(hs__crc32c(0, header, 8)));
    hs__buffer_fixed32(out, hs__crc32c_mask(crc));
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

hs_code hs__record_reader_open_as(hs__record_reader *reader, const hs_env *env, const char *path,
                                  hs_record_compression compression, size_t window, hs_error *err)
{
    *reader = (hs__record_reader){.limit = HS__RECORD_LIMIT, .wrong_at = UINT64_MAX};
    hs__buffer_init(&reader->record, env);
    return hs__source_open(&reader->source, env, path, compression, window, err);
}

hs_code hs__record_reader_open(hs__record_reader *reader, const hs_env *env, const char *path, hs_error *err)
{
    return hs__record_reader_open_as(reader, env, path, HS_RECORDS_PLAIN, HS__SOURCE_WINDOW, err);
}

void hs__record_reader_close(hs__record_reader *reader)
{
    if (!reader->source.path)
        return;
    hs__source_close(&reader->source);
    hs__buffer_free(&reader->record);
}

static hs_code damaged(const hs__record_reader *reader, const char *what, uint64_t offset, hs_error *err)
{
    return hs_error_set(err, HS_DATA_LOSS, "%s: %s the record at byte %llu", reader->source.path, what,
                        (unsigned long long)offset);
}

hs_code hs__record_read_header(hs__record_reader *reader, uint64_t offset, hs__record_header *header, hs_error *err)
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

hs_code hs__record_check_length(hs__record_reader *reader, uint64_t offset, uint64_t bytes, hs_error *err)
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
static hs_code check_size(hs__record_reader *reader, uint64_t offset, uint64_t bytes, hs_error *err)
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
    uint64_t left = found.bytes > offset ? found.bytes - offset : 0;
    if (left < HS__RECORD_HEADER + HS__RECORD_FOOTER || bytes > left - HS__RECORD_HEADER - HS__RECORD_FOOTER)
        return damaged(reader, "the file ends inside", offset, err);
    return HS_OK;
}

/* Appends bytes of the file to the record, in pieces of doubling size. */
static hs_code append_data(hs__record_reader *reader, uint64_t offset, uint64_t from, uint64_t bytes, hs_error *err)
{
    hs__buffer *record = &reader->record;
    bool is_known = !reader->source.inflater; /* the file has the bytes */
    for (uint64_t piece = 1 << 20; bytes; piece *= 2) {
        size_t n = (size_t)(is_known || bytes < piece ? bytes : piece), got;
        unsigned char *to = hs__buffer_room(record, n);
        if (!to)
            return hs__no_memory(err, record->size + n, "a record");
        hs_code code = hs__source_read(&reader->source, from, to, n, &got, err);
        if (code)
            return code;
        if (got < n)
            return damaged(reader, "the file ends inside", offset, err);
        record->size += n;
        from += n;
        bytes -= n;
    }
    return HS_OK;
}

hs_code hs__record_read_data(hs__record_reader *reader, uint64_t offset, uint64_t bytes, hs_error *err)
{
    hs_code code = check_size(reader, offset, bytes, err);
    if (code)
        return code;
    if (bytes > reader->limit || bytes > SIZE_MAX - HS__RECORD_FOOTER)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "%s: the record at byte %llu has %llu bytes; the limit is %llu",
                            reader->source.path, (unsigned long long)offset, (unsigned long long)bytes,
                            (unsigned long long)reader->limit);
    hs__buffer_clear(&reader->record);
    code = append_data(reader, offset, offset + HS__RECORD_HEADER, bytes + HS__RECORD_FOOTER, err);
    if (code)
        return code;
    const unsigned char *data = reader->record.data;
    if (hs__crc32c_unmask(hs__get32(data + bytes)) != hs__crc32c(0, data, (size_t)bytes))
        return damaged(reader, "wrong data checksum of", offset, err);
    return HS_OK;
}

static hs_code sound_header(hs__record_reader *reader, hs__record_header *header, hs_error *err)
{
    reader->source.mark = reader->offset;
    hs_code code = hs__record_read_header(reader, reader->offset, header, err);
    if (!code && !header->is_sound)
        code = damaged(reader, "wrong length checksum of", reader->offset, err);
    return code;
}

static hs_code read_record(hs__record_reader *reader, hs__record_header *header, hs_error *err)
{
    hs_code code = sound_header(reader, header, err);
    if (code)
        return code;
    hs__buffer_clear(&reader->record);
    code = hs__record_read_data(reader, reader->offset, header->bytes, err);
    if (code == HS_DATA_LOSS && reader->record.size == header->bytes + HS__RECORD_FOOTER) { /* the record is complete */
        reader->wrong_at = reader->offset;
        reader->wrong_bytes = header->bytes;
    }
    return code;
}

static hs_code skip_record(hs__record_reader *reader, hs__record_header *header, hs_error *err)
{
    hs_code code = sound_header(reader, header, err);
    return code ? code : hs__record_check_length(reader, reader->offset, header->bytes, err);
}

/* Calls `with` (read_record or skip_record) for the next record and moves behind it. */
static hs_code advance(hs__record_reader *reader,
                       hs_code (*with)(hs__record_reader *reader, hs__record_header *header, hs_error *err),
                       hs__record_header *header, hs_error *err)
{
    hs_code code = with(reader, header, err);
    if (code == HS_DATA_LOSS && !reader->source.inflater) {
        /* the window may be outdated: a writer truncates a torn record before it continues */
        hs__source_forget(&reader->source);
        code = with(reader, header, err);
    }
    if (code)
        return code;
    reader->offset += HS__RECORD_HEADER + header->bytes + HS__RECORD_FOOTER;
    hs__clear(err);
    return HS_OK;
}

hs_code hs__record_reader_next(hs__record_reader *reader, hs_bytes *record, hs_error *err)
{
    hs__record_header header;
    hs_code code = advance(reader, read_record, &header, err);
    if (!code)
        *record = (hs_bytes){reader->record.data, (size_t)header.bytes};
    return code;
}

hs_code hs__record_reader_skip(hs__record_reader *reader, uint64_t *bytes, hs_error *err)
{
    hs__record_header header;
    hs_code code = advance(reader, skip_record, &header, err);
    if (!code)
        *bytes = header.bytes;
    return code;
}
