/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_CHECKPOINT_FILES_H
#define HS_CHECKPOINT_CHECKPOINT_FILES_H

#include "base/env.h"
#include "base/map.h"

/* The files of checkpoints: their names, whether they exist, deleting them, finding the newest. */

/* Appended to the name of a checkpoint: the directory in which hs_saver_options.save_variables writes. */
#define HS__VARIABLES_TMP ".tmp-variables"

typedef enum { HS__INDEX, HS__META, HS__DATA, HS__DIRECTORY, HS__NO_PART } hs__file_part;

/* A file's name: that of its checkpoint, and an ending. */
typedef struct hs__file_name {
    size_t stem; /* bytes of the checkpoint's name */
    hs__file_part part;
    int shard, shards; /* of data */
    bool tmp;          /* a temporary file */
} hs__file_name;

hs__file_name hs__parse_file_name(const char *name);
/* The bytes of the checkpoint's name if this is the name of an index, and 0 otherwise. */
size_t hs__index_stem(const char *name);
/* The step in the name of a checkpoint BASE-STEP; -1: none. */
int64_t hs__step_in(const char *path);
/* Returns true if both names are BASE-STEP with the same BASE. */
bool hs__same_series(const char *name, const char *other);
/* Returns true if the first `length` bytes of the name are BASE, or BASE-STEP. *step: -1 for BASE. */
bool hs__is_in_series(const char *name, size_t length, const char *base, int64_t *step);

/* Examines the index. */
hs_code hs__checkpoint_stat(const hs_env *env, const char *prefix, hs_file_stat *found, hs_error *err);
/* Returns true if the checkpoint certainly does not exist. As hs__file_missing. */
bool hs__checkpoint_missing(const hs_env *env, const char *prefix);

/* The data files of a checkpoint: n files, PREFIX.data-FIRST-of-OF and the following numbers. n is less than OF if the
 * numbers do not begin at 0. */
typedef struct hs__data_range {
    int32_t first, n, of;
} hs__data_range;

/* Deletes checkpoints of one directory, indexes first. Without its index a checkpoint does not exist. A file that cannot be
 * removed is a warning. The directory is listed once. */
typedef struct hs__deletion {
    const hs_env *env;
    char *directory;       /* NULL: nothing was added yet */
    hs__map names;         /* of the checkpoints */
    hs__data_range except; /* data files that stay */
} hs__deletion;

void hs__deletion_begin(hs__deletion *deletion, const hs_env *env);
/* Removes the index. Returns false if it cannot be removed: then the checkpoint is unchanged. */
bool hs__deletion_add(hs__deletion *deletion, const char *prefix);
/* Removes the other files. */
void hs__deletion_end(hs__deletion *deletion);

/* The same for one checkpoint. */
bool hs__delete_checkpoint(const hs_env *env, const char *prefix);
/* Removes the data files of a checkpoint except these. n 0: all. */
void hs__delete_stale_data(const hs_env *env, const char *prefix, hs__data_range except);

#endif
