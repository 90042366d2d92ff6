/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bundle.h"

#include "bundle.pb-c.h"

#include "base/buffer.h"
#include "base/crc32c.h"
#include "base/proto.h"
#include "formats/table.h"

#include <string.h>

/* The version that this reader is, and the oldest writer that it understands. */
enum { VERSION = 1, OLDEST_PRODUCER = 0 };
enum { MAX_INDEX_BYTES = 1 << 30 };
/* Data are read and checksummed in pieces that stay in the processor's cache. */
enum { PIECE = 1 << 18 };

typedef struct {
    hs__bundle_reader *reader;
    const char *path;
    ProtobufCAllocator allocator;
    bool has_header;
} index_walk;

static hs_code check_header(index_walk *walk, const Hs__Pb__BundleHeaderProto *header, hs_error *err)
{
    int producer = header->version ? header->version->producer : 0;
    int min_consumer = header->version ? header->version->min_consumer : 0;
    if (min_consumer > VERSION)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: needs a reader of version %d or later; this is version %d",
                            walk->path, min_consumer, VERSION);
    if (producer < OLDEST_PRODUCER)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: was written by version %d; the oldest that is understood is %d",
                            walk->path, producer, OLDEST_PRODUCER);
    for (size_t i = 0; header->version && i < header->version->n_bad_consumers; i++)
        if (header->version->bad_consumers[i] == VERSION)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: says that readers of version %d must not read it",
                                walk->path, VERSION);
    if (header->endianness != HS__PB__BUNDLE_HEADER_PROTO__ENDIANNESS__LITTLE)
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: is in big-endian byte order", walk->path);
    if (header->num_shards < 1)
        return hs_error_set(err, HS_DATA_LOSS, "%s: has %d data files", walk->path, (int)header->num_shards);
    walk->reader->shards = header->num_shards;
    walk->has_header = true;
    return HS_OK;
}

/* A rank of -1 where the shape is not one that we can hold. */
static hs_shape take_shape(const Hs__Pb__TensorShapeProto *proto)
{
    hs_shape shape = HS_SCALAR;
    if (!proto)
        return shape;
    if (proto->unknown_rank || proto->n_dim > HS_MAX_RANK)
        return HS_ANY_SHAPE;
    shape.rank = (int32_t)proto->n_dim;
    for (size_t i = 0; i < proto->n_dim; i++)
        shape.dims[i] = proto->dim[i]->size;
    return shape;
}

static hs__bundle_entry entry_of(const Hs__Pb__BundleEntryProto *proto)
{
    return (hs__bundle_entry){
        .dtype = (int32_t)proto->dtype,
        .shard = proto->shard_id,
        .shape = take_shape(proto->shape),
        .offset = (uint64_t)proto->offset,
        .bytes = (uint64_t)proto->size,
        .crc = proto->crc32c,
        .slices = proto->n_slices,
    };
}

static hs_code add_entry(index_walk *walk, hs_bytes key, const Hs__Pb__BundleEntryProto *proto, hs_error *err)
{
    hs__bundle_reader *reader = walk->reader;
    char *name = hs__strndup(reader->env, key.data, key.size);
    if (!name)
        return hs__no_memory(err, key.size, "a name");
    hs_code code = HS_OK;
    hs__bundle_entry entry = entry_of(proto);
    if (strlen(name) != key.size)
        code = hs_error_set(err, HS_DATA_LOSS, "%s: a name has a zero byte in it", walk->path);
    else if (proto->offset < 0 || proto->size < 0 || proto->shard_id < 0 || proto->shard_id >= reader->shards)
        code =
            hs_error_set(err, HS_DATA_LOSS, "%s: '%s' is said to be in data file %d of %d, %lld bytes at %lld", walk->path,
                         name, (int)proto->shard_id, (int)reader->shards, (long long)proto->size, (long long)proto->offset);
    else if (!(code = hs__reserve(reader->env, &reader->entries, &reader->entries_capacity, reader->n_entries + 1,
                                  sizeof entry, err)) &&
             !(code = hs__map_add(&reader->names, name, reader->n_entries, &entry.name, err)))
        reader->entries[reader->n_entries++] = entry;
    hs__free(reader->env, name);
    return code;
}

