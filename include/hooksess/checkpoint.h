/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_CHECKPOINT_H
#define HOOKSESS_CHECKPOINT_H

#include <hooksess/hook.h>

/* Checkpoints: TensorFlow's V2 tensor bundles, written so that a crash at any instant leaves the newest finished one whole.
 *
 * A checkpoint is named by its prefix, "run/model.ckpt-1000": PREFIX.index, PREFIX.data-00000-of-00001 (-00001-of-00002
 * where it took the place of another of that name, and more where the saver was told so) and, where the backend has a graph
 * to show, PREFIX.meta. It exists from the moment when its index has its name, after everything was written aside and
 * synced. The file `checkpoint` beside them says which is the newest, and is replaced last. Its paths are relative to it,
 * so that the directory can be moved. Variables lie in the order of their names, then state (with shards: in each of them;
 * the first has the state): equal models give equal data, in whatever order they were built. Checkpoints of a history that
 * was left (an older one was restored, and training went on from there) are renamed, PREFIX.abandoned, in place of one that
 * has that name already, and neither restored nor deleted.
 *
 * One process at a time saves to a directory: it holds the lock of the file HS_CHECKPOINT_LOCK there
 * (hs_file_system_ops.lock). Readers need no lock. If that name is a symbolic link or not a file, saving fails with
 * HS_INVALID_ARGUMENT.
 *
 * Threads: one at a time per object. Functions without a saver, reader or session: any thread. */

HS_BEGIN_DECLS

#define HS_CHECKPOINT_LOCK ".hooksess.lock"

/* Saver. Saves the variables of a session and every piece of state that belongs to it (the backend's, the hooks').
 * TensorFlow: Saver. */
typedef struct hs_saver hs_saver;

/* What a variable is called in checkpoints, where that is not its own name. Frozen. */
typedef struct hs_checkpoint_name {
    const char *variable, *name;
} hs_checkpoint_name;

/* .names = HS_CHECKPOINT_NAMES({ "weights", "layer1/kernel" }, ...) */
#define HS_CHECKPOINT_NAMES(...) HS__LIST(hs_checkpoint_name, __VA_ARGS__, {NULL, NULL})

/* What is done about a state that has NaN or infinity in a variable. It never becomes the newest checkpoint unless it is
 * allowed to: the one before is what there is to go back to. Variables with hs_variable_def.nonfinite are not checked. */
typedef enum hs_nonfinite_policy {
    HS_NONFINITE_FAIL = 0,  /* the save fails, naming the variable and the first index */
    HS_NONFINITE_ASIDE = 1, /* it fails, and the state is kept as PREFIX.nonfinite to be looked at, and never restored */
    HS_NONFINITE_ALLOW = 2  /* it is saved like any other */
} hs_nonfinite_policy;

typedef struct hs_saver_options {
    size_t size;
    const hs_env *env;   /* NULL: the system's. Copied */
    int64_t max_to_keep; /* 0: 5; HS_NEVER: never delete one */
    /* Names, ended by NULL. NULL: all that are not local. Of a larger variable all parts or none. Here and in `names` each
     * variable is listed at most once */
    const char *const *variables;
    const hs_checkpoint_name *names;      /* HS_CHECKPOINT_NAMES(...), for variables with another name in checkpoints */
    double keep_checkpoint_every_n_hours; /* 0: none is kept forever; else of those that would go, one every so often */
    int64_t keep_best;                    /* so many with the best metric (hs_save_options) stay beside the newest */
    bool larger_is_better;                /* of metrics; else smaller ones are */
    unsigned char reserved[7];
    hs_nonfinite_policy nonfinite; /* 0: HS_NONFINITE_FAIL */
    int32_t reserved_nonfinite;
    int64_t shards; /* variables are split over so many data files, written at the same time (below); 0: 1; at most 64 */
    hs_bytes saver_def;  /* a serialized SaverDef: ops of the graph that save and restore (below); copied. Size 0: none */
    bool graph_saves;    /* the variables are written by its save op; else by the saver itself */
    bool graph_restores; /* they are restored by its restore op; else one by one */
    unsigned char reserved_too[6];
} hs_saver_options;
#define HS_SAVER_OPTIONS(...) HS_OPTIONS(hs_saver_options, __VA_ARGS__)

