/* SPDX-License-Identifier: Apache-2.0 */
/* Converting checkpoints to safetensors files and back, one tensor at a time. */
#include "base/state.h"
#include "checkpoint/archive.h"
#include "checkpoint/commit.h"
#include "checkpoint/session_safetensors.h"
#include "formats/bundle.h"

#include <string.h>

static bool is_skipped(const char *const *skip, const char *name)
{
    for (; skip && *skip; skip++)
        if (strcmp(*skip, name) == 0)
            return true;
    return false;
}

/* HS_NOT_FOUND if the archive lacks a tensor that should be skipped: its name may be misspelled. */
static hs_code check_skip(const hs__archive *archive, const char *const *skip, hs_error *err)
{
    for (; skip && *skip; skip++)
        if (hs__archive_find(archive, *skip) == HS__NONE)
            return hs_error_set(err, HS_NOT_FOUND, "'%s' has no tensor '%s' to skip", archive->path, *skip);
    return HS_OK;
}

/* To a safetensors file. */

/* The identity of a state is a string, which safetensors does not have: it becomes a vector of uint8. */
static bool is_identity(const char *name)
{
    size_t length = strlen(name), ending = strlen(HS__STATE_IDENTITY);
    return strncmp(name, HS__STATE_PREFIX, strlen(HS__STATE_PREFIX)) == 0 && length > ending &&
           strcmp(name + length - ending, HS__STATE_IDENTITY) == 0;
}

static bool is_text(const hs__bundle_entry *entry)
{
    return entry->dtype == HS_STRING && entry->shape.rank == 0 && is_identity(entry->name);
}

/* Declares the text, whose length is known when it is read, or writes it. */
static hs_code put_text(hs__bundle_reader *reader, size_t index, bool declares, hs__safetensors_writer *writer,
                        hs_error *err)
{
    const hs__bundle_entry *entry = &reader->entries[index];
    const size_t bytes = hs__bundle_read_bytes(entry);
    hs_code code = hs__bundle_locate(reader, entry, err);
    hs_string *text = code ? NULL : hs__alloc(reader->env, bytes, 1);
    if (!code)
        code = text ? hs__bundle_read(reader, entry, text, err) : hs__no_memory(err, bytes, entry->name);
    if (!code && declares) {
        const hs_shape shape = {.rank = 1, .dims = {(int64_t)text->bytes}};
        code = hs__safetensors_writer_declare(writer, entry->name, HS_UINT8, &shape, index, err);
    } else if (!code) {
        code = hs__safetensors_writer_write(writer, text->data, text->bytes, err);
    }
    hs__free(reader->env, text);
    return code;
}

static hs_code declare_entries(hs__bundle_reader *reader, const char *const *skip, hs__safetensors_writer *writer,
                               hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < reader->n_entries; i++) {
        const hs__bundle_entry *entry = &reader->entries[i];
        if (is_skipped(skip, entry->name))
            continue;
        if (is_text(entry))
            code = put_text(reader, i, true, writer, err);
        else if (!(code = hs__bundle_locate(reader, entry, err)))
            code = hs__safetensors_writer_declare(writer, entry->name, (hs_dtype)entry->dtype, &entry->shape, i, err);
    }
    return code;
}

static hs_code write_piece(void *user, const void *piece, size_t bytes, hs_error *err)
{
    return hs__safetensors_writer_write(user, piece, bytes, err);
}

static hs_code put_entry(void *user, hs__safetensors_writer *writer, size_t index, hs_error *err)
{
    hs__bundle_reader *reader = user;
    const size_t tag = writer->header.entries[index].tag;
    const hs__bundle_entry *entry = &reader->entries[tag];
    return is_text(entry) ? put_text(reader, tag, false, writer, err)
                          : hs__bundle_stream(reader, entry, write_piece, writer, err);
}

static hs_code to_safetensors(const hs_env *env, const char *from, const char *to, const char *const *skip, hs_error *err)
{
    hs__archive archive;
    hs__safetensors_writer writer;
    hs_code code = hs__archive_open(&archive, HS__BUNDLE, env, from, err);
    if (code)
        return code;
    hs__safetensors_writer_init(&writer, env);
    if (!(code = check_skip(&archive, skip, err)) && !(code = declare_entries(&archive.bundle, skip, &writer, err)))
        code = hs__safetensors_make(&writer, to, NULL, put_entry, &archive.bundle, err);
    hs__safetensors_writer_close(&writer);
    hs__archive_close(&archive);
    return code;
}

/* To a checkpoint. */

