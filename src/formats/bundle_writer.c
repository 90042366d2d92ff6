/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bundle.h"

#include "bundle.pb-c.h"

#include "base/crc32c.h"
#include "base/proto.h"
#include "formats/table.h"

#include <stdlib.h>
#include <string.h>

/* A piece is looked at, checksummed and copied while it is in the processor's cache. Whole elements of every dtype. */
enum { PIECE = 1 << 18 };

char *hs__bundle_data_path(const hs_env *env, const char *prefix, int32_t shard, int32_t shards)
{
    return hs__format(env, "%s.data-%05d-of-%05d", prefix, (int)shard, (int)shards);
}

char *hs__bundle_index_path(const hs_env *env, const char *prefix)
{
    return hs__format(env, "%s.index", prefix);
}

hs_code hs__bundle_writer_open(hs__bundle_writer *writer, const hs_env *env, const char *path, int32_t shard,
                               int32_t shards, hs_error *err)
{
    *writer = (hs__bundle_writer){.env = env, .shard = shard, .shards = shards};
    hs__map_init(&writer->names, env);
    return writer->failed = hs__stream_open(&writer->data, env, path, err);
}

static void note_checked(hs__bundle_writer *writer, const hs__checked *checked, hs__bundle_entry *entry)
{
    entry->crc = hs__crc32c_mask(checked->crc);
    if (checked->nonfinite.first_index >= 0 && writer->n_nonfinite++ == 0) {
        writer->nonfinite = checked->nonfinite;
        writer->nonfinite_name = entry->name;
    }
}

static hs_code write_numbers(hs__bundle_writer *writer, const hs_tensor *tensor, hs__bundle_entry *entry, hs_error *err)
{
    const char *data = tensor->data;
    hs__checked checked = HS__NOT_CHECKED;
    hs_code code = HS_OK;
    for (size_t done = 0, n; !code && done < tensor->bytes; done += n) {
        n = tensor->bytes - done < PIECE ? tensor->bytes - done : PIECE;
        hs__check_piece(&checked, tensor->dtype, data + done, done, n);
        code = hs__stream_write(&writer->data, data + done, n, err);
    }
    entry->bytes = tensor->bytes;
    note_checked(writer, &checked, entry);
    return code;
}

/* Piece by piece, where there is no more in memory. */
static hs_code write_filled(hs__bundle_writer *writer, hs__bundle_entry *entry, size_t bytes, hs__bundle_fill fill,
                            void *user, hs_error *err)
{
    hs__checked checked = HS__NOT_CHECKED;
    size_t room = bytes < PIECE ? bytes : PIECE;
    char *piece = hs__realloc(writer->env, NULL, room, 1);
    hs_code code = piece ? HS_OK : hs__no_memory(err, room, "writing a checkpoint");
    for (size_t done = 0, n; !code && done < bytes; done += n) {
        n = bytes - done < PIECE ? bytes - done : PIECE;
        if ((code = fill(user, piece, n, err)))
            break;
        hs__check_piece(&checked, (hs_dtype)entry->dtype, piece, done, n);
        code = hs__stream_write(&writer->data, piece, n, err);
    }
    entry->bytes = bytes;
    note_checked(writer, &checked, entry);
    hs__free(writer->env, piece);
    return code;
}

static uint32_t length_crc(uint32_t crc, uint64_t length)
{
    unsigned char bytes[8];
    hs__put64(bytes, length);
    return hs__crc32c(crc, bytes, length <= UINT32_MAX ? 4 : 8);
}

