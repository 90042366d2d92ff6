/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_SAFETENSORS_H
#define HS_FORMATS_SAFETENSORS_H

#include <hooksess/safetensors.h>

#include "base/buffer.h"
#include "base/files.h"
#include "base/map.h"
#include "base/tensor.h"

/* clang-format off */
/* safetensors:
 *
 *   8 bytes:    the length of the header, little-endian, at most HS__SAFETENSORS_MAX_HEADER;
 *   the header: a JSON object, padded with blanks. It has dtype, shape and data_offsets (start and end, relative to the
 *               start of the data) under each tensor's name, and maybe more. "__metadata__" is an object of strings;
 *   the data:   in row-major order, little-endian, one tensor after the other without gaps, to the end of the file.
 *
 * As the data has no gaps, only its order can align it. This writer starts the data at a multiple of
 * HS__SAFETENSORS_ALIGNMENT, and sorts tensors by the size of their elements, the largest first, then by name. The header
 * has the same order. The reader does not rely on this. */
/* clang-format on */

enum { HS__SAFETENSORS_MAX_HEADER = 100000000, HS__SAFETENSORS_ALIGNMENT = 64 };

#define HS__SAFETENSORS_METADATA "__metadata__"

typedef struct hs__safetensors_entry {
    const char *name;
    hs_dtype dtype;         /* HS_DTYPE_NONE: not supported */
    const char *dtype_name; /* as in the file, after parse */
    hs_shape shape;         /* rank -1: not supported */
    uint64_t offset, bytes; /* of its data, relative to the start of all data */
    size_t tag;             /* as passed to declare */
} hs__safetensors_entry;

typedef struct hs__safetensors_header {
    const hs_env *env;
    hs__safetensors_entry *entries; /* in the order of their data, after parse or begin */
    size_t n, capacity;
    hs__map names;  /* owns the names of the entries */
    hs__map dtypes; /* owns the names of dtypes that are unknown */
} hs__safetensors_header;

/* True if the path ends in ".safetensors". */
bool hs__is_safetensors(const char *path);

/* The format's name of a dtype. NULL: the format does not have it. */
const char *hs__safetensors_dtype_name(hs_dtype dtype);

void hs__safetensors_header_init(hs__safetensors_header *header, const hs_env *env);
void hs__safetensors_header_free(hs__safetensors_header *header);
/* Parses the header of `data_bytes` of data. The tensors must cover all data. DATA_LOSS names the file and the tensor. */
hs_code hs__safetensors_header_parse(hs__safetensors_header *header, hs_bytes text, uint64_t data_bytes, const char *path,
                                     hs_error *err);
/* Appends the header, without length and padding. `metadata` may be NULL. */
hs_code hs__safetensors_header_text(const hs__safetensors_header *header, const hs_safetensors_pair *metadata,
                                    hs__buffer *out, hs_error *err);

/* Writing: declare all tensors, begin the file, then write their data in the order of header.entries, in pieces of any
 * size. */
typedef struct hs__safetensors_writer {
    const hs_env *env;
    hs__safetensors_header header;
    hs__file file;
    uint64_t remaining; /* bytes of data to write */
} hs__safetensors_writer;

void hs__safetensors_writer_init(hs__safetensors_writer *writer, const hs_env *env);
/* INVALID_ARGUMENT: the name is empty, reserved or already used, or the format does not have the dtype. */
hs_code hs__safetensors_writer_declare(hs__safetensors_writer *writer, const char *name, hs_dtype dtype,
                                       const hs_shape *shape, size_t tag, hs_error *err);
/* Sorts the tensors, opens the file and writes the header. */
hs_code hs__safetensors_writer_begin(hs__safetensors_writer *writer, const char *path, const hs_safetensors_pair *metadata,
                                     hs_error *err);
hs_code hs__safetensors_writer_write(hs__safetensors_writer *writer, const void *data, size_t bytes, hs_error *err);
/* Syncs and closes the file. FAILED_PRECONDITION: data is missing. */
hs_code hs__safetensors_writer_finish(hs__safetensors_writer *writer, hs_error *err);
/* Closes the file if it is open and frees the memory. Does not remove the file. */
void hs__safetensors_writer_close(hs__safetensors_writer *writer);

/* Reading. */
typedef struct hs__safetensors_reader {
    const hs_env *env;
    char *path;
    hs__file file;
    uint64_t data; /* where the data begins in the file */
    hs__safetensors_header header;
} hs__safetensors_reader;

/* Reads the header, and checks it against the size of the file. NOT_FOUND, DATA_LOSS. */
hs_code hs__safetensors_reader_open(hs__safetensors_reader *reader, const hs_env *env, const char *path, hs_error *err);
void hs__safetensors_reader_close(hs__safetensors_reader *reader);
/* HS__NONE: no tensor of that name. */
size_t hs__safetensors_find(const hs__safetensors_reader *reader, const char *name);
/* UNIMPLEMENTED: dtype or shape are not supported, so that the tensor can only be read as a whole, as its bytes. */
hs_code hs__safetensors_check(const hs__safetensors_reader *reader, const hs__safetensors_entry *entry, hs_error *err);
/* Reads `bytes` of a tensor's data from `offset` on. DATA_LOSS: the file has become shorter, or a BOOL is neither 0 nor 1
 * (undefined behavior in C). */
hs_code hs__safetensors_read(hs__safetensors_reader *reader, const hs__safetensors_entry *entry, uint64_t offset, void *to,
                             size_t bytes, hs_error *err);

#endif
