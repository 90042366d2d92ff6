/* SPDX-License-Identifier: Apache-2.0 */
/* hs_checkpoint_reader: reading a checkpoint or a safetensors file without a session. Each function finds the tensor by its
 * name, and calls the archive. */
#include <hooksess/checkpoint.h>

#include "checkpoint/archive.h"
#include "formats/bundle.h"

#include <stdlib.h>
#include <string.h>

struct hs_checkpoint_reader {
    hs_env env;
    hs__archive archive;
    hs__bundle_reader bundle;     /* of a checkpoint */
    hs__safetensors_reader *file; /* NULL: the archive is a checkpoint */
    size_t *by_name;              /* with `file`: the tensors in the order of their names */
};

/* Opening. */

static int compare_names(const void *a, const void *b)
{
    const hs__safetensors_entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static hs_code sort_by_name(hs_checkpoint_reader *reader, hs_error *err)
{
    const hs__safetensors_header *header = &reader->file->header;
    const hs__safetensors_entry **entries = hs__alloc(&reader->env, header->n + 1, sizeof *entries);
    reader->by_name = hs__alloc(&reader->env, header->n + 1, sizeof *reader->by_name);
    hs_code code =
        entries && reader->by_name ? HS_OK : hs__no_memory(err, header->n * sizeof *entries, "a list of tensors");
    for (size_t i = 0; !code && i < header->n; i++)
        entries[i] = &header->entries[i];
    if (!code && header->n)
        qsort(entries, header->n, sizeof *entries, compare_names);
    for (size_t i = 0; !code && i < header->n; i++)
        reader->by_name[i] = (size_t)(entries[i] - header->entries);
    hs__free(&reader->env, entries);
    return code;
}

static void close_file(hs_checkpoint_reader *reader)
{
    hs__safetensors_reader_close(reader->file);
    hs__free(&reader->env, reader->file);
    hs__free(&reader->env, reader->by_name);
}

static hs_code open_file(hs_checkpoint_reader *reader, const char *path, hs_error *err)
{
    reader->file = hs__alloc(&reader->env, 1, sizeof *reader->file);
    if (!reader->file)
        return hs__no_memory(err, sizeof *reader->file, "a reader of safetensors files");
    hs_code code = hs__safetensors_reader_open(reader->file, &reader->env, path, err);
    if (code) {
        hs__free(&reader->env, reader->file);
        return code;
    }
    reader->archive = hs__safetensors_archive(reader->file);
    if ((code = sort_by_name(reader, err)))
        close_file(reader);
    return code;
}

static hs_code open_bundle(hs_checkpoint_reader *reader, const char *prefix, hs_error *err)
{
    hs_code code = hs__bundle_reader_open(&reader->bundle, &reader->env, prefix, err);
    if (!code)
        reader->archive = hs__bundle_archive(&reader->bundle);
    return code;
}

hs_checkpoint_reader *hs_checkpoint_open(const hs_env *given, const char *prefix, hs_error *err)
{
    hs_env env;
    hs_error_clear(err);
    if (!prefix || !*prefix) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_open: prefix is missing");
        return NULL;
    }
    if (hs__env_copy(&env, given, err))
        return NULL;
    hs_checkpoint_reader *reader = hs__alloc(&env, 1, sizeof *reader);
    if (!reader) {
        hs__no_memory(err, sizeof *reader, "a reader of checkpoints");
        return NULL;
    }
    reader->env = env;
    if ((hs__is_safetensors(prefix) ? open_file : open_bundle)(reader, prefix, err)) {
        hs__free(&env, reader);
        return NULL;
    }
    return reader;
}

void hs_checkpoint_close(hs_checkpoint_reader *reader)
{
    if (!reader)
        return;
    hs_env env = reader->env;
    if (reader->file)
        close_file(reader);
    else
        hs__bundle_reader_close(&reader->bundle);
    hs__free(&env, reader);
}

/* Describing. */

static hs_tensor describe(const hs__stored *stored)
{
    hs_tensor info = hs_tensor_of((hs_dtype)stored->dtype, stored->shape, NULL);
    info.bytes = stored->bytes;
    return info;
}

bool hs_checkpoint_tensor(const hs_checkpoint_reader *reader, size_t index, const char **name, hs_tensor *info)
{
    if (!reader || index >= reader->archive.n)
        return false;
    hs__stored stored = hs__archive_tensor(&reader->archive, reader->by_name ? reader->by_name[index] : index);
    if (name)
        *name = stored.name;
    if (info)
        *info = describe(&stored);
    return true;
}

/* Sets *index to that of a tensor in the archive. */
static hs_code find(const hs_checkpoint_reader *reader, const char *name, size_t *index, hs_error *err)
{
    hs_error_clear(err);
    if (!reader)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the checkpoint reader is NULL");
    *index = name ? hs__archive_find(&reader->archive, name) : HS__NONE;
    if (*index == HS__NONE)
        return hs_error_set(err, HS_NOT_FOUND, "checkpoint '%s' has no tensor '%s'", reader->archive.path,
                            name ? name : "(NULL)");
    return HS_OK;
}