static hs_code write_strings(hs__bundle_writer *writer, const hs_tensor *tensor, hs__bundle_entry *entry, hs_error *err)
{
    const hs_string *strings = tensor->data;
    size_t n = tensor->bytes / sizeof *strings;
    hs__buffer lengths;
    hs__buffer_init(&lengths, writer->env);
    uint32_t crc = 0;
    for (size_t i = 0; i < n; i++) {
        hs__buffer_varint(&lengths, strings[i].bytes);
        crc = length_crc(crc, strings[i].bytes);
    }
    unsigned char masked[4];
    hs__put32(masked, hs__crc32c_mask(crc));
    crc = hs__crc32c(crc, masked, sizeof masked);
    hs__buffer_append(&lengths, masked, sizeof masked);
    hs_code code = hs__buffer_check(&lengths, entry->name, err);
    if (!code)
        code = hs__stream_write(&writer->data, lengths.data, lengths.size, err);
    entry->bytes = lengths.size;
    hs__buffer_free(&lengths);
    for (size_t i = 0; i < n && !code; i++) {
        crc = hs__crc32c(crc, strings[i].data, strings[i].bytes);
        entry->bytes += strings[i].bytes;
        if (strings[i].bytes)
            code = hs__stream_write(&writer->data, strings[i].data, strings[i].bytes, err);
    }
    entry->crc = hs__crc32c_mask(crc);
    return code;
}

static hs_code add_entry(hs__bundle_writer *writer, const char *name, hs__bundle_entry *entry, hs_error *err)
{
    if (!*name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "a tensor to be saved has an empty name");
    if (hs__map_find(&writer->names, name) != HS__NONE)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "two tensors to be saved are called '%s'", name);
    entry->shard = writer->shard;
    entry->offset = writer->offset;
    hs_code code =
        hs__reserve(writer->env, &writer->entries, &writer->entries_capacity, writer->n_entries + 1, sizeof *entry, err);
    return code ? code : hs__map_add(&writer->names, name, writer->n_entries, &entry->name, err);
}

static void keep_entry(hs__bundle_writer *writer, const hs__bundle_entry *entry)
{
    writer->offset += entry->bytes;
    writer->entries[writer->n_entries++] = *entry;
}

static hs_code add_tensor(hs__bundle_writer *writer, const char *name, const hs_tensor *tensor, hs_error *err)
{
    hs_code code = hs_tensor_check(tensor, err);
    if (code) {
        hs_error_prefix(err, "'%s'", name);
        return code;
    }
    hs__bundle_entry entry = {.dtype = (int32_t)tensor->dtype, .shape = hs_tensor_shape(tensor)};
    if ((code = add_entry(writer, name, &entry, err)))
        return code;
    code = tensor->dtype == HS_STRING ? write_strings(writer, tensor, &entry, err)
                                      : write_numbers(writer, tensor, &entry, err);
    keep_entry(writer, &entry);
    return code;
}

static hs_code add_from(hs__bundle_writer *writer, const char *name, const hs_tensor *kind, hs__bundle_fill fill,
                        void *user, hs_error *err)
{
    hs__bundle_entry entry = {.dtype = (int32_t)kind->dtype, .shape = hs_tensor_shape(kind)};
    int64_t n = hs_shape_elements(&entry.shape);
    if (n < 0 || (uint64_t)n != kind->bytes / hs_dtype_size(kind->dtype))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' has a shape that cannot be", name);
    hs_code code = add_entry(writer, name, &entry, err);
    if (code)
        return code;
    code = write_filled(writer, &entry, kind->bytes, fill, user, err);
    keep_entry(writer, &entry);
    return code;
}

static hs_code failed_before(const hs__bundle_writer *writer, hs_error *err)
{
    return hs_error_set(err, writer->failed, "the bundle is finished, or a former call for it failed");
}

hs_code hs__bundle_writer_add(hs__bundle_writer *writer, const char *name, const hs_tensor *tensor, hs_error *err)
{
    if (writer->failed)
        return failed_before(writer, err);
    return writer->failed = add_tensor(writer, name, tensor, err);
}

hs_code hs__bundle_writer_add_from(hs__bundle_writer *writer, const char *name, hs_dtype dtype, const hs_shape *shape,
                                   hs__bundle_fill fill, void *user, hs_error *err)
{
    hs_tensor kind = hs_tensor_of(dtype, *shape, NULL);
    if (writer->failed)
        return failed_before(writer, err);
    return writer->failed = add_from(writer, name, &kind, fill, user, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const hs__bundle_entry *)a)->name, ((const hs__bundle_entry *)b)->name);
}

