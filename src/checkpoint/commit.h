/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_COMMIT_H
#define HS_CHECKPOINT_COMMIT_H

#include "checkpoint/directory.h"

#include <stdatomic.h>

/* Creates the directory of `path` if it is missing. INVALID_ARGUMENT: its parent directory does not exist. */
hs_code hs__make_directory_for(const hs_env *env, const char *path, hs_error *err);

/* The files of a checkpoint that is being saved: their names, and steps 2 and 3 of the protocol in saver.h. The caller
 * holds the directory before it calls hs__new_checkpoint_files, and writes the temporary files. */
typedef struct hs__new_checkpoint {
    const hs_env *env;
    char *prefix, *directory;
    char *index, *index_tmp; /* index NULL: the files have no names yet */
    char **data, **data_tmp; /* names.n of them */
    char *meta, *meta_tmp;
    bool has_meta;             /* meta_tmp was written */
    bool named;                /* the index has its name: the checkpoint exists, even if the sync failed */
    hs__data_range names;      /* of the data files */
    const atomic_bool *cancel; /* true: a later save replaces this one. NULL: none can */
} hs__new_checkpoint;

/* The checkpoint is PREFIX-STEP, or PREFIX if step < 0. Call hs__new_checkpoint_free in any case. */
hs_code hs__new_checkpoint_begin(hs__new_checkpoint *files, const hs_env *env, const char *prefix, int64_t step,
                                 hs_error *err);
/* Chooses the names of the files, `shards` of which have data. */
hs_code hs__new_checkpoint_files(hs__new_checkpoint *files, int32_t shards, hs_error *err);
/* CANCELLED if the save was canceled. Call it from time to time until the checkpoint exists. */
hs_code hs__new_checkpoint_check_cancel(const hs__new_checkpoint *files, hs_error *err);
/* Steps 2 and 3. Renames the temporary files, and removes the data files of a checkpoint that
 * is replaced. */
hs_code hs__new_checkpoint_commit(hs__new_checkpoint *files, hs_error *err);
/* After a failure: removes the temporary files. */
void hs__new_checkpoint_discard(const hs__new_checkpoint *files);
void hs__new_checkpoint_free(hs__new_checkpoint *files);

#endif
