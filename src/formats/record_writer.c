/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of records.h: records are gathered in `pending`, then written to the file (write_pending), through zlib if the
 * file is compressed. The first disk error ends all writing. */
#include "formats/records.h"

#include "base/forks.h"
#include "formats/zlib_memory.h"

#include <limits.h>

enum { MEMORY_LEVEL = 8 }; /* zlib's default, so that the file has the bytes that other programs' zlib writes */

typedef struct {
    z_stream z;
    hs_env env;
    bool dirty; /* something was written since the last flush */
    unsigned char output[1 << 16];
} deflate_state;

struct hs_record_writer {
    hs_env env;
    unsigned generation; /* of the process that opened it */
    char *path;
    hs__file file;
    deflate_state *deflater; /* NULL: not compressed */
    hs__buffer pending;
    size_t limit;
    bool is_closed;
    hs_error error; /* the first disk error */
};

static hs_code make_deflater(hs_record_writer *writer, const hs_record_writer_options *options, hs_error *err)
{
    deflate_state *deflater = hs__alloc(&writer->env, 1, sizeof *deflater);
    if (!deflater)
        return hs__no_memory(err, sizeof *deflater, "compressing");
    deflater->env = writer->env;
    hs__zlib_use(&deflater->z, &deflater->env);
    int level = options->level ? (int)options->level : Z_DEFAULT_COMPRESSION;
    if (deflateInit2(&deflater->z, level, Z_DEFLATED, hs__zlib_window_bits(options->compression), MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        hs__free(&writer->env, deflater);
        return hs__no_memory(err, sizeof *deflater, "compressing");
    }
    writer->deflater = deflater;
    return HS_OK;
}

static void free_deflater(hs_record_writer *writer)
{
    if (writer->deflater)
        deflateEnd(&writer->deflater->z);
    hs__free(&writer->env, writer->deflater);
    writer->deflater = NULL;
}

/* Compresses the input and writes the output. */
static hs_code deflate_all(hs_record_writer *writer, int flush, hs_error *err)
{
    deflate_state *out = writer->deflater;
    do {
        out->z.next_out = out->output;
        out->z.avail_out = sizeof out->output;
        deflate(&out->z, flush); /* Z_BUF_ERROR: nothing to do */
        size_t bytes = sizeof out->output - out->z.avail_out;
        hs_code code = bytes ? hs__file_write(&writer->file, out->output, bytes, err) : HS_OK;
        if (code)
            return code;
    } while (out->z.avail_out == 0);
    return HS_OK;
}

static hs_code check_options(const hs_record_writer_options *options, hs_error *err)
{
    if (options->level < 0 || options->level > 9)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_record_writer_options.level is %lld; it must be from 0 to 9",
                            (long long)options->level);
    return hs__record_check_options("hs_record_writer_options", options->compression, options->buffer_bytes, err);
}

static void free_writer(hs_record_writer *writer)
{
    hs_env env = writer->env;
    free_deflater(writer);
    hs__buffer_free(&writer->pending);
    hs__free(&env, writer->path);
    hs__free(&env, writer);
}

hs_record_writer *hs_record_writer_open(const char *path, const hs_record_writer_options *given, hs_error *err)
{
    enum { BUFFER = 1 << 16 };
    hs_record_writer_options options = HS_INIT(hs_record_writer_options);
    hs_env env;
    hs_error_clear(err);
    if (!path || !*path) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_record_writer_open: path is missing");
        return NULL;
    }
    if ((given && HS_STRUCT_TAKE(hs_record_writer_options, buffer_bytes, &options, given, err)) ||
        check_options(&options, err) || hs__env_copy(&env, options.env, err))
        return NULL;
    hs_record_writer *writer = hs__alloc(&env, 1, sizeof *writer);
    if (!writer) {
        hs__no_memory(err, sizeof *writer, "a writer of records");
        return NULL;
    }
    writer->env = env;
    writer->generation = hs__fork_generation();
    writer->limit = options.buffer_bytes ? (size_t)options.buffer_bytes : (size_t)BUFFER;
    hs__buffer_init(&writer->pending, &writer->env);
    writer->path = hs__strdup(&env, path);
    hs_code code = writer->path ? HS_OK : hs__no_memory(err, sizeof *writer, "a path");
    if (!code && options.compression)
        code = make_deflater(writer, &options, err);
    if (!code)
        code = hs__file_open(&writer->file, &writer->env, path, HS_OPEN_WRITE, err);
    if (code) {
        free_writer(writer);
        return NULL;
    }
    hs_error_clear(err);
    return writer;
}

