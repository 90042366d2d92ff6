/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bundle_inside.h"

#include "base/crc32c.h"
#include "formats/bundle_strings.h"
#include "formats/byte_order.h"

#include <string.h>

static bool is_file_of_checkpoint(const char *path)
{
    size_t length = strlen(path);
    return (length > 6 && strcmp(path + length - 6, ".index") == 0) || strstr(hs__path_base(path), ".data-");
}

hs_code hs__bundle_reader_init(hs__bundle_reader *reader, const hs_env *env, const char *prefix, hs_error *err)
{
    *reader = (hs__bundle_reader){.env = env, .file_shard = -1, .file = {.env = env}};
    hs__map_init(&reader->names, env);
    hs__map_init(&reader->sliced, env);
    reader->prefix = prefix ? hs__strdup(env, prefix) : NULL;
    return reader->prefix || !prefix ? HS_OK : hs__no_memory(err, strlen(prefix), "a path");
}

hs_code hs__bundle_reader_open(hs__bundle_reader *reader, const hs_env *env, const char *prefix, hs_error *err)
{
    hs_code code = hs__bundle_reader_init(reader, env, prefix, err);
    if (!code)
        code = hs__bundle_read_index(reader, err);
    if (code == HS_NOT_FOUND && is_file_of_checkpoint(prefix))
        hs_error_prefix(err, "not the prefix of a checkpoint (leave out .index and .data-...)");
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
    hs__free(reader->env, reader->lost);
    hs__free(reader->env, reader->placed);
    hs__map_free(&reader->names);
    hs__map_free(&reader->sliced);
    hs__bundle_reader_init(reader, reader->env, NULL, NULL);
}

const hs__bundle_entry *hs__bundle_find(const hs__bundle_reader *reader, const char *name)
{
    size_t at = hs__map_find(&reader->names, name);
    return at == HS__NONE ? NULL : &reader->entries[at];
}

/* Checking. */

hs_code hs__bundle_check_kind(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    if (!hs__dtype_valid(entry->dtype) || entry->shape.rank < 0)
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: '%s' has a type (%d) or rank that is not supported", reader->prefix,
                            entry->name, (int)entry->dtype);
    int64_t n = hs_shape_elements(&entry->shape);
    if (n < 0 || (uint64_t)n > SIZE_MAX / 2 / hs_dtype_size((hs_dtype)entry->dtype))
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has an invalid shape", reader->prefix, entry->name);
    return HS_OK;
}

/* Of one that has data. */
static hs_code check_whole(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_code code = hs__bundle_check_kind(reader, entry, err);
    if (code)
        return code;
    uint64_t n = (uint64_t)hs_shape_elements(&entry->shape);
    uint64_t least = entry->dtype == HS_STRING ? n + 4 : n * hs_dtype_size((hs_dtype)entry->dtype);
    if (entry->bytes < least || (entry->dtype != HS_STRING && entry->bytes != least) || entry->bytes > SIZE_MAX / 2)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has %llu bytes, but its type and shape need %llu", reader->prefix,
                            entry->name, (unsigned long long)entry->bytes, (unsigned long long)least);
    return HS_OK;
}

hs_code hs__bundle_check(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    if (!entry->slices)
        return check_whole(reader, entry, err);
    if (entry->dtype == HS_STRING)
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: '%s' has strings and is stored in slices, which is not supported",
                            reader->prefix, entry->name);
    return hs__bundle_check_kind(reader, entry, err);
}

size_t hs__bundle_read_bytes(const hs__bundle_entry *entry)
{
    if (entry->dtype != HS_STRING)
        return (size_t)entry->bytes;
    int64_t n = hs_shape_elements(&entry->shape);
    return n < 0 ? 0 : (size_t)n * sizeof(hs_string) + (size_t)entry->bytes;
}

static void close_shard(hs__bundle_reader *reader)
{
    hs__file_close(&reader->file, NULL);
    hs__free(reader->env, reader->file_path);
    reader->file_path = NULL;
    reader->file_shard = -1;
}

