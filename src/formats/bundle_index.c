/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the index of a bundle, a table whose first key is empty and has the header: parsing one entry, filling a reader
 * (hs__bundle_read_index), and verifying an index that was read before. */
#include "formats/bundle_data.h"

#include "bundle.pb-c.h"

#include "base/proto.h"
#include "formats/bundle_slices.h"
#include "formats/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The format version of this reader, and the oldest version that it reads. */
enum { VERSION = 1, OLDEST_PRODUCER = 0 };
enum { MAX_INDEX_BYTES = 1 << 30 };
/* TensorFlow's limit for a tensor. Above HS_MAX_RANK a tensor is not supported; above this limit the file is damaged. */
enum { MAX_DIMS = 254 };

static hs_code check_header(const Hs__Pb__BundleHeaderProto *header, const char *path, hs_error *err)
{
    int producer = header->version ? header->version->producer : 0;
    int min_consumer = header->version ? header->version->min_consumer : 0;
    if (min_consumer > VERSION)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: requires a reader of version %d or later; this is version %d",
                            path, min_consumer, VERSION);
    if (producer < OLDEST_PRODUCER)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: was written by version %d; the oldest supported version is %d",
                            path, producer, OLDEST_PRODUCER);
    for (size_t i = 0; header->version && i < header->version->n_bad_consumers; i++)
        if (header->version->bad_consumers[i] == VERSION)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: must not be read by readers of version %d", path, VERSION);
    if (header->endianness != HS__PB__BUNDLE_HEADER_PROTO__ENDIANNESS__LITTLE &&
        header->endianness != HS__PB__BUNDLE_HEADER_PROTO__ENDIANNESS__BIG)
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: byte order %d is not supported", path, (int)header->endianness);
    if (header->num_shards < 1)
        return hs_error_set(err, HS_DATA_LOSS, "%s: the number of data files is %d", path, (int)header->num_shards);
    return HS_OK;
}

char *hs__bundle_index_path(const hs_env *env, const char *prefix)
{
    return hs__format(env, "%s.index", prefix);
}

bool hs__bundle_is_v1(const hs_env *env, const char *prefix)
{
    char *path = hs__strdup(env, prefix), *shard = path ? strstr(path, "-\?\?\?\?\?-of-") : NULL;
    if (shard)
        memcpy(shard, "-00000", 6);
    bool is_v1 = path && !strstr(hs__path_base(path), ".index") && hs__ends_as_table(env, path);
    hs__free(env, path);
    return is_v1;
}

/* Reads the file. The caller frees the data with hs__free. */
static hs_code read_index_file(const hs_env *env, const char *path, char **data, size_t *bytes, hs_error *err)
{
    hs_code code = hs__file_contents(env, path, MAX_INDEX_BYTES, data, bytes, err);
    char *prefix = code == HS_NOT_FOUND ? hs__strndup(env, path, strlen(path) - strlen(".index")) : NULL;
    if (prefix && hs__bundle_is_v1(env, prefix))
        code = hs_error_set(err, HS_UNIMPLEMENTED,
                            "'%s' is a checkpoint in format V1 of TensorFlow, which is not supported; restore it with "
                            "TensorFlow's Saver, and save it in format V2",
                            prefix);
    hs__free(env, prefix);
    return code;
}

/* Entries. */

enum { ENTRY_SHAPE = 2, ENTRY_SLICES = 7, SHAPE_DIM = 2, SLICE_EXTENT = 1 };

static bool count_fields(hs__wire from, uint64_t wanted, size_t *n)
{
    uint64_t number;
    hs__wire inside;
    while (from.at < from.end) {
        if (!hs__wire_next(&from, &number, &inside))
            return false;
        *n += number == wanted;
    }
    return true;
}

/* Counts the dimensions of an entry's shape and of each of its slices. `most` gets the largest number. */
static bool count_dims(hs_bytes value, size_t *most)
{
    hs__wire from = {value.data, (const unsigned char *)value.data + value.size}, inside;
    uint64_t number;
    *most = 0;
    while (from.at < from.end) {
        size_t dims = 0;
        if (!hs__wire_next(&from, &number, &inside) || (number == ENTRY_SHAPE && !count_fields(inside, SHAPE_DIM, &dims)) ||
            (number == ENTRY_SLICES && !count_fields(inside, SLICE_EXTENT, &dims)))
            return false;
        *most = dims > *most ? dims : *most;
    }
    return true;
}

