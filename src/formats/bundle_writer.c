/* SPDX-License-Identifier: Apache-2.0 */
/* Each function that adds a tensor checks it, adds its entry, and writes its data at the end of the data file. Finishing
 * writes the index from the entries. A function that fails sets `failed`, which stops all later calls. */
#include "formats/bundle.h"

#include "base/crc32c.h"
#include "formats/bundle_data.h"
#include "formats/byte_order.h"

#include <string.h>

/* Data is checked, checksummed and copied in pieces that fit in the processor's cache. A piece is whole elements of every
 * dtype. */
enum { PIECE = 1 << 18 };

/* The writers of all shards stage at most 32 MiB. */
static size_t staging_piece(int32_t shards)
{
    const size_t room = ((size_t)32 << 20) / HS__STAGING_BUFFERS / (size_t)shards & ~(size_t)(HS__STAGING_SMALL - 1);
    return room < HS__STAGING_SMALL ? HS__STAGING_SMALL : room < HS__STAGING_PIECE ? room : HS__STAGING_PIECE;
}

hs_code hs__bundle_writer_open(hs__bundle_writer *writer, const hs_env *env, const char *path, int32_t shard,
                               int32_t shards, hs_error *err)
{
    *writer = (hs__bundle_writer){
        .env = env, .staging = {.env = env, .piece = staging_piece(shards)}, .shard = shard, .shards = shards};
    hs__map_init(&writer->names, env);
    return writer->failed = hs__stream_open(&writer->data, env, path, err);
}

/* Checksum and check for NaN, computed over the data while it is written. */
typedef struct {
    uint32_t crc; /* CRC-32C, not masked */
    hs_nonfinite nonfinite;
} checked_data;

/* Adds a piece of `n` bytes, whole elements, that begins at byte `at`. */
static void check_piece(checked_data *checked, hs_dtype dtype, const void *piece, uint64_t at, size_t n)
{
    hs__add_nonfinite(&checked->nonfinite, dtype, piece, at, n);
    checked->crc = hs__crc32c(checked->crc, piece, n);
}

/* Writes zeros up to the next aligned offset, where the data of an entry begins. */
static hs_code align(hs__bundle_writer *writer, hs_error *err)
{
    static const char zeros[64];
    uint64_t over = writer->alignment ? writer->offset % writer->alignment : 0;
    uint64_t padding = over ? writer->alignment - over : 0;
    hs_code code = HS_OK;
    while (!code && padding) {
        size_t n = padding < sizeof zeros ? (size_t)padding : sizeof zeros;
        code = hs__stream_write(&writer->data, zeros, n, err);
        writer->offset += n;
        padding -= n;
    }
    return code;
}

/* The data of an entry that is written. */
typedef struct {
    hs__bundle_writer *writer;
    hs__bundle_entry *entry;
    checked_data checked;
} writing;

/* hs__bundle_write_fn. Appends bytes; of numbers, whole elements. */
static hs_code put(void *user, const void *data, size_t bytes, hs_error *err)
{
    writing *w = user;
    const bool has_numbers = hs__dtype_valid(w->entry->dtype) && w->entry->dtype != HS_STRING;
    const char *from = data;
    hs_code code = HS_OK;
    for (size_t done = 0, n; !code && done < bytes; done += n) {
        n = bytes - done < PIECE ? bytes - done : PIECE;
        check_piece(&w->checked, has_numbers ? (hs_dtype)w->entry->dtype : HS_UINT8, from + done, w->entry->bytes, n);
        w->entry->bytes += n;
        code = hs__stream_write(&w->writer->data, from + done, n, err);
    }
    return code;
}

/* Writes all data of an entry, which `produce` passes to its `put`, at the next aligned offset. */
static hs_code write_data(hs__bundle_writer *writer, hs__bundle_entry *entry, hs__bundle_produce_fn produce, void *source,
                          hs_error *err)
{
    writing w = {writer, entry, {.nonfinite = {.first_index = -1}}};
    hs_code code = align(writer, err);
    entry->shard = writer->shard;
    entry->offset = writer->offset;
    entry->bytes = 0;
    if (!code)
        code = produce(source, put, &w, err);
    entry->crc = hs__crc32c_mask(w.checked.crc);
    writer->offset += entry->bytes;
    if (w.checked.nonfinite.first_index >= 0 && !writer->ignores_nonfinite && writer->n_nonfinite++ == 0) {
        writer->nonfinite = w.checked.nonfinite;
        writer->nonfinite_name = entry->name;
    }
    return code;
}

