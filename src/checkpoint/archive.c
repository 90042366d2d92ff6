/* SPDX-License-Identifier: Apache-2.0 */
/* Each function handles the three kinds: a bundle, a safetensors file, a snapshot. */
#include "checkpoint/archive.h"

#include <string.h>

/* Opening. */

hs_code hs__archive_open(hs__archive *archive, hs__archive_kind kind, const hs_env *env, const char *path, hs_error *err)
{
    hs_code code;
    *archive = (hs__archive){.kind = kind};
    if (kind == HS__BUNDLE) {
        if ((code = hs__bundle_reader_open(&archive->bundle, env, path, err)))
            return code;
        archive->path = archive->bundle.prefix;
        archive->n = archive->bundle.n_entries;
    } else {
        if ((code = hs__safetensors_reader_open(&archive->file, env, path, err)))
            return code;
        archive->path = archive->file.path;
        archive->n = archive->file.header.n;
    }
    return HS_OK;
}

void hs__archive_close(hs__archive *archive)
{
    if (archive->kind == HS__BUNDLE)
        hs__bundle_reader_close(&archive->bundle);
    else
        hs__safetensors_reader_close(&archive->file);
}

hs__archive hs__snapshot_archive(const hs__snapshot *snapshot, const char *name)
{
    return (hs__archive){.kind = HS__SNAPSHOT, .path = name, .n = snapshot->n, .snapshot = snapshot};
}

void hs__archive_fork(const hs__archive *archive, hs__archive *fork)
{
    *fork = *archive;
    hs__bundle_reader_fork(&archive->bundle, &fork->bundle);
}

void hs__archive_fork_close(hs__archive *fork)
{
    hs__bundle_reader_close_file(&fork->bundle);
}

/* Describing. */

hs__stored hs__archive_tensor(const hs__archive *archive, size_t index)
{
    if (archive->kind == HS__BUNDLE) {
        const hs__bundle_entry *entry = &archive->bundle.entries[index];
        return (hs__stored){.name = entry->name,
                            .dtype = entry->dtype,
                            .dtype_name = hs__bundle_dtype_name(entry),
                            .shape = entry->shape,
                            .bytes = hs__bundle_read_bytes(entry),
                            .crc = entry->crc,
                            .in_slices = entry->slices != 0};
    }
    if (archive->kind == HS__SAFETENSORS) {
        const hs__safetensors_entry *entry = &archive->file.header.entries[index];
        return (hs__stored){.name = entry->name,
                            .dtype = (int32_t)entry->dtype,
                            .dtype_name = entry->dtype ? hs_dtype_name(entry->dtype) : entry->dtype_name,
                            .shape = entry->shape,
                            .bytes = (size_t)entry->bytes};
    }
    const hs__save_item item = hs__snapshot_item(archive->snapshot, index);
    return (hs__stored){.name = item.name,
                        .dtype = (int32_t)item.value.dtype,
                        .dtype_name = hs_dtype_name(item.value.dtype),
                        .shape = hs_tensor_shape(&item.value),
                        .bytes = item.value.bytes,
                        .data = item.value.data,
                        .memory = item.value.memory};
}

const char *hs__archive_name(const hs__archive *archive, size_t index)
{
    return archive->kind == HS__BUNDLE        ? archive->bundle.entries[index].name
           : archive->kind == HS__SAFETENSORS ? archive->file.header.entries[index].name
                                              : hs__snapshot_item(archive->snapshot, index).name;
}

