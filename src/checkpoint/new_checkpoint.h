/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_NEW_CHECKPOINT_H
#define HS_CHECKPOINT_NEW_CHECKPOINT_H

#include "checkpoint/directory.h"

/* Makes the directory that `path` is to be in, if it is missing. INVALID_ARGUMENT: its parent is missing too. */
hs_code hs__make_directory_for(const hs_env *env, const char *path, hs_error *err);

/* The files of a checkpoint that is coming to be: steps 1 to 3 of the protocol in saver.h, but for holding the directory,
 * which whoever saves does before the files are named, and for writing them. */
typedef struct hs__new_checkpoint {
    const hs_env *env;
    char *prefix, *directory;
    char *index, *index_tmp;
    char **data, **data_tmp; /* names.n of them */
    char *meta, *meta_tmp;
    bool has_meta;        /* there is one aside */
    bool named;           /* the index has its name: the checkpoint is there, even if that could not be synced */
    hs__data_range names; /* of the data files */
} hs__new_checkpoint;

/* PREFIX, or PREFIX-STEP where step >= 0. To be freed in any case. */
hs_code hs__new_checkpoint_begin(hs__new_checkpoint *files, const hs_env *env, const char *prefix, int64_t step,
                                 hs_error *err);
/* Names the files, `shards` of them with data. */
hs_code hs__new_checkpoint_files(hs__new_checkpoint *files, int32_t shards, hs_error *err);
/* What the data files of `prefix` are called, each with `ending` behind it, by the same numbers: a list in one block, each
 * of its items and itself to be freed. NULL without memory. */
char **hs__new_checkpoint_data(const hs__new_checkpoint *files, const char *prefix, const char *ending);
void hs__new_checkpoint_free_data(const hs__new_checkpoint *files, char **paths);
/* Steps 2 and 3. Gives what was written aside its names, and removes the data of what it replaces. */
hs_code hs__new_checkpoint_commit(hs__new_checkpoint *files, hs_error *err);
/* After a failure, removes what is aside. */
void hs__new_checkpoint_discard(const hs__new_checkpoint *files);
void hs__new_checkpoint_free(hs__new_checkpoint *files);

#endif