typedef struct {
    const hs_tensor *tensor;
    uint32_t crc; /* of strings, whose checksum is not that of their bytes */
} tensor_data;

static hs_code produce_tensor(void *source, hs__bundle_write_fn write, void *user, hs_error *err)
{
    tensor_data *data = source;
    const hs_tensor *tensor = data->tensor;
    hs__bundle_writer *writer = ((writing *)user)->writer;
    if (tensor->dtype != HS_STRING)
        return hs__tensor_put(((writing *)user)->entry->name, tensor, &writer->staging, write, user, err);
    const hs_string *strings = tensor->data;
    const size_t n = tensor->bytes / sizeof *strings;
    hs__buffer lengths;
    hs__buffer_init(&lengths, writer->env);
    data->crc = hs__bundle_put_lengths(&lengths, strings, n, hs__big_endian());
    hs_code code = hs__buffer_check(&lengths, "the lengths of strings", err);
    if (!code)
        code = write(user, lengths.data, lengths.size, err);
    hs__buffer_free(&lengths);
    for (size_t i = 0; i < n && !code; i++) {
        data->crc = hs__crc32c(data->crc, strings[i].data, strings[i].bytes);
        code = write(user, strings[i].data, strings[i].bytes, err);
    }
    return code;
}

static hs_code write_tensor(hs__bundle_writer *writer, const hs_tensor *tensor, hs__bundle_entry *entry, hs_error *err)
{
    tensor_data data = {.tensor = tensor};
    entry->dtype = (int32_t)tensor->dtype;
    entry->shape = hs_tensor_shape(tensor);
    hs_code code = write_data(writer, entry, produce_tensor, &data, err);
    if (tensor->dtype == HS_STRING)
        entry->crc = hs__crc32c_mask(data.crc);
    return code;
}

/* Reserves room for one more entry, and adds its name. */
static hs_code add_name(hs__bundle_writer *writer, const char *name, const char **kept, hs_error *err)
{
    if (!*name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "a tensor to save has an empty name");
    hs_code code = hs__reserve(writer->env, &writer->entries, &writer->entries_capacity, writer->n_entries + 1,
                               sizeof *writer->entries, err);
    return code ? code : hs__map_add(&writer->names, name, writer->n_entries, kept, err);
}

static hs_code check_tensor(const char *name, const hs_tensor *tensor, hs_error *err)
{
    hs_code code = hs_tensor_check(tensor, err);
    if (code)
        hs_error_prefix(err, "'%s'", name);
    return code;
}

/* Adds the name of one more tensor, and makes its entry. */
static hs_code add_entry(hs__bundle_writer *writer, const char *name, hs__bundle_entry *entry, hs_error *err)
{
    *entry = (hs__bundle_entry){.name = NULL};
    if (hs__map_find(&writer->names, name) != HS__NONE)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "two tensors to save have the name '%s'", name);
    return add_name(writer, name, &entry->name, err);
}

static hs_code add_tensor(hs__bundle_writer *writer, const char *name, const hs_tensor *tensor, hs_error *err)
{
    hs__bundle_entry entry;
    hs_code code = check_tensor(name, tensor, err);
    if (code || (code = add_entry(writer, name, &entry, err)))
        return code;
    code = write_tensor(writer, tensor, &entry, err);
    writer->entries[writer->n_entries++] = entry;
    return code;
}

static hs_code add_slice(hs__bundle_writer *writer, const char *name, const hs_shape *whole, const hs__box *box,
                         const hs_tensor *tensor, hs_error *err)
{
    size_t at = hs__map_find(&writer->names, name);
    hs__bundle_entry new = {.dtype = (int32_t)tensor->dtype, .shape = *whole};
    hs_code code = at == HS__NONE ? add_name(writer, name, &new.name, err) : HS_OK;
    if (code)
        return code;
    if (at == HS__NONE) /* the first slice adds the entry of its tensor */
        writer->entries[at = writer->n_entries++] = new;
    else if (!writer->entries[at].slices || writer->entries[at].dtype != new.dtype ||
             !hs_shape_equal(&writer->entries[at].shape, whole))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' already exists, as a whole or with another dtype or shape",
                            name);
    hs__bundle_entry *entry = &writer->entries[at];

    for (size_t i = 0; i < writer->n_slices; i++) {
        char first[HS__BOX_TEXT_SIZE], second[HS__BOX_TEXT_SIZE];
        const hs__bundle_slice *other = &writer->slices[i];
        if (other->entry.name == entry->name && hs__box_meets(&other->box, box))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "slices %s and %s of '%s' overlap",
                                hs__box_text(&other->box, first, sizeof first), hs__box_text(box, second, sizeof second),
                                entry->name);
    }
    hs__bundle_slice slice = {.box = *box, .entry.name = entry->name};
    code = hs__reserve(writer->env, &writer->slices, &writer->slices_capacity, writer->n_slices + 1, sizeof slice, err);
    if (code)
        return code;
    entry->slices++;
    code = write_tensor(writer, tensor, &slice.entry, err);
    writer->slices[writer->n_slices++] = slice;
    return code;
}

