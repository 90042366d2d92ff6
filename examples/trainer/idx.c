/* SPDX-License-Identifier: Apache-2.0 */
/* Reads gzip'd IDX files: dataset_load reads two with idx_read, which checks the header and unpacks the bytes. */
#include "idx.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

enum { MAX_DIMENSIONS = 3, PATH_BYTES = 4096, BUFFER_BYTES = 1 << 16, GZIP_WINDOW = 15 + 16 };

#define MAX_BYTES ((size_t)1 << 31) /* a header that says more is damaged */

/* A file that is being read. Its contents: a magic number with the number of dimensions, the dimensions, the bytes. */
struct idx_file {
    char path[PATH_BYTES];
    FILE *file;
    z_stream stream;
    bool ended; /* at the end of the stream; its checksum is right */
    size_t dimensions[MAX_DIMENSIONS];
    unsigned char *bytes;
    unsigned char buffer[BUFFER_BYTES];
};

/* Adds the remedy to an error. */
static hs_code advise(hs_error *err)
{
    char problem[HS_MESSAGE_SIZE];
    snprintf(problem, sizeof problem, "%s", err->message);
    return hs_error_set(err, err->code,
                        "%.700s; install Debian's package dataset-fashion-mnist, or give the folder of the data: --data "
                        "DIR",
                        problem);
}

static hs_code fill_buffer(struct idx_file *f, hs_error *err)
{
    f->stream.next_in = f->buffer;
    f->stream.avail_in = (unsigned)fread(f->buffer, 1, BUFFER_BYTES, f->file);
    if (f->stream.avail_in)
        return HS_OK;
    if (ferror(f->file))
        return hs_error_set_errno(err, errno, "%s", f->path);
    return hs_error_set(err, HS_DATA_LOSS, "%s is cut off", f->path);
}

/* Unpacks up to `bytes` bytes; fewer only at the end of the stream. */
static hs_code read_some(struct idx_file *f, unsigned char *to, size_t bytes, size_t *got, hs_error *err)
{
    hs_code code = HS_OK;
    *got = 0;
    while (!code && *got < bytes && !f->ended) {
        if (!f->stream.avail_in && (code = fill_buffer(f, err)))
            break;
        unsigned room = bytes - *got < 1u << 30 ? (unsigned)(bytes - *got) : 1u << 30;
        f->stream.next_out = to + *got;
        f->stream.avail_out = room;
        int result = inflate(&f->stream, Z_NO_FLUSH);
        *got += room - f->stream.avail_out;
        f->ended = result == Z_STREAM_END;
        if (result != Z_OK && result != Z_STREAM_END)
            code = hs_error_set(err, HS_DATA_LOSS, "%s is damaged (%s)", f->path,
                                f->stream.msg ? f->stream.msg : zError(result));
    }
    return code;
}

static hs_code read_bytes(struct idx_file *f, unsigned char *to, size_t bytes, hs_error *err)
{
    size_t got;
    hs_code code = read_some(f, to, bytes, &got, err);
    if (!code && got < bytes)
        code = hs_error_set(err, HS_DATA_LOSS, "%s has fewer bytes than its header says", f->path);
    return code;
}

static hs_code read_header(struct idx_file *f, unsigned n_dimensions, size_t *bytes, hs_error *err)
{
    unsigned char header[4 + 4 * MAX_DIMENSIONS];
    hs_code code = read_bytes(f, header, 4 + 4 * n_dimensions, err);
    if (code)
        return code;
    if (header[0] || header[1] || header[2] != 8 || header[3] != n_dimensions)
        return hs_error_set(err, HS_DATA_LOSS,
                            "%s: not an IDX file of bytes in %u dimensions: it begins with %02x%02x%02x%02x", f->path,
                            n_dimensions, header[0], header[1], header[2], header[3]);
    *bytes = 1;
    for (unsigned i = 0; i < n_dimensions; i++) {
        const unsigned char *at = header + 4 + 4 * i;
        f->dimensions[i] = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
        if (!f->dimensions[i])
            return hs_error_set(err, HS_DATA_LOSS, "%s is empty: dimension %u of its header is 0", f->path, i);
        if (*bytes > MAX_BYTES / f->dimensions[i])
            return hs_error_set(err, HS_DATA_LOSS, "%s is damaged: its header says that it has more than %zu bytes",
                                f->path, MAX_BYTES);
        *bytes *= f->dimensions[i];
    }
    return HS_OK;
}

static hs_code idx_read(struct idx_file *f, const char *directory, const char *part, const char *kind,
                        unsigned n_dimensions, hs_error *err)
{
    int length = snprintf(f->path, sizeof f->path, "%s/%s-%s-idx%u-ubyte.gz", directory, part, kind, n_dimensions);
    if (length < 0 || length >= PATH_BYTES)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the path of the data is too long");
    if (!(f->file = fopen(f->path, "rb")))
        return hs_error_set_errno(err, errno, "%s", f->path);
    hs_code code = HS_OK;
    size_t bytes = 0, more_bytes = 0;
    unsigned char more;
    if (inflateInit2(&f->stream, GZIP_WINDOW) != Z_OK)
        code = hs_error_set(err, HS_RESOURCE_EXHAUSTED, "%s: out of memory to unpack it", f->path);
    if (!code)
        code = read_header(f, n_dimensions, &bytes, err);
    if (!code && !(f->bytes = malloc(bytes)))
        code = hs_error_set(err, HS_RESOURCE_EXHAUSTED, "%s: out of memory for its %zu bytes", f->path, bytes);
    if (!code)
        code = read_bytes(f, f->bytes, bytes, err);
    if (!code) /* reads the checksum, which follows the last byte */
        code = read_some(f, &more, 1, &more_bytes, err);
    if (!code && more_bytes)
        code = hs_error_set(err, HS_DATA_LOSS, "%s has more bytes than its header says", f->path);
    inflateEnd(&f->stream);
    fclose(f->file);
    return code;
}

static hs_code check_labels(const struct idx_file *images, const struct idx_file *labels, hs_error *err)
{
    if (images->dimensions[0] != labels->dimensions[0])
        return hs_error_set(err, HS_DATA_LOSS, "%s has %zu labels, for %zu images", labels->path, labels->dimensions[0],
                            images->dimensions[0]);
    for (size_t i = 0; i < labels->dimensions[0]; i++)
        if (labels->bytes[i] >= CLASSES)
            return hs_error_set(err, HS_DATA_LOSS, "%s: label %zu is %d; labels are below %d", labels->path, i,
                                labels->bytes[i], CLASSES);
    return HS_OK;
}

hs_code dataset_load(struct dataset *set, const char *directory, const char *part, hs_error *err)
{
    struct idx_file *files = calloc(2, sizeof *files);
    if (!files)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory to read the data");
    struct idx_file *images = &files[0], *labels = &files[1];
    hs_code code = idx_read(images, directory, part, "images", 3, err);
    if (!code && !(code = idx_read(labels, directory, part, "labels", 1, err)))
        code = check_labels(images, labels, err);
    *set = (struct dataset){.n = images->dimensions[0],
                            .pixels = images->dimensions[1] * images->dimensions[2],
                            .columns = images->dimensions[2],
                            .images = images->bytes,
                            .labels = labels->bytes,
                            .checksums = {images->stream.adler, labels->stream.adler}}; /* zlib has verified them */
    free(files);
    if (!code)
        return HS_OK;
    dataset_free(set);
    return code == HS_RESOURCE_EXHAUSTED ? code : advise(err);
}

void dataset_free(struct dataset *set)
{
    free(set->images);
    free(set->labels);
    *set = (struct dataset){0};
}
