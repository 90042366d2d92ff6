/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/merged_file.h"

#include "base/crc32c.h"
#include "base/stream.h"
#include "formats/bundle_data.h"

#include <stdlib.h>
#include <string.h>

/* A piece of this size is read without the cache of the system, into memory with this alignment. */
enum { PIECE = 1 << 21, ALIGNMENT = 4096 };

/* Verifying. */

/* The data of a checkpoint, or of one of its data files, in the order of the files. */
typedef struct {
    hs__bundle_reader *reader;
    hs__bundle_entry **items;
    size_t n;
} data_list;

static int by_place(const void *a, const void *b)
{
    return hs__bundle_compare_places(*(hs__bundle_entry *const *)a, *(hs__bundle_entry *const *)b);
}

/* shard -1: all */
static hs_code list_data(data_list *list, hs__bundle_reader *reader, int32_t shard, hs_error *err)
{
    size_t most = reader->n_entries + reader->n_slices;
    *list = (data_list){reader, hs__alloc(reader->env, most + 1, sizeof *list->items), 0};
    if (!list->items)
        return hs__no_memory(err, most, "a list of tensors");
    for (size_t i = 0; i < reader->n_entries; i++)
        if (!reader->entries[i].slices && (shard < 0 || reader->entries[i].shard == shard))
            list->items[list->n++] = &reader->entries[i];
    for (size_t i = 0; i < reader->n_slices; i++)
        if (shard < 0 || reader->slices[i].entry.shard == shard)
            list->items[list->n++] = &reader->slices[i].entry;
    qsort(list->items, list->n, sizeof *list->items, by_place);
    return HS_OK;
}

/* Verifies the items that are not verified yet. A tensor that cannot be verified is accepted. */
static hs_code verify(const data_list *list, hs_error *err)
{
    for (size_t i = 0; i < list->n; i++) {
        hs_error cause = {0};
        hs_code code = list->items[i]->verified ? HS_OK : hs__bundle_verify_whole(list->reader, list->items[i], &cause);
        if (code && (code != HS_UNIMPLEMENTED || cause.os_error))
            return hs__error_copy(err, &cause);
    }
    return HS_OK;
}

hs_code hs__verify_checkpoint(const hs_env *env, const char *prefix, hs_error *err)
{
    hs__bundle_reader reader;
    data_list list;
    hs_code code = hs__bundle_reader_open(&reader, env, prefix, err);
    if (code)
        return code;
    if (!(code = list_data(&list, &reader, -1, err)))
        code = verify(&list, err);
    hs__free(env, list.items);
    hs__bundle_reader_close(&reader);
    return code;
}

/* Copying. */

hs_code hs__merged_file_bytes(const hs_env *env, const hs__merged_file *file, uint64_t *bytes, hs_error *err)
{
    hs_file_stat found;
    hs_code code = hs__stat(env, file->from, &found, err);
    if (code)
        return code;
    if (found.bytes < file->bytes)
        return hs_error_set(err, HS_DATA_LOSS, "%s: has %llu bytes, but its index requires %llu", file->from,
                            (unsigned long long)found.bytes, (unsigned long long)file->bytes);
    *bytes = found.bytes;
    return HS_OK;
}

typedef struct {
    hs__bundle_reader reader; /* of the file's checkpoint */
    data_list list;           /* of the file */
    size_t at;                /* the item whose bytes come next */
    uint32_t crc;             /* of its bytes that were copied */
    hs__stream to;            /* env NULL: the file is linked instead of written */
} copying;

/* Verifies numbers by the piece of the file at `offset`. Leaves out strings, as their checksum is not that of their bytes,
 * and tensors without bytes, which may have any offset. */
static hs_code verify_piece(copying *c, const char *piece, uint64_t offset, size_t bytes, hs_error *err)
{
    for (uint64_t end = offset + bytes; c->at < c->list.n && c->list.items[c->at]->offset < end; c->at++) {
        hs__bundle_entry *entry = c->list.items[c->at];
        uint64_t from = entry->offset > offset ? entry->offset : offset, to = entry->offset + entry->bytes;
        if (!entry->bytes || entry->dtype == HS_STRING || hs__bundle_check(&c->reader, entry, NULL))
            continue;
        c->crc = hs__crc32c(c->crc, piece + (from - offset), (size_t)((to < end ? to : end) - from));
        if (to > end)
            return HS_OK;
        hs_code code = hs__bundle_check_crc(&c->reader, entry, c->crc, err);
        if (code)
            return code;
        entry->verified = true;
        c->crc = 0;
    }
    return HS_OK;
}

static hs_code read_pieces(copying *c, hs_error *err)
{
    hs__bundle_reader *reader = &c->reader;
    char *block = hs__realloc(reader->env, NULL, PIECE + ALIGNMENT, 1);
    if (!block)
        return hs__no_memory(err, PIECE + ALIGNMENT, "a copy of a file");
    char *piece = block + (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT;
    hs_code code = HS_OK;
    for (uint64_t done = 0, left = reader->file_bytes; left && !code; done = reader->file_bytes - left) {
        size_t n = left < PIECE ? (size_t)left : PIECE;
        if (!(code = hs__file_read(&reader->file, done, piece, n, reader->file_path, err)) &&
            !(code = verify_piece(c, piece, done, n, err)) && c->to.env)
            code = hs__stream_write(&c->to, piece, n, err);
        left -= n;
    }
    hs__free(reader->env, block);
    return code;
}

static hs_code copy_file(copying *c, const char *tmp, hs_error *err)
{
    hs_code code = hs__stream_open(&c->to, c->reader.env, tmp, err);
    if (!code && !(code = read_pieces(c, err)))
        code = hs__stream_finish(&c->to, err);
    hs__stream_close(&c->to);
    return code;
}

/* The file may not be on the disk yet. */
static hs_code sync_linked(copying *c, hs_error *err)
{
    hs_code code = read_pieces(c, err);
    return code ? code : hs__file_sync(&c->reader.file, err);
}

/* Makes the reader read this file for the shard of `file`. Messages have the name of `file`. */
static hs_code read_from(copying *c, const hs__merged_file *file, const char *path, hs_error *err)
{
    hs__bundle_reader *reader = &c->reader;
    hs__file_close(&reader->file, NULL);
    hs_code code = hs__file_open(&reader->file, reader->env, path, HS_OPEN_READ, err);
    if (code)
        return code;
    if (!reader->file_path && !(reader->file_path = hs__strdup(reader->env, file->from)))
        return hs__no_memory(err, strlen(file->from), "a path");
    reader->file_shard = file->shard;
    return HS_OK;
}

hs_code hs__merged_file_make(const hs_env *env, const hs__merged_file *file, const char *prefix, const char *tmp,
                             hs_error *err)
{
    copying c = {0};
    hs_code code = hs__bundle_reader_open(&c.reader, env, prefix, err);
    if (code)
        return code;
    if (!(code = list_data(&c.list, &c.reader, file->shard, err)) &&
        !(code = hs__merged_file_bytes(env, file, &c.reader.file_bytes, err)) &&
        !(code = read_from(&c, file, file->from, err)) &&
        !(code = hs__file_link(env, file->from, tmp) ? sync_linked(&c, err) : copy_file(&c, tmp, err)) &&
        !(code = read_from(&c, file, tmp, err)))
        code = verify(&c.list, err);
    hs__free(env, c.list.items);
    hs__bundle_reader_close(&c.reader);
    return code;
}
