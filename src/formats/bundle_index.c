/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a bundle: reads its index, a table whose first key is empty and has the header. The keys of slices come before
 * all names, but a slice is added only if its tensor is known. So a first pass over the table reads the tensors
 * (read_tensor). If some are stored in slices, a second pass reads these (read_slices). */
#include "formats/bundle_data.h"

#include "bundle.pb-c.h"

#include "base/proto.h"
#include "base/wire_read.h"
#include "formats/slice_key.h"
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

/* Entries. */

/* Reads the dimensions of a shape, whose sizes become `starts`, or those of a slice: the messages in the field `number`.
 * Rank -1: not supported. `*most` becomes their number, if it is larger. May be NULL. */
static bool read_dims(hs_bytes message, uint64_t number, hs__box *box, size_t *most)
{
    const bool is_shape = number == HS__SHAPE_DIM;
    const int types[] = {HS__WIRE_VARINT, is_shape ? HS__WIRE_BYTES : HS__WIRE_VARINT}; /* size, name; start, length */
    hs__fields from = hs__fields_of(message);
    hs__field dim, part;
    bool unknown_rank = false;
    size_t n = 0;
    *box = (hs__box){.rank = 0};
    while (hs__fields_next(&from, &dim)) {
        int64_t numbers[3] = {0, 0, -1};
        if (is_shape && dim.number == HS__SHAPE_UNKNOWN_RANK) {
            if (dim.type != HS__WIRE_VARINT)
                return false;
            unknown_rank |= dim.value != 0;
        }
        if (dim.number != number)
            continue;
        if (dim.type != HS__WIRE_BYTES)
            return false;
        hs__fields parts = hs__fields_of(dim.bytes);
        while (hs__fields_next(&parts, &part)) {
            if (part.number > 2)
                continue;
            if (part.type != types[part.number - 1])
                return false;
            numbers[part.number] = (int64_t)part.value;
        }
        from.failed |= parts.failed;
        if (n < HS_MAX_RANK) {
            box->starts[n] = numbers[1];
            box->lengths[n] = numbers[2];
        }
        n++;
    }
    box->rank = unknown_rank || n > HS_MAX_RANK ? -1 : (int32_t)n;
    if (most && n > *most)
        *most = n;
    return !from.failed;
}

/* Reads an entry, which has one shape at most, and fields of the format's wire types. `*dims` becomes the largest number of
 * dimensions in it. */
static bool read_entry(hs_bytes value, hs__bundle_entry *entry, size_t *dims)
{
    static const int types[] = {
        [HS__ENTRY_DTYPE] = HS__WIRE_VARINT,  [HS__ENTRY_SHAPE] = HS__WIRE_BYTES, [HS__ENTRY_SHARD] = HS__WIRE_VARINT,
        [HS__ENTRY_OFFSET] = HS__WIRE_VARINT, [HS__ENTRY_SIZE] = HS__WIRE_VARINT, [HS__ENTRY_CRC] = HS__WIRE_FIXED32,
        [HS__ENTRY_SLICES] = HS__WIRE_BYTES};
    hs__fields from = hs__fields_of(value);
    hs__field field;
    hs__box box;
    uint64_t numbers[HS__ENTRY_SLICES] = {0};
    size_t shapes = 0;
    *entry = (hs__bundle_entry){.shape = HS_SCALAR};
    *dims = 0;
    while (hs__fields_next(&from, &field)) {
        if (field.number > HS__ENTRY_SLICES)
            continue;
        if (field.type != types[field.number])
            return false;
        const bool is_shape = field.number == HS__ENTRY_SHAPE, is_slice = field.number == HS__ENTRY_SLICES;
        if (is_shape || is_slice) {
            if (!read_dims(field.bytes, is_shape ? HS__SHAPE_DIM : HS__SLICE_EXTENT, &box, dims) || (is_shape && shapes++))
                return false;
            entry->slices += is_slice;
            if (is_shape)
                entry->shape = hs_shape_of(box.rank, box.starts);
        } else {
            numbers[field.number] = field.value;
        }
    }
    entry->dtype = (int32_t)numbers[HS__ENTRY_DTYPE];
    entry->shard = (int32_t)numbers[HS__ENTRY_SHARD];
    entry->offset = numbers[HS__ENTRY_OFFSET];
    entry->bytes = numbers[HS__ENTRY_SIZE];
    entry->crc = (uint32_t)numbers[HS__ENTRY_CRC];
    return !from.failed;
}

