/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/merged_file.h"

#include "base/stream.h"
#include "formats/bundle_data.h"

#include <string.h>

/* Verifying. */

/* A tensor of an unknown type is accepted. */
static hs_code verify_entry(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_error cause = {0};
    hs_code code = hs__bundle_verify_whole(reader, entry, &cause);
    return code && code != HS_UNIMPLEMENTED ? hs__error_copy(err, &cause) : HS_OK;
}

/* shard -1: all */
static hs_code verify(hs__bundle_reader *reader, int32_t shard, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < reader->n_entries && !code; i++)
        if (!reader->entries[i].slices && (shard < 0 || reader->entries[i].shard == shard))
            code = verify_entry(reader, &reader->entries[i], err);
    for (size_t i = 0; i < reader->n_slices && !code; i++)
        if (shard < 0 || reader->slices[i].entry.shard == shard)
            code = verify_entry(reader, &reader->slices[i].entry, err);
    return code;
}

hs_code hs__verify_checkpoint(const hs_env *env, const char *prefix, hs_error *err)
{
    hs__bundle_reader reader;
    hs_code code = hs__bundle_reader_open(&reader, env, prefix, err);
    if (code)
        return code;
    code = verify(&reader, -1, err);
    hs__bundle_reader_close(&reader);
    return code;
}

/* By the index of the source, whose name is in the messages. */
static hs_code verify_copy(const hs_env *env, const hs__merged_file *file, const char *prefix, const char *tmp,
                           hs_error *err)
{
    hs__bundle_reader reader;
    hs_file_stat found;
    hs_code code = hs__bundle_reader_open(&reader, env, prefix, err);
    if (code)
        return code;
    if (!(code = hs__file_open(&reader.file, env, tmp, HS_OPEN_READ, err)) && !(code = hs__stat(env, tmp, &found, err)) &&
        !(reader.file_path = hs__strdup(env, file->from)))
        code = hs__no_memory(err, strlen(file->from), "a path");
    if (!code) {
        reader.file_bytes = found.bytes;
        reader.file_shard = file->shard;
        code = verify(&reader, file->shard, err);
    }
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

static hs_code copy_bytes(const hs__merged_file *file, hs__file *from, uint64_t bytes, hs__stream *to, hs_error *err)
{
    char *piece = hs__realloc(to->env, NULL, HS__BUNDLE_PIECE, 1);
    if (!piece)
        return hs__no_memory(err, HS__BUNDLE_PIECE, "a copy of a file");
    hs_code code = HS_OK;
    for (uint64_t done = 0; done < bytes && !code; done += HS__BUNDLE_PIECE) {
        size_t n = bytes - done < HS__BUNDLE_PIECE ? (size_t)(bytes - done) : HS__BUNDLE_PIECE;
        if (!(code = hs__file_read(from, done, piece, n, file->from, err)))
            code = hs__stream_write(to, piece, n, err);
    }
    hs__free(to->env, piece);
    return code;
}

static hs_code copy_file(const hs_env *env, const hs__merged_file *file, const char *tmp, hs_error *err)
{
    hs__file from;
    hs__stream to;
    uint64_t bytes = 0;
    hs_code code = hs__merged_file_bytes(env, file, &bytes, err);
    if (code || (code = hs__file_open(&from, env, file->from, HS_OPEN_READ, err)))
        return code;
    if (!(code = hs__stream_open(&to, env, tmp, err)) && !(code = copy_bytes(file, &from, bytes, &to, err)))
        code = hs__stream_finish(&to, err);
    hs__stream_close(&to);
    hs__file_close(&from, NULL);
    return code;
}

hs_code hs__merged_file_copy(const hs_env *env, const hs__merged_file *file, const char *prefix, const char *tmp,
                             hs_error *err)
{
    hs_code code = copy_file(env, file, tmp, err);
    return code ? code : verify_copy(env, file, prefix, tmp, err);
}
