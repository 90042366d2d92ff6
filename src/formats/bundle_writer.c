/* SPDX-License-Identifier: Apache-2.0 */
/* Each function that adds a tensor checks it, adds its entry, and writes its data at the end of the data file. Finishing
 * writes the index from the entries. A function that fails sets `failed`, which stops all later calls. */
#include "formats/bundle.h"

#include "base/crc32c.h"
#include "formats/bundle_data.h"
#include "formats/bundle_slices.h"
#include "formats/byte_order.h"

#include <string.h>

/* Data is checked, checksummed and copied in pieces that fit in the processor's cache. A piece is whole elements of every
 * dtype. */
enum { PIECE = 1 << 18 };

hs_code hs__bundle_writer_open(hs__bundle_writer *writer, const hs_env *env, const char *path, int32_t shard,
                               int32_t shards, hs_error *err)
{
    *writer = (hs__bundle_writer){.env = env, .shard = shard, .shards = shards};
    hs__map_init(&writer->names, env);
    return writer->failed = hs__stream_open(&writer->data, env, path, err);
}

static void note_nonfinite(hs__bundle_writer *writer, const hs__checked *checked, const char *name)
{
    if (checked->nonfinite.first_index >= 0 && !writer->ignores_nonfinite && writer->n_nonfinite++ == 0) {
        writer->nonfinite = checked->nonfinite;
        writer->nonfinite_name = name;
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
    entry->crc = hs__crc32c_mask(checked.crc);
    note_nonfinite(writer, &checked, entry->name);
    return code;
}

static hs_code write_strings(hs__bundle_writer *writer, const hs_tensor *tensor, hs__bundle_entry *entry, hs_error *err)
{
    const hs_string *strings = tensor->data;
    size_t n = tensor->bytes / sizeof *strings;
    hs__buffer lengths;
    hs__buffer_init(&lengths, writer->env);
    uint32_t crc = hs__bundle_put_lengths(&lengths, strings, n, hs__big_endian());
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

/* Reserves room for one more entry, and adds its name. */
static hs_code add_name(hs__bundle_writer *writer, const char *name, const char **kept, hs_error *err)
{
    hs_code code = hs__reserve(writer->env, &writer->entries, &writer->entries_capacity, writer->n_entries + 1,
                               sizeof *writer->entries, err);
    return code ? code : hs__map_add(&writer->names, name, writer->n_entries, kept, err);
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

/* Aligns the data of the entry, and fills the entry for a tensor with the dtype and shape of `kind`. */
static hs_code place_data(hs__bundle_writer *writer, const hs_tensor *kind, hs__bundle_entry *entry, hs_error *err)
{
    hs_code code = align(writer, err);
    entry->dtype = (int32_t)kind->dtype;
    entry->shard = writer->shard;
    entry->shape = hs_tensor_shape(kind);
    entry->offset = writer->offset;
    return code;
}

static hs_code write_data(hs__bundle_writer *writer, const hs_tensor *tensor, hs__bundle_entry *entry, hs_error *err)
{
    hs_code code = place_data(writer, tensor, entry, err);
    if (code)
        return code;
    code =
        tensor->dtype == HS_STRING ? write_strings(writer, tensor, entry, err) : write_numbers(writer, tensor, entry, err);
    writer->offset += entry->bytes;
    return code;
}

static hs_code check_tensor(const char *name, const hs_tensor *tensor, hs_error *err)
{
    if (!*name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "a tensor to save has an empty name");
    hs_code code = hs_tensor_check(tensor, err);
    if (code)
        hs_error_prefix(err, "'%s'", name);
    return code;
}

/* Adds the name of one more tensor, and makes its entry. */
static hs_code add_entry(hs__bundle_writer *writer, const char *name, hs__bundle_entry *entry, hs_error *err)
{
    *entry = (hs__bundle_entry){.name = NULL};
    if (!*name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "a tensor to save has an empty name");
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
    code = write_data(writer, tensor, &entry, err);
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
    code = write_data(writer, tensor, &slice.entry, err);
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
                                   hs__bundle_fill_fn fill, void *user, hs_error *err)
{
    hs__bundle_entry entry;
    hs__checked checked = HS__NOT_CHECKED;
    hs_tensor kind = hs_tensor_of(dtype, *shape, NULL);
    int64_t elements = hs_shape_elements(shape);
    if (writer->failed)
        return failed_before(writer, err);
    if (elements < 0 || (uint64_t)elements != kind.bytes / hs_dtype_size(dtype))
        return writer->failed = hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' has an invalid shape", name);
    hs_code code = add_entry(writer, name, &entry, err);
    if (code)
        return writer->failed = code;

    size_t room = kind.bytes < PIECE ? kind.bytes : PIECE;
    char *piece = hs__realloc(writer->env, NULL, room, 1);
    if (!(code = place_data(writer, &kind, &entry, err)) && !piece)
        code = hs__no_memory(err, room, "writing a checkpoint");
    for (size_t done = 0, n; !code && done < kind.bytes; done += n) {
        n = kind.bytes - done < PIECE ? kind.bytes - done : PIECE;
        if ((code = fill(user, piece, n, err)))
            break;
        hs__check_piece(&checked, dtype, piece, done, n);
        code = hs__stream_write(&writer->data, piece, n, err);
    }
    hs__free(writer->env, piece);
    entry.bytes = kind.bytes;
    entry.crc = hs__crc32c_mask(checked.crc);
    note_nonfinite(writer, &checked, entry.name);
    writer->offset += entry.bytes;
    writer->entries[writer->n_entries++] = entry;
    return writer->failed = code;
}

typedef struct {
    hs__bundle_writer *writer;
    uint64_t bytes;
    uint32_t crc;
} appending;

static hs_code put_bytes(void *user, const void *data, size_t bytes, hs_error *err)
{
    appending *a = user;
    const char *from = data;
    hs_code code = HS_OK;
    for (size_t done = 0, n; !code && done < bytes; done += n) {
        n = bytes - done < PIECE ? bytes - done : PIECE;
        a->crc = hs__crc32c(a->crc, from + done, n);
        code = hs__stream_write(&a->writer->data, from + done, n, err);
    }
    a->bytes += bytes;
    return code;
}

hs_code hs__bundle_writer_add_bytes(hs__bundle_writer *writer, const char *name, hs__bundle_produce_fn produce,
                                    void *source, hs_error *err)
{
    static const hs_tensor kind = {.dtype = HS_UINT8, .rank = 1};
    hs__bundle_entry entry;
    appending a = {.writer = writer};
    if (writer->failed)
        return failed_before(writer, err);
    hs_code code = add_entry(writer, name, &entry, err);
    if (code)
        return writer->failed = code;
    if (!(code = place_data(writer, &kind, &entry, err)))
        code = produce(source, put_bytes, &a, err);
    entry.bytes = a.bytes;
    entry.shape.dims[0] = (int64_t)a.bytes;
    entry.crc = hs__crc32c_mask(a.crc);
    writer->offset += entry.bytes;
    writer->entries[writer->n_entries++] = entry;
    return writer->failed = code;
}

/* Copying. */

typedef struct {
    hs__bundle_writer *writer;
    int32_t dtype;
    hs__checked checked;
} copying;

/* hs__bundle_piece_fn */
static hs_code copy_piece(void *user, char *piece, size_t at, size_t n, hs_error *err)
{
    copying *c = user;
    if (hs__dtype_valid(c->dtype) && c->dtype != HS_STRING)
        hs__check_piece(&c->checked, (hs_dtype)c->dtype, piece, at, n);
    return hs__stream_write(&c->writer->data, piece, n, err);
}

/* Copies the data of the tensor or slice `from`, and makes its entry, which has its name. */
static hs_code copy_data(hs__bundle_writer *writer, hs__bundle_reader *reader, const hs__bundle_entry *from,
                         hs__bundle_entry *entry, hs_error *err)
{
    copying c = {writer, from->dtype, HS__NOT_CHECKED};
    hs_code code = align(writer, err);
    *entry = (hs__bundle_entry){.name = entry->name,
                                .dtype = from->dtype,
                                .shard = writer->shard,
                                .shape = from->shape,
                                .offset = writer->offset,
                                .bytes = from->bytes,
                                .crc = from->crc};
    if (!code)
        code = hs__bundle_verify_whole(reader, from, copy_piece, &c, err);
    note_nonfinite(writer, &c.checked, entry->name);
    writer->offset += entry->bytes;
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

hs_code hs__bundle_writer_finish_data(hs__bundle_writer *writer, hs_error *err)
{
    if (writer->failed)
        return failed_before(writer, err);
    hs_code code = hs__stream_finish(&writer->data, err);
    writer->failed = code ? code : HS_FAILED_PRECONDITION; /* nothing can follow */
    return code;
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
    if (!code)
        code = hs__bundle_build_index(writer, &index, err);
    if (!code)
        code = hs__file_write_synced(writer->env, path, index.data, index.size, err);
    hs__buffer_free(&index);
    writer->failed = code ? code : HS_FAILED_PRECONDITION; /* nothing can follow */
    return code;
}

void hs__bundle_writer_close(hs__bundle_writer *writer)
{
    hs__stream_close(&writer->data);
    hs__free(writer->env, writer->entries);
    hs__free(writer->env, writer->slices);
    hs__map_free(&writer->names);
}
