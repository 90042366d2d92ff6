/* SPDX-License-Identifier: Apache-2.0 */
/* Three tables of functions: for bundles, for safetensors files and for snapshots. */
#include "checkpoint/archive.h"

#include <string.h>

/* Bundles. */

static const hs__bundle_entry *entry_of(const void *reader, size_t index)
{
    return &((const hs__bundle_reader *)reader)->entries[index];
}

static const char *bundle_name(const void *reader, size_t index)
{
    return entry_of(reader, index)->name;
}

static hs__stored bundle_tensor(const void *reader, size_t index)
{
    const hs__bundle_entry *entry = entry_of(reader, index);
    return (hs__stored){.name = entry->name,
                        .dtype = entry->dtype,
                        .dtype_name = hs__bundle_dtype_name(entry),
                        .shape = entry->shape,
                        .bytes = hs__bundle_read_bytes(entry),
                        .crc = entry->crc,
                        .in_slices = entry->slices != 0};
}

static size_t bundle_find(const void *reader, const char *name)
{
    return hs__map_find(&((const hs__bundle_reader *)reader)->names, name);
}

/* The saved slice with exactly this box, or NULL. */
static const hs__bundle_entry *same_slice(const hs__bundle_reader *reader, const hs__bundle_entry *entry,
                                          const hs__box *box)
{
    for (size_t i = 0; entry->slices && i < reader->n_slices; i++)
        if (reader->slices[i].listed && strcmp(reader->slices[i].entry.name, entry->name) == 0 &&
            hs__box_order(&reader->slices[i].box, box) == 0)
            return &reader->slices[i].entry;
    return NULL;
}

static hs_code bundle_locate(void *reader, size_t index, const hs__box *box, size_t *bytes, hs_error *err)
{
    const hs__bundle_entry *entry = entry_of(reader, index);
    size_t to_read = hs__bundle_read_bytes(entry);
    if (box && entry->dtype == HS_STRING) {
        const hs__bundle_entry *slice = same_slice(reader, entry, box);
        if (!slice)
            return hs_error_set(err, HS_UNIMPLEMENTED,
                                "cannot restore '%s': it has strings, whose slices must be the saved ones", entry->name);
        entry = slice;
        to_read = hs__bundle_read_bytes(slice);
    } else if (box) {
        const hs_shape shape = hs__box_shape(box);
        to_read = (size_t)hs_shape_elements(&shape) * hs_dtype_size((hs_dtype)entry->dtype);
    }
    if (bytes)
        *bytes = to_read;
    return hs__bundle_locate(reader, entry, err);
}

static hs_code bundle_read(void *reader, size_t index, const hs__box *box, void *to, hs_error *err)
{
    const hs__bundle_entry *entry = entry_of(reader, index);
    if (!box)
        return hs__bundle_read(reader, entry, to, err);
    return entry->dtype == HS_STRING ? hs__bundle_read(reader, same_slice(reader, entry, box), to, err)
                                     : hs__bundle_read_slice(reader, entry, box, to, err);
}

static hs_code bundle_verify(void *reader, size_t index, hs_error *err)
{
    return hs__bundle_verify(reader, entry_of(reader, index), err);
}

static hs_code bundle_read_next(void *reader, size_t index, hs__bundle_cursor *cursor, void *to, size_t bytes,
                                hs_error *err)
{
    cursor->reader = reader;
    cursor->entry = entry_of(reader, index);
    return hs__bundle_read_next(cursor, to, bytes, err);
}

static const hs__archive_ops bundle_ops = {.name = bundle_name,
                                           .tensor = bundle_tensor,
                                           .find = bundle_find,
                                           .locate = bundle_locate,
                                           .read = bundle_read,
                                           .verify = bundle_verify,
                                           .read_next = bundle_read_next,
                                           .has_states = true,
                                           .forks = true};

hs__archive hs__bundle_archive(hs__bundle_reader *reader)
{
    return (hs__archive){&bundle_ops, reader, reader->prefix, reader->n_entries};
}

/* Safetensors files. Opening one has checked it. */

static const char *file_name(const void *reader, size_t index)
{
    return ((const hs__safetensors_reader *)reader)->header.entries[index].name;
}

static hs__stored file_tensor(const void *reader, size_t index)
{
    const hs__safetensors_entry *entry = &((const hs__safetensors_reader *)reader)->header.entries[index];
    return (hs__stored){.name = entry->name,
                        .dtype = (int32_t)entry->dtype,
                        .dtype_name = entry->dtype ? hs_dtype_name(entry->dtype) : entry->dtype_name,
                        .shape = entry->shape,
                        .bytes = (size_t)entry->bytes};
}

static size_t file_find(const void *reader, const char *name)
{
    return hs__safetensors_find(reader, name);
}