/* Filling a reader. */

typedef struct filling {
    hs__bundle_reader *reader;
    const char *path;
    hs_code (*entry)(struct filling *f, hs_bytes key, hs_bytes value, hs_error *err); /* of this pass */
    bool verify; /* a slice that no tensor has, and would be ignored, is an error */
    bool has_header;
    bool any_slices; /* a tensor is stored in slices */
    size_t next;     /* of the second pass: index of the next tensor */
} filling;

static bool is_slice_key(hs_bytes key)
{
    return *(const char *)key.data == '\0';
}

static hs_code read_tensor(filling *f, hs_bytes key, hs_bytes value, hs_error *err)
{
    hs__bundle_reader *reader = f->reader;
    hs__bundle_entry entry;
    size_t dims;
    if (is_slice_key(key))
        return HS_OK;
    if (!read_entry(value, &entry, &dims))
        return hs_error_set(err, HS_DATA_LOSS, "%s: cannot read the entry of '%.*s'", f->path, (int)key.size,
                            (const char *)key.data);
    if (dims > MAX_DIMS)
        return hs_error_set(err, HS_DATA_LOSS, "%s: the entry of '%.*s' has %zu dimensions; the maximum is %d", f->path,
                            (int)key.size, (const char *)key.data, dims, MAX_DIMS);
    if (memchr(key.data, '\0', key.size))
        return hs_error_set(err, HS_DATA_LOSS, "%s: a name contains a zero byte", f->path);
    if (entry.offset > INT64_MAX || entry.bytes > INT64_MAX || entry.shard < 0 || entry.shard >= reader->shards)
        return hs_error_set(err, HS_DATA_LOSS, "%s: the entry of '%.*s' is invalid: data file %d of %d, %lld bytes at %lld",
                            f->path, (int)key.size, (const char *)key.data, (int)entry.shard, (int)reader->shards,
                            (long long)entry.bytes, (long long)entry.offset);
    hs_code code =
        hs__reserve(reader->env, &reader->entries, &reader->entries_capacity, reader->n_entries + 1, sizeof entry, err);
    if (!code && !hs__dtype_valid(entry.dtype)) {
        char number[16];
        snprintf(number, sizeof number, "%d", (int)entry.dtype);
        code = hs__map_add(&reader->dtypes, number, 0, &entry.dtype_name, err);
    }
    if (!code)
        code = hs__map_add_bytes(&reader->names, key.data, key.size, reader->n_entries, &entry.name, err);
    if (!code)
        reader->entries[reader->n_entries++] = entry;
    f->any_slices |= entry.slices > 0;
    return code;
}

static const char *key_text(hs_bytes key, char *text, size_t room)
{
    const unsigned char *at = key.data;
    size_t used = 0;
    for (size_t i = 0; i < key.size && used + 5 < room; i++)
        used += (size_t)snprintf(text + used, room - used, at[i] >= ' ' && at[i] < 127 ? "%c" : "\\x%02x", at[i]);
    text[used] = '\0';
    return text;
}

/* Adds a slice. One that cannot be read is ignored: reading its tensor will report it as missing, and other tensors can be
 * read. So are the slices of unknown tensors. */