static hs_code no_entry(const char *path, hs_bytes key, hs_error *err)
{
    return hs_error_set(err, HS_DATA_LOSS, "%s: cannot read the entry of '%.*s'", path, (int)key.size,
                        (const char *)key.data);
}

/* The caller frees the entry with protobuf_c_message_free_unpacked. */
static hs_code unpack_entry(const hs_env *env, const char *path, hs_bytes key, hs_bytes value,
                            Hs__Pb__BundleEntryProto **entry, hs_error *err)
{
    bool no_memory;
    size_t dims;
    *entry = NULL;
    if (!count_dims(value, &dims))
        return no_entry(path, key, err);
    if (dims > MAX_DIMS) /* an unpacked dimension takes many times its bytes */
        return hs_error_set(err, HS_DATA_LOSS, "%s: the entry of '%.*s' has %zu dimensions; the maximum is %d", path,
                            (int)key.size, (const char *)key.data, dims, MAX_DIMS);
    *entry = (Hs__Pb__BundleEntryProto *)hs__proto_unpack(&hs__pb__bundle_entry_proto__descriptor, env, value.data,
                                                          value.size, &no_memory);
    if (*entry)
        return HS_OK;
    return no_memory ? hs__no_memory(err, value.size, path) : no_entry(path, key, err);
}

/* Filling a reader. */

static hs__bundle_entry entry_of(const Hs__Pb__BundleEntryProto *proto)
{
    const Hs__Pb__TensorShapeProto *shape = proto->shape;
    hs__bundle_entry entry = {
        .dtype = (int32_t)proto->dtype,
        .shard = proto->shard_id,
        .shape = HS_SCALAR,
        .offset = (uint64_t)proto->offset,
        .bytes = (uint64_t)proto->size,
        .crc = proto->crc32c,
        .slices = proto->n_slices,
    };
    if (shape && (shape->unknown_rank || shape->n_dim > HS_MAX_RANK)) {
        entry.shape = HS_ANY_SHAPE; /* not supported */
    } else if (shape) {
        entry.shape.rank = (int32_t)shape->n_dim;
        for (size_t i = 0; i < shape->n_dim; i++)
            entry.shape.dims[i] = shape->dim[i]->size;
    }
    return entry;
}

static hs_code check_place(const Hs__Pb__BundleEntryProto *entry, const char *path, const char *name, int32_t shards,
                           hs_error *err)
{
    if (entry->offset >= 0 && entry->size >= 0 && entry->shard_id >= 0 && entry->shard_id < shards)
        return HS_OK;
    return hs_error_set(err, HS_DATA_LOSS, "%s: the entry of '%s' is invalid: data file %d of %d, %lld bytes at %lld", path,
                        name, (int)entry->shard_id, (int)shards, (long long)entry->size, (long long)entry->offset);
}

/* The first pass over an index reads the tensors. If some are stored in slices, a second pass reads these: their keys come
 * before all names, and a slice is added only if its tensor is known. */
typedef struct filling {
    hs__bundle_reader *reader;
    const char *path;
    hs_code (*entry)(struct filling *f, hs_bytes key, hs_bytes value, hs_error *err); /* of this pass */
    bool has_header;
    bool any_slices; /* a tensor is stored in slices */
    size_t next;     /* index of the next entry, or of the next slice when verifying */
} filling;

static bool is_slice_key(hs_bytes key)
{
    return *(const char *)key.data == '\0';
}

