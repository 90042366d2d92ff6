/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a safetensors file, which is JSON: writing it (hs__safetensors_header_text), and parsing and checking it
 * (hs__safetensors_header_parse). */
#include "formats/safetensors.h"

#include "base/c_locale.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/tensor.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* The dtypes of the format. HS_DTYPE_NONE: this library has no such numbers, and knows only their size. */
static const struct {
    const char *name;
    hs_dtype dtype;
    unsigned bits;
} dtypes[] = {
    {"F64", HS_DOUBLE, 64},
    {"F32", HS_FLOAT, 32},
    {"F16", HS_HALF, 16},
    {"BF16", HS_BFLOAT16, 16},
    {"I64", HS_INT64, 64},
    {"I32", HS_INT32, 32},
    {"I16", HS_INT16, 16},
    {"I8", HS_INT8, 8},
    {"U64", HS_UINT64, 64},
    {"U32", HS_UINT32, 32},
    {"U16", HS_UINT16, 16},
    {"U8", HS_UINT8, 8},
    {"BOOL", HS_BOOL, 8},
    {"C64", HS_COMPLEX64, 64},
    {"F8_E4M3", HS_DTYPE_NONE, 8},
    {"F8_E5M2", HS_DTYPE_NONE, 8},
    {"F8_E8M0", HS_DTYPE_NONE, 8},
    {"F8_E4M3FNUZ", HS_DTYPE_NONE, 8},
    {"F8_E5M2FNUZ", HS_DTYPE_NONE, 8},
    {"F6_E2M3", HS_DTYPE_NONE, 6},
    {"F6_E3M2", HS_DTYPE_NONE, 6},
    {"F4", HS_DTYPE_NONE, 4},
};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

const char *hs__safetensors_dtype_name(hs_dtype dtype)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (dtype && dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

void hs__safetensors_header_init(hs__safetensors_header *header, const hs_env *env)
{
    *header = (hs__safetensors_header){.env = env};
    hs__map_init(&header->names, env);
    hs__map_init(&header->dtypes, env);
}

void hs__safetensors_header_free(hs__safetensors_header *header)
{
    hs__free(header->env, header->entries);
    hs__map_free(&header->names);
    hs__map_free(&header->dtypes);
    hs__safetensors_header_init(header, header->env);
}

/* Writing. */

static hs_code check_text(const char *text, hs_error *err)
{
    return hs__is_utf8(text, strlen(text))
               ? HS_OK
               : hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' is not UTF-8, as safetensors files require", text);
}

static hs_code put_metadata(hs__json_writer *out, const hs_safetensors_pair *metadata, hs_error *err)
{
    hs_code code = HS_OK;
    hs__json_open(out, HS__SAFETENSORS_METADATA, '{');
    for (const hs_safetensors_pair *pair = metadata; !code && pair->key; pair++) {
        if (!pair->value)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "metadata '%s': the value is NULL", pair->key);
        for (const hs_safetensors_pair *before = metadata; before < pair; before++)
            if (strcmp(before->key, pair->key) == 0)
                return hs_error_set(err, HS_INVALID_ARGUMENT, "metadata '%s' is given twice", pair->key);
        if (!(code = check_text(pair->key, err)) && !(code = check_text(pair->value, err)))
            hs__json_put_text(out, pair->key, pair->value);
    }
    hs__json_close(out, '}');
    return code;
}

static hs_code put_entry(hs__json_writer *out, const hs__safetensors_entry *entry, hs_error *err)
{
    hs_code code = check_text(entry->name, err);
    hs__json_open(out, entry->name, '{');
    hs__json_put_text(out, "dtype", hs__safetensors_dtype_name(entry->dtype));
    hs__json_open(out, "shape", '[');
    for (int32_t i = 0; i < entry->shape.rank; i++)
        hs__json_put_int(out, NULL, entry->shape.dims[i]);
    hs__json_close(out, ']');
    hs__json_open(out, "data_offsets", '[');
    hs__json_put_int(out, NULL, (int64_t)entry->offset);
    hs__json_put_int(out, NULL, (int64_t)(entry->offset + entry->bytes));
    hs__json_close(out, ']');
    hs__json_close(out, '}');
    return code;
}

hs_code hs__safetensors_header_text(const hs__safetensors_header *header, const hs_safetensors_pair *metadata,
                                    hs__buffer *out, hs_error *err)
{
    hs__json_writer json = {.put = hs__buffer_put, .to = out, .compact = true};
    hs__json_open(&json, NULL, '{');
    hs_code code = metadata && metadata->key ? put_metadata(&json, metadata, err) : HS_OK;
    for (size_t i = 0; !code && i < header->n; i++)
        code = put_entry(&json, &header->entries[i], err);
    hs__json_close(&json, '}');
    return code ? code : hs__buffer_check(out, "a safetensors header", err);
}