hs_code hs_checkpoint_find(const hs_checkpoint_reader *reader, const char *name, hs_tensor *info, hs_error *err)
{
    size_t index = HS__NONE;
    hs_code code = find(reader, name, &index, err);
    if (code || !info)
        return code;
    hs__stored stored = hs__archive_tensor(&reader->archive, index);
    *info = describe(&stored);
    return HS_OK;
}

const char *hs_checkpoint_dtype_name(const hs_checkpoint_reader *reader, const char *name)
{
    size_t index = reader && name ? hs__archive_find(&reader->archive, name) : HS__NONE;
    return index == HS__NONE ? NULL : hs__archive_tensor(&reader->archive, index).dtype_name;
}

/* Reading. */

static hs_code wrong_size(const hs_checkpoint_reader *reader, const char *name, size_t needed, size_t given, hs_error *err)
{
    return hs_error_set(err, HS_INVALID_ARGUMENT,
                        "cannot read '%s' of checkpoint '%s': it needs %zu bytes of memory, not %zu", name,
                        reader->archive.path, needed, given);
}

hs_code hs_checkpoint_read(hs_checkpoint_reader *reader, const char *name, void *data, size_t bytes, hs_error *err)
{
    size_t index = HS__NONE, needed;
    hs_code code = find(reader, name, &index, err);
    /* first, as the index alone must not make the caller allocate what wrong_size asks for */
    if (code || (code = hs__archive_locate(&reader->archive, index, NULL, &needed, err)))
        return code;
    if (bytes != needed || (bytes && !data))
        return wrong_size(reader, name, needed, data ? bytes : 0, err);
    return hs__archive_read(&reader->archive, index, NULL, data, err);
}

/* *part is the slice as a box, or INVALID_ARGUMENT if it is not in the tensor. */
static hs_code find_box(const hs_checkpoint_reader *reader, const hs__stored *stored, const int64_t *starts,
                        const int64_t *lengths, hs__box *part, hs_error *err)
{
    char text[HS__BOX_TEXT_SIZE], shape[HS_SHAPE_TEXT_SIZE];
    hs__box given = hs__box_of(&stored->shape);
    for (int32_t i = 0; i < given.rank; i++) {
        given.starts[i] = starts ? starts[i] : 0;
        given.lengths[i] = lengths ? lengths[i] : -1;
    }
    if (hs__box_in(&given, &stored->shape, part))
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is not a part of '%s' of checkpoint '%s' with shape %s",
                        hs__box_text(&given, text, sizeof text), stored->name, reader->archive.path,
                        hs_shape_text(&stored->shape, shape, sizeof shape));
}

hs_code hs_checkpoint_read_slice(hs_checkpoint_reader *reader, const char *name, const int64_t *starts,
                                 const int64_t *lengths, void *data, size_t bytes, hs_error *err)
{
    hs__box part;
    size_t index = HS__NONE;
    hs_code code = find(reader, name, &index, err);
    if (code)
        return code;
    const hs__bundle_entry *entry = reader->file ? NULL : &reader->bundle.entries[index];
    const hs__stored stored = hs__archive_tensor(&reader->archive, index);
    code = entry ? hs__bundle_check(&reader->bundle, entry, err)
                 : hs__safetensors_check(reader->file, &reader->file->header.entries[index], err);
    if (code || (code = find_box(reader, &stored, starts, lengths, &part, err)))
        return code;
    size_t needed = hs_tensor_of((hs_dtype)stored.dtype, hs__box_shape(&part), NULL).bytes;
    if (stored.dtype != HS_STRING && (bytes != needed || (bytes && !data))) /* slices of strings are refused below */
        return wrong_size(reader, name, needed, data ? bytes : 0, err);
    return entry ? hs__bundle_read_slice(&reader->bundle, entry, &part, data, err)
                 : hs__archive_read(&reader->archive, index, &part, data, err);
}

static hs_code verify(hs_checkpoint_reader *reader, const char *name, hs_error *err)
{
    size_t index = HS__NONE;
    if (reader && reader->file)
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: cannot verify it: safetensors files have no checksums",
                            reader->archive.path);
    if (reader && !name)
        return hs__bundle_verify_index(&reader->bundle, err);
    hs_code code = find(reader, name, &index, err);
    return code ? code : hs__archive_verify(&reader->archive, index, err);
}

hs_code hs_checkpoint_verify(hs_checkpoint_reader *reader, const char *name, hs_error *err)
{
    hs_code code = verify(reader, name, err);
    if (!code)
        hs_error_clear(err);
    return code;
}