static hs_code check_writer(const hs_record_writer *writer, hs_error *err)
{
    hs_error_clear(err);
    if (!writer)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the record writer is NULL");
    if (hs__is_inherited(writer->generation))
        return hs__refuse_inherited("record writer", err);
    if (writer->is_closed)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: the record writer is closed", writer->path);
    return hs__error_copy(err, &writer->error);
}

/* Records a disk error. Later calls also return it, because the file may end inside a record. */
static hs_code note(hs_record_writer *writer, hs_code code, const hs_error *error, hs_error *err)
{
    if (code)
        hs__error_copy(&writer->error, error);
    return hs__error_copy(err, &writer->error);
}

static hs_code write_pending(hs_record_writer *writer, hs_error *err)
{
    hs_error error = {0};
    hs_code code = HS_OK;
    deflate_state *out = writer->deflater;
    const unsigned char *from = writer->pending.data;
    size_t bytes = writer->pending.size;
    if (!out && bytes)
        code = hs__file_write(&writer->file, from, bytes, &error);
    while (out && !code && bytes) {
        size_t piece = bytes < INT_MAX ? bytes : INT_MAX;
        out->z.next_in = (z_const Bytef *)from;
        out->z.avail_in = (uInt)piece;
        out->dirty = true;
        code = deflate_all(writer, Z_NO_FLUSH, &error);
        from += piece;
        bytes -= piece;
    }
    hs__buffer_clear(&writer->pending);
    return note(writer, code, &error, err);
}

hs_code hs_record_writer_write(hs_record_writer *writer, const void *data, size_t bytes, hs_error *err)
{
    hs_code code = check_writer(writer, err);
    if (code)
        return code;
    if (bytes && !data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: data of a record of %zu bytes is NULL", writer->path, bytes);
    size_t before = writer->pending.size;
    hs__record_append(&writer->pending, data, bytes);
    if ((code = hs__buffer_check(&writer->pending, "a record", err))) {
        writer->pending.size = before;
        writer->pending.failed = false;
        return code;
    }
    return writer->pending.size >= writer->limit ? write_pending(writer, err) : HS_OK;
}

hs_code hs_record_writer_flush(hs_record_writer *writer, bool sync, hs_error *err)
{
    hs_code code = check_writer(writer, err);
    if (code || (code = write_pending(writer, err)))
        return code;
    hs_error error = {0};
    if (writer->deflater && writer->deflater->dirty) {
        code = deflate_all(writer, Z_SYNC_FLUSH, &error);
        writer->deflater->dirty = code != HS_OK;
    }
    if (!code && sync)
        code = hs__file_sync(&writer->file, &error);
    return note(writer, code, &error, err);
}

hs_code hs_record_writer_close(hs_record_writer *writer, hs_error *err)
{
    hs_error_clear(err);
    if (!writer || writer->is_closed)
        return HS_OK;
    if (hs__is_inherited(writer->generation))
        return hs__refuse_inherited("record writer", err);
    hs_error error = {0};
    if (!writer->error.code && write_pending(writer, NULL) == HS_OK && writer->deflater)
        note(writer, deflate_all(writer, Z_FINISH, &error), &error, NULL);
    free_deflater(writer);
    hs_code code = hs__file_close(&writer->file, &error);
    writer->is_closed = true;
    if (code && !writer->error.code)
        note(writer, code, &error, NULL);
    return hs__error_copy(err, &writer->error);
}

void hs_record_writer_free(hs_record_writer *writer)
{
    hs_error error = {0};
    if (!writer || hs__is_inherited(writer->generation))
        return;
    if (!writer->is_closed && hs_record_writer_close(writer, &error) != HS_OK)
        hs_log(&writer->env, HS_LOG_ERROR, "%s: records were lost: %s", writer->path, error.message);
    free_writer(writer);
}