static hs_code open_shard(hs__bundle_reader *reader, int32_t shard, hs_error *err)
{
    hs_file_stat found;
    if (reader->file_shard == shard)
        return HS_OK;
    close_shard(reader);
    reader->file_path = hs__bundle_data_path(reader->env, reader->prefix, shard, reader->shards);
    if (!reader->file_path)
        return hs__no_memory(err, strlen(reader->prefix), "a path");
    hs_code code = hs__file_open(&reader->file, reader->env, reader->file_path, HS_OPEN_READ, err);
    if (code || (code = hs__stat(reader->env, reader->file_path, &found, err)))
        return code;
    reader->file_bytes = found.bytes;
    reader->file_shard = shard;
    return HS_OK;
}

void hs__bundle_reader_fork(const hs__bundle_reader *reader, hs__bundle_reader *fork)
{
    *fork = *reader;
    fork->file = (hs__file){.env = reader->env};
    fork->file_path = NULL;
    fork->file_shard = -1;
}

void hs__bundle_reader_fork_close(hs__bundle_reader *fork)
{
    close_shard(fork);
}

/* Is all of it in the file? Asked before memory for it is. */
static hs_code check_range(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    if (entry->offset <= reader->file_bytes && entry->bytes <= reader->file_bytes - entry->offset)
        return HS_OK;
    return hs_error_set(err, HS_DATA_LOSS, "%s: has %llu bytes, too few for '%s' (%llu bytes at %llu)", reader->file_path,
                        (unsigned long long)reader->file_bytes, entry->name, (unsigned long long)entry->bytes,
                        (unsigned long long)entry->offset);
}

hs_code hs__bundle_locate_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_code code = check_whole(reader, entry, err);
    if (!code)
        code = open_shard(reader, entry->shard, err);
    return code ? code : check_range(reader, entry, err);
}

hs_code hs__bundle_locate(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    if (!entry->slices)
        return hs__bundle_locate_whole(reader, entry, err);
    hs_code code = hs__bundle_check(reader, entry, err);
    return code ? code : hs__bundle_locate_slices(reader, entry, err);
}

/* Reading. */

hs_code hs__bundle_wrong_checksum(const hs__bundle_reader *reader, const hs__bundle_entry *entry, uint32_t found,
                                  hs_error *err)
{
    return hs_error_set(err, HS_DATA_LOSS, "%s: checksum mismatch of '%s': stored %08x, found %08x", reader->file_path,
                        entry->name, (unsigned)hs__crc32c_unmask(entry->crc), (unsigned)found);
}

hs_code hs__bundle_read_pieces(hs__bundle_reader *reader, const hs__bundle_entry *entry, char *to, bool whole,
                               hs__bundle_piece_fn take, void *user, hs_error *err)
{
    uint32_t crc = 0;
    size_t bytes = (size_t)entry->bytes;
    for (size_t done = 0, n; done < bytes; done += n) {
        char *at = whole ? to + done : to;
        n = bytes - done < HS__BUNDLE_PIECE ? bytes - done : HS__BUNDLE_PIECE;
        hs_code code = hs__file_read(&reader->file, entry->offset + done, at, n, reader->file_path, err);
        if (code)
            return code;
        hs__read_progress_add(reader->progress, n);
        crc = hs__crc32c(crc, at, n);
        if (take && (code = take(user, at, done, n, err)))
            return code;
    }
    return crc == hs__crc32c_unmask(entry->crc) ? HS_OK : hs__bundle_wrong_checksum(reader, entry, crc, err);
}

