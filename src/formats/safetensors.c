/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files: the header, which is JSON, reading and writing. */
#include "base/json.h"
#include "formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH = 8 }; /* bytes of the header's length */

static const struct {
    hs_dtype dtype;
    const char *name;
} dtypes[] = {
    {HS_DOUBLE, "F64"}, {HS_FLOAT, "F32"}, {HS_HALF, "F16"},  {HS_BFLOAT16, "BF16"}, {HS_INT64, "I64"},
    {HS_INT32, "I32"},  {HS_INT16, "I16"}, {HS_INT8, "I8"},   {HS_UINT64, "U64"},    {HS_UINT32, "U32"},
    {HS_UINT16, "U16"}, {HS_UINT8, "U8"},  {HS_BOOL, "BOOL"}, {HS_COMPLEX64, "C64"},
};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* The format's name of a dtype. NULL: the format does not have it. */
static const char *safetensors_dtype_name(hs_dtype dtype)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

void hs__safetensors_header_init(hs__safetensors_header *header, const hs_env *env)
{
    *header = (hs__safetensors_header){.env = env};
    hs__map_init(&header->names, env);
}

void hs__safetensors_header_free(hs__safetensors_header *header)
{
    hs__free(header->env, header->entries);
    hs__map_free(&header->names);
    hs__safetensors_header_init(header, header->env);
}

/* Writing. */

static int append(const char *data, size_t bytes, void *user)
{
    hs__buffer *out = user;
    hs__buffer_append(out, data, bytes);
    return out->failed ? -1 : 0;
}

static hs_code append_string(hs__buffer *out, const char *text, hs_error *err)
{
    json_error_t cause = {.text = ""}; /* if memory is out, Jansson does not always set it */
    json_t *string = json_pack_ex(&cause, 0, "s", text);
    if (!string && json_error_code(&cause) == json_error_invalid_utf8)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' is not UTF-8, as safetensors files require", text);
    int failed = string ? json_dump_callback(string, append, out, JSON_ENCODE_ANY) : -1;
    json_decref(string);
    return failed ? hs__no_memory(err, strlen(text), "a safetensors header") : HS_OK;
}

static hs_code append_pair(hs__buffer *out, const hs_safetensors_pair *all, size_t index, hs_error *err)
{
    const char *key = all[index].key, *value = all[index].value;
    if (!value)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "metadata '%s': the value is NULL", key);
    for (size_t i = 0; i < index; i++)
        if (strcmp(all[i].key, key) == 0)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "metadata '%s' is given twice", key);
    hs__buffer_append(out, ",", index > 0);
    hs_code code = append_string(out, key, err);
    hs__buffer_text(out, ":");
    return code ? code : append_string(out, value, err);
}

static hs_code append_metadata(hs__buffer *out, const hs_safetensors_pair *metadata, hs_error *err)
{
    hs_code code = HS_OK;
    hs__buffer_text(out, "\"" HS__SAFETENSORS_METADATA "\":{");
    for (size_t i = 0; !code && metadata[i].key; i++)
        code = append_pair(out, metadata, i, err);
    hs__buffer_text(out, "}");
    return code;
}

static hs_code append_entry(hs__buffer *out, const hs__safetensors_entry *entry, hs_error *err)
{
    char shape[HS_SHAPE_TEXT_SIZE];
    hs_code code = append_string(out, entry->name, err);
    hs__buffer_text(out, ":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%llu,%llu]}",
                    safetensors_dtype_name(entry->dtype), hs_shape_text(&entry->shape, shape, sizeof shape),
                    (unsigned long long)entry->offset, (unsigned long long)(entry->offset + entry->bytes));
    return code;
}

/* Appends the header, without length and padding. `metadata` may be NULL. */
static hs_code safetensors_header_text(const hs__safetensors_header *header, const hs_safetensors_pair *metadata,
                                       hs__buffer *out, hs_error *err)
{
    bool some = metadata && metadata->key;
    hs__buffer_text(out, "{");
    hs_code code = some ? append_metadata(out, metadata, err) : HS_OK;
    for (size_t i = 0; !code && i < header->n; i++) {
        hs__buffer_append(out, ",", some || i > 0);
        code = append_entry(out, &header->entries[i], err);
    }
    hs__buffer_text(out, "}");
    return code ? code : hs__buffer_check(out, "a safetensors header", err);
}

/* Reading. */