/* Shards. With N of them a checkpoint has the data files PREFIX.data-0000I-of-0000N (1 to N of N + 1 where it took the
 * place of one of N); all N are there, also where some have nothing to hold. Whole variables are dealt out by their sizes,
 * so that the files are about as large as each other, and equal models give equal files. The number may change from save to
 * save, and whoever reads need not know it. Each file is checked, copied and synced by a thread of its own, and has 8 MiB
 * of buffers meanwhile; where a thread cannot be started, the one that saves does its work. In the foreground that is so
 * for what lies in a backend that makes no promise about its views (HS_BACKEND_KEEPS_VIEWS; the embedded graph makes it) or
 * in a device's memory: the calling thread then reads all variables of that file, and only writing to the disks goes on
 * beside it. TensorFlow: Saver(sharded=True), which has a file for each device. */

/* The graph's own ops, as TensorFlow's Saver has added them, which a SaverDef names: a tensor that the file's name is fed
 * to, one that saves, and an op that restores. PREFIX.meta has the SaverDef in any case, so that who imports it can restore
 * by it, with this saver's word on how many checkpoints are kept.
 *
 * graph_saves: the op writes its files aside, as many as it is sharded into (`shards` is not asked); they are read and
 * verified, synced, get one more beside them with the state of hooks and program, and one index; from there on the
 * checkpoint is like any other, and so are its place in the directory, who restores it, and what is done about what is not
 * finite. A save in the background is made in the foreground: the op needs the session. The files must come to lie where
 * this process sees them: with a parameter server elsewhere, in a directory that both share. The op does not write
 * through hs_env.files.
 *
 * graph_restores: all of the checkpoint is verified, and dtypes and shapes are compared, as ever; then the op is run. What
 * only it restores (tables, say) comes back, too; should it fail half-way, the model has changed in part. A restore with
 * names, skip, allow_missing or reshape is made one by one. TensorFlow takes *, ?, [ and \ in a path for a pattern: such
 * ones are HS_INVALID_ARGUMENT.
 *
 * HS_INVALID_ARGUMENT: with `variables` or `names`, which the ops have of their own; without the op; or where the SaverDef
 * is of TensorFlow's first format, V1. */

/* The caller's to free, after the sessions that use it. `options` may be NULL. Check the result: a session that is given
 * NULL uses a saver of its own, with the defaults. */
HS_API hs_saver *hs_saver_new(const hs_saver_options *options, hs_error *err);
HS_API void hs_saver_free(hs_saver *saver);

/* What a save in the background does while the one before is still being written. */
typedef enum hs_busy_policy {
    HS_BUSY_WAIT = 0,   /* waits for it */
    HS_BUSY_SKIP = 1,   /* is not made: HS_CANCELLED. To tell this from a failure, ask hs_saver_busy before */
    HS_BUSY_REPLACE = 2 /* takes its place: what was written of it is removed, unless it has just been finished; one that
                         * took another's place is waited for, so that some are finished however often they are made */
} hs_busy_policy;

typedef struct hs_save_options {
    size_t size;
    double metric;          /* how good the state is, if has_metric; NaN: not known */
    const char *state_file; /* NULL: "checkpoint". Without a directory */
    bool no_meta_graph;     /* write no PREFIX.meta */
    bool no_state_file;     /* neither write the state file nor delete old checkpoints */
    bool has_metric;
    bool background; /* copies the state, and leaves the rest to a thread of the saver's */
    bool overlap;    /* with background: what is large is copied during the runs that follow (below) */
    unsigned char reserved[3];
    hs_busy_policy busy; /* with background. 0: HS_BUSY_WAIT */
    int32_t reserved_busy;
    int64_t copy_limit; /* with background: a state of more bytes is not copied. 0 and HS_NEVER: no limit */
} hs_save_options;
#define HS_SAVE_OPTIONS(...) HS_OPTIONS(hs_save_options, __VA_ARGS__)