hs_code hs__bundle_read_next(hs__bundle_cursor *cursor, void *to, size_t bytes, hs_error *err)
{
    hs__bundle_reader *reader = cursor->reader;
    const hs__bundle_entry *entry = cursor->entry;
    hs_code code = hs__bundle_locate_whole(reader, entry, err);
    char *at = to;
    for (size_t done = 0, n; !code && done < bytes; done += n) {
        n = bytes - done < HS__BUNDLE_PIECE ? bytes - done : HS__BUNDLE_PIECE;
        if ((code = hs__file_read(&reader->file, entry->offset + cursor->done, at + done, n, reader->file_path, err)))
            break;
        hs__read_progress_add(reader->progress, n);
        cursor->crc = hs__crc32c(cursor->crc, at + done, n);
        cursor->done += n;
    }
    if (!code && cursor->done == entry->bytes && cursor->crc != hs__crc32c_unmask(entry->crc))
        code = hs__bundle_wrong_checksum(reader, entry, cursor->crc, err);
    return code;
}

/* In the bundle's byte order. */
static hs_code read_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *to, hs_error *err)
{
    hs_code code = hs__bundle_locate_whole(reader, entry, err);
    if (code)
        return code;
    return entry->dtype == HS_STRING ? hs__bundle_read_strings(reader, entry, to, err)
                                     : hs__bundle_read_pieces(reader, entry, to, true, NULL, NULL, err);
}

hs_code hs__bundle_read(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *to, hs_error *err)
{
    if (entry->slices)
        return hs__bundle_read_slices(reader, entry, to, err);
    hs_code code = read_whole(reader, entry, to, err);
    if (!code && reader->big_endian != hs__big_endian())
        hs__swap_bytes((hs_dtype)entry->dtype, to, (size_t)entry->bytes);
    return code;
}

typedef struct {
    const hs__bundle_entry *entry;
    bool swapped;
    hs__bundle_take take;
    void *user;
} streaming;

static hs_code pass_on(void *user, char *piece, size_t at, size_t n, hs_error *err)
{
    const streaming *s = user;
    (void)at;
    if (s->swapped)
        hs__swap_bytes((hs_dtype)s->entry->dtype, piece, n);
    return s->take(s->user, piece, n, err);
}

/* Each piece of a tensor in slices is looked for in all of them: the more there are, the larger are the pieces. */
static uint64_t largest_piece(const hs__bundle_entry *entry)
{
    enum { PER_SLICE = 64 };
    if (!entry->slices)
        return HS__BUNDLE_PIECE;
    return entry->slices < HS__BUNDLE_ROWS / PER_SLICE ? HS__BUNDLE_ROWS : (uint64_t)entry->slices * PER_SLICE;
}

hs_code hs__bundle_stream(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__bundle_take take, void *user,
                          hs_error *err)
{
    streaming s = {entry, reader->big_endian != hs__big_endian(), take, user};
    hs_code code = hs__bundle_locate(reader, entry, err);
    if (code)
        return code;
    uint64_t most = largest_piece(entry);
    size_t room = (size_t)(entry->bytes < most ? entry->bytes : most);
    void *scratch = hs__realloc(reader->env, NULL, room, 1);
    if (!scratch)
        return hs__no_memory(err, room, "reading a checkpoint");
    code = entry->slices ? hs__bundle_stream_slices(reader, entry, scratch, room, take, user, err)
                         : hs__bundle_read_pieces(reader, entry, scratch, false, pass_on, &s, err);
    hs__free(reader->env, scratch);
    return code;
}

hs_code hs__bundle_verify_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_code code = hs__bundle_locate_whole(reader, entry, err);
    if (code)
        return code;
    void *scratch = hs__realloc(reader->env, NULL, HS__BUNDLE_PIECE, 1);
    if (!scratch)
        return hs__no_memory(err, HS__BUNDLE_PIECE, "verifying a checkpoint");
    code = entry->dtype == HS_STRING ? hs__bundle_verify_strings(reader, entry, scratch, err)
                                     : hs__bundle_read_pieces(reader, entry, scratch, false, NULL, NULL, err);
    hs__free(reader->env, scratch);
    return code;
}

hs_code hs__bundle_verify(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    return entry->slices ? hs__bundle_verify_slices(reader, entry, err) : hs__bundle_verify_whole(reader, entry, err);
}
