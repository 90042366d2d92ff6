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
    uint32_t crc = hs__crc32c_mask(hs__crc32c(0, (unsigned char[8]){0}, 8)); /* of the length; one is often as the next */
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

hs_code hs__record_reader_open(hs__record_reader *reader, const hs_env *env, const char *path, hs_error *err)
{
    *reader = (hs__record_reader){.path = hs__strdup(env, path)};
    hs__buffer_init(&reader->record, env);
    if (!reader->path)
        return hs__no_memory(err, strlen(path), "a path");
    hs_code code = hs__file_open(&reader->file, env, path, HS_OPEN_READ, err);
    if (code) {
        hs__free(env, reader->path);
        reader->path = NULL;
    }
    return code;
}

void hs__record_reader_close(hs__record_reader *reader)
{
    if (!reader->path)
        return;
    hs__file_close(&reader->file, NULL);
    hs__free(reader->file.env, reader->path);
    hs__buffer_free(&reader->record);
    reader->path = NULL;
}

static hs_code damaged(const hs__record_reader *reader, const char *what, hs_error *err)
{
    return hs_error_set(err, HS_DATA_LOSS, "%s: %s of the record at byte %llu", reader->path, what,
                        (unsigned long long)reader->offset);
}

/* Is all of the record in the file? Asked before its memory is. */
static hs_code check_length(hs__record_reader *reader, uint64_t bytes, hs_error *err)
{
    const hs_env *env = reader->file.env;
    hs_file_stat found;
    hs_code code = env->files.ops->stat(env->files.user, reader->path, &found, err);
    if (code)
        return code;
    uint64_t left = found.bytes > reader->offset ? found.bytes - reader->offset : 0;
    if (left < HS__RECORD_HEADER + HS__RECORD_FOOTER || bytes > left - HS__RECORD_HEADER - HS__RECORD_FOOTER)
        return damaged(reader, "the file ends inside", err);
    return HS_OK;
}

hs_code hs__record_reader_next(hs__record_reader *reader, hs_bytes *record, hs_error *err)
{
    const hs_file_system *files = &reader->file.env->files;
    unsigned char header[HS__RECORD_HEADER];
    size_t got;
    hs_code code = files->ops->read(files->user, reader->file.handle, reader->offset, header, sizeof header, &got, err);
    if (code)
        return code;
    if (got == 0)
        return hs_error_set(err, HS_OUT_OF_RANGE, "%s: the end of the file", reader->path);
    if (got < sizeof header)
        return damaged(reader, "the file ends inside the header", err);
    if (hs__crc32c_unmask(hs__get32(header + 8)) != hs__crc32c(0, header, 8))
        return damaged(reader, "wrong checksum of the length", err);
    uint64_t bytes = hs__get64(header);
    if ((code = check_length(reader, bytes, err)))
        return code;
    hs__buffer_clear(&reader->record);
    size_t wanted = (size_t)bytes + HS__RECORD_FOOTER;
    unsigned char *to = hs__buffer_room(&reader->record, wanted);
    if (!to)
        return hs__no_memory(err, wanted, "a record");
    if ((code = hs__file_read(&reader->file, reader->offset + sizeof header, to, wanted, reader->path, err)))
        return code;
    if (hs__crc32c_unmask(hs__get32(to + bytes)) != hs__crc32c(0, to, (size_t)bytes))
        return damaged(reader, "wrong checksum of the data", err);
    reader->offset += sizeof header + wanted;
    *record = (hs_bytes){to, (size_t)bytes};
    return HS_OK;
}
