/* SPDX-License-Identifier: Apache-2.0 */
/* hs__source_read copies from the window, and refills it: read_plain from the file, read_inflated by decompressing from the
 * last position, or from the start of the file if the offset lies before the window. */
#include "formats/byte_source.h"

#include "formats/zlib_memory.h"

#include <string.h>

typedef struct hs__inflater {
    z_stream z;
    hs_env env; /* for zlib's allocations */
    bool ended; /* the current stream has ended; a file may have several, one after the other */
    uint64_t input_at;
    unsigned char input[1 << 14];
} hs__inflater;

static hs_code make_inflater(hs__byte_source *source, const hs_env *env, hs_record_compression compression, hs_error *err)
{
    hs__inflater *inflater = hs__alloc(env, 1, sizeof *inflater);
    if (!inflater)
        return hs__no_memory(err, sizeof *inflater, "decompressing");
    inflater->env = *env;
    hs__zlib_use(&inflater->z, &inflater->env);
    if (inflateInit2(&inflater->z, hs__zlib_window_bits(compression)) != Z_OK) {
        hs__free(env, inflater);
        return hs__no_memory(err, sizeof *inflater, "decompressing");
    }
    source->inflater = inflater;
    return HS_OK;
}

hs_code hs__source_open(hs__byte_source *source, const hs_env *env, const char *path, hs_record_compression compression,
                        size_t window, hs_error *err)
{
    *source = (hs__byte_source){.file.env = env, .path = hs__strdup(env, path), .capacity = window};
    source->window = hs__alloc(env, window, 1);
    hs_code code = source->path && source->window ? HS_OK : hs__no_memory(err, window, "reading a file");
    if (!code && compression)
        code = make_inflater(source, env, compression, err);
    if (!code)
        code = hs__file_open(&source->file, env, path, HS_OPEN_READ, err);
    if (code)
        hs__source_close(source);
    return code;
}

void hs__source_close(hs__byte_source *source)
{
    const hs_env *env = source->file.env;
    if (!env)
        return;
    hs__file_close(&source->file, NULL);
    if (source->inflater)
        inflateEnd(&source->inflater->z);
    hs__free(env, source->inflater);
    hs__free(env, source->window);
    hs__free(env, source->path);
    *source = (hs__byte_source){.path = NULL};
}

static hs_code read_file(hs__byte_source *source, uint64_t offset, void *to, size_t bytes, size_t *got, hs_error *err)
{
    const hs_file_system *files = &source->file.env->files;
    *got = 0;
    if (offset > (uint64_t)INT64_MAX - bytes)
        return HS_OK; /* beyond any file, and not every system accepts such offsets */
    return hs__file_result(files->ops->read(files->user, source->file.handle, offset, to, bytes, got, err), source->path,
                           err);
}

/* Copies what the window has of the bytes at `offset`. Returns how many. */
static size_t copy_from_window(const hs__byte_source *source, uint64_t offset, void *to, size_t bytes)
{
    if (offset < source->at || offset - source->at >= source->filled)
        return 0;
    size_t from = (size_t)(offset - source->at), n = source->filled - from;
    n = n < bytes ? n : bytes;
    memcpy(to, source->window + from, n);
    return n;
}

static hs_code read_plain(hs__byte_source *source, uint64_t offset, unsigned char *to, size_t bytes, size_t *got,
                          hs_error *err)
{
    hs_code code;
    *got = copy_from_window(source, offset, to, bytes);
    if (*got == bytes)
        return HS_OK;
    if (bytes - *got >= source->capacity) {
        size_t more;
        code = read_file(source, offset + *got, to + *got, bytes - *got, &more, err);
        *got += code ? 0 : more;
        return code;
    }
    source->filled = 0;
    source->at = offset + *got;
    if ((code = read_file(source, source->at, source->window, source->capacity, &source->filled, err))) {
        source->filled = 0;
        return code;
    }
    *got += copy_from_window(source, source->at, to + *got, bytes - *got);
    return HS_OK;
}

/* Fills the window with the next bytes. If it is not full afterwards, the file ends there now, or is damaged there. */
static hs_code fill_inflated(hs__byte_source *source, hs_error *err)
{
    hs__inflater *in = source->inflater;
    z_stream *z = &in->z;

    /* Keep the bytes from the mark on, unless they are more than half of the window. */
    uint64_t end = source->at + source->filled;
    size_t kept = source->mark >= source->at && source->mark < end ? (size_t)(end - source->mark) : 0;
    if (kept > source->capacity / 2)
        kept = 0;
    memmove(source->window, source->window + source->filled - kept, kept);
    source->at = end - kept;
    source->filled = kept;

    while (source->filled < source->capacity) {
        if (z->avail_in == 0) {
            size_t got;
            hs_code code = read_file(source, in->input_at, in->input, sizeof in->input, &got, err);
            if (code || got == 0)
                return code;
            z->next_in = in->input;
            z->avail_in = (uInt)got;
            in->input_at += got;
        }
        if (in->ended) {
            inflateReset(z);
            in->ended = false;
        }
        size_t room = source->capacity - source->filled;
        z->next_out = source->window + source->filled;
        z->avail_out = (uInt)room;
        int result = inflate(z, Z_NO_FLUSH);
        source->filled += room - z->avail_out;
        in->ended = result == Z_STREAM_END;
        if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR)
            continue;
        if (source->filled > kept)
            return HS_OK; /* bytes before the damage are valid */
        if (result == Z_MEM_ERROR)
            return hs__no_memory(err, source->capacity, "decompressing");
        return hs_error_set(err, HS_DATA_LOSS, "%s: the compressed data is damaged before byte %llu: %s", source->path,
                            (unsigned long long)in->input_at, z->msg ? z->msg : "unknown format");
    }
    return HS_OK;
}

static hs_code read_inflated(hs__byte_source *source, uint64_t offset, unsigned char *to, size_t bytes, size_t *got,
                             hs_error *err)
{
    hs__inflater *in = source->inflater;
    *got = 0;
    if (offset < source->at) { /* start again at the beginning of the file */
        inflateReset(&in->z);
        in->z.avail_in = 0;
        in->ended = false;
        in->input_at = 0;
        source->at = source->filled = 0;
    }
    while (*got < bytes) {
        size_t n = copy_from_window(source, offset + *got, to + *got, bytes - *got);
        *got += n;
        if (n)
            continue;
        uint64_t end = source->at + source->filled;
        hs_code code = fill_inflated(source, err);
        if (code || source->at + source->filled == end)
            return code;
    }
    return HS_OK;
}

hs_code hs__source_read(hs__byte_source *source, uint64_t offset, void *to, size_t bytes, size_t *got, hs_error *err)
{
    return source->inflater ? read_inflated(source, offset, to, bytes, got, err)
                            : read_plain(source, offset, to, bytes, got, err);
}

void hs__source_forget(hs__byte_source *source)
{
    if (!source->inflater)
        source->filled = 0;
}