/* Reading. */

/* The header that is parsed. `data_bytes` is the size of the data in the file, `path` is for messages. */
typedef struct {
    hs__safetensors_header *header;
    const char *path;
    uint64_t data_bytes;
    hs__buffer text; /* a string of the header as C text */
} parsing;

/* Returns the string as C text, valid until the next call. NULL: out of memory. */
static const char *text_of(parsing *p, hs__json_value string, hs_error *err)
{
    hs__buffer_clear(&p->text);
    char *text = (char *)hs__buffer_room(&p->text, string.bytes);
    if (text)
        hs__json_copy(string, text);
    else
        hs__no_memory(err, string.bytes, p->path);
    return text;
}

/* Sets the entry's dtype. *bits is the size of an element; 0: unknown. */
static hs_code parse_dtype(parsing *p, hs__safetensors_entry *entry, hs__json_value name, unsigned *bits, hs_error *err)
{
    *bits = 0;
    for (size_t i = 0; i < N_DTYPES; i++)
        if (hs__json_equals(name, dtypes[i].name)) {
            entry->dtype = dtypes[i].dtype;
            entry->dtype_name = dtypes[i].name;
            *bits = dtypes[i].bits;
            return HS_OK;
        }
    char quoted[32];
    const char *text = text_of(p, name, err);
    if (text && hs__is_dtype_name(text)) { /* it is not that dtype */
        hs__snprintf(quoted, sizeof quoted, "'%s'", text);
        text = quoted;
    }
    return text ? hs__map_add(&p->header->dtypes, text, 0, &entry->dtype_name, err) : HS_RESOURCE_EXHAUSTED;
}

/* Sets the entry's shape, of rank -1 if this library does not support it. */
static hs_code parse_shape(const parsing *p, hs__safetensors_entry *entry, hs__json_value dims, uint64_t *elements,
                           hs_error *err)
{
    bool is_empty = false, overflows = false, is_supported = true;
    hs__json_item dim = {.value = {NULL, 0}};
    *elements = 1;
    while (hs__json_next(dims, &dim)) {
        uint64_t size;
        if (!hs__json_uint64(dim.value, &size))
            return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has an invalid dimension", p->path, entry->name);
        is_empty |= size == 0;
        overflows |= size && __builtin_mul_overflow(*elements, size, elements);
        is_supported = is_supported && size <= INT64_MAX && entry->shape.rank < HS_MAX_RANK;
        if (is_supported)
            entry->shape.dims[entry->shape.rank++] = (int64_t)size;
    }
    if (is_empty)
        *elements = 0;
    else if (overflows)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has an invalid shape", p->path, entry->name);
    if (!is_supported)
        entry->shape = HS_ANY_SHAPE;
    return HS_OK;
}

static hs_code parse_offsets(const parsing *p, hs__safetensors_entry *entry, hs__json_value offsets, hs_error *err)
{
    hs__json_item offset = {.value = {NULL, 0}};
    uint64_t at[2] = {0, 0};
    size_t n = 0;
    bool good = true;
    for (; good && hs__json_next(offsets, &offset); n++)
        good = n < 2 && hs__json_uint64(offset.value, &at[n]);
    if (!good || n != 2 || at[1] < at[0])
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has invalid data_offsets", p->path, entry->name);
    if (at[1] > p->data_bytes)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has bytes %llu to %llu of %llu: the file is truncated or damaged",
                            p->path, entry->name, (unsigned long long)at[0], (unsigned long long)at[1],
                            (unsigned long long)p->data_bytes);
    entry->offset = at[0];
    entry->bytes = at[1] - at[0];
    return HS_OK;
}

static hs_code check_size(const parsing *p, const hs__safetensors_entry *entry, uint64_t elements, unsigned bits,
                          hs_error *err)
{
    uint64_t bytes, rest = elements % 8 * bits;
    if (__builtin_mul_overflow(elements / 8, (uint64_t)bits, &bytes) || bytes > INT64_MAX - rest || rest % 8)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has an invalid shape", p->path, entry->name);
    bytes += rest / 8;
    if (entry->bytes != bytes)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has %llu bytes, but its dtype and shape need %llu", p->path,
                            entry->name, (unsigned long long)entry->bytes, (unsigned long long)bytes);
    return HS_OK;
}

