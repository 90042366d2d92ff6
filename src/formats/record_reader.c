/* SPDX-License-Identifier: Apache-2.0 */
/* The public reader of records. */
#include "formats/records.h"

#include <string.h>

struct hs_record_reader {
    hs_env env;
    hs__record_reader inside;
    bool is_counted;
    hs_record_totals totals;
};

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

static hs_code check_options(const hs_record_reader_options *options, hs_error *err)
{
    if ((unsigned)options->compression > HS_RECORDS_GZIP)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_record_reader_options.compression is %d, not an hs_record_compression",
                            (int)options->compression);
    if (options->buffer_bytes < 0 || options->buffer_bytes > 1 << 30)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_record_reader_options.buffer_bytes is %lld; it must be from 0 to 2^30",
                            (long long)options->buffer_bytes);
    if (options->max_record_bytes < HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_record_reader_options.max_record_bytes is %lld; it must be at least 0, or HS_NEVER",
                            (long long)options->max_record_bytes);
    return HS_OK;
}

static hs_code open_inside(hs_record_reader *reader, const char *path, const hs_record_reader_options *options,
                           hs_error *err)
{
    enum { SMALLEST = 64 };
    size_t window = options->buffer_bytes ? (size_t)options->buffer_bytes : (size_t)HS__SOURCE_WINDOW;
    window = window < SMALLEST ? SMALLEST : window;
    hs_code code = hs__record_reader_open_as(&reader->inside, &reader->env, path, options->compression, window, err);
    if (options->max_record_bytes)
        reader->inside.limit = options->max_record_bytes == HS_NEVER ? UINT64_MAX : (uint64_t)options->max_record_bytes;
    return code;
}

hs_record_reader *hs_record_reader_open(const char *path, const hs_record_reader_options *given, hs_error *err)
{
    hs_record_reader_options options = HS_INIT(hs_record_reader_options);
    hs_env env;
    hs_error_clear(err);
    if (!path || !*path) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_record_reader_open: path is missing");
        return NULL;
    }
    if ((given && HS_STRUCT_TAKE(hs_record_reader_options, max_record_bytes, &options, given, err)) ||
        check_options(&options, err) || hs__env_take(&env, options.env, err))
        return NULL;
    hs_record_reader *reader = hs__alloc(&env, 1, sizeof *reader);
    if (!reader) {
        hs__no_memory(err, sizeof *reader, "a reader of records");
        return NULL;
    }
    reader->env = env;
    if (open_inside(reader, path, &options, err)) {
        hs__free(&env, reader);
        return NULL;
    }
    hs_error_clear(err);
    return reader;
}

void hs_record_reader_close(hs_record_reader *reader)
{
    if (reader)
        hs__record_reader_close(&reader->inside);
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
    if (!reader->inside.source.path)
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
    return hs__record_reader_next(&reader->inside, record, err);
}

uint64_t hs_record_reader_offset(const hs_record_reader *reader)
{
    return reader ? reader->inside.offset : 0;
}

hs_code hs_record_reader_seek(hs_record_reader *reader, uint64_t offset, hs_error *err)
{
    hs_code code = check_reader(reader, err);
    if (!code)
        reader->inside.offset = offset;
    return code;
}

hs_code hs_record_reader_read_at(hs_record_reader *reader, uint64_t *offset, hs_bytes *record, hs_error *err)
{
    hs_code code = check_reader(reader, err);
    if (code || !offset || !record)
        return code ? code : no_place(err);
    uint64_t before = reader->inside.offset;
    reader->inside.offset = *offset;
    code = hs__record_reader_next(&reader->inside, record, err);
    if (code)
        reader->inside.offset = before;
    else
        *offset = reader->inside.offset;
    return code;
}

hs_code hs_record_reader_skip(hs_record_reader *reader, int64_t n, int64_t *skipped, hs_error *err)
{
    int64_t done = 0;
    uint64_t bytes;
    hs_code code = check_reader(reader, err);
    if (!code && n < 0)
        code =
            hs_error_set(err, HS_INVALID_ARGUMENT, "hs_record_reader_skip: n is %lld; it must be at least 0", (long long)n);
    while (!code && done < n)
        if (!(code = hs__record_reader_skip(&reader->inside, &bytes, err)))
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
        code = hs__record_reader_recover(&reader->inside, &bytes, err);
    if (lost)
        *lost = bytes;
    return code;
}

static hs_code count(hs_record_reader *reader, hs_record_totals *totals, hs_error *err)
{
    uint64_t bytes;
    hs_code code;
    reader->inside.offset = 0;
    while (!(code = hs__record_reader_skip(&reader->inside, &bytes, err))) {
        totals->records++;
        totals->data_bytes += bytes;
    }
    return code == HS_OUT_OF_RANGE ? HS_OK : code;
}

hs_code hs_record_reader_totals(hs_record_reader *reader, hs_record_totals *totals, hs_error *err)
{
    hs_code code = check_reader(reader, err);
    if (code || !totals)
        return code ? code : no_place(err);
    if (!reader->is_counted) {
        hs_record_totals counted = {0, 0};
        uint64_t before = reader->inside.offset;
        code = count(reader, &counted, err);
        reader->inside.offset = before;
        if (code)
            return code;
        reader->totals = counted;
        reader->is_counted = true;
        hs_error_clear(err);
    }
    *totals = reader->totals;
    return HS_OK;
}