static hs_code add_slice(filling *f, hs_bytes key, hs_bytes value, hs_error *err)
{
    hs__bundle_reader *reader = f->reader;
    hs__bundle_slice slice = {.listed = false};
    size_t dims;
    char *name, text[200];
    bool no_memory, is_good = read_entry(value, &slice.entry, &dims) && dims <= MAX_DIMS;
    if (!hs__slice_key_get(reader->env, key, &name, &slice.box, &no_memory)) {
        if (no_memory)
            return hs__no_memory(err, key.size, "a name");
        return f->verify ? hs_error_set(err, HS_DATA_LOSS, "%s: the key '%s' is neither a tensor nor a slice",
                                        reader->prefix, key_text(key, text, sizeof text))
                         : HS_OK;
    }
    hs_code code = HS_OK;
    const hs__bundle_entry *of = hs__bundle_find(reader, name);
    const hs__bundle_slice *last = reader->n_slices ? &reader->slices[reader->n_slices - 1] : NULL;
    if (last && strcmp(last->entry.name, name) != 0)
        last = NULL;
    is_good = is_good && of && of->slices && (!last || hs__box_order(&last->box, &slice.box) < 0);
    if (!is_good && f->verify) {
        slice.entry.name = name;
        code = hs__bundle_slice_damage(reader, &slice,
                                       !of          ? "belongs to a tensor that does not exist"
                                       : of->slices ? "cannot be read, or is not in order"
                                                    : "belongs to a tensor that is not stored in slices",
                                       err);
    } else if (is_good) {
        slice.entry.name = last ? last->entry.name : NULL;
        if (!last)
            code = hs__map_add(&reader->sliced, name, reader->n_slices, &slice.entry.name, err);
        if (!code)
            code = hs__reserve(reader->env, &reader->slices, &reader->slices_capacity, reader->n_slices + 1, sizeof slice,
                               err);
        if (!code)
            reader->slices[reader->n_slices++] = slice;
    }
    hs__free(reader->env, name);
    return code;
}