static hs_code visit_header(index_walk *walk, hs_bytes value, hs_error *err)
{
    bool no_memory;
    ProtobufCMessage *header =
        hs__proto_unpack(&hs__pb__bundle_header_proto__descriptor, walk->reader->env, value.data, value.size, &no_memory);
    if (!header)
        return no_memory ? hs__no_memory(err, value.size, walk->path)
                         : hs_error_set(err, HS_DATA_LOSS, "%s: the header cannot be read", walk->path);
    hs_code code = check_header(walk, (const Hs__Pb__BundleHeaderProto *)header, err);
    protobuf_c_message_free_unpacked(header, &walk->allocator);
    return code;
}

static hs_code visit(void *user, hs_bytes key, hs_bytes value, hs_error *err)
{
    index_walk *walk = user;
    if (key.size == 0)
        return visit_header(walk, value, err);
    if (!walk->has_header)
        return hs_error_set(err, HS_DATA_LOSS, "%s: has no header", walk->path);
    bool of_slice = *(const char *)key.data == '\0';
    bool no_memory;
    ProtobufCMessage *message =
        hs__proto_unpack(&hs__pb__bundle_entry_proto__descriptor, walk->reader->env, value.data, value.size, &no_memory);
    if (!message && no_memory)
        return hs__no_memory(err, value.size, walk->path);
    if (!message && of_slice)
        return HS_OK; /* it will be missing when its tensor is verified, and keeps nobody from the others */
    if (!message)
        return hs_error_set(err, HS_DATA_LOSS, "%s: the entry of '%.*s' cannot be read", walk->path, (int)key.size,
                            (const char *)key.data);
    const Hs__Pb__BundleEntryProto *proto = (const Hs__Pb__BundleEntryProto *)message;
    hs__bundle_entry slice = entry_of(proto);
    hs_code code = of_slice ? hs__bundle_add_slice(walk->reader, key, &slice, err) : add_entry(walk, key, proto, err);
    protobuf_c_message_free_unpacked(message, &walk->allocator);
    return code;
}

static hs_code read_index(hs__bundle_reader *reader, const char *path, hs_error *err)
{
    char *data = NULL;
    size_t bytes = 0;
    hs_code code = hs__file_contents(reader->env, path, MAX_INDEX_BYTES, &data, &bytes, err);
    if (code)
        return code;
    index_walk walk = {.reader = reader, .path = path, .allocator = hs__proto_allocator(reader->env)};
    code = hs__table_read(reader->env, (hs_bytes){data, bytes}, path, visit, &walk, err);
    if (!code && !walk.has_header)
        code = hs_error_set(err, HS_DATA_LOSS, "%s: has no header", path);
    hs__free(reader->env, data);
    return code;
}

static bool is_file_of_checkpoint(const char *path)
{
    size_t length = strlen(path);
    return (length > 6 && strcmp(path + length - 6, ".index") == 0) || strstr(hs__path_base(path), ".data-");
}

hs_code hs__bundle_reader_open(hs__bundle_reader *reader, const hs_env *env, const char *prefix, hs_error *err)
{
    *reader = (hs__bundle_reader){.env = env, .file_shard = -1, .file = {.env = env}};
    hs__map_init(&reader->names, env);
    hs__map_init(&reader->sliced, env);
    char *path = hs__bundle_index_path(env, prefix);
    reader->prefix = hs__strdup(env, prefix);
    hs_code code = path && reader->prefix ? read_index(reader, path, err) : hs__no_memory(err, strlen(prefix), "a path");
    if (code == HS_NOT_FOUND && is_file_of_checkpoint(prefix))
        hs_error_prefix(err, "a checkpoint is named by its prefix, without .index or .data-...");
    hs__free(env, path);
    if (code)
        hs__bundle_reader_close(reader);
    return code;
}

void hs__bundle_reader_close(hs__bundle_reader *reader)
{
    hs__file_close(&reader->file, NULL);
    hs__free(reader->env, reader->file_path);
    hs__free(reader->env, reader->prefix);
    hs__free(reader->env, reader->entries);
    hs__free(reader->env, reader->slices);
    hs__map_free(&reader->names);
    hs__map_free(&reader->sliced);
    *reader = (hs__bundle_reader){.env = reader->env,
                                  .file_shard = -1,
                                  .file = {.env = reader->env},
                                  .names = {.env = reader->env},
                                  .sliced = {.env = reader->env}};
}

const hs__bundle_entry *hs__bundle_find(const hs__bundle_reader *reader, const char *name)
{
    size_t at = hs__map_find(&reader->names, name);
    return at == HS__NONE ? NULL : &reader->entries[at];
}