static hs_code failed_before(const hs__bundle_writer *writer, hs_error *err)
{
    return hs_error_set(err, writer->failed, "the bundle is finished or has failed");
}

hs_code hs__bundle_writer_add(hs__bundle_writer *writer, const char *name, const hs_tensor *tensor, hs_error *err)
{
    if (writer->failed)
        return failed_before(writer, err);
    return writer->failed = add_tensor(writer, name, tensor, err);
}

hs_code hs__bundle_writer_add_from(hs__bundle_writer *writer, const char *name, hs_dtype dtype, const hs_shape *shape,
                                   hs__bundle_produce_fn produce, void *source, hs_error *err)
{
    hs__bundle_entry entry;
    if (writer->failed)
        return failed_before(writer, err);
    int64_t elements = shape ? hs_shape_elements(shape) : 0;
    if (elements < 0 || (uint64_t)elements > SIZE_MAX / hs_dtype_size(dtype))
        return writer->failed = hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' has an invalid shape", name);
    hs_code code = add_entry(writer, name, &entry, err);
    if (code)
        return writer->failed = code;
    entry.dtype = (int32_t)dtype;
    code = write_data(writer, &entry, produce, source, err);
    const uint64_t needed = (uint64_t)elements * hs_dtype_size(dtype);
    if (!code && shape && entry.bytes != needed)
        code = hs_error_set(err, HS_INTERNAL, "'%s' has %llu bytes, but its shape needs %llu", name,
                            (unsigned long long)entry.bytes, (unsigned long long)needed);
    entry.shape = shape ? *shape : HS_SHAPE((int64_t)(entry.bytes / hs_dtype_size(dtype)));
    writer->entries[writer->n_entries++] = entry;
    return writer->failed = code;
}

/* Copying. */

typedef struct {
    hs__bundle_reader *reader;
    const hs__bundle_entry *from;
    hs__bundle_write_fn write;
    void *user;
} copying;

/* hs__bundle_piece_fn */
static hs_code copy_piece(void *user, char *piece, size_t at, size_t n, hs_error *err)
{
    const copying *c = user;
    (void)at;
    return c->write(c->user, piece, n, err);
}

static hs_code produce_copy(void *source, hs__bundle_write_fn write, void *user, hs_error *err)
{
    copying *c = source;
    c->write = write;
    c->user = user;
    return hs__bundle_verify_whole(c->reader, c->from, copy_piece, c, err);
}

/* Copies the data of the tensor or slice `from`, and makes its entry, which has its name. */
static hs_code copy_data(hs__bundle_writer *writer, hs__bundle_reader *reader, const hs__bundle_entry *from,
                         hs__bundle_entry *entry, hs_error *err)
{
    copying c = {.reader = reader, .from = from};
    entry->dtype = from->dtype;
    entry->shape = from->shape;
    hs_code code = write_data(writer, entry, produce_copy, &c, err);
    entry->crc = from->crc;
    return code;
}

static hs_code copy_slices(hs__bundle_writer *writer, hs__bundle_reader *reader, const hs__bundle_entry *from,
                           const char *name, hs_error *err)
{
    hs__layout layout;
    hs_code code = hs__bundle_lay_out(reader, from, &layout, err);
    if (!code)
        code = hs__reserve(writer->env, &writer->slices, &writer->slices_capacity, writer->n_slices + layout.n,
                           sizeof *writer->slices, err);
    for (size_t i = 0; !code && i < layout.n; i++) {
        hs__bundle_slice slice = {.entry.name = name, .box = layout.items[i].box};
        code = copy_data(writer, reader, layout.items[i].entry, &slice.entry, err);
        writer->slices[writer->n_slices++] = slice;
    }
    return code;
}