static hs_code file_locate(void *reader, size_t index, const hs__box *box, size_t *bytes, hs_error *err)
{
    const hs__safetensors_entry *entry = &((hs__safetensors_reader *)reader)->header.entries[index];
    const hs_shape shape = box ? hs__box_shape(box) : HS_SCALAR;
    if (bytes)
        *bytes = box ? (size_t)hs_shape_elements(&shape) * hs_dtype_size(entry->dtype) : (size_t)entry->bytes;
    hs_code code = box ? hs__safetensors_check(reader, entry, err) : HS_OK;
    if (!code && entry->bytes > SIZE_MAX / 2)
        code = hs__no_memory(err, SIZE_MAX, entry->name);
    return code;
}

static hs_code file_read(void *reader, size_t index, const hs__box *box, void *to, hs_error *err)
{
    const hs__safetensors_entry *entry = &((hs__safetensors_reader *)reader)->header.entries[index];
    if (!box)
        return hs__safetensors_read(reader, entry, 0, to, (size_t)entry->bytes, err);
    const hs__box whole = hs__box_of(&entry->shape);
    hs__runs runs = hs__runs_begin(&whole, box, hs_dtype_size(entry->dtype));
    hs_code code = HS_OK;
    for (; !code && runs.remaining; hs__runs_next(&runs))
        code = hs__safetensors_read(reader, entry, runs.from, (char *)to + runs.to, runs.run, err);
    return code;
}

static hs_code file_verify(void *reader, size_t index, hs_error *err)
{
    return file_locate(reader, index, NULL, NULL, err);
}

static const hs__archive_ops file_ops = {.name = file_name,
                                         .tensor = file_tensor,
                                         .find = file_find,
                                         .locate = file_locate,
                                         .read = file_read,
                                         .verify = file_verify};

hs__archive hs__safetensors_archive(hs__safetensors_reader *reader)
{
    return (hs__archive){&file_ops, reader, reader->path, reader->header.n};
}

/* Snapshots. */

static const char *copied_name(const void *snapshot, size_t index)
{
    return hs__snapshot_item(snapshot, index).name;
}

static hs__stored copied_tensor(const void *snapshot, size_t index)
{
    const hs__save_item item = hs__snapshot_item(snapshot, index);
    return (hs__stored){.name = item.name,
                        .dtype = (int32_t)item.value.dtype,
                        .dtype_name = hs_dtype_name(item.value.dtype),
                        .shape = hs_tensor_shape(&item.value),
                        .bytes = item.value.bytes,
                        .data = item.value.data};
}

/* The variables are in the order of their names, the states are not. */
static size_t copied_find(const void *user, const char *name)
{
    const hs__snapshot *snapshot = user;
    size_t first = 0, end = snapshot->n_variables;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        const int order = strcmp(name, hs__snapshot_item(snapshot, middle).name);
        if (!order)
            return middle;
        if (order < 0)
            end = middle;
        else
            first = middle + 1;
    }
    for (size_t i = snapshot->n_variables; i < snapshot->n; i++)
        if (strcmp(name, hs__snapshot_item(snapshot, i).name) == 0)
            return i;
    return HS__NONE;
}

static hs_code copied_locate(void *snapshot, size_t index, const hs__box *box, size_t *bytes, hs_error *err)
{
    (void)box, (void)err;
    if (bytes)
        *bytes = hs__snapshot_item(snapshot, index).value.bytes;
    return HS_OK;
}

static hs_code copied_read(void *snapshot, size_t index, const hs__box *box, void *to, hs_error *err)
{
    const hs_tensor value = hs__snapshot_item(snapshot, index).value;
    (void)box, (void)err;
    if (value.bytes)
        memcpy(to, value.data, value.bytes);
    return HS_OK;
}

static const hs__archive_ops snapshot_ops = {.name = copied_name,
                                             .tensor = copied_tensor,
                                             .find = copied_find,
                                             .locate = copied_locate,
                                             .read = copied_read,
                                             .has_states = true,
                                             .in_memory = true};

hs__archive hs__snapshot_archive(const hs__snapshot *snapshot, const char *name)
{
    return (hs__archive){&snapshot_ops, (void *)snapshot, name, snapshot->n};
}

hs_code hs__archive_verify_all(const hs__archive *archive, hs_error *err)
{
    for (size_t i = 0; i < archive->n; i++) {
        hs_error cause = {0};
        hs_code code = hs__archive_verify(archive, i, &cause);
        if (code && (code != HS_UNIMPLEMENTED || cause.os_error))
            return hs__error_copy(err, &cause);
    }
    return HS_OK;
}

/* For other threads. */

void hs__archive_fork_begin(const hs__archive *archive, hs__archive_fork *fork)
{
    fork->archive = *archive;
    hs__bundle_reader_fork(archive->reader, &fork->reader);
    fork->archive.reader = &fork->reader;
    fork->archive.path = fork->reader.prefix;
}

void hs__archive_fork_end(hs__archive_fork *fork)
{
    hs__bundle_reader_fork_close(&fork->reader);
}