/* Saves to `prefix`, or to "PREFIX-STEP" where step >= 0. It is durable when this returns. Saving over a checkpoint of the
 * same name replaces it at one instant. The directory must exist, or its parent must: one level is made. On failure the
 * checkpoints that were there are there: HS_RESOURCE_EXHAUSTED for a full disk or no memory, HS_INVALID_ARGUMENT for a
 * missing directory, a variable that does not exist or a reserved name, HS_FAILED_PRECONDITION for a variable that is not
 * finite (hs_nonfinite_policy) or a directory that another process saves to, or what the backend or a provider of state
 * returned. Where it is only the state file that could not be replaced, the new one is whole and not yet called the newest.
 */
HS_API hs_code hs_saver_save(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                             const hs_save_options *options, hs_error *err);
/* A save in the background returns when the state is copied: the thread that trains is held for as long as the copy takes.
 * The copy's memory, as large as the variables and a little more, is used again by the next. A state of more than
 * copy_limit bytes is not copied: it is written in small pieces, in no more memory than a save in the foreground takes (16
 * MiB, and 8 MiB for each shard but the first), and the thread that trains is held until that is done. What is returned is
 * what went wrong until then. Where the save before has failed and nobody has asked for that (hs_saver_poll), it is
 * what that one came to, with its step in the message, and this one is not made: ask first, or save again.
 *
 * With `overlap` it is held for less: variables of 64 KiB and more are copied by the thread of the saver's, while the
 * session runs on. An op that has a list of what it writes (hs_op_def.writes) waits for what it is about to change, one
 * that has none waits for all. For programs in which nothing but ops of the session changes variables: what the program or
 * a hook writes to their memory itself, while it is being copied, is in the checkpoint in part. A hook changes a variable
 * by an op (hook.h). Backends that cannot tell what an op changes copy all at once. Variables whose memory may move
 * (hs_graph_variable_at) are copied when the save is asked for, so the program may move or free it at any time. */

/* What became of a save in the background. Frozen. */
typedef struct hs_save_result {
    int64_t step;
    hs_error error; /* code HS_OK: the checkpoint is durable */
} hs_save_result;
/* Returns true once per finished background save, with its result. If several finished, only the latest is reported.
 * Never waits. Every other function of the saver waits for a save in progress. `result` may be NULL. */
HS_API bool hs_saver_poll(hs_saver *saver, hs_save_result *result);
/* True while a save in the background is being written. After false, no save is skipped or replaced until this saver saves
 * in the background again. Never waits. */
HS_API bool hs_saver_busy(const hs_saver *saver);
/* Waits until no save is on its way. */
HS_API void hs_saver_wait(hs_saver *saver);
/* Makes ready for saving to `prefix` (without a step): makes the directory, takes hold of it against other processes until
 * the saver is freed or saves elsewhere, and removes what saves that were cut short have left of it there. A first save
 * does so by itself; do it sooner, before anything is restored, where training comes before it. HS_FAILED_PRECONDITION
 * names the process that saves there. The hold is the process's, until the last of its savers there gives it up: savers of
 * one process do not keep each other out. A child that was forked has none of it, whatever savers it inherited: it is
 * refused like any other process. */
