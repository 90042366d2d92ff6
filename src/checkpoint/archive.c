/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/archive.h"

/* Bundles. */

static const hs__bundle_entry *entry_of(const void *reader, size_t index)
{
    return &((const hs__bundle_reader *)reader)->entries[index];
}

static hs__stored bundle_tensor(const void *reader, size_t index)
{
    const hs__bundle_entry *entry = entry_of(reader, index);
    return (hs__stored){entry->name, entry->dtype, entry->shape, hs__bundle_read_bytes(entry), entry->slices != 0};
}

static size_t bundle_find(const void *reader, const char *name)
{
    return hs__map_find(&((const hs__bundle_reader *)reader)->names, name);
}

static hs_code bundle_locate(void *reader, size_t index, hs_error *err)
{
    return hs__bundle_locate(reader, entry_of(reader, index), err);
}

static hs_code bundle_read(void *reader, size_t index, void *to, hs_error *err)
{
    return hs__bundle_read(reader, entry_of(reader, index), to, err);
}

static hs_code bundle_verify(void *reader, size_t index, hs_error *err)
{
    return hs__bundle_verify(reader, entry_of(reader, index), err);
}

static const hs__archive_ops bundle_ops = {bundle_tensor, bundle_find, bundle_locate, bundle_read, bundle_verify, true};

hs__archive hs__bundle_archive(hs__bundle_reader *reader)
{
    return (hs__archive){&bundle_ops, reader, reader->prefix, reader->n_entries};
}

/* safetensors files: all that can be checked of them is, when they are opened. */

static hs__stored file_tensor(const void *reader, size_t index)
{
    const hs__safetensors_entry *entry = &((const hs__safetensors_reader *)reader)->header.entries[index];
    return (hs__stored){entry->name, (int32_t)entry->dtype, entry->shape, (size_t)entry->bytes, false};
}

static size_t file_find(const void *reader, const char *name)
{
    return hs__safetensors_find(reader, name);
}

static hs_code file_locate(void *reader, size_t index, hs_error *err)
{
    const hs__safetensors_entry *entry = &((hs__safetensors_reader *)reader)->header.entries[index];
    return entry->bytes > SIZE_MAX / 2 ? hs__no_memory(err, SIZE_MAX, entry->name) : HS_OK;
}

static hs_code file_read(void *reader, size_t index, void *to, hs_error *err)
{
    const hs__safetensors_entry *entry = &((hs__safetensors_reader *)reader)->header.entries[index];
    return hs__safetensors_read(reader, entry, 0, to, (size_t)entry->bytes, err);
}

static const hs__archive_ops file_ops = {file_tensor, file_find, file_locate, file_read, file_locate, false};

hs__archive hs__safetensors_archive(hs__safetensors_reader *reader)
{
    return (hs__archive){&file_ops, reader, reader->path, reader->header.n};
}

/* Both. */

hs__stored hs__archive_tensor(const hs__archive *archive, size_t index)
{
    return archive->ops->tensor(archive->reader, index);
}

size_t hs__archive_find(const hs__archive *archive, const char *name)
{
    return archive->ops->find(archive->reader, name);
}

hs_code hs__archive_locate(const hs__archive *archive, size_t index, hs_error *err)
{
    return archive->ops->locate(archive->reader, index, err);
}

hs_code hs__archive_read(const hs__archive *archive, size_t index, void *to, hs_error *err)
{
    return archive->ops->read(archive->reader, index, to, err);
}

hs_code hs__archive_verify(const hs__archive *archive, size_t index, hs_error *err)
{
    return archive->ops->verify(archive->reader, index, err);
}

void hs__archive_fork_begin(const hs__archive *archive, hs__archive_fork *fork)
{
    fork->archive = *archive;
    hs__bundle_reader_fork(archive->reader, &fork->reader);
    fork->archive.reader = &fork->reader;
    fork->archive.path = fork->reader.prefix;
}

void hs__archive_fork_end(hs__archive_fork *fork)
{
    hs__bundle_reader_part(&fork->reader);
}