typedef struct {
    hs__safetensors_reader *reader;
    const hs__safetensors_entry *entry;
} stored;

static hs_code produce(void *source, hs__bundle_write_fn put, void *user, hs_error *err)
{
    enum { PIECE = 1 << 18 };
    const stored *from = source;
    const size_t bytes = (size_t)from->entry->bytes, room = bytes < PIECE ? bytes : PIECE;
    char *piece = hs__realloc(from->reader->env, NULL, room, 1);
    hs_code code = piece ? HS_OK : hs__no_memory(err, room, from->entry->name);
    for (size_t done = 0, n; !code && done < bytes; done += n) {
        n = bytes - done < PIECE ? bytes - done : PIECE;
        if (!(code = hs__safetensors_read(from->reader, from->entry, done, piece, n, err)))
            code = put(user, piece, n, err);
    }
    hs__free(from->reader->env, piece);
    return code;
}

static hs_code add_text(hs__bundle_writer *writer, hs__safetensors_reader *reader, const hs__safetensors_entry *entry,
                        hs_error *err)
{
    size_t bytes = (size_t)entry->bytes;
    char *text = hs__alloc(reader->env, bytes + 1, 1);
    hs_code code = text ? hs__safetensors_read(reader, entry, 0, text, bytes, err) : hs__no_memory(err, bytes, entry->name);
    hs_string line = {text, bytes};
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, &line);
    if (!code)
        code = hs__bundle_writer_add(writer, entry->name, &value, err);
    hs__free(reader->env, text);
    return code;
}

static hs_code write_bundle(hs__safetensors_reader *reader, const hs__new_checkpoint *files, const char *const *skip,
                            hs_error *err)
{
    hs__bundle_writer writer;
    hs_code code =
        hs__bundle_writer_open(&writer, reader->env, files->data_tmp[0], files->names.first, files->names.of, err);
    for (size_t i = 0; !code && i < reader->header.n; i++) {
        const hs__safetensors_entry *entry = &reader->header.entries[i];
        stored from = {reader, entry};
        if (is_skipped(skip, entry->name))
            continue;
        if ((code = hs__safetensors_check(reader, entry, err)))
            break;
        code = entry->dtype == HS_UINT8 && entry->shape.rank == 1 && is_identity(entry->name)
                   ? add_text(&writer, reader, entry, err)
                   : hs__bundle_writer_add_from(&writer, entry->name, entry->dtype, &entry->shape, produce, &from, err);
    }
    if (!code)
        code = hs__bundle_writer_finish(&writer, files->index_tmp, err);
    hs__bundle_writer_close(&writer);
    return code;
}

static hs_code to_checkpoint(const hs_env *env, const char *from, const char *to, const char *const *skip, hs_error *err)
{
    hs__archive archive;
    hs__new_checkpoint files;
    hs__held_directory held = {.path = NULL};
    hs_code code = hs__archive_open(&archive, HS__SAFETENSORS, env, from, err);
    if (code)
        return code;
    if ((code = check_skip(&archive, skip, err))) {
        hs__archive_close(&archive);
        return code;
    }
    if (!(code = hs__new_checkpoint_begin(&files, env, to, -1, err)) && !(code = hs__make_directory_for(env, to, err)) &&
        !(code = hs__hold_directory(&held, env, files.directory, NULL, err)) &&
        !(code = hs__new_checkpoint_files(&files, 1, err)) &&
        ((code = write_bundle(&archive.file, &files, skip, err)) || (code = hs__new_checkpoint_commit(&files, err))))
        hs__new_checkpoint_discard(&files);
    hs__release_directory(&held, env);
    hs__new_checkpoint_free(&files);
    hs__archive_close(&archive);
    return code;
}

hs_code hs_checkpoint_convert(const hs_env *given, const char *from, const char *to, const char *const *skip, hs_error *err)
{
    hs_env env;
    hs_error_clear(err);
    if (!from || !to || !*hs__path_base(from) || !*hs__path_base(to))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_convert: %s",
                            from && *hs__path_base(from) ? "to is missing" : "from is missing");
    if (hs__is_safetensors(from) == hs__is_safetensors(to))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "cannot convert '%s' to '%s': exactly one of the two names must end in .safetensors", from, to);
    hs_code code = hs__env_copy(&env, given, err);
    if (code)
        return code;
    code = hs__is_safetensors(to) ? to_safetensors(&env, from, to, skip, err) : to_checkpoint(&env, from, to, skip, err);
    if (code)
        hs_error_prefix(err, "cannot convert '%s' to '%s'", from, to);
    return code;
}