static hs_code add_tensor(filling *f, hs_bytes key, const Hs__Pb__BundleEntryProto *proto, hs_error *err)
{
    hs__bundle_reader *reader = f->reader;
    hs__bundle_entry entry = entry_of(proto);
    hs_code code = HS_OK;
    char *name = hs__strndup(reader->env, key.data, key.size);
    if (!name)
        return hs__no_memory(err, key.size, "a name");
    if (strlen(name) != key.size)
        code = hs_error_set(err, HS_DATA_LOSS, "%s: a name contains a zero byte", f->path);
    if (!code)
        code = check_place(proto, f->path, name, reader->shards, err);
    if (!code)
        code =
            hs__reserve(reader->env, &reader->entries, &reader->entries_capacity, reader->n_entries + 1, sizeof entry, err);
    if (!code && !hs__dtype_valid(entry.dtype)) {
        char number[16];
        snprintf(number, sizeof number, "%d", (int)entry.dtype);
        code = hs__map_add(&reader->dtypes, number, 0, &entry.dtype_name, err);
    }
    if (!code)
        code = hs__map_add(&reader->names, name, reader->n_entries, &entry.name, err);
    if (!code)
        reader->entries[reader->n_entries++] = entry;
    f->any_slices |= entry.slices > 0;
    hs__free(reader->env, name);
    return code;
}

static hs_code read_entry(filling *f, hs_bytes key, hs_bytes value, hs_error *err)
{
    Hs__Pb__BundleEntryProto *proto;
    ProtobufCAllocator allocator = hs__proto_allocator(f->reader->env);
    if (is_slice_key(key))
        return HS_OK;
    hs_code code = unpack_entry(f->reader->env, f->path, key, value, &proto, err);
    if (code)
        return code;
    code = add_tensor(f, key, proto, err);
    protobuf_c_message_free_unpacked(&proto->base, &allocator);
    return code;
}

static hs_code read_slice_or_list(filling *f, hs_bytes key, hs_bytes value, hs_error *err)
{
    Hs__Pb__BundleEntryProto *proto;
    bool of_slice = is_slice_key(key);
    ProtobufCAllocator allocator = hs__proto_allocator(f->reader->env);
    hs__bundle_entry *entry = of_slice ? NULL : &f->reader->entries[f->next++];
    if (entry && !entry->slices)
        return HS_OK;
    hs_code code = unpack_entry(f->reader->env, f->path, key, value, &proto, err);
    if (code == HS_DATA_LOSS && of_slice) {
        hs__clear(err); /* reading its tensor will report it as missing; other tensors can be read */
        return HS_OK;
    }
    if (code)
        return code;
    hs__bundle_entry slice = entry_of(proto);
    code =
        of_slice ? hs__bundle_add_slice(f->reader, key, &slice, err) : hs__bundle_list_slices(f->reader, entry, proto, err);
    protobuf_c_message_free_unpacked(&proto->base, &allocator);
    return code;
}

static hs_code read_header(filling *f, hs_bytes value, hs_error *err)
{
    bool no_memory;
    ProtobufCAllocator allocator = hs__proto_allocator(f->reader->env);
    ProtobufCMessage *message =
        hs__proto_unpack(&hs__pb__bundle_header_proto__descriptor, f->reader->env, value.data, value.size, &no_memory);
    const Hs__Pb__BundleHeaderProto *header = (const Hs__Pb__BundleHeaderProto *)message;
    if (!header)
        return no_memory ? hs__no_memory(err, value.size, f->path)
                         : hs_error_set(err, HS_DATA_LOSS, "%s: cannot read the header", f->path);
    hs_code code = check_header(header, f->path, err);
    f->reader->shards = header->num_shards;
    f->reader->big_endian = header->endianness == HS__PB__BUNDLE_HEADER_PROTO__ENDIANNESS__BIG;
    f->has_header = true;
    protobuf_c_message_free_unpacked(message, &allocator);
    return code;
}

static hs_code read_key(void *user, hs_bytes key, hs_bytes value, hs_error *err)
{
    filling *f = user;
    if (key.size && !f->has_header)
        return hs_error_set(err, HS_DATA_LOSS, "%s: has no header", f->path);
    return key.size ? f->entry(f, key, value, err) : read_header(f, value, err);
}

static hs_code read_table(filling *f, hs_bytes table, hs_error *err)
{
    hs_code code = hs__table_read(f->reader->env, table, f->path, read_key, f, err);
    return code || f->has_header ? code : hs_error_set(err, HS_DATA_LOSS, "%s: has no header", f->path);
}

/* The data of a tensor or of a slice. */
typedef struct {
    const hs__bundle_entry *entry;
    const hs__box *box; /* of a slice; NULL for a tensor */
} extent;

static int by_place(const void *a, const void *b)
{
    return hs__bundle_compare_places(((const extent *)a)->entry, ((const extent *)b)->entry);
}