/* The file whose header is parsed: its path, for messages, and the size of its data. */
typedef struct {
    const char *path;
    uint64_t data_bytes;
} source;

static hs_code not_json(const char *path, const json_error_t *cause, hs_error *err)
{
    char text[JSON_ERROR_TEXT_LENGTH];
    size_t n = 0;
    if (hs__json_no_memory(cause))
        return hs__no_memory(err, 0, path);
    for (const char *at = cause->text; *at; at++) /* it quotes the file: replaces bytes that cannot be printed */
        text[n++] = (unsigned char)*at >= ' ' && (unsigned char)*at < 127 ? *at : '?';
    text[n] = '\0';
    return hs_error_set(err, HS_DATA_LOSS, "%s: the header is not JSON: %s (byte %d)", path, text, cause->position);
}

static hs_code parse_dtype(const source *from, const char *name, const json_t *value, hs_dtype *dtype, hs_error *err)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (strcmp(dtypes[i].name, json_string_value(value)) == 0) {
            *dtype = dtypes[i].dtype;
            return HS_OK;
        }
    return hs_error_set(err, HS_UNIMPLEMENTED, "%s: '%s' has the dtype '%s', which is not supported", from->path, name,
                        json_string_value(value));
}

static bool parse_size(const json_t *value, uint64_t *size)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *size = (uint64_t)json_integer_value(value);
    return true;
}

static hs_code parse_shape(const source *from, const char *name, const json_t *dims, hs_shape *shape, hs_error *err)
{
    size_t rank = json_array_size(dims);
    if (rank > HS_MAX_RANK)
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: '%s' has %zu dimensions; the maximum is %d", from->path, name, rank,
                            HS_MAX_RANK);
    shape->rank = (int32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        uint64_t size;
        if (!parse_size(json_array_get(dims, i), &size))
            return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has an invalid dimension", from->path, name);
        shape->dims[i] = (int64_t)size;
    }
    return HS_OK;
}

static hs_code parse_offsets(const source *from, hs__safetensors_entry *entry, const json_t *offsets, hs_error *err)
{
    uint64_t end;
    if (json_array_size(offsets) != 2 || !parse_size(json_array_get(offsets, 0), &entry->offset) ||
        !parse_size(json_array_get(offsets, 1), &end) || end < entry->offset)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has invalid data_offsets", from->path, entry->name);
    if (end > from->data_bytes)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has bytes %llu to %llu of %llu: the file is truncated or damaged",
                            from->path, entry->name, (unsigned long long)entry->offset, (unsigned long long)end,
                            (unsigned long long)from->data_bytes);
    entry->bytes = end - entry->offset;
    return HS_OK;
}

static hs_code check_size(const source *from, const hs__safetensors_entry *entry, hs_error *err)
{
    int64_t n = hs_shape_elements(&entry->shape);
    uint64_t size = hs_dtype_size(entry->dtype);
    if (n < 0 || (uint64_t)n > INT64_MAX / size)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has an invalid shape", from->path, entry->name);
    if (entry->bytes != (uint64_t)n * size)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has %llu bytes, but its dtype and shape need %llu", from->path,
                            entry->name, (unsigned long long)entry->bytes, (unsigned long long)((uint64_t)n * size));
    return HS_OK;
}

static hs_code parse_entry(const source *from, hs__safetensors_entry *entry, const json_t *value, hs_error *err)
{
    const json_t *dtype = json_object_get(value, "dtype"), *shape = json_object_get(value, "shape"),
                 *offsets = json_object_get(value, "data_offsets");
    if (!json_is_string(dtype) || !json_is_array(shape) || !json_is_array(offsets) || json_object_size(value) != 3)
        return hs_error_set(err, HS_DATA_LOSS, "%s: the entry of '%s' must have dtype, shape and data_offsets only",
                            from->path, entry->name);
    hs_code code;
    if ((code = parse_dtype(from, entry->name, dtype, &entry->dtype, err)) ||
        (code = parse_shape(from, entry->name, shape, &entry->shape, err)) ||
        (code = parse_offsets(from, entry, offsets, err)))
        return code;
    return check_size(from, entry, err);
}

/* The library does not use the metadata, but checks that it is valid. */
static hs_code check_metadata(const source *from, json_t *metadata, hs_error *err)
{
    const char *key;
    json_t *value;
    bool good = json_is_object(metadata);
    json_object_foreach (metadata, key, value)
        good = good && json_is_string(value);
    return good ? HS_OK
                : hs_error_set(err, HS_DATA_LOSS, "%s: " HS__SAFETENSORS_METADATA " must contain strings only", from->path);
}