size_t hs__archive_find(const hs__archive *archive, const char *name)
{
    if (archive->kind != HS__SNAPSHOT)
        return hs__map_find(archive->kind == HS__BUNDLE ? &archive->bundle.names : &archive->file.header.names, name);
    /* the variables of a snapshot are in the order of their names, the states are not */
    const hs__snapshot *snapshot = archive->snapshot;
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

/* Reading. */

/* The entry of a bundle to read: the tensor's; for a part of a tensor of strings, that of the saved slice with exactly this
 * box. NULL: no such slice was saved. */
static const hs__bundle_entry *entry_of(const hs__bundle_reader *reader, size_t index, const hs__box *box)
{
    const hs__bundle_entry *entry = &reader->entries[index];
    if (!box || entry->dtype != HS_STRING)
        return entry;
    for (size_t i = 0; entry->slices && i < reader->n_slices; i++)
        if (reader->slices[i].listed && strcmp(reader->slices[i].entry.name, entry->name) == 0 &&
            hs__box_order(&reader->slices[i].box, box) == 0)
            return &reader->slices[i].entry;
    return NULL;
}

hs_code hs__archive_check(const hs__archive *archive, size_t index, hs_error *err)
{
    return archive->kind == HS__BUNDLE ? hs__bundle_check(&archive->bundle, &archive->bundle.entries[index], err)
                                       : hs__safetensors_check(&archive->file, &archive->file.header.entries[index], err);
}

hs_code hs__archive_locate(hs__archive *archive, size_t index, const hs__box *box, size_t *bytes, hs_error *err)
{
    const hs__stored stored = hs__archive_tensor(archive, index);
    const bool in_numbers = box && stored.dtype != HS_STRING;
    hs_code code = HS_OK;
    size_t to_read = stored.bytes;
    if (archive->kind == HS__BUNDLE) {
        const hs__bundle_entry *entry = entry_of(&archive->bundle, index, box);
        if (!entry)
            return hs_error_set(err, HS_UNIMPLEMENTED,
                                "cannot restore '%s': it has strings, whose slices must be the saved ones", stored.name);
        to_read = hs__bundle_read_bytes(entry);
        code = hs__bundle_locate(&archive->bundle, entry, err);
    } else if (archive->kind == HS__SAFETENSORS) {
        code = box ? hs__archive_check(archive, index, err) : HS_OK;
        if (!code && stored.bytes > SIZE_MAX / 2)
            code = hs__no_memory(err, SIZE_MAX, stored.name);
    }
    if (in_numbers && !code) {
        const hs_shape shape = hs__box_shape(box);
        to_read = (size_t)hs_shape_elements(&shape) * hs_dtype_size((hs_dtype)stored.dtype);
    }
    if (bytes)
        *bytes = to_read;
    return code;
}

hs_code hs__archive_read(hs__archive *archive, size_t index, const hs__box *box, void *to, hs_error *err)
{
    if (archive->kind == HS__BUNDLE) {
        const hs__bundle_entry *entry = entry_of(&archive->bundle, index, box);
        return box && entry->dtype != HS_STRING ? hs__bundle_read_slice(&archive->bundle, entry, box, to, err)
                                                : hs__bundle_read(&archive->bundle, entry, to, err);
    }
    if (archive->kind == HS__SAFETENSORS) {
        const hs__safetensors_entry *entry = &archive->file.header.entries[index];
        if (!box)
            return hs__safetensors_read(&archive->file, entry, 0, to, (size_t)entry->bytes, err);
        const hs__box whole = hs__box_of(&entry->shape);
        hs__runs runs = hs__runs_begin(&whole, box, hs_dtype_size(entry->dtype));
        hs_code code = HS_OK;
        for (; !code && runs.remaining; hs__runs_next(&runs))
            code = hs__safetensors_read(&archive->file, entry, runs.from, (char *)to + runs.to, runs.run, err);
        return code;
    }
    const hs_tensor value = hs__snapshot_item(archive->snapshot, index).value;
    if (value.bytes)
        memcpy(to, value.data, value.bytes);
    return HS_OK;
}

hs_code hs__archive_stream(hs__archive *archive, size_t index, hs__put_fn put, void *user, hs_error *err)
{
    return hs__bundle_stream(&archive->bundle, &archive->bundle.entries[index], put, user, err);
}

hs_code hs__archive_verify(hs__archive *archive, size_t index, hs_error *err)
{
    return archive->kind == HS__BUNDLE ? hs__bundle_verify(&archive->bundle, &archive->bundle.entries[index], err) : HS_OK;
}

hs_code hs__archive_verify_all(hs__archive *archive, hs_error *err)
{
    for (size_t i = 0; i < archive->n; i++) {
        hs_error cause = {0};
        hs_code code = hs__archive_verify(archive, i, &cause);
        if (code && (code != HS_UNIMPLEMENTED || cause.os_error))
            return hs__error_copy(err, &cause);
    }
    return HS_OK;
}
