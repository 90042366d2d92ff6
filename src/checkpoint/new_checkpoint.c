/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/new_checkpoint.h"

#include "base/files.h"
#include "checkpoint/directory.h"
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

/* One missing level is made, as TensorFlow does. */
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

/* Which shard the data become: one whose file the checkpoint of that name, if there is one, does not use. A damaged one
 * uses none; one that cannot be read just now may be whole, and is not to be lost. */
static hs_code choose_shard(hs__new_checkpoint *files, hs_error *err)
{
    hs__bundle_reader reader;
    hs_error cause = {0};
    files->shard = 0;
    files->shards = 1;
    hs_code code = hs__bundle_reader_open(&reader, files->env, files->prefix, &cause);
    if (code) {
        if (code == HS_NOT_FOUND || code == HS_DATA_LOSS)
            return HS_OK;
        hs__error_copy(err, &cause);
        return code;
    }
    if (reader.shards == 1)
        files->shard = 1, files->shards = 2;
    hs__bundle_reader_close(&reader);
    return HS_OK;
}

hs_code hs__new_checkpoint_files(hs__new_checkpoint *files, hs_error *err)
{
    const hs_env *env = files->env;
    const char *prefix = files->prefix;
    hs_code code = choose_shard(files, err);
    if (code)
        return code;
    files->index = hs__bundle_index_path(env, prefix);
    files->index_aside = hs__format(env, "%s.index.tmp", prefix);
    files->data = hs__bundle_data_path(env, prefix, files->shard, files->shards);
    files->data_aside = files->data ? hs__format(env, "%s.tmp", files->data) : NULL;
    files->meta = hs__format(env, "%s.meta", prefix);
    files->meta_aside = hs__format(env, "%s.meta.tmp", prefix);
    if (!files->index || !files->index_aside || !files->data || !files->data_aside || !files->meta || !files->meta_aside)
        return hs__no_memory(err, strlen(prefix), "a path");
    return HS_OK;
}

/* Where the data's name is taken, a save over this checkpoint came as far as giving the index its name and could not sync
 * that: the index that is on the disk may be the one before, whose data these are. */
hs_code hs__new_checkpoint_commit(hs__new_checkpoint *files, hs_error *err)
{
    const hs_env *env = files->env;
    hs_code code;
    if ((!hs__file_missing(env, files->data) && (code = hs__sync_directory(env, files->directory, err))) ||
        (code = hs__rename(env, files->data_aside, files->data, err)))
        return code;
    if ((files->has_meta && (code = hs__rename(env, files->meta_aside, files->meta, err))) ||
        (code = hs__sync_directory(env, files->directory, err)) ||
        (code = hs__rename(env, files->index_aside, files->index, err))) {
        /* over a network a rename may be done and be said to have failed: then these are the data of the index */
        if (hs__file_exists(env, files->index_aside))
            hs__file_remove(env, files->data);
        else
            files->named = !hs__file_missing(env, files->index);
        return code;
    }
    files->named = true;
    if ((code = hs__sync_directory(env, files->directory, err)))
        return code;
    hs__delete_stale_data(env, files->prefix, files->shard, files->shards);
    if (!files->has_meta && hs__file_exists(env, files->meta)) /* of the one that this replaced */
        hs__file_remove(env, files->meta);
    return HS_OK;
}

void hs__new_checkpoint_discard(const hs__new_checkpoint *files)
{
    hs__file_remove(files->env, files->data_aside);
    hs__file_remove(files->env, files->index_aside);
    if (files->has_meta)
        hs__file_remove(files->env, files->meta_aside);
    if (hs__file_missing(files->env, files->index)) /* it belongs to nothing */
        hs__file_remove(files->env, files->meta);
}

void hs__new_checkpoint_free(hs__new_checkpoint *files)
{
    char *const texts[] = {files->prefix, files->directory,  files->index, files->index_aside,
                           files->data,   files->data_aside, files->meta,  files->meta_aside};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        hs__free(files->env, texts[i]);
}
