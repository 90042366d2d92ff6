/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SAVER_H
#define HS_CHECKPOINT_SAVER_H

#include <hooksess/checkpoint.h>

#include "backends/raw_session.h"
#include "checkpoint/archive.h"
#include "checkpoint/directory.h"
#include "checkpoint/graph_saver.h"
#include "checkpoint/state_file.h"
#include "formats/bundle.h"

/* clang-format off */
/* A saver from the inside.
 *
 * How a checkpoint comes to be there, in the order in which it happens (save.c, new_checkpoint.c, directory.c):
 *   0. the directory is held against other processes; at first, the names in it are synced, since what is seen may be what
 *      a process that was killed could not sync any more, and what saves that were cut short left there is removed;
 *   1. data, .meta and index are written under their names with ".tmp" behind them, and synced; where the graph's own op
 *      writes them, under PREFIX.tmp-graph first (graph_save.c);
 *   2. data and .meta get their names, and the directory is synced;
 *   3. the index gets its name: from here on the checkpoint exists; the directory is synced;
 *   4. at the first save of a hold: later checkpoints that the saver does not keep are of a history that was left, and are
 *      renamed, PREFIX.abandoned, the latest last and the indexes first;
 *   5. the state file is replaced: from here on it is the newest to everybody, and the file says in comments which
 *      checkpoint was saved last and which are to be deleted;
 *   6. those are deleted, index first.
 * A crash before 3 leaves what was there before and files that nothing refers to, which 0 removes. One between 3 and 5 leaves
 * a checkpoint later than the newest that is named, in a state file that nobody has touched: restoring takes it for the
 * newest (restore_newest.c). One in 4 leaves that history with its end, or without all of it; 0 goes on renaming. One in 6 leaves what
 * 0 goes on deleting.
 * Where a checkpoint of the name exists, its data files must stay until the index is replaced: the new data get the names
 * of another number of shards, one more than they are where the one that exists has as many. From 3 on the saver counts it among those that it deletes in their turn, whatever fails afterwards. Nothing is
 * removed because of a file that could not be looked at. Readers hold nothing, and write nothing. */
/* clang-format on */

struct hs_saver {
    hs_env env;
    int64_t max_to_keep; /* HS_NEVER: all */
    int64_t keep_best;
    bool larger_is_better;
    double keep_every_secs, last_preserved; /* 0: none is kept forever; the time of the one that was, last */
    const char *const *variables;
    const hs_checkpoint_name *names; /* copies; ended by NULL */
    hs_nonfinite_policy nonfinite;
    int32_t shards;            /* data files of a checkpoint */
    hs__kept_checkpoint *kept; /* oldest first */
    size_t n_kept, kept_capacity;
    char *last_path;
    uint64_t last_bytes;               /* of it */
    bool restored;                     /* it is what was restored; nothing was saved since */
    const hs_raw_session *returned;    /* the session whose going back in memory was noticed last, */
    int64_t returned_at;               /* as this one of its restores */
    bool went_back;                    /* nothing was saved since */
    int64_t went_back_to;              /* the step */
    char *state_file;                  /* the name of the last one that was written; NULL: none yet */
    struct hs__background *background; /* NULL: nothing was saved in the background yet */
    hs__held_directory held;           /* the one it saves to */
    hs__graph_saver graph;             /* the graph's own ops */
};

/* The variable of that index if the saver saves it. `done` is set past the last. */
bool hs__saver_variable(const hs_saver *saver, const hs_raw_session *session, size_t index, hs_variable *out, bool *done);
bool hs__has_variable(const hs_raw_session *session, const char *name);
/* What the variable is called in checkpoints. */
const char *hs__saver_name(const hs_saver *saver, const char *variable);
/* HS_INVALID_ARGUMENT if a variable is listed twice. `list` begins the message: "OPTION lists variable". */
hs_code hs__check_named_once(const hs_env *env, const hs_checkpoint_name *names, const char *list, hs_error *err);
/* Is the variable a part of a larger one? *out has the name that the whole has in checkpoints. */
bool hs__saver_slice(const hs_saver *saver, const hs_raw_session *session, size_t index, const char *variable,
                     hs_variable_slice *out);
/* HS_INVALID_ARGUMENT if the saver was told to save a variable that there is not. */
hs_code hs__saver_check_names(const hs_saver *saver, const hs_raw_session *session, hs_error *err);
/* Takes effect with the next save. HS_NEVER: all are kept. */
void hs__saver_set_max_to_keep(hs_saver *saver, int64_t max_to_keep);
/* Notes a checkpoint as the newest; its path is copied. */
hs_code hs__saver_keep(hs_saver *saver, const hs__kept_checkpoint *newest, hs_error *err);
/* Notes checkpoints that exist, oldest first. Knows nothing of what a state file says of them. */
hs_code hs__saver_recover(hs_saver *saver, const char *const *paths, hs_error *err);

/* retention.c. Puts those that are not kept any more first in the list; how many they are. Others leave the list to stay
 * forever. */
size_t hs__retain(hs_saver *saver);
/* Deletes them. One that cannot be deleted stays in the list, and is tried again after the next save. */
void hs__delete_leaving(hs_saver *saver, size_t leaving);
hs_code hs__saver_set_last(hs_saver *saver, const char *path, hs_error *err);

/* restore.c. Whose fault a failure is: that of the files, so that another checkpoint may do; or not. */
typedef enum { HS__FAULT_OF_THE_FILES, HS__FAULT_OF_THE_MODEL } hs__restore_fault;
/* HS_INVALID_ARGUMENT for a name in the options that is no variable's. */
hs_code hs__restore_check(const hs_restore_options *options, const hs_raw_session *session, hs_error *err);
/* Restores the variables of a saver from what is open. */
hs_code hs__restore_variables(const hs_saver *saver, hs_raw_session *session, const hs__archive *archive,
                              const hs_restore_options *options, hs__restore_fault *whose, hs_error *err);
/* Restores, and notes in saver and session where they stand now. */
hs_code hs__restore(hs_saver *saver, hs_raw_session *session, const char *prefix, const hs_restore_options *options,
                    hs__restore_fault *whose, hs_error *err);

/* restore_newest.c. Restores the newest valid checkpoint of a directory: the one that the state file calls the newest, then the
 * others it names, then any that are found. *restored is the path, to be freed with hs__free; NULL: there is none. Each
 * that is passed over is a warning in the log; if there are some and none can be read, that is an error. A checkpoint that
 * can be read but does not fit is an error at once. */
hs_code hs__restore_newest(hs_saver *saver, hs_raw_session *session, const char *directory,
                           const hs_restore_options *options, char **restored, hs_error *err);

#endif
