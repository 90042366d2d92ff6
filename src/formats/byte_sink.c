/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/byte_sink.h"

#include "formats/zlib_memory.h"

#include <limits.h>

enum { MEMORY_LEVEL = 8 }; /* zlib's default: the bytes are those that everybody else's zlib makes */

typedef struct hs__deflater {
    z_stream z;
    hs_env env;
    bool dirty; /* something was written since the last flush */
    unsigned char output[1 << 16];
} hs__deflater;

static hs_code make_deflater(hs__byte_sink *sink, const hs_env *env, hs_record_compression compression, int level,
                             hs_error *err)
{
    hs__deflater *deflater = hs__alloc(env, 1, sizeof *deflater);
    if (!deflater)
        return hs__no_memory(err, sizeof *deflater, "compressing");
    deflater->env = *env;
    hs__zlib_use(&deflater->z, &deflater->env);
    if (deflateInit2(&deflater->z, level, Z_DEFLATED, hs__zlib_window_bits(compression), MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        hs__free(env, deflater);
        return hs__no_memory(err, sizeof *deflater, "compressing");
    }
    sink->deflater = deflater;
    return HS_OK;
}

static void free_deflater(hs__byte_sink *sink)
{
    if (sink->deflater)
        deflateEnd(&sink->deflater->z);
    hs__free(sink->file.env, sink->deflater);
    sink->deflater = NULL;
}

hs_code hs__sink_open(hs__byte_sink *sink, const hs_env *env, const char *path, hs_record_compression compression,
                      int level, hs_error *err)
{
    *sink = (hs__byte_sink){.file.env = env};
    hs_code code = compression ? make_deflater(sink, env, compression, level, err) : HS_OK;
    if (!code && (code = hs__file_open(&sink->file, env, path, HS_OPEN_WRITE, err)))
        free_deflater(sink);
    return code;
}

/* Compresses the input, and writes what comes of it. */
static hs_code deflate_all(hs__byte_sink *sink, int flush, hs_error *err)
{
    hs__deflater *out = sink->deflater;
    do {
        out->z.next_out = out->output;
        out->z.avail_out = sizeof out->output;
        deflate(&out->z, flush); /* that there is nothing to do is no error */
        size_t bytes = sizeof out->output - out->z.avail_out;
        hs_code code = bytes ? hs__file_write(&sink->file, out->output, bytes, err) : HS_OK;
        if (code)
            return code;
    } while (out->z.avail_out == 0);
    return HS_OK;
}

hs_code hs__sink_write(hs__byte_sink *sink, const void *data, size_t bytes, hs_error *err)
{
    hs__deflater *out = sink->deflater;
    if (!out)
        return bytes ? hs__file_write(&sink->file, data, bytes, err) : HS_OK;
    const unsigned char *from = data;
    while (bytes) {
        size_t piece = bytes < INT_MAX ? bytes : INT_MAX;
        out->z.next_in = (z_const Bytef *)from;
        out->z.avail_in = (uInt)piece;
        out->dirty = true;
        hs_code code = deflate_all(sink, Z_NO_FLUSH, err);
        if (code)
            return code;
        from += piece;
        bytes -= piece;
    }
    return HS_OK;
}

hs_code hs__sink_flush(hs__byte_sink *sink, bool sync, hs_error *err)
{
    hs__deflater *out = sink->deflater;
    hs_code code = out && out->dirty ? deflate_all(sink, Z_SYNC_FLUSH, err) : HS_OK;
    if (!code && out)
        out->dirty = false;
    return code || !sync ? code : hs__file_sync(&sink->file, err);
}

hs_code hs__sink_end(hs__byte_sink *sink, hs_error *err)
{
    return sink->deflater ? deflate_all(sink, Z_FINISH, err) : HS_OK;
}

hs_code hs__sink_close(hs__byte_sink *sink, hs_error *err)
{
    free_deflater(sink);
    return hs__file_close(&sink->file, err);
}
