/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SAVER_H
#define HS_CHECKPOINT_SAVER_H

#include <hooksess/checkpoint.h>

#include "checkpoint/directory.h"
#include "checkpoint/selection.h"
#include "checkpoint/state_file.h"

#include <stdatomic.h>

/* How a checkpoint is committed. hs__save in save.c calls the steps in this order: 0 and 4 are in directory.c, 1 in
 * shards.c, 2 and 3 in commit.c, 5 and 6 in retention.c.
 *
 *   0. The directory is locked against other processes. When the lock is new, the directory is synced, because names that
 *      are visible may be those of a killed process that had not synced them. Files of interrupted saves are removed.
 *   1. Data, index and .meta are written to temporary files, NAME.tmp, and synced. If a function of the program saves the
 *      variables (save_variables), it writes to the directory PREFIX.tmp-variables first, from which they are copied.
 *   2. Data and .meta are renamed to their names, and the directory is synced.
 *   3. The index is renamed to its name, and the directory is synced. From here on the checkpoint exists.
 *   4. At the first save under a lock or of a session, or after a restore: later checkpoints that the saver does not keep
 *      are of an abandoned branch of the training. They are renamed to PREFIX.abandoned: indexes first, the latest last.
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

/* What a saver knows of a directory in which it saves, or from which it restores. During a background save in this
 * directory, it belongs to the thread of that save. */
typedef struct hs__saver_directory {
    struct hs__saver_directory *next;
    hs_saver *saver;
    char *path;
    hs__held_directory held;
    bool stays_held;           /* until the saver is freed. Otherwise until it saves in another directory */
    hs__kept_checkpoint *kept; /* oldest first */
    size_t n_kept, kept_capacity;
    double last_preserved;  /* time of the last checkpoint that is kept forever */
    char *last_path;        /* saved or restored last; NULL: none */
    int64_t last_bytes;     /* of last_path; 0: unknown */
    char *state_file;       /* name of the last one written; NULL: none yet */
    uint64_t opened;        /* hs_raw_session.first_opened of the session that saved last; 0: none has saved */
    int64_t restores;       /* and its hs_raw_session.restores */
    atomic_bool has_result; /* of a background save, which the caller has not polled */
    hs_save_result result;
} hs__saver_directory;

struct hs_saver {
    hs_env env;
    int64_t max_to_keep; /* HS_NEVER: all */
    bool lists_all;      /* with HS_NEVER: as TensorFlow's managers, and unlike its savers, it lists all that it keeps */
    int64_t keep_best;
    bool larger_is_better;
    double keep_every_secs, created; /* 0: none is kept forever; time when the first interval begins */
    hs__selection selection;
    bool allow_nonfinite;
    int32_t shards;                    /* data files of a checkpoint */
    hs__saver_directory *directories;  /* most recently used first */
    struct hs__background *background; /* NULL: no background save yet */
    hs_bytes saver_def;                /* of hs_saver_options, as the next three. A copy */
    hs_variables_fn save_variables, restore_variables;
    void *user;
};

/* saver.c: the directories of a saver. */

/* Returns the directory of the file `path`. NULL: the saver does not know it yet. */
hs__saver_directory *hs__saver_find_directory(const hs_saver *saver, const char *path);
/* The same, but adds a new one, and moves it to the front. NULL: out of memory. No save is in progress. */
hs__saver_directory *hs__saver_use_directory(hs_saver *saver, const char *path, hs_error *err);
/* Locks the directory, which exists, and unlocks the others that were locked only for a save. `base`: as
 * hs__hold_directory. FAILED_PRECONDITION: another session than this one, an address, has claimed it. */
hs_code hs__saver_hold_directory(hs__saver_directory *directory, const char *base, const void *session, hs_error *err);
/* Number of restores of the session when it last saved there; 0: it has not. */
int64_t hs__saver_restores(const hs__saver_directory *directory, const hs_raw_session *session);
/* Replaces last_path or state_file by a copy. */
hs_code hs__saver_set_text(const hs_saver *saver, char **text, const char *with, hs_error *err);

/* retention.c: the list of kept checkpoints. */

/* Appends n checkpoints as the newest, oldest first. Removes earlier entries of their names. Copies the paths. */
hs_code hs__saver_keep(hs__saver_directory *directory, const hs__kept_checkpoint *newest, size_t n, hs_error *err);
/* The same for those of n checkpoints that exist. Does not read the state file. */
hs_code hs__saver_keep_existing(hs__saver_directory *directory, const char *const *paths, size_t n, hs_error *err);
/* Removes the checkpoints BASE-STEP with later steps from the list. */
void hs__saver_drop_later(hs__saver_directory *directory, const char *base, int64_t step);
/* Moves expired checkpoints to the front of the list, and returns their number. Removes from the list the
 * checkpoints that are kept forever. `max_to_keep`: HS_NEVER: all. */
size_t hs__expire(hs__saver_directory *directory, int64_t max_to_keep);
/* Deletes the first n checkpoints of the list. If deleting fails, the checkpoint stays in the list, and the next save tries
 * again. */
void hs__delete_expired(hs__saver_directory *directory, size_t n_expired);
/* Replaces the state file durably. */
hs_code hs__saver_write_state_file(const hs__saver_directory *directory, const char *newest, size_t n_expired,
                                   hs_error *err);

/* graph_file.c: the graph of a backend, a MetaGraphDef, for hs__free. UNIMPLEMENTED: the backend has none. */
hs_code hs__meta_graph(const hs_env *env, hs_backend backend, const hs_saver *saver, hs_bytes *out, hs_error *err);

#endif