HS_API hs_code hs_saver_hold(hs_saver *saver, const char *prefix, hs_error *err);
/* The prefix of the last one that was saved or restored; the saver's, until its next save. NULL: none. */
HS_API const char *hs_saver_last_path(const hs_saver *saver);
/* Pins a checkpoint that the saver keeps, so that it is never deleted, or lets it go again. Written down in the state file.
 * HS_NOT_FOUND if it keeps none of that prefix. With max_to_keep HS_NEVER, a saver that has saved or restored keeps every
 * checkpoint that exists in the same directory. */
HS_API hs_code hs_saver_pin(hs_saver *saver, const char *prefix, bool pinned, hs_error *err);
/* The checkpoints that the saver keeps, oldest first: the newest max_to_keep (HS_NEVER: the newest one; no saver deletes
 * the others), the best keep_best, and those that are pinned. Others are deleted, after the new one is durable; NULL past
 * the last. The saver's, until its next save. */
HS_API const char *hs_saver_checkpoint(const hs_saver *saver, size_t index);
/* Takes over checkpoints that were there before, oldest first, so that they are deleted in their turn; paths without files
 * are passed over. Pins and metrics come from the state file in the directory of the last one, if there is one. */
HS_API hs_code hs_saver_recover(hs_saver *saver, const char *const *paths, hs_error *err);
/* Takes over the directory of a checkpoint that another saver has restored, as if this one had: what its state file knows
 * of those that are kept, and which is the newest. For a saver that saves where a session was restored from by another. */
HS_API hs_code hs_saver_take_over(hs_saver *saver, const char *prefix, hs_error *err);

/* What became of a variable, a tensor or a checkpoint in a restore. */
typedef enum hs_restore_event {
    HS_RESTORE_EVENT_RESTORED = 0,   /* the variable `name` was restored, from the tensor `detail` */
    HS_RESTORE_EVENT_SKIPPED = 1,    /* the variable was to be skipped */
    HS_RESTORE_EVENT_MISSING = 2,    /* the checkpoint has no tensor `name` */
    HS_RESTORE_EVENT_MISMATCHED = 3, /* the tensor `name` has another dtype or shape, which `detail` tells */
    HS_RESTORE_EVENT_EXTRA = 4,      /* no variable takes the tensor `name` */
    HS_RESTORE_EVENT_REJECTED = 5,   /* the checkpoint `name` is damaged, as `detail` tells; the one before it is tried */
    HS_RESTORE_EVENT_WITHOUT_MEMORY = 6 /* the variable `name` had no memory when it was saved (hs_graph_variable_at) */
} hs_restore_event;
typedef void (*hs_restore_report_fn)(void *user, hs_restore_event event, const char *name, const char *detail);

/* A restore that is not of everything, on purpose. Lists are ended by NULL; they are read during the call. What is saved
 * afterwards has the variables' own names, or those of hs_saver_options.names: a program that restores each time it starts
 * gives a map to its saver, or restores by one only where it does not go on from checkpoints of its own. */
typedef struct hs_restore_options {
    size_t size;
    const hs_checkpoint_name *names; /* of variables that are called otherwise in this checkpoint; each at most once */
    const char *const *skip;         /* variables that keep what they have */
    hs_restore_report_fn report;     /* called for each variable, tensor and checkpoint; NULL: nobody is told */
    void *user;
    bool allow_missing; /* variables that the checkpoint lacks keep what they have */
    bool reshape;       /* tensors of another shape are taken if they have as many elements, in row-major order */
    bool any_identity;  /* state is taken also if it belongs to something else than its provider says (state.h) */
    unsigned char reserved[5];
} hs_restore_options;
#define HS_RESTORE_OPTIONS(...) HS_OPTIONS(hs_restore_options, __VA_ARGS__)

