/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bundle_data.h"

#include "base/crc32c.h"
#include "formats/bundle_strings.h"

#include <string.h>

hs_code hs__bundle_reader_init(hs__bundle_reader *reader, const hs_env *env, const char *prefix, hs_error *err)
{
    *reader = (hs__bundle_reader){.env = env, .file_shard = -1, .file = {.env = env}};
    hs__map_init(&reader->names, env);
    hs__map_init(&reader->sliced, env);
    reader->prefix = prefix ? hs__strdup(env, prefix) : NULL;
    return reader->prefix || !prefix ? HS_OK : hs__no_memory(err, strlen(prefix), "a path");
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

int hs__bundle_compare_places(const hs__bundle_entry *a, const hs__bundle_entry *b)
{
    if (a->shard != b->shard)
        return (a->shard > b->shard) - (a->shard < b->shard);
    return (a->offset > b->offset) - (a->offset < b->offset);
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

/* Checks an entry that has data. */
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

/* The data file. */

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

/* Checks that the data file has all bytes of the entry, before memory for them is allocated. */
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

/* Reading. */

hs_code hs__bundle_check_crc(const hs__bundle_reader *reader, const hs__bundle_entry *entry, uint32_t crc, hs_error *err)
{
    if (crc == hs__crc32c_unmask(entry->crc))
        return HS_OK;
    return hs_error_set(err, HS_DATA_LOSS, "%s: checksum mismatch of '%s': stored %08x, found %08x", reader->file_path,
                        entry->name, (unsigned)hs__crc32c_unmask(entry->crc), (unsigned)crc);
}

hs_code hs__bundle_read_pieces(hs__bundle_reader *reader, const hs__bundle_entry *entry, char *to, bool whole,
                               hs__bundle_piece_fn on_piece, void *user, hs_error *err)
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
        if (on_piece && (code = on_piece(user, at, done, n, err)))
            return code;
    }
    return hs__bundle_check_crc(reader, entry, crc, err);
}

hs_code hs__bundle_read_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *to, hs_error *err)
{
    uint32_t crc;
    hs_code code = hs__bundle_locate_whole(reader, entry, err);
    if (code)
        return code;
    if (entry->dtype != HS_STRING)
        return hs__bundle_read_pieces(reader, entry, to, true, NULL, NULL, err);
    code = hs__bundle_read_strings(reader, entry, to, &crc, err);
    return code ? code : hs__bundle_check_crc(reader, entry, crc, err);
}

static hs_code verify_strings(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *piece, hs_error *err)
{
    uint32_t crc;
    hs_code code = hs__bundle_sum_strings(reader, entry, piece, &crc, err);
    return code ? code : hs__bundle_check_crc(reader, entry, crc, err);
}

hs_code hs__bundle_verify_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_code code = hs__bundle_locate_whole(reader, entry, err);
    if (code)
        return code;
    void *scratch = hs__realloc(reader->env, NULL, HS__BUNDLE_PIECE, 1);
    if (!scratch)
        return hs__no_memory(err, HS__BUNDLE_PIECE, "verifying a checkpoint");
    code = entry->dtype == HS_STRING ? verify_strings(reader, entry, scratch, err)
                                     : hs__bundle_read_pieces(reader, entry, scratch, false, NULL, NULL, err);
    hs__free(reader->env, scratch);
    return code;
}