/* Unknown members of an entry are ignored, as the format may get more. */
static hs_code parse_entry(parsing *p, hs__safetensors_entry *entry, hs__json_value object, hs_error *err)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    hs__json_value values[3] = {{NULL, 0}};
    hs__json_item member = {.value = {NULL, 0}};
    uint64_t elements;
    unsigned bits;
    hs_code code;
    while (hs__json_next(object, &member))
        for (int i = 0; i < 3; i++) {
            if (!hs__json_equals(member.name, names[i]))
                continue;
            if (values[i].text)
                return hs_error_set(err, HS_DATA_LOSS, "%s: the entry of '%s' has '%s' twice", p->path, entry->name,
                                    names[i]);
            values[i] = member.value;
        }
    if (!hs__json_is(values[0], '"') || !hs__json_is(values[1], '[') || !hs__json_is(values[2], '['))
        return hs_error_set(err, HS_DATA_LOSS, "%s: the entry of '%s' must have a dtype, a shape and data_offsets", p->path,
                            entry->name);
    if ((code = parse_dtype(p, entry, values[0], &bits, err)) ||
        (code = parse_shape(p, entry, values[1], &elements, err)) || (code = parse_offsets(p, entry, values[2], err)))
        return code;
    return bits ? check_size(p, entry, elements, bits, err) : HS_OK;
}

/* The library does not use the metadata, but checks that it is valid. */
static hs_code check_metadata(const parsing *p, hs__json_value metadata, hs_error *err)
{
    hs__json_item pair = {.value = {NULL, 0}};
    bool good = hs__json_is(metadata, '{') || hs__json_is(metadata, 'n');
    while (good && hs__json_next(metadata, &pair))
        good = hs__json_is(pair.value, '"');
    return good ? HS_OK
                : hs_error_set(err, HS_DATA_LOSS, "%s: " HS__SAFETENSORS_METADATA " must contain strings only", p->path);
}

static hs_code parse_entries(parsing *p, hs__json_value root, hs_error *err)
{
    hs__safetensors_header *header = p->header;
    hs__json_item member = {.value = {NULL, 0}};
    bool has_metadata = false;
    hs_code code = HS_OK;
    while (!code && hs__json_next(root, &member)) {
        hs__safetensors_entry entry = {.dtype = HS_DTYPE_NONE};
        const char *name = text_of(p, member.name, err);
        bool is_metadata = name && strcmp(name, HS__SAFETENSORS_METADATA) == 0;
        if (!name)
            return HS_RESOURCE_EXHAUSTED;
        if (is_metadata ? has_metadata : hs__map_find(&header->names, name) != HS__NONE)
            return hs_error_set(err, HS_DATA_LOSS, "%s: the header has '%s' twice", p->path, name);
        has_metadata |= is_metadata;
        if (is_metadata)
            code = check_metadata(p, member.value, err);
        else if (!(code = hs__map_add(&header->names, name, header->n, &entry.name, err)) &&
                 !(code = parse_entry(p, &entry, member.value, err)) &&
                 !(code = hs__reserve(header->env, &header->entries, &header->capacity, header->n + 1, sizeof entry, err)))
            header->entries[header->n++] = entry;
    }
    return code;
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
static hs_code check_coverage(const parsing *p, hs_error *err)
{
    uint64_t at = 0;
    for (size_t i = 0; i < p->header->n; i++) {
        const hs__safetensors_entry *entry = &p->header->entries[i];
        if (entry->offset < at)
            return hs_error_set(err, HS_DATA_LOSS, "%s: the data of '%s' and '%s' overlap", p->path, entry[-1].name,
                                entry->name);
        if (entry->offset > at)
            return hs_error_set(err, HS_DATA_LOSS, "%s: %llu bytes before the data of '%s' belong to no tensor", p->path,
                                (unsigned long long)(entry->offset - at), entry->name);
        at += entry->bytes;
    }
    if (at != p->data_bytes)
        return hs_error_set(err, HS_DATA_LOSS, "%s: the last %llu bytes belong to no tensor", p->path,
                            (unsigned long long)(p->data_bytes - at));
    return HS_OK;
}

hs_code hs__safetensors_header_parse(hs__safetensors_header *header, hs_bytes text, uint64_t data_bytes, const char *path,
                                     hs_error *err)
{
    parsing p = {.header = header, .path = path, .data_bytes = data_bytes};
    hs__json_value root;
    hs__json_fault fault;
    const char *at = text.data, *end = at + text.size;
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    if (at == end || *at != '{')
        return hs_error_set(err, HS_DATA_LOSS, "%s: not a safetensors file: the header does not begin with '{'", path);
    if (!hs__json_check(text.data, text.size, &root, &fault))
        return hs_error_set(err, HS_DATA_LOSS, "%s: the header cannot be read as JSON: %s (byte %zu)", path, fault.what,
                            fault.at);
    hs__buffer_init(&p.text, header->env);
    hs_code code = parse_entries(&p, root, err);
    hs__buffer_free(&p.text);
    if (code)
        return code;
    if (header->n)
        qsort(header->entries, header->n, sizeof *header->entries, by_offset);
    for (size_t i = 0; i < header->n; i++)
        hs__map_set(&header->names, header->entries[i].name, i);
    return check_coverage(&p, err);
}
