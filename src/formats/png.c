/* SPDX-License-Identifier: Apache-2.0 */
/* hs__png_write writes a header, all rows in one chunk, and an end: each row is filtered (choose_filter), then compressed
 * (compress_row). */
#include "formats/png.h"

#include "formats/zlib_memory.h"

#include <stdlib.h>
#include <string.h>

enum { FILTERS = 5, CHUNK_HEADER = 8, PIECE = 1 << 14 };

typedef struct {
    hs__buffer *out;
    hs_env env;
    const hs__pixels *pixels;
    size_t row_bytes;
    unsigned char *rows; /* a row of zeros, and for each filter its number and a row */
    z_stream stream;
} png_writer;

static void put32(unsigned char *to, size_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* Chunks: length, name, data, checksum of the name and the data. */

static size_t begin_chunk(hs__buffer *out, const char *name)
{
    size_t begun = out->size;
    hs__buffer_append(out, "\0\0\0\0", 4);
    hs__buffer_append(out, name, 4);
    return begun;
}

static void end_chunk(hs__buffer *out, size_t begun)
{
    unsigned char sum[4];
    if (out->failed)
        return;
    size_t bytes = out->size - begun - CHUNK_HEADER;
    put32(out->data + begun, bytes);
    put32(sum, crc32_z(0, out->data + begun + 4, bytes + 4));
    hs__buffer_append(out, sum, sizeof sum);
}

static void put_header(hs__buffer *out, const hs__pixels *pixels)
{
    static const unsigned char colors[] = {0, 0, 4, 2, 6}; /* by channels */
    unsigned char header[13] = {[8] = 8, colors[pixels->channels]};
    put32(header, pixels->width);
    put32(header + 4, pixels->height);
    hs__buffer_append(out, "\x89PNG\r\n\x1a\n", 8);
    size_t begun = begin_chunk(out, "IHDR");
    hs__buffer_append(out, header, sizeof header);
    end_chunk(out, begun);
}

/* Filters: each byte minus a prediction from the bytes to the left, above, and above left. */

static int paeth(int left, int above, int corner)
{
    int to_left = abs(above - corner), to_above = abs(left - corner), to_corner = abs(left + above - 2 * corner);
    if (to_left <= to_above && to_left <= to_corner)
        return left;
    return to_above <= to_corner ? above : corner;
}

static int predict(int filter, int left, int above, int corner)
{
    switch (filter) {
    case 1:
        return left;
    case 2:
        return above;
    case 3:
        return (left + above) / 2;
    case 4:
        return paeth(left, above, corner);
    default:
        return 0;
    }
}

static void filter_row(const png_writer *w, int filter, const unsigned char *row, const unsigned char *above,
                       unsigned char *to)
{
    size_t channels = w->pixels->channels;
    *to++ = (unsigned char)filter;
    for (size_t i = 0; i < w->row_bytes; i++) {
        bool first = i < channels;
        to[i] = (unsigned char)(row[i] -
                                predict(filter, first ? 0 : row[i - channels], above[i], first ? 0 : above[i - channels]));
    }
}

/* Applies the filter with the smallest sum of absolute differences, which usually compresses best. */
static unsigned char *choose_filter(const png_writer *w, size_t y)
{
    const unsigned char *row = w->pixels->data + y * w->row_bytes, *above = y ? row - w->row_bytes : w->rows;
    unsigned char *best = NULL;
    uint64_t least = UINT64_MAX;
    for (int filter = 0; filter < FILTERS; filter++) {
        unsigned char *filtered = w->rows + w->row_bytes + (size_t)filter * (w->row_bytes + 1);
        filter_row(w, filter, row, above, filtered);
        uint64_t sum = 0;
        for (size_t i = 1; i <= w->row_bytes; i++)
            sum += filtered[i] < 128 ? filtered[i] : 256U - filtered[i];
        if (sum < least) {
            least = sum;
            best = filtered;
        }
    }
    return best;
}

/* Compression. */

/* Compresses a row (or flushes, without a row) and appends the output. False: out of memory. */
static bool compress_row(png_writer *w, unsigned char *row, size_t bytes, int flush)
{
    z_stream *stream = &w->stream;
    stream->next_in = row;
    stream->avail_in = (unsigned)bytes;
    do {
        stream->next_out = hs__buffer_room(w->out, PIECE);
        if (!stream->next_out)
            return false;
        stream->avail_out = PIECE;
        deflate(stream, flush);
        w->out->size += PIECE - stream->avail_out;
    } while (!stream->avail_out);
    return true;
}

static hs_code check(const hs__pixels *p, hs_error *err)
{
    if (!p->width || !p->height || p->channels < 1 || p->channels > 4 || p->width > HS__PNG_MOST_BYTES / p->channels ||
        p->height > HS__PNG_MOST_BYTES / (p->width * p->channels))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "cannot make a PNG of %zu x %zu pixels with %zu channels: it needs at least 1 pixel, 1 to 4 channels, and at "
            "most %d bytes of pixels",
            p->height, p->width, p->channels, (int)HS__PNG_MOST_BYTES);
    return HS_OK;
}

hs_code hs__png_write(hs__buffer *out, const hs__pixels *pixels, hs_error *err)
{
    hs_code code = check(pixels, err);
    if (code)
        return code;
    png_writer w = {.out = out, .env = *out->env, .pixels = pixels, .row_bytes = pixels->width * pixels->channels};
    w.rows = hs__alloc(out->env, FILTERS + 1, w.row_bytes + 1);
    hs__zlib_use(&w.stream, &w.env);
    if (!w.rows || deflateInit(&w.stream, Z_DEFAULT_COMPRESSION) != Z_OK) {
        hs__free(out->env, w.rows);
        return hs__no_memory(err, (FILTERS + 1) * w.row_bytes, "a PNG");
    }
    put_header(out, pixels);
    size_t begun = begin_chunk(out, "IDAT");
    bool ok = true;
    for (size_t y = 0; ok && y < pixels->height; y++)
        ok = compress_row(&w, choose_filter(&w, y), w.row_bytes + 1, Z_NO_FLUSH);
    if (ok && compress_row(&w, NULL, 0, Z_FINISH))
        end_chunk(out, begun);
    end_chunk(out, begin_chunk(out, "IEND"));
    deflateEnd(&w.stream);
    hs__free(out->env, w.rows);
    return hs__buffer_check(out, "a PNG", err);
}