/* Restores the variables and every piece of state from `prefix`. All is read and checked before anything is written: on
 * failure the model is as it was, but for three that come later: a provider of state that refuses what it had saved, device
 * memory that cannot be written, and, of a model or a state of more than 64 MiB, whose values are read once to be verified
 * and again to be taken, a disk that cannot read again what it just has; after these the session must not be trained on.
 *
 * HS_NOT_FOUND: no such checkpoint, or variables that it lacks; HS_INVALID_ARGUMENT: dtypes or shapes that differ (all of
 * both are listed, and the tensors that no variable takes); HS_FAILED_PRECONDITION: state of another identity or a later
 * version than its provider's (state.h); HS_DATA_LOSS: damage. State that nobody takes waits for a late provider
 * (hs_raw_session_add_state). `options` NULL: everything. */
HS_API hs_code hs_saver_restore(hs_saver *saver, hs_raw_session *session, const char *prefix,
                                const hs_restore_options *options, hs_error *err);

/* The prefix of the newest checkpoint that the state file of `directory` names and that exists, malloc'ed by `env`:
 * hs_env_free it. NULL: there is none; with an error if the state file is there but says nothing. TensorFlow:
 * latest_checkpoint. */
HS_API char *hs_checkpoint_latest(const hs_env *env, const char *directory, const char *state_file, hs_error *err);
HS_API bool hs_checkpoint_exists(const hs_env *env, const char *prefix);

/* When the checkpoint was finished, in nanoseconds since 1970. HS_NOT_FOUND. TensorFlow: get_checkpoint_mtimes. */
HS_API hs_code hs_checkpoint_mtime(const hs_env *env, const char *prefix, int64_t *ns, hs_error *err);
/* Deletes a checkpoint with all its files; one that is not there is fine. TensorFlow: remove_checkpoint. */
HS_API hs_code hs_checkpoint_remove(const hs_env *env, const char *prefix, hs_error *err);
/* Waits until hs_checkpoint_latest is another than `last` (NULL: any), at most timeout_secs: HS_DEADLINE_EXCEEDED. 0: does
 * not wait. HS_NEVER: no limit. *found is malloc'ed by `env`. An evaluation of checkpoints as they come is a loop of these,
 * each with what the one before found as its `last`. TensorFlow: wait_for_new_checkpoint, checkpoints_iterator. */
HS_API hs_code hs_checkpoint_wait(const hs_env *env, const char *directory, const char *last, double timeout_secs,
                                  char **found, hs_error *err);

/* Reading a checkpoint without a session. `prefix` is one checkpoint's (hs_checkpoint_latest gives a directory's newest).
 * TensorFlow: load_checkpoint. */
typedef struct hs_checkpoint_reader hs_checkpoint_reader;

/* Reads the index. NULL after an error: HS_NOT_FOUND, HS_INVALID_ARGUMENT (an index for other versions), HS_UNIMPLEMENTED
 * (a compressed one), HS_DATA_LOSS: damage, or tensors that share bytes of a data file. */
HS_API hs_checkpoint_reader *hs_checkpoint_open(const hs_env *env, const char *prefix, hs_error *err);
HS_API void hs_checkpoint_close(hs_checkpoint_reader *reader);
/* Tensors in the order of their names; false past the last. data is NULL; bytes is what hs_checkpoint_read writes (for
 * strings, the elements and, after them, what the file has of the tensor: its lengths and text). A partitioned variable,
 * which TensorFlow stores in slices, is one tensor. Where the file has a type or a rank that is not ours, or strings in
 * slices, reading is HS_UNIMPLEMENTED; such a rank is -1. The name is the reader's. */
HS_API bool hs_checkpoint_tensor(const hs_checkpoint_reader *reader, size_t index, const char **name, hs_tensor *info);
/* The same by name. HS_NOT_FOUND. */
HS_API hs_code hs_checkpoint_find(const hs_checkpoint_reader *reader, const char *name, hs_tensor *info, hs_error *err);
/* Reads and verifies one tensor into `data`, `bytes` large, which must be info.bytes; what a big-endian machine wrote comes
 * in this machine's byte order. HS_DATA_LOSS if the file is damaged or too short, or slices are missing, lie over each
 * other, or do not fit the tensor; `data` is then of no use. */
