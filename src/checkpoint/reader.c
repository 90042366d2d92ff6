/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a checkpoint without a session, and finding the newest. */
#include <hooksess/checkpoint.h>

#include "base/files.h"
#include "checkpoint/directory.h"
#include "checkpoint/state_file.h"
#include "formats/bundle.h"

#include <string.h>

struct hs_checkpoint_reader {
    hs_env env;
    hs__bundle_reader bundle;
};

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
    if (hs__bundle_reader_open(&reader->bundle, &reader->env, prefix, err)) {
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
    hs__bundle_reader_close(&reader->bundle);
    hs__free(&env, reader);
}

static hs_tensor describe(const hs__bundle_entry *entry)
{
    hs_tensor info = hs_tensor_of((hs_dtype)entry->dtype, entry->shape, NULL);
    info.bytes = hs__bundle_read_bytes(entry);
    return info;
}

bool hs_checkpoint_tensor(const hs_checkpoint_reader *reader, size_t index, const char **name, hs_tensor *info)
{
    if (!reader || index >= reader->bundle.n_entries)
        return false;
    const hs__bundle_entry *entry = &reader->bundle.entries[index];
    if (name)
        *name = entry->name;
    if (info)
        *info = describe(entry);
    return true;
}

static const hs__bundle_entry *find(const hs_checkpoint_reader *reader, const char *name, hs_error *err)
{
    if (!reader) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "the checkpoint reader is NULL");
        return NULL;
    }
    const hs__bundle_entry *entry = name ? hs__bundle_find(&reader->bundle, name) : NULL;
    if (!entry)
        hs_error_set(err, HS_NOT_FOUND, "checkpoint '%s' has no tensor '%s'", reader->bundle.prefix,
                     name ? name : "(NULL)");
    return entry;
}

hs_code hs_checkpoint_find(const hs_checkpoint_reader *reader, const char *name, hs_tensor *info, hs_error *err)
{
    const hs__bundle_entry *entry = find(reader, name, err);
    if (!entry)
        return reader ? HS_NOT_FOUND : HS_INVALID_ARGUMENT;
    if (info)
        *info = describe(entry);
    hs_error_clear(err);
    return HS_OK;
}

static hs_code wrong_size(const hs_checkpoint_reader *reader, const char *name, size_t needed, size_t given, hs_error *err)
{
    return hs_error_set(err, HS_INVALID_ARGUMENT,
                        "cannot read '%s' of checkpoint '%s': it needs %zu bytes of memory, not %zu", name,
                        reader->bundle.prefix, needed, given);
}

hs_code hs_checkpoint_read(hs_checkpoint_reader *reader, const char *name, void *data, size_t bytes, hs_error *err)
{
    hs_error_clear(err);
    const hs__bundle_entry *entry = find(reader, name, err);
    if (!entry)
        return reader ? HS_NOT_FOUND : HS_INVALID_ARGUMENT;
    /* first, as the index alone must not make the caller allocate what wrong_size asks for */
    hs_code code = hs__bundle_locate(&reader->bundle, entry, err);
    if (code)
        return code;
    if (bytes != hs__bundle_read_bytes(entry) || (bytes && !data))
        return wrong_size(reader, name, hs__bundle_read_bytes(entry), data ? bytes : 0, err);
    return hs__bundle_read(&reader->bundle, entry, data, err);
}

/* *part is the slice as a box, or INVALID_ARGUMENT if it is not in the tensor. */
static hs_code find_box(const hs_checkpoint_reader *reader, const hs__bundle_entry *entry, const int64_t *starts,
                        const int64_t *lengths, hs__box *part, hs_error *err)
{
    char text[HS__BOX_TEXT_SIZE], shape[HS_SHAPE_TEXT_SIZE];
    hs__box given = hs__box_of(&entry->shape);
    for (int32_t i = 0; i < given.rank; i++) {
        given.starts[i] = starts ? starts[i] : 0;
        given.lengths[i] = lengths ? lengths[i] : -1;
    }
    if (hs__box_in(&given, &entry->shape, part))
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is not a part of '%s' of checkpoint '%s' with shape %s",
                        hs__box_text(&given, text, sizeof text), entry->name, reader->bundle.prefix,
                        hs_shape_text(&entry->shape, shape, sizeof shape));
}

hs_code hs_checkpoint_read_slice(hs_checkpoint_reader *reader, const char *name, const int64_t *starts,
                                 const int64_t *lengths, void *data, size_t bytes, hs_error *err)
{
    hs__box part;
    hs_error_clear(err);
    const hs__bundle_entry *entry = find(reader, name, err);
    if (!entry)
        return reader ? HS_NOT_FOUND : HS_INVALID_ARGUMENT;
    hs_code code = hs__bundle_check(&reader->bundle, entry, err);
    if (code || (code = find_box(reader, entry, starts, lengths, &part, err)))
        return code;
    size_t needed = hs_tensor_of((hs_dtype)entry->dtype, hs__box_shape(&part), NULL).bytes;
    if (entry->dtype != HS_STRING && (bytes != needed || (bytes && !data))) /* slices of strings are refused below */
        return wrong_size(reader, name, needed, data ? bytes : 0, err);
    return hs__bundle_read_slice(&reader->bundle, entry, &part, data, err);
}

static hs_code verify(hs_checkpoint_reader *reader, const char *name, hs_error *err)
{
    if (reader && !name)
        return hs__bundle_verify_index(&reader->bundle, err);
    const hs__bundle_entry *entry = find(reader, name, err);
    if (!entry)
        return reader ? HS_NOT_FOUND : HS_INVALID_ARGUMENT;
    return hs__bundle_verify(&reader->bundle, entry, err);
}

hs_code hs_checkpoint_verify(hs_checkpoint_reader *reader, const char *name, hs_error *err)
{
    hs_code code = verify(reader, name, err);
    if (!code)
        hs_error_clear(err);
    return code;
}

char *hs_checkpoint_latest(const hs_env *given, const char *directory, const char *state_file, hs_error *err)
{
    hs_env env;
    hs__checkpoint_state state;
    hs_error cause = {0};
    if (!directory) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_latest: directory is NULL");
        return NULL;
    }
    if (hs__env_copy(&env, given, err))
        return NULL;
    hs_error_clear(err);
    hs_code code = hs__checkpoint_state_read(&state, &env, directory, state_file, &cause);
    if (code == HS_NOT_FOUND)
        return NULL;
    if (code) {
        hs__error_copy(err, &cause);
        return NULL;
    }
    hs_file_stat found;
    char *newest = NULL, *index = hs__bundle_index_path(&env, state.newest);
    code = index ? hs__stat(&env, index, &found, &cause) : hs__no_memory(&cause, strlen(directory), "a path");
    if (code == HS_NOT_FOUND) {
        hs_log(&env, HS_LOG_ERROR, "%s: the file 'checkpoint' names '%s' as the newest checkpoint, but it does not exist",
               directory, state.newest);
    } else if (code) { /* it may exist */
        hs__error_copy(err, &cause);
    } else {
        newest = state.newest;
        state.newest = NULL;
    }
    hs__free(&env, index);
    hs__checkpoint_state_free(&state);
    return newest;
}
