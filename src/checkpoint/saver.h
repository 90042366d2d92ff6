/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SAVER_H
#define HS_CHECKPOINT_SAVER_H

#include <hooksess/checkpoint.h>

#include "checkpoint/directory.h"
#include "checkpoint/graph_saver.h"
#include "checkpoint/selection.h"
#include "checkpoint/state_file.h"

/* How a checkpoint is committed: step 0 in directory.c; 1 in save.c and graph_saver.c; 2 and 3 in commit.c; 4 in
 * directory.c, started by save.c; 5 in state_file.c; 6 in retention.c.
 *
 *   0. The directory is locked against other processes. When the lock is new, the directory is synced, because names that
 *      are visible may be those of a killed process that had not synced them. Files of interrupted saves are removed.
 *   1. Data, .meta and index are written to temporary files, NAME.tmp, and synced. If the graph's own op writes the data,
 *      they are at PREFIX.tmp-graph first (graph_saver.c).
 *   2. Data and .meta are renamed to their names, and the directory is synced.
 *   3. The index is renamed to its name, and the directory is synced. From here on the checkpoint exists.
 *   4. At the first save under a lock, or after a restore or rollback: later checkpoints that the saver does not keep are
 *      of an abandoned branch of the training. They are renamed to PREFIX.abandoned: indexes first, the latest one last.
 *   5. The state file is replaced. From here on all readers see the new checkpoint as the newest. Comments in the file name
 *      the checkpoint that was saved last and the checkpoints to delete.
 *   6. Expired checkpoints are deleted, index first.
 *
 *   crash            remains                                                next step
 *   before 3         the previous checkpoints; files without an index       0 removes the files
 *   between 3 and 5  a checkpoint later than the newest in the state file   a restore takes it as the newest
 *   in 4             the abandoned branch with its latest checkpoint, or    0 completes the renames
 *                    with none of its checkpoints
 *   in 6             checkpoints that the state file lists as expired       0 deletes them
 *
 * If a checkpoint of the same name exists, its data files stay until its index is replaced: the new data files get the
 * names of another number of shards, one more if the numbers are equal. After 3 the saver keeps the checkpoint and deletes
 * it when it expires, even if the save fails later. Nothing is removed because a file could not be examined. Readers do not
 * lock and do not write. */

enum { HS__MOST_SHARDS = 64 };

struct hs_saver {
    hs_env env;
    int64_t max_to_keep; /* HS_NEVER: all */
    bool lists_all;      /* with HS_NEVER: lists all, as TensorFlow's CheckpointManager. false: the newest, as its Saver */
    int64_t keep_best;
    bool larger_is_better;
    double keep_every_secs, last_preserved; /* 0: none is kept forever; time of the last such one */
    hs__selection selection;
    hs_nonfinite_policy nonfinite;
    int32_t shards;            /* data files of a checkpoint */
    hs__kept_checkpoint *kept; /* oldest first */
    size_t n_kept, kept_capacity;
    char *last_path;
    uint64_t last_bytes;                    /* of last_path */
    bool restored;                          /* last_path was restored; nothing was saved since */
    const hs_raw_session *rollback_session; /* last rollback to a snapshot that a save has seen: its session, */
    int64_t rollback_generation;            /* and that session's restore generation; */
    bool rolled_back;                       /* nothing was saved since; */
    int64_t rolled_back_to;                 /* the step */
    char *state_file;                       /* name of the last one written; NULL: none yet */
    struct hs__background *background;      /* NULL: no background save yet */
    hs__held_directory held;                /* the directory that it saves to */
    hs__graph_saver graph;                  /* the graph's own ops */
};

/* Sets max_to_keep from the next save on. HS_NEVER: all are kept. */
void hs__saver_set_max_to_keep(hs_saver *saver, int64_t max_to_keep);

/* retention.c: the list of kept checkpoints. */

/* Appends a checkpoint as the newest. The path is copied. */
hs_code hs__saver_keep(hs_saver *saver, const hs__kept_checkpoint *newest, hs_error *err);
/* Appends checkpoints that exist, oldest first. Does not read the state file. */
hs_code hs__saver_keep_existing(hs_saver *saver, const char *const *paths, hs_error *err);
hs_code hs__saver_set_last(hs_saver *saver, const char *path, hs_error *err);
/* Moves expired checkpoints to the front of the list, and returns their number. Removes from the list the
 * checkpoints that are kept forever. */
size_t hs__expire(hs_saver *saver);
/* Deletes the first n checkpoints of the list. If deleting fails, the checkpoint stays in the list, and the next save tries
 * again. */
void hs__delete_expired(hs_saver *saver, size_t n_expired);
/* Replaces the state file durably. */
hs_code hs__saver_write_state_file(const hs_saver *saver, const char *directory, const char *newest, size_t n_expired,
                                   hs_error *err);

#endif