HS_API hs_code hs_checkpoint_read(hs_checkpoint_reader *reader, const char *name, void *data, size_t bytes, hs_error *err);
/* Reads a rectangular part of a tensor, in row-major order: `starts` and `lengths` have as many elements as the tensor has
 * dimensions; a length of -1 is up to the end. NULL: from the beginning, up to the end. `bytes` is what the part takes.
 *
 * A checksum is over a tensor, or over each slice of a partitioned variable: the first call reads all of what the part lies
 * in, in little memory, to verify it; later calls of the same reader read what they need, and rely on that. Slices that
 * have nothing of the part are never read. HS_INVALID_ARGUMENT for a part that lies outside; HS_UNIMPLEMENTED for strings;
 * else as hs_checkpoint_read. TensorFlow: the op RestoreV2 with shape_and_slices. */
HS_API hs_code hs_checkpoint_read_slice(hs_checkpoint_reader *reader, const char *name, const int64_t *starts,
                                        const int64_t *lengths, void *data, size_t bytes, hs_error *err);
/* Reads one tensor only to verify it, in little memory, also one in slices. HS_DATA_LOSS for damage, HS_NOT_FOUND for a
 * missing data file. `name` NULL: reads the index again, with the parts that opening passes by. Every byte that carries a
 * checksum has the right one if this holds of the index and of each tensor. */
HS_API hs_code hs_checkpoint_verify(hs_checkpoint_reader *reader, const char *name, hs_error *err);

/* Makes one checkpoint of several, whose prefixes (ended by NULL) are no checkpoints afterwards: their data files are
 * copied to MERGED.data-..., each copy is verified, and when the merged one is durable they are removed. Until then it
 * takes their space once more. It is durable when this returns. `merged` must not be there yet; its directory must, or its
 * parent: one level is made. Slices of one variable that are in several of them are put together. Their .meta files and
 * directories stay. Neither the state file is written nor a .meta. All the directories are held meanwhile, as by a saver;
 * one of this process that holds one keeps its hold.
 *
 * On failure the others are there as before and the merged one is not; or the merged one is, and what is left of the others
 * can be removed, which the same call made again does. So it is after a crash. Where `merged` is already there and has all
 * that those have which are still there, and nothing else if all are, only their removal is left to be done.
 *
 * HS_NOT_FOUND: one of them, or a data file, is not there; HS_ALREADY_EXISTS: `merged` is, and is of something else;
 * HS_INVALID_ARGUMENT: there is nothing to merge, `merged` is among them, two have a tensor of the same name, or other byte
 * orders or versions of the format (the message names both), or the parent directory is missing; HS_DATA_LOSS: damage, and
 * nothing was removed; HS_FAILED_PRECONDITION: another process saves to one of the directories, or the file `checkpoint` in
 * one names one of them as the newest; HS_RESOURCE_EXHAUSTED: no room for the copies. TensorFlow: the op
 * MergeV2Checkpoints. */
HS_API hs_code hs_checkpoint_merge(const hs_env *env, const char *const *prefixes, const char *merged, hs_error *err);

/* Writes the backend's graph to DIRECTORY/NAME, as text (graph.pbtxt) or serialized; missing directories are made.
 * HS_UNIMPLEMENTED where the backend has none to show. TensorFlow: write_graph. */
HS_API hs_code hs_backend_write_graph(hs_backend backend, const char *directory, const char *name, bool as_text,
                                      hs_error *err);
/* The MetaGraphDef of the backend's graph, serialized and malloc'ed by the backend's env: hs_env_free its data. With what
 * the backend knows beside its graph (hs_backend_meta_graph), and the saver's SaverDef, where that names ops. `saver` may
 * be NULL. */
HS_API hs_code hs_backend_export_meta_graph(hs_backend backend, const hs_saver *saver, hs_bytes *out, hs_error *err);

HS_END_DECLS

#endif