hs_code hs__bundle_writer_add_copy(hs__bundle_writer *writer, hs__bundle_reader *reader, const hs__bundle_entry *from,
                                   hs_error *err)
{
    hs__bundle_entry entry;
    if (writer->failed)
        return failed_before(writer, err);
    if (reader->big_endian != hs__big_endian() || from->shape.rank < 0)
        return writer->failed = hs_error_set(err, HS_UNIMPLEMENTED, "%s: cannot copy '%s': its %s is not supported",
                                             reader->prefix, from->name, from->shape.rank < 0 ? "rank" : "byte order");
    hs_code code = add_entry(writer, from->name, &entry, err);
    if (code)
        return writer->failed = code;
    if (from->slices) {
        entry.dtype = from->dtype;
        entry.shape = from->shape;
        entry.slices = from->slices;
        code = copy_slices(writer, reader, from, entry.name, err);
    } else {
        code = copy_data(writer, reader, from, &entry, err);
    }
    writer->entries[writer->n_entries++] = entry;
    return writer->failed = code;
}

/* Slices. */

hs_code hs__bundle_writer_add_slice(hs__bundle_writer *writer, const char *name, const hs_shape *whole,
                                    const int64_t *starts, const hs_tensor *slice, hs_error *err)
{
    char text[HS__BOX_TEXT_SIZE], shape[HS_SHAPE_TEXT_SIZE];
    if (writer->failed)
        return failed_before(writer, err);
    hs_code code = check_tensor(name, slice, err);
    if (code)
        return writer->failed = code;
    hs_shape part = hs_tensor_shape(slice);
    hs__box box = hs__box_of(&part), inside;
    for (int32_t i = 0; i < part.rank; i++)
        box.starts[i] = starts[i];
    if (!hs__box_in(&box, whole, &inside) || hs_shape_elements(&part) == 0)
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "%s is not a slice of '%s' with shape %s",
                            hs__box_text(&box, text, sizeof text), name, hs_shape_text(whole, shape, sizeof shape));
    else if (hs_shape_equal(&part, whole))
        code = add_tensor(writer, name, slice, err);
    else
        code = add_slice(writer, name, whole, &box, slice, err);
    return writer->failed = code;
}

hs_code hs__bundle_writer_join(hs__bundle_writer *writer, const hs__bundle_writer *other, hs_error *err)
{
    hs_code code = HS_OK;
    if (writer->failed)
        return failed_before(writer, err);
    for (size_t i = 0; i < other->n_entries && !code; i++) {
        hs__bundle_entry entry;
        if ((code = add_entry(writer, other->entries[i].name, &entry, err)))
            break;
        const char *name = entry.name;
        entry = other->entries[i];
        entry.name = name;
        writer->entries[writer->n_entries++] = entry;
    }
    if (!code)
        code = hs__reserve(writer->env, &writer->slices, &writer->slices_capacity, writer->n_slices + other->n_slices,
                           sizeof *writer->slices, err);
    for (size_t i = 0; !code && i < other->n_slices; i++) {
        hs__bundle_slice slice = other->slices[i];
        slice.entry.name = writer->entries[hs__map_find(&writer->names, slice.entry.name)].name;
        writer->slices[writer->n_slices++] = slice;
    }
    if (!code && other->n_nonfinite) {
        const char *name = writer->entries[hs__map_find(&writer->names, other->nonfinite_name)].name;
        if (!writer->n_nonfinite || strcmp(name, writer->nonfinite_name) < 0) {
            writer->nonfinite = other->nonfinite;
            writer->nonfinite_name = name;
        }
        writer->n_nonfinite += other->n_nonfinite;
    }
    return writer->failed = code;
}

hs_code hs__bundle_writer_finish(hs__bundle_writer *writer, const char *path, hs_error *err)
{
    if (writer->failed)
        return failed_before(writer, err);
    hs__buffer index;
    hs__buffer_init(&index, writer->env);
    hs_code code = hs__stream_finish(&writer->data, err);
    if (!code && path)
        code = hs__bundle_build_index(writer, &index, err);
    if (!code && path)
        code = hs__file_write_synced(writer->env, path, index.data, index.size, err);
    hs__buffer_free(&index);
    writer->failed = code ? code : HS_FAILED_PRECONDITION; /* nothing can follow */
    return code;
}

void hs__bundle_writer_close(hs__bundle_writer *writer)
{
    hs__stream_close(&writer->data);
    hs__staging_free(&writer->staging);
    hs__free(writer->env, writer->entries);
    hs__free(writer->env, writer->slices);
    hs__map_free(&writer->names);
}
