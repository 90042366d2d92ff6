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
 *   8 bytes:    the length of the header, little endian, at most HS__SAFETENSORS_MAX_HEADER;
 *   the header: a JSON object, blanks after it. Each tensor's name has dtype, shape and data_offsets: where its data begin
 *               and end, counted from the first of all data. "__metadata__" has strings under names of its own;
 *   the data:   row by row, little endian, one tensor after the other without a gap, to the end of the file.
 *
 * As the data have no gaps, they can be aligned only by their order. Written here: they begin at a multiple of
 * HS__SAFETENSORS_ALIGNMENT and go by the size of their elements, the largest first, then by name; and the header goes as
 * they do. Readers may rely on none of this. */
/* clang-format on */

enum { HS__SAFETENSORS_MAX_HEADER = 100000000, HS__SAFETENSORS_ALIGNMENT = 64 };

#define HS__SAFETENSORS_METADATA "__metadata__"

typedef struct hs__safetensors_entry {
    const char *name;
    hs_dtype dtype;
    hs_shape shape;
    uint64_t offset, bytes; /* of its data, from the first of all */
    size_t tag;             /* of whoever declared it */
} hs__safetensors_entry;

typedef struct hs__safetensors_header {
    const hs_env *env;
    hs__safetensors_entry *entries; /* in the order of their data, once they have one */
    size_t n, capacity;
    hs__map names; /* the entries' names are its */
} hs__safetensors_header;

/* What the format calls a dtype; NULL: it has none. */
const char *hs__safetensors_dtype_name(hs_dtype dtype);

void hs__safetensors_header_init(hs__safetensors_header *header, const hs_env *env);
void hs__safetensors_header_free(hs__safetensors_header *header);
/* Reads a header before `data_bytes` of data, all of which its tensors must account for. DATA_LOSS and UNIMPLEMENTED name
 * the file and the tensor. */
hs_code hs__safetensors_header_parse(hs__safetensors_header *header, hs_bytes text, uint64_t data_bytes, const char *path,
                                     hs_error *err);
/* Appends the header, without what stands before and after it. `metadata` may be NULL. */
hs_code hs__safetensors_header_text(const hs__safetensors_header *header, const hs_safetensors_pair *metadata,
                                    hs__buffer *out, hs_error *err);

/* Writing: all tensors are declared, then the file is begun, then their data come, in the order of header.entries and in
 * pieces of any size. */
typedef struct hs__safetensors_writer {
    const hs_env *env;
    hs__safetensors_header header;
    hs__file file;
    uint64_t left; /* bytes of data that are to come */
} hs__safetensors_writer;

void hs__safetensors_writer_init(hs__safetensors_writer *writer, const hs_env *env);
/* INVALID_ARGUMENT for a name that is empty, reserved or there already, and for a dtype that the format has not. */
hs_code hs__safetensors_writer_declare(hs__safetensors_writer *writer, const char *name, hs_dtype dtype,
                                       const hs_shape *shape, size_t tag, hs_error *err);
/* Puts the tensors in order, opens the file and writes the header. */
hs_code hs__safetensors_writer_begin(hs__safetensors_writer *writer, const char *path, const hs_safetensors_pair *metadata,
                                     hs_error *err);
hs_code hs__safetensors_writer_write(hs__safetensors_writer *writer, const void *data, size_t bytes, hs_error *err);
/* Syncs and closes the file. FAILED_PRECONDITION if data are missing. */
hs_code hs__safetensors_writer_finish(hs__safetensors_writer *writer, hs_error *err);
/* Frees everything, and closes what is open. The file stays. */
void hs__safetensors_writer_close(hs__safetensors_writer *writer);

/* Reading. */
typedef struct hs__safetensors_reader {
    const hs_env *env;
    char *path;
    hs__file file;
    uint64_t data; /* where they begin in the file */
    hs__safetensors_header header;
} hs__safetensors_reader;

/* Reads the header, and believes of it only what the file bears out. NOT_FOUND, DATA_LOSS, UNIMPLEMENTED. */
hs_code hs__safetensors_reader_open(hs__safetensors_reader *reader, const hs_env *env, const char *path, hs_error *err);
void hs__safetensors_reader_close(hs__safetensors_reader *reader);
/* HS__NONE: no tensor of that name. */
size_t hs__safetensors_find(const hs__safetensors_reader *reader, const char *name);
/* Reads `bytes` of a tensor's data from `offset` in them on. DATA_LOSS: the file has become shorter, or a BOOL is neither 0
 * nor 1, which no C program may look at. */
hs_code hs__safetensors_read(hs__safetensors_reader *reader, const hs__safetensors_entry *entry, uint64_t offset, void *to,
                             size_t bytes, hs_error *err);

#endif
