/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors are declared first. hs__safetensors_writer_begin puts them in order and writes the header; then their data is
 * written in that order. */
#include "formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

void hs__safetensors_writer_init(hs__safetensors_writer *writer, const hs_env *env)
{
    *writer = (hs__safetensors_writer){.env = env, .file = {.env = env}};
    hs__safetensors_header_init(&writer->header, env);
}

hs_code hs__safetensors_writer_declare(hs__safetensors_writer *writer, const char *name, hs_dtype dtype,
                                       const hs_shape *shape, size_t tag, hs_error *err)
{
    hs__safetensors_header *header = &writer->header;
    hs__safetensors_entry entry = {.dtype = dtype, .shape = *shape, .tag = tag};
    int64_t n = hs_shape_elements(shape);
    hs_code code;
    if (!*name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "a tensor to save has an empty name");
    if (strcmp(name, HS__SAFETENSORS_METADATA) == 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' is reserved in safetensors files; rename the tensor", name);
    if (hs__map_find(&header->names, name) != HS__NONE)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "two tensors to save have the name '%s'", name);
    if (!hs__safetensors_dtype_name(dtype))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' has dtype %s, which safetensors does not support", name,
                            hs_dtype_name(dtype));
    if (n < 0 || __builtin_mul_overflow((uint64_t)n, (uint64_t)hs_dtype_size(dtype), &entry.bytes))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' has an invalid shape", name);
    if ((code = hs__reserve(writer->env, &header->entries, &header->capacity, header->n + 1, sizeof entry, err)) ||
        (code = hs__map_add(&header->names, name, header->n, &entry.name, err)))
        return code;
    header->entries[header->n++] = entry;
    return HS_OK;
}

static int largest_elements_first(const void *a, const void *b)
{
    const hs__safetensors_entry *x = a, *y = b;
    size_t x_size = hs_dtype_size(x->dtype), y_size = hs_dtype_size(y->dtype);
    if (x_size != y_size)
        return x_size < y_size ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* Sorts the entries and computes their offsets. */
static hs_code lay_out(hs__safetensors_writer *writer, hs_error *err)
{
    hs__safetensors_header *header = &writer->header;
    writer->remaining = 0;
    if (header->n)
        qsort(header->entries, header->n, sizeof *header->entries, largest_elements_first);
    for (size_t i = 0; i < header->n; i++) {
        header->entries[i].offset = writer->remaining;
        if (__builtin_add_overflow(writer->remaining, header->entries[i].bytes, &writer->remaining) ||
            writer->remaining > INT64_MAX)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "the tensors are too large for one file");
    }
    return HS_OK;
}

/* Writes the length, the header and its padding to a buffer. */
static hs_code build_header(const hs__safetensors_writer *writer, const hs_safetensors_pair *metadata, hs__buffer *out,
                            hs_error *err)
{
    enum { LENGTH = 8, ALIGNMENT = HS__SAFETENSORS_ALIGNMENT };
    hs__buffer_fixed64(out, 0);
    hs_code code = hs__safetensors_header_text(&writer->header, metadata, out, err);
    size_t padding = (ALIGNMENT - out->size % ALIGNMENT) % ALIGNMENT;
    hs__buffer_text(out, "%*s", (int)padding, "");
    if (code || (code = hs__buffer_check(out, "a safetensors header", err)))
        return code;
    if (out->size - LENGTH > HS__SAFETENSORS_MAX_HEADER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%zu tensors need a safetensors header of %zu bytes; readers accept %d", writer->header.n,
                            out->size - LENGTH, HS__SAFETENSORS_MAX_HEADER);
    hs__put64(out->data, out->size - LENGTH);
    return HS_OK;
}

hs_code hs__safetensors_writer_begin(hs__safetensors_writer *writer, const char *path, const hs_safetensors_pair *metadata,
                                     hs_error *err)
{
    hs__buffer header;
    hs__buffer_init(&header, writer->env);
    hs_code code;
    if (!(code = lay_out(writer, err)) && !(code = build_header(writer, metadata, &header, err)) &&
        !(code = hs__file_open(&writer->file, writer->env, path, HS_OPEN_WRITE, err)))
        code = hs__file_write(&writer->file, header.data, header.size, err);
    hs__buffer_free(&header);
    return code;
}

hs_code hs__safetensors_writer_write(hs__safetensors_writer *writer, const void *data, size_t bytes, hs_error *err)
{
    if (bytes > writer->remaining)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "cannot write %zu bytes: only %llu remain", bytes,
                            (unsigned long long)writer->remaining);
    writer->remaining -= bytes;
    return bytes ? hs__file_write(&writer->file, data, bytes, err) : HS_OK;
}

hs_code hs__safetensors_writer_finish(hs__safetensors_writer *writer, hs_error *err)
{
    if (writer->remaining)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%llu bytes are still missing",
                            (unsigned long long)writer->remaining);
    hs_code code = hs__file_sync(&writer->file, err);
    hs_code closed = hs__file_close(&writer->file, code ? NULL : err);
    return code ? code : closed;
}

void hs__safetensors_writer_close(hs__safetensors_writer *writer)
{
    hs__file_close(&writer->file, NULL);
    hs__safetensors_header_free(&writer->header);
}
