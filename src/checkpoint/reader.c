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
    const hs__safetensors_entry **by_name; /* the tensors of a safetensors file in the order of their names */
};

/* Opening. */

static int compare_names(const void *a, const void *b)
{
    const hs__safetensors_entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static hs_code sort_by_name(hs_checkpoint_reader *reader, hs_error *err)
{
    const size_t n = reader->archive.n;
    if (!(reader->by_name = hs__alloc(&reader->env, n + 1, sizeof *reader->by_name)))
        return hs__no_memory(err, n * sizeof *reader->by_name, "a list of tensors");
    for (size_t i = 0; i < n; i++)
        reader->by_name[i] = &reader->archive.file.header.entries[i];
    if (n)
        qsort(reader->by_name, n, sizeof *reader->by_name, compare_names);
    return HS_OK;
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
    const hs__archive_kind kind = hs__is_safetensors(prefix) ? HS__SAFETENSORS : HS__BUNDLE;
    if (hs__archive_open(&reader->archive, kind, &reader->env, prefix, err)) {
        hs__free(&env, reader);
        return NULL;
    }
    if (kind == HS__SAFETENSORS && sort_by_name(reader, err)) {
        hs_checkpoint_close(reader);
        return NULL;
    }
    return reader;
}

void hs_checkpoint_close(hs_checkpoint_reader *reader)
{
    if (!reader)
        return;
    hs_env env = reader->env;
    hs__archive_close(&reader->archive);
    hs__free(&env, reader->by_name);
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
    if (reader->by_name)
        index = (size_t)(reader->by_name[index] - reader->archive.file.header.entries);
    const hs__stored stored = hs__archive_tensor(&reader->archive, index);
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
    if (code || (code = hs__archive_check(&reader->archive, index, err)))
        return code;
    const hs__stored stored = hs__archive_tensor(&reader->archive, index);
    if ((code = find_box(reader, &stored, starts, lengths, &part, err)))
        return code;
    if (stored.dtype == HS_STRING)
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: '%s' has strings, so it can only be read as a whole",
                            reader->archive.path, name);
    size_t needed = hs_tensor_of((hs_dtype)stored.dtype, hs__box_shape(&part), NULL).bytes;
    if (bytes != needed || (bytes && !data))
        return wrong_size(reader, name, needed, data ? bytes : 0, err);
    return hs__archive_read(&reader->archive, index, &part, data, err);
}

static hs_code verify(hs_checkpoint_reader *reader, const char *name, hs_error *err)
{
    size_t index = HS__NONE;
    if (reader && reader->archive.kind == HS__SAFETENSORS)
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: cannot verify it: safetensors files have no checksums",
                            reader->archive.path);
    if (reader && !name)
        return hs__bundle_verify_index(&reader->archive.bundle, err);
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