static hs_code parse_entries(hs__safetensors_header *header, const source *from, json_t *root, hs_error *err)
{
    const char *name;
    json_t *value;
    hs_code code =
        hs__reserve(header->env, &header->entries, &header->capacity, json_object_size(root), sizeof *header->entries, err);
    if (code)
        return code;
    json_object_foreach (root, name, value) {
        hs__safetensors_entry entry = {.name = name};
        if (strcmp(name, HS__SAFETENSORS_METADATA) == 0)
            code = check_metadata(from, value, err);
        else if (!(code = parse_entry(from, &entry, value, err)))
            header->entries[header->n++] = entry;
        if (code)
            return code;
    }
    return HS_OK;
}

static int by_offset(const void *a, const void *b)
{
    const hs__safetensors_entry *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes) /* empty tensors first */
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Checks that each byte of the data belongs to exactly one tensor. */
static hs_code check_coverage(const hs__safetensors_header *header, const source *from, hs_error *err)
{
    uint64_t at = 0;
    for (size_t i = 0; i < header->n; i++) {
        const hs__safetensors_entry *entry = &header->entries[i];
        if (entry->offset < at)
            return hs_error_set(err, HS_DATA_LOSS, "%s: the data of '%s' and '%s' overlap", from->path, entry[-1].name,
                                entry->name);
        if (entry->offset > at)
            return hs_error_set(err, HS_DATA_LOSS, "%s: %llu bytes before the data of '%s' belong to no tensor", from->path,
                                (unsigned long long)(entry->offset - at), entry->name);
        at += entry->bytes;
    }
    if (at != from->data_bytes)
        return hs_error_set(err, HS_DATA_LOSS, "%s: the last %llu bytes belong to no tensor", from->path,
                            (unsigned long long)(from->data_bytes - at));
    return HS_OK;
}

static hs_code copy_names(hs__safetensors_header *header, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < header->n; i++)
        code = hs__map_add(&header->names, header->entries[i].name, i, &header->entries[i].name, err);
    return code;
}

/* Limits for the density of a header. Jansson allocates hundreds of bytes for "{}", outside the env's allocator. An entry
 * of a valid header has three brackets in at least 50 bytes, and its arrays have few numbers. */
enum { LEAST_BYTES = 16, FEW_BRACKETS = 4, MOST_NESTED = 4, MOST_ELEMENTS = 64 };

static const char *behind_string(const char *at, const char *end)
{
    for (; at < end && *at != '"'; at++)
        if (*at == '\\' && at + 1 < end)
            at++;
    return at < end ? at + 1 : end;
}

typedef struct {
    size_t brackets, depth;
    size_t commas[MOST_NESTED + 1]; /* of the open arrays */
    bool array[MOST_NESTED + 1];
} density;

static bool count_char(density *found, char c)
{
    if (c == '{' || c == '[') {
        if (found->depth == MOST_NESTED)
            return false;
        found->brackets++;
        found->array[++found->depth] = c == '[';
        found->commas[found->depth] = 0;
    } else if ((c == '}' || c == ']') && found->depth) {
        found->depth--;
    } else if (c == ',' && found->array[found->depth]) {
        return ++found->commas[found->depth] < MOST_ELEMENTS;
    }
    return true;
}

/* Text that is not JSON may pass: the parser reports it. */
static hs_code check_density(const source *from, hs_bytes text, hs_error *err)
{
    density found = {.depth = 0};
    const char *at = text.data, *end = at + text.size;
    while (at < end) {
        char c = *at++;
        if (c == '"')
            at = behind_string(at, end);
        else if (!count_char(&found, c))
            return hs_error_set(err, HS_DATA_LOSS, "%s: the header has objects or arrays that no safetensors file has",
                                from->path);
    }
    return found.brackets <= text.size / LEAST_BYTES + FEW_BRACKETS
               ? HS_OK
               : hs_error_set(err, HS_DATA_LOSS,
                              "%s: the header has %zu objects and arrays in %zu bytes, too many for a safetensors file",
                              from->path, found.brackets, text.size);
}

