/* SPDX-License-Identifier: Apache-2.0 */
/* hs__safetensors_reader_open reads and checks the whole header (read_header). Later calls read parts of tensors. */
#include "formats/safetensors.h"

#include <string.h>

bool hs__is_safetensors(const char *path)
{
    static const char ending[] = ".safetensors";
    size_t length = strlen(path), n = sizeof ending - 1;
    return length >= n && strcmp(path + length - n, ending) == 0;
}

/* Opens the file and reads its length, its header, and the position of the data. */
static hs_code read_header(hs__safetensors_reader *reader, hs_error *err)
{
    enum { LENGTH = 8 }; /* bytes of the header's length */
    hs_file_stat found;
    unsigned char bytes[LENGTH];
    hs_code code;
    if ((code = hs__stat(reader->env, reader->path, &found, err)))
        return code;
    if (found.is_directory)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: is a directory", reader->path);
    if ((code = hs__file_open(&reader->file, reader->env, reader->path, HS_OPEN_READ, err)))
        return code;
    if (found.bytes < LENGTH)
        return hs_error_set(err, HS_DATA_LOSS, "%s: has %llu bytes, too few for a safetensors file", reader->path,
                            (unsigned long long)found.bytes);
    if ((code = hs__file_read(&reader->file, 0, bytes, sizeof bytes, reader->path, err)))
        return code;
    uint64_t length = hs__get64(bytes);
    if (memcmp(bytes, "version ", LENGTH) == 0)
        return hs_error_set(err, HS_DATA_LOSS, "%s: not a safetensors file, but a pointer of Git LFS; run 'git lfs pull'",
                            reader->path);
    if (length > HS__SAFETENSORS_MAX_HEADER)
        return hs_error_set(err, HS_DATA_LOSS,
                            "%s: not a safetensors file: its header would have %llu bytes; the maximum is %d", reader->path,
                            (unsigned long long)length, HS__SAFETENSORS_MAX_HEADER);
    if (length > found.bytes - LENGTH)
        return hs_error_set(err, HS_DATA_LOSS,
                            "%s: has a header of %llu bytes, but only %llu bytes in total: it is truncated, or not a "
                            "safetensors file",
                            reader->path, (unsigned long long)length, (unsigned long long)found.bytes);
    char *text = hs__alloc(reader->env, (size_t)length + 1, 1);
    if (!text)
        return hs__no_memory(err, (size_t)length, reader->path);
    reader->data = LENGTH + length;
    if (!(code = hs__file_read(&reader->file, LENGTH, text, (size_t)length, reader->path, err)))
        code = hs__safetensors_header_parse(&reader->header, (hs_bytes){text, (size_t)length}, found.bytes - reader->data,
                                            reader->path, err);
    hs__free(reader->env, text);
    return code;
}

hs_code hs__safetensors_reader_open(hs__safetensors_reader *reader, const hs_env *env, const char *path, hs_error *err)
{
    *reader = (hs__safetensors_reader){.env = env, .file = {.env = env}};
    hs__safetensors_header_init(&reader->header, env);
    reader->path = hs__strdup(env, path);
    hs_code code = reader->path ? read_header(reader, err) : hs__no_memory(err, strlen(path), "a path");
    if (code)
        hs__safetensors_reader_close(reader);
    return code;
}

void hs__safetensors_reader_close(hs__safetensors_reader *reader)
{
    hs__file_close(&reader->file, NULL);
    hs__safetensors_header_free(&reader->header);
    hs__free(reader->env, reader->path);
    reader->path = NULL;
}

size_t hs__safetensors_find(const hs__safetensors_reader *reader, const char *name)
{
    return hs__map_find(&reader->header.names, name);
}

hs_code hs__safetensors_check(const hs__safetensors_reader *reader, const hs__safetensors_entry *entry, hs_error *err)
{
    if (!entry->dtype)
        return hs_error_set(err, HS_UNIMPLEMENTED,
                            "%s: '%s' has the dtype '%s', which is not supported: it can only be read as bytes",
                            reader->path, entry->name, entry->dtype_name);
    if (entry->shape.rank < 0)
        return hs_error_set(
            err, HS_UNIMPLEMENTED,
            "%s: '%s' has a shape that is not supported (the maximum is %d dimensions): it can only be read "
            "as bytes",
            reader->path, entry->name, HS_MAX_RANK);
    return HS_OK;
}

hs_code hs__safetensors_read(hs__safetensors_reader *reader, const hs__safetensors_entry *entry, uint64_t offset, void *to,
                             size_t bytes, hs_error *err)
{
    const unsigned char *values = to;
    if (!bytes)
        return HS_OK;
    hs_code code = hs__file_read(&reader->file, reader->data + entry->offset + offset, to, bytes, reader->path, err);
    for (size_t i = 0; !code && entry->dtype == HS_BOOL && i < bytes; i++)
        if (values[i] > 1)
            code = hs_error_set(err, HS_DATA_LOSS, "%s: '%s' is a BOOL, but has the value %d at index %llu", reader->path,
                                entry->name, values[i], (unsigned long long)(offset + i));
    return code;
}
