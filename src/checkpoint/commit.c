/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a new checkpoint: begin, choose their names, and after the caller has written the temporary files, commit or
 * discard them. */
#include "checkpoint/commit.h"

#include "base/files.h"
#include "formats/bundle.h"

#include <string.h>

hs_code hs__new_checkpoint_begin(hs__new_checkpoint *files, const hs_env *env, const char *prefix, int64_t step,
                                 hs_error *err)
{
    *files = (hs__new_checkpoint){.env = env};
    files->prefix = step >= 0 ? hs__format(env, "%s-%lld", prefix, (long long)step) : hs__strdup(env, prefix);
    files->directory = files->prefix ? hs__path_directory(env, files->prefix) : NULL;
    return files->directory ? HS_OK : hs__no_memory(err, strlen(prefix), "a path");
}

hs_code hs__new_checkpoint_check_cancel(const hs__new_checkpoint *files, hs_error *err)
{
    return files->cancel && atomic_load_explicit(files->cancel, memory_order_relaxed)
               ? hs_error_set(err, HS_CANCELLED, "'%s' is not saved: a later save replaces it", files->prefix)
               : HS_OK;
}

/* Creates only the last level, as TensorFlow does. */
hs_code hs__make_directory_for(const hs_env *env, const char *path, hs_error *err)
{
    char *directory = hs__path_directory(env, path);
    hs_error cause = {0};
    hs_code code = directory ? hs__make_directory(env, directory, &cause) : hs__no_memory(&cause, strlen(path), "a path");
    if (code == HS_NOT_FOUND || code == HS_FAILED_PRECONDITION)
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "cannot save '%s': its parent directory does not exist (%s)", path,
                            cause.message);
    else if (code)
        hs__error_copy(err, &cause);
    hs__free(env, directory);
    return code;
}

hs_code hs__new_checkpoint_files(hs__new_checkpoint *files, int32_t shards, hs_error *err)
{
    const hs_env *env = files->env;
    const char *prefix = files->prefix;
    hs__bundle_reader existing;
    hs_error cause = {0};

    /* Data files get names that the index of an existing checkpoint of that name does not use. A damaged index uses none.
     * If the index cannot be read now, the checkpoint may be intact and must not be lost, so the save fails. */
    hs__data_range *names = &files->names;
    *names = (hs__data_range){0, shards, shards};
    if (!hs__bundle_reader_open(&existing, env, prefix, &cause)) {
        if (existing.shards == shards)
            *names = (hs__data_range){1, shards, shards + 1};
        hs__bundle_reader_close(&existing);
    } else if (!hs__is_damage(&cause)) {
        return hs__error_copy(err, &cause);
    }

    files->data = hs__alloc(env, (size_t)names->n, sizeof *files->data);
    files->data_tmp = hs__alloc(env, (size_t)names->n, sizeof *files->data_tmp);
    files->index_tmp = hs__format(env, "%s.index.tmp", prefix);
    files->meta = hs__format(env, "%s.meta", prefix);
    files->meta_tmp = hs__format(env, "%s.meta.tmp", prefix);
    bool failed = !files->data || !files->data_tmp || !files->index_tmp || !files->meta || !files->meta_tmp;
    for (int32_t i = 0; !failed && i < names->n; i++) {
        files->data[i] = hs__bundle_data_path(env, prefix, names->first + i, names->of);
        files->data_tmp[i] = files->data[i] ? hs__format(env, "%s.tmp", files->data[i]) : NULL;
        failed = !files->data_tmp[i];
    }
    files->index = failed ? NULL : hs__bundle_index_path(env, prefix);
    return files->index ? HS_OK : hs__no_memory(err, strlen(prefix), "a path");
}

/* On a network file system a rename that failed may have happened. Then these are the data files of the index. */
static void undo_names(hs__new_checkpoint *files)
{
    if (!hs__file_exists(files->env, files->index_tmp)) {
        files->named = !hs__file_missing(files->env, files->index);
        return;
    }
    for (int32_t i = 0; i < files->names.n; i++)
        hs__file_remove(files->env, files->data[i]);
}

hs_code hs__new_checkpoint_commit(hs__new_checkpoint *files, hs_error *err)
{
    const hs_env *env = files->env;
    bool used = false;
    hs_code code = HS_OK;

    /* If a data file exists under a new name, an earlier save of this name renamed its index but could not sync that: the
     * index on the disk may be the one before, which uses this data file. So the directory is synced before it is replaced.
     */
    for (int32_t i = 0; i < files->names.n && !used; i++)
        used = !hs__file_missing(env, files->data[i]);
    if (used && (code = hs__sync_directory(env, files->directory, err)))
        return code;

    /* Step 2, and the rename of step 3. */
    for (int32_t i = 0; i < files->names.n && !code; i++)
        code = hs__rename(env, files->data_tmp[i], files->data[i], err);
    if (!code && files->has_meta)
        code = hs__rename(env, files->meta_tmp, files->meta, err);
    if (!code)
        code = hs__sync_directory(env, files->directory, err);
    if (!code)
        code = hs__rename(env, files->index_tmp, files->index, err);
    if (code) {
        undo_names(files);
        return code;
    }
    files->named = true;
    if ((code = hs__sync_directory(env, files->directory, err)))
        return code;

    /* The checkpoint exists. Files of the one that it replaced are removed. */
    hs__delete_stale_data(env, files->prefix, files->names);
    if (!files->has_meta && hs__file_exists(env, files->meta))
        hs__file_remove(env, files->meta);
    return HS_OK;
}

void hs__new_checkpoint_discard(const hs__new_checkpoint *files)
{
    if (!files->index)
        return; /* the files were not named, so nothing was written */
    for (int32_t i = 0; i < files->names.n; i++)
        hs__file_remove(files->env, files->data_tmp[i]);
    hs__file_remove(files->env, files->index_tmp);
    if (files->has_meta)
        hs__file_remove(files->env, files->meta_tmp);
    if (hs__file_missing(files->env, files->index)) /* a .meta without a checkpoint */
        hs__file_remove(files->env, files->meta);
}

void hs__new_checkpoint_free(hs__new_checkpoint *files)
{
    char *const texts[] = {files->prefix, files->directory, files->index, files->index_tmp, files->meta, files->meta_tmp};
    for (int32_t i = 0; files->data && files->data_tmp && i < files->names.n; i++) {
        hs__free(files->env, files->data[i]);
        hs__free(files->env, files->data_tmp[i]);
    }
    hs__free(files->env, files->data);
    hs__free(files->env, files->data_tmp);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        hs__free(files->env, texts[i]);
}