static void add_header(hs__table_writer *table, const hs__bundle_writer *writer, hs__buffer *scratch)
{
    Hs__Pb__VersionDef version = HS__PB__VERSION_DEF__INIT;
    version.producer = 1;
    Hs__Pb__BundleHeaderProto header = HS__PB__BUNDLE_HEADER_PROTO__INIT;
    header.num_shards = writer->shards;
    header.version = &version;
    hs__proto_pack(&header.base, scratch);
    hs__table_add(table, (hs_bytes){"", 0}, (hs_bytes){scratch->data, scratch->size});
}

static void add_index_entry(hs__table_writer *table, const hs__bundle_entry *entry, hs__buffer *scratch)
{
    Hs__Pb__TensorShapeProto__Dim dims[HS_MAX_RANK], *pointers[HS_MAX_RANK];
    Hs__Pb__TensorShapeProto shape = HS__PB__TENSOR_SHAPE_PROTO__INIT;
    for (int32_t i = 0; i < entry->shape.rank; i++) {
        dims[i] = (Hs__Pb__TensorShapeProto__Dim)HS__PB__TENSOR_SHAPE_PROTO__DIM__INIT;
        dims[i].size = entry->shape.dims[i];
        pointers[i] = &dims[i];
    }
    shape.n_dim = (size_t)entry->shape.rank;
    shape.dim = pointers;
    Hs__Pb__BundleEntryProto proto = HS__PB__BUNDLE_ENTRY_PROTO__INIT;
    proto.dtype = (Hs__Pb__DataType)entry->dtype;
    proto.shape = &shape;
    proto.shard_id = entry->shard;
    proto.offset = (int64_t)entry->offset;
    proto.size = (int64_t)entry->bytes;
    proto.crc32c = entry->crc;
    hs__buffer_clear(scratch);
    hs__proto_pack(&proto.base, scratch);
    hs__table_add(table, (hs_bytes){entry->name, strlen(entry->name)}, (hs_bytes){scratch->data, scratch->size});
}

static hs_code build_index(hs__bundle_writer *writer, hs__buffer *index, hs_error *err)
{
    hs__buffer scratch;
    hs__table_writer table;
    hs__buffer_init(&scratch, writer->env);
    hs__table_begin(&table, writer->env, index);
    if (writer->n_entries)
        qsort(writer->entries, writer->n_entries, sizeof *writer->entries, by_name);
    add_header(&table, writer, &scratch);
    bool failed = scratch.failed;
    for (size_t i = 0; i < writer->n_entries && !failed; i++) {
        add_index_entry(&table, &writer->entries[i], &scratch);
        failed = scratch.failed;
    }
    hs__buffer_free(&scratch);
    hs_code code = hs__table_finish(&table, err);
    return failed ? hs__no_memory(err, 0, "the index of a checkpoint") : code;
}

static hs_code finish(hs__bundle_writer *writer, const char *path, hs_error *err)
{
    hs_code code = hs__stream_finish(&writer->data, err);
    if (code)
        return code;
    hs__buffer index;
    hs__buffer_init(&index, writer->env);
    if (!(code = build_index(writer, &index, err)))
        code = hs__file_write_synced(writer->env, path, index.data, index.size, err);
    hs__buffer_free(&index);
    return code;
}

hs_code hs__bundle_writer_finish(hs__bundle_writer *writer, const char *path, hs_error *err)
{
    if (writer->failed)
        return failed_before(writer, err);
    hs_code code = finish(writer, path, err);
    writer->failed = code ? code : HS_FAILED_PRECONDITION; /* nothing can follow */
    return code;
}

void hs__bundle_writer_close(hs__bundle_writer *writer)
{
    hs__stream_close(&writer->data);
    hs__free(writer->env, writer->entries);
    hs__map_free(&writer->names);
}