/* Checks that no byte belongs to two tensors or slices, so that their sizes add up to at most the data files'. Empty ones
 * may have any offset. */
static hs_code check_extents(const hs__bundle_reader *reader, const char *path, hs_error *err)
{
    size_t n = 0, room = reader->n_entries + reader->n_slices;
    extent *extents = hs__alloc(reader->env, room, sizeof *extents);
    if (!extents)
        return hs__no_memory(err, room * sizeof *extents, path);
    for (size_t i = 0; i < reader->n_entries; i++)
        if (!reader->entries[i].slices && reader->entries[i].bytes)
            extents[n++] = (extent){&reader->entries[i], NULL};
    for (size_t i = 0; i < reader->n_slices; i++)
        if (reader->slices[i].entry.bytes)
            extents[n++] = (extent){&reader->slices[i].entry, &reader->slices[i].box};
    qsort(extents, n, sizeof *extents, by_place);
    hs_code code = HS_OK;
    for (size_t i = 1; i < n && !code; i++) {
        const extent *a = &extents[i - 1], *b = &extents[i];
        char first[HS__BOX_TEXT_SIZE] = "", second[HS__BOX_TEXT_SIZE] = "";
        if (a->entry->shard != b->entry->shard || b->entry->offset - a->entry->offset >= a->entry->bytes)
            continue;
        code = hs_error_set(err, HS_DATA_LOSS, "%s: the data of '%s'%s and '%s'%s overlap", path, a->entry->name,
                            a->box ? hs__box_text(a->box, first, sizeof first) : "", b->entry->name,
                            b->box ? hs__box_text(b->box, second, sizeof second) : "");
    }
    hs__free(reader->env, extents);
    return code;
}

static hs_code fill(hs__bundle_reader *reader, const char *path, hs_bytes table, hs_error *err)
{
    filling f = {.reader = reader, .path = path, .entry = read_entry};
    hs_code code = read_table(&f, table, err);
    f.entry = read_slice_or_list;
    if (!code && f.any_slices)
        code = read_table(&f, table, err);
    return code ? code : check_extents(reader, path, err);
}

/* Reads the index file. The caller frees the table's data and the path with hs__free. Both are NULL after a failure. */
static hs_code load(const hs__bundle_reader *reader, char **path, hs_bytes *table, hs_error *err)
{
    char *data = NULL;
    *table = (hs_bytes){NULL, 0};
    *path = hs__bundle_index_path(reader->env, reader->prefix);
    if (!*path)
        return hs__no_memory(err, strlen(reader->prefix), "a path");
    hs_code code = read_index_file(reader->env, *path, &data, &table->size, err);
    table->data = data;
    if (code) {
        hs__free(reader->env, *path);
        *path = NULL;
    }
    return code;
}

hs_code hs__bundle_read_index(hs__bundle_reader *reader, hs_error *err)
{
    char *path;
    hs_bytes table;
    hs_code code = load(reader, &path, &table, err);
    if (code)
        return code;
    code = fill(reader, path, table, err);
    hs__free(reader->env, (void *)table.data);
    hs__free(reader->env, path);
    return code;
}

/* Verifying. */

static hs_code check_key(void *user, hs_bytes key, hs_bytes value, hs_error *err)
{
    filling *f = user;
    (void)value;
    return key.size && is_slice_key(key) ? hs__bundle_check_slice(f->reader, key, &f->next, err) : HS_OK;
}

/* Fills another reader from the index, and checks with it that each slice belongs to a tensor. The checksum of any other
 * slice would never be verified. */
hs_code hs__bundle_verify_index(const hs__bundle_reader *reader, hs_error *err)
{
    char *path;
    hs_bytes table;
    hs__bundle_reader again;
    hs_code code = load(reader, &path, &table, err);
    if (code)
        return code;
    if (!(code = hs__table_verify(reader->env, table, path, err))) {
        filling f = {.reader = &again, .path = path};
        code = hs__bundle_reader_init(&again, reader->env, reader->prefix, err);
        if (!code && !(code = fill(&again, path, table, err)))
            code = hs__table_read(reader->env, table, path, check_key, &f, err);
        hs__bundle_reader_close(&again);
    }
    hs__free(reader->env, (void *)table.data);
    hs__free(reader->env, path);
    return code;
}