hs_code hs__bundle_check(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    if (entry->slices)
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: '%s' is stored in slices", reader->prefix, entry->name);
    if (!hs__dtype_valid(entry->dtype) || entry->shape.rank < 0)
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: '%s' has a type (%d) or a rank that is not supported",
                            reader->prefix, entry->name, (int)entry->dtype);
    int64_t n = hs_shape_elements(&entry->shape);
    size_t size = hs_dtype_size((hs_dtype)entry->dtype);
    if (n < 0 || (uint64_t)n > SIZE_MAX / 2 / size)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has a shape that cannot be", reader->prefix, entry->name);
    uint64_t least = entry->dtype == HS_STRING ? (uint64_t)n + 4 : (uint64_t)n * size;
    if (entry->bytes < least || (entry->dtype != HS_STRING && entry->bytes != least) || entry->bytes > SIZE_MAX / 2)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has %llu bytes, where its type and shape need %llu",
                            reader->prefix, entry->name, (unsigned long long)entry->bytes, (unsigned long long)least);
    return HS_OK;
}

size_t hs__bundle_read_bytes(const hs__bundle_entry *entry)
{
    if (entry->dtype != HS_STRING)
        return (size_t)entry->bytes;
    int64_t n = hs_shape_elements(&entry->shape);
    return n < 0 ? 0 : (size_t)n * sizeof(hs_string) + (size_t)entry->bytes;
}

static hs_code open_shard(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    if (reader->file_shard == entry->shard)
        return HS_OK;
    hs__file_close(&reader->file, NULL);
    hs__free(reader->env, reader->file_path);
    reader->file_shard = -1;
    reader->file_path = hs__bundle_data_path(reader->env, reader->prefix, entry->shard, reader->shards);
    if (!reader->file_path)
        return hs__no_memory(err, strlen(reader->prefix), "a path");
    hs_code code = hs__file_open(&reader->file, reader->env, reader->file_path, HS_OPEN_READ, err);
    if (!code)
        reader->file_shard = entry->shard;
    return code;
}

/* Is all of it in the file? Asked before memory for it is. */
static hs_code check_range(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_file_stat found;
    hs_code code = hs__stat(reader->env, reader->file_path, &found, err);
    if (!code && (entry->offset > found.bytes || entry->bytes > found.bytes - entry->offset))
        code = hs_error_set(err, HS_DATA_LOSS, "%s: has %llu bytes, too few for '%s' (%llu at %llu)", reader->file_path,
                            (unsigned long long)found.bytes, entry->name, (unsigned long long)entry->bytes,
                            (unsigned long long)entry->offset);
    return code;
}

hs_code hs__bundle_locate(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_code code = hs__bundle_check(reader, entry, err);
    if (!code)
        code = open_shard(reader, entry, err);
    return code ? code : check_range(reader, entry, err);
}

static hs_code wrong_checksum(const hs__bundle_reader *reader, const hs__bundle_entry *entry, uint32_t found, hs_error *err)
{
    return hs_error_set(err, HS_DATA_LOSS, "%s: checksum mismatch of '%s': stored %08x, found %08x", reader->file_path,
                        entry->name, (unsigned)hs__crc32c_unmask(entry->crc), (unsigned)found);
}

static hs_code read_numbers(hs__bundle_reader *reader, const hs__bundle_entry *entry, char *to, hs_error *err)
{
    uint32_t crc = 0;
    size_t bytes = (size_t)entry->bytes;
    for (size_t done = 0; done < bytes;) {
        size_t piece = bytes - done < PIECE ? bytes - done : PIECE;
        hs_code code = hs__file_read(&reader->file, entry->offset + done, to + done, piece, reader->file_path, err);
        if (code)
            return code;
        crc = hs__crc32c(crc, to + done, piece);
        done += piece;
    }
    return crc == hs__crc32c_unmask(entry->crc) ? HS_OK : wrong_checksum(reader, entry, crc, err);
}