hs_code hs__safetensors_header_parse(hs__safetensors_header *header, hs_bytes text, uint64_t data_bytes, const char *path,
                                     hs_error *err)
{
    source from = {path, data_bytes};
    json_error_t cause;
    if (!text.size || *(const char *)text.data != '{')
        return hs_error_set(err, HS_DATA_LOSS, "%s: not a safetensors file: the header does not begin with '{'", path);
    hs_code code = check_density(&from, text, err);
    if (code)
        return code;
    json_t *root = hs__json_load(text.data, text.size, JSON_REJECT_DUPLICATES, &cause);
    if (!root)
        return not_json(path, &cause, err);
    code = parse_entries(header, &from, root, err);
    if (!code && header->n)
        qsort(header->entries, header->n, sizeof *header->entries, by_offset);
    if (!code && !(code = check_coverage(header, &from, err)))
        code = copy_names(header, err);
    json_decref(root);
    return code;
}

/* Reads the length of the header, and checks it against the file's size. */
static hs_code read_length(hs__safetensors_reader *reader, uint64_t file_bytes, uint64_t *length, hs_error *err)
{
    unsigned char bytes[LENGTH];
    if (file_bytes < LENGTH)
        return hs_error_set(err, HS_DATA_LOSS, "%s: has %llu bytes, too few for a safetensors file", reader->path,
                            (unsigned long long)file_bytes);
    hs_code code = hs__file_read(&reader->file, 0, bytes, sizeof bytes, reader->path, err);
    if (code)
        return code;
    *length = hs__get64(bytes);
    if (*length > HS__SAFETENSORS_MAX_HEADER)
        return hs_error_set(err, HS_DATA_LOSS,
                            "%s: not a safetensors file: its header would have %llu bytes; the maximum is %d", reader->path,
                            (unsigned long long)*length, HS__SAFETENSORS_MAX_HEADER);
    if (*length > file_bytes - LENGTH)
        return hs_error_set(err, HS_DATA_LOSS,
                            "%s: has a header of %llu bytes, but only %llu bytes in total: it is truncated, or not a "
                            "safetensors file",
                            reader->path, (unsigned long long)*length, (unsigned long long)file_bytes);
    return HS_OK;
}

static hs_code read_header(hs__safetensors_reader *reader, hs_error *err)
{
    hs_file_stat found;
    uint64_t length = 0;
    hs_code code;
    if ((code = hs__stat(reader->env, reader->path, &found, err)))
        return code;
    if (found.is_directory)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: is a directory", reader->path);
    if ((code = hs__file_open(&reader->file, reader->env, reader->path, HS_OPEN_READ, err)) ||
        (code = read_length(reader, found.bytes, &length, err)))
        return code;
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

void hs__safetensors_writer_init(hs__safetensors_writer *writer, const hs_env *env)
{
    *writer = (hs__safetensors_writer){.env = env, .file = {.env = env}};
    hs__safetensors_header_init(&writer->header, env);
}

static hs_code check_tensor(const hs__safetensors_writer *writer, const char *name, hs_dtype dtype, hs_error *err)
{
    if (!*name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "a tensor to save has an empty name");
    if (strcmp(name, HS__SAFETENSORS_METADATA) == 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' is reserved in safetensors files; rename the tensor", name);
    if (hs__map_find(&writer->header.names, name) != HS__NONE)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "two tensors to save have the name '%s'", name);
    if (!safetensors_dtype_name(dtype))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' has dtype %s, which safetensors does not support", name,
                            hs_dtype_name(dtype));
    return HS_OK;
}

hs_code hs__safetensors_writer_declare(hs__safetensors_writer *writer, const char *name, hs_dtype dtype,
                                       const hs_shape *shape, size_t tag, hs_error *err)
{
    hs__safetensors_header *header = &writer->header;
    hs__safetensors_entry entry = {.dtype = dtype, .shape = *shape, .tag = tag};
    int64_t n = hs_shape_elements(shape);
    hs_code code = check_tensor(writer, name, dtype, err);
    if (code)
        return code;
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

static hs_code put_in_order(hs__safetensors_writer *writer, hs_error *err)
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
    enum { ALIGNMENT = HS__SAFETENSORS_ALIGNMENT };
    hs__buffer_fixed64(out, 0);
    hs_code code = safetensors_header_text(&writer->header, metadata, out, err);
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
    if (!(code = put_in_order(writer, err)) && !(code = build_header(writer, metadata, &header, err)) &&
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