/* Of a slice, adds it. Of a tensor, finds the slices that it lists. */
static hs_code read_slices(filling *f, hs_bytes key, hs_bytes value, hs_error *err)
{
    hs__bundle_reader *reader = f->reader;
    if (is_slice_key(key))
        return add_slice(f, key, value, err);
    hs__bundle_entry *entry = &reader->entries[f->next++];
    if (!entry->slices)
        return HS_OK;
    hs__fields from = hs__fields_of(value);
    hs__field field;
    size_t n;
    hs__bundle_slice *slices = hs__bundle_slices_of(reader, entry, &n);
    entry->bytes = entry->dtype == HS_STRING ? 0 : hs_tensor_of((hs_dtype)entry->dtype, entry->shape, NULL).bytes;
    while (!entry->lost && hs__fields_next(&from, &field)) {
        hs__box box;
        if (field.number != HS__ENTRY_SLICES || !read_dims(field.bytes, HS__SLICE_EXTENT, &box, NULL))
            continue;
        hs__bundle_slice *slice = hs__bundle_find_slice(slices, n, &box);
        if (slice && !slice->listed) {
            slice->listed = true;
            continue;
        }
        hs_code code = hs__reserve(reader->env, &reader->lost, &reader->lost_capacity, reader->n_lost + 1, sizeof box, err);
        if (code)
            return code;
        reader->lost[reader->n_lost++] = box;
        entry->lost = reader->n_lost;
    }
    return HS_OK;
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

/* The data of a tensor or of a slice. */
typedef struct {
    const hs__bundle_entry *entry;
    const hs__box *box; /* of a slice; NULL for a tensor */
} extent;

int hs__bundle_by_place(const void *first, const void *second)
{
    const hs__bundle_entry *a = *(const hs__bundle_entry *const *)first, *b = *(const hs__bundle_entry *const *)second;
    if (a->shard != b->shard)
        return (a->shard > b->shard) - (a->shard < b->shard);
    return (a->offset > b->offset) - (a->offset < b->offset);
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
    qsort(extents, n, sizeof *extents, hs__bundle_by_place);
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

static hs_code read_index(hs__bundle_reader *reader, const char *path, hs_bytes table, bool verify, hs_error *err)
{
    filling f = {.reader = reader, .path = path, .entry = read_tensor, .verify = verify};
    hs_code code = hs__table_read(reader->env, table, path, verify, read_key, &f, err);
    if (!code && !f.has_header)
        code = hs_error_set(err, HS_DATA_LOSS, "%s: has no header", path);
    f.entry = read_slices;
    if (!code && (f.any_slices || verify))
        code = hs__table_read(reader->env, table, path, false, read_key, &f, err);
    for (size_t i = 0; !code && verify && i < reader->n_slices; i++)
        if (!reader->slices[i].listed)
            code = hs__bundle_slice_damage(reader, &reader->slices[i], "is not in the tensor's list of slices", err);
    return code ? code : check_extents(reader, path, err);
}

/* Opens a bundle, also to verify its index. */
static hs_code open_reader(hs__bundle_reader *reader, const hs_env *env, const char *prefix, bool verify, hs_error *err)
{
    const size_t length = strlen(prefix);
    char *data = NULL, *path = hs__bundle_index_path(env, prefix);
    hs_bytes table = {NULL, 0};
    *reader = (hs__bundle_reader){.env = env, .file_shard = -1, .file = {.env = env}, .prefix = hs__strdup(env, prefix)};
    hs__map_init(&reader->names, env);
    hs__map_init(&reader->dtypes, env);
    hs__map_init(&reader->sliced, env);
    hs_code code = reader->prefix && path ? hs__file_contents(env, path, MAX_INDEX_BYTES, &data, &table.size, err)
                                          : hs__no_memory(err, length, "a path");
    table.data = data;
    if (!code)
        code = read_index(reader, path, table, verify, err);
    if (code == HS_NOT_FOUND && hs__bundle_is_v1(env, prefix))
        code = hs_error_set(err, HS_UNIMPLEMENTED,
                            "'%s' is a checkpoint in format V1 of TensorFlow, which is not supported; restore it with "
                            "TensorFlow's Saver, and save it in format V2",
                            prefix);
    else if (code == HS_NOT_FOUND &&
             ((length > 6 && strcmp(prefix + length - 6, ".index") == 0) || strstr(hs__path_base(prefix), ".data-")))
        hs_error_prefix(err, "not the prefix of a checkpoint (leave out .index and .data-...)");
    hs__free(env, data);
    hs__free(env, path);
    if (code)
        hs__bundle_reader_close(reader);
    return code;
}

hs_code hs__bundle_reader_open(hs__bundle_reader *reader, const hs_env *env, const char *prefix, hs_error *err)
{
    return open_reader(reader, env, prefix, false, err);
}

void hs__bundle_reader_close(hs__bundle_reader *reader)
{
    hs__bundle_reader_close_file(reader);
    hs__free(reader->env, reader->prefix);
    hs__free(reader->env, reader->entries);
    hs__free(reader->env, reader->slices);
    hs__free(reader->env, reader->lost);
    hs__free(reader->env, reader->placed);
    hs__map_free(&reader->names);
    hs__map_free(&reader->dtypes);
    hs__map_free(&reader->sliced);
    *reader = (hs__bundle_reader){.env = reader->env, .file_shard = -1};
}

const hs__bundle_entry *hs__bundle_find(const hs__bundle_reader *reader, const char *name)
{
    size_t at = hs__map_find(&reader->names, name);
    return at == HS__NONE ? NULL : &reader->entries[at];
}

/* Fills another reader from the index. The checksum of a slice that no tensor has would never be verified, so it is
 * damage. */
hs_code hs__bundle_verify_index(const hs__bundle_reader *reader, hs_error *err)
{
    hs__bundle_reader again;
    hs_code code = open_reader(&again, reader->env, reader->prefix, true, err);
    if (!code)
        hs__bundle_reader_close(&again);
    return code;
}