/* `raw` is the entry's data as stored; the elements' pointers go into it. */
static hs_code parse_strings(const hs__bundle_reader *reader, const hs__bundle_entry *entry, const unsigned char *raw,
                             hs_string *strings, hs_error *err)
{
    const unsigned char *at = raw, *end = raw + entry->bytes;
    size_t n = (size_t)hs_shape_elements(&entry->shape);
    uint32_t crc = 0;
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t length;
        if (!hs__get_varint(&at, end, &length) || length > entry->bytes - total)
            return hs_error_set(err, HS_DATA_LOSS, "%s: the lengths of '%s' cannot be read", reader->file_path,
                                entry->name);
        unsigned char bytes[8];
        hs__put64(bytes, length);
        crc = hs__crc32c(crc, bytes, length <= UINT32_MAX ? 4 : 8);
        strings[i].bytes = (size_t)length;
        total += length;
    }
    if (end - at < 4 || hs__crc32c_unmask(hs__get32(at)) != crc)
        return hs_error_set(err, HS_DATA_LOSS, "%s: checksum mismatch of the lengths of '%s'", reader->file_path,
                            entry->name);
    crc = hs__crc32c(crc, at, 4);
    at += 4;
    if (total != (uint64_t)(end - at))
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has %llu bytes, where its lengths need %llu", reader->file_path,
                            entry->name, (unsigned long long)(end - at), (unsigned long long)total);
    crc = hs__crc32c(crc, at, (size_t)total);
    if (crc != hs__crc32c_unmask(entry->crc))
        return wrong_checksum(reader, entry, crc, err);
    for (size_t i = 0; i < n; i++) {
        strings[i].data = (const char *)at;
        at += strings[i].bytes;
    }
    return HS_OK;
}

hs_code hs__bundle_read(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *to, hs_error *err)
{
    hs_code code = hs__bundle_locate(reader, entry, err);
    if (code)
        return code;
    if (entry->dtype != HS_STRING)
        return read_numbers(reader, entry, to, err);
    hs_string *strings = to;
    unsigned char *raw = (unsigned char *)(strings + hs_shape_elements(&entry->shape));
    code = hs__file_read(&reader->file, entry->offset, raw, (size_t)entry->bytes, reader->file_path, err);
    return code ? code : parse_strings(reader, entry, raw, strings, err);
}

hs_code hs__bundle_stream(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__bundle_take take, void *user,
                          hs_error *err)
{
    hs_code code = hs__bundle_locate(reader, entry, err);
    if (code)
        return code;
    size_t room = entry->bytes < PIECE ? (size_t)entry->bytes : PIECE;
    char *scratch = hs__realloc(reader->env, NULL, room, 1);
    if (!scratch)
        return hs__no_memory(err, room, "reading a checkpoint");
    uint32_t crc = 0;
    for (uint64_t done = 0; !code && done < entry->bytes;) {
        size_t piece = entry->bytes - done < PIECE ? (size_t)(entry->bytes - done) : PIECE;
        if (!(code = hs__file_read(&reader->file, entry->offset + done, scratch, piece, reader->file_path, err))) {
            crc = hs__crc32c(crc, scratch, piece);
            code = take ? take(user, scratch, piece, err) : HS_OK;
        }
        done += piece;
    }
    if (!code && crc != hs__crc32c_unmask(entry->crc))
        code = wrong_checksum(reader, entry, crc, err);
    hs__free(reader->env, scratch);
    return code;
}

static hs_code verify_strings(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_code code = hs__bundle_locate(reader, entry, err);
    if (code)
        return code;
    size_t bytes = hs__bundle_read_bytes(entry);
    char *scratch = hs__alloc(reader->env, bytes, 1);
    if (!scratch)
        return hs__no_memory(err, bytes, "verifying a checkpoint");
    code = hs__bundle_read(reader, entry, scratch, err);
    hs__free(reader->env, scratch);
    return code;
}

hs_code hs__bundle_verify(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    return entry->dtype == HS_STRING ? verify_strings(reader, entry, err)
                                     : hs__bundle_stream(reader, entry, NULL, NULL, err);
}

hs_code hs__bundle_verify_index(const hs__bundle_reader *reader, hs_error *err)
{
    char *data = NULL, *path = hs__bundle_index_path(reader->env, reader->prefix);
    size_t bytes = 0;
    if (!path)
        return hs__no_memory(err, strlen(reader->prefix), "a path");
    hs_code code = hs__file_contents(reader->env, path, MAX_INDEX_BYTES, &data, &bytes, err);
    if (!code)
        code = hs__table_verify(reader->env, (hs_bytes){data, bytes}, path, err);
    hs__free(reader->env, data);
    hs__free(reader->env, path);
    return code;
}
