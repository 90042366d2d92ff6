/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_CHECKPOINT_H
#define HOOKSESS_CHECKPOINT_H

#include <hooksess/raw_session.h>

/* Checkpoints: files with the variables and the state of a session. A training session saves and restores by itself
 * (training_session.h). Use this header to save, restore, read or delete checkpoints yourself.
 *
 *     hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 3), &err);
 *     hs_code code = hs_saver_save(saver, raw, "run/model.ckpt", 1000, NULL, &err);
 *     char *newest = hs_checkpoint_latest(NULL, "run", NULL, &err); // "run/model.ckpt-1000"
 *     if (!code && newest)
 *         code = hs_saver_restore(saver, raw, newest, NULL, &err);
 *     hs_env_free(NULL, newest);
 *     hs_saver_free(saver);
 *
 * The format is TensorFlow's V2 tensor bundle. A prefix, such as "run/model.ckpt-1000", names a checkpoint:
 *
 *   PREFIX.index                 names, shapes and checksums. The checkpoint exists if this file exists
 *   PREFIX.data-00000-of-00001   values: variables by name, then state. Equal models give equal files. After replacing a
 *                                checkpoint of the same name: 00001-of-00002
 *   PREFIX.meta                  the graph, if the backend has one
 *   checkpoint                   the state file: the newest checkpoint and the kept ones, as relative paths
 *   PREFIX.abandoned.*           a checkpoint of an abandoned history (step 4); never restored
 *
 * A save takes these steps. A crash at any of them leaves the newest finished checkpoint intact.
 *
 *   1. Lock the directory. The first save also removes the files of interrupted saves.
 *   2. Write and sync data, .meta and index under temporary names.
 *   3. Rename data and .meta, then the index. The checkpoint exists.
 *   4. If training continued from an older checkpoint, rename the later ones to PREFIX.abandoned.
 *   5. Replace the state file. The checkpoint is the newest.
 *   6. Delete the checkpoints that the saver no longer keeps.
 *
 * One process at a time saves to a directory. Reading and restoring take no lock.
 *
 * Threads: one thread at a time per object. Any thread may call the functions that take no saver, reader or session. */

HS_BEGIN_DECLS

/* The lock file of a directory (hs_file_system_ops.lock). If it is not a regular file, saving fails with
 * HS_INVALID_ARGUMENT. */
#define HS_CHECKPOINT_LOCK ".hooksess.lock"

/* Savers. */

/* Saves and restores sessions, and deletes old checkpoints. TensorFlow: Saver. */
typedef struct hs_saver hs_saver;

/* Another name for a variable in checkpoints. Frozen. */
typedef struct hs_checkpoint_name {
    const char *variable, *name;
} hs_checkpoint_name;

/* .names = HS_CHECKPOINT_NAMES({ "weights", "layer1/kernel" }, ...) */
#define HS_CHECKPOINT_NAMES(...) HS__LIST(hs_checkpoint_name, __VA_ARGS__, {NULL, NULL})

/* Saves or restores variables as the checkpoint `prefix`. Called by the session's thread. It may run the session
 * (hs_raw_session_run). */
typedef hs_code (*hs_variables_fn)(void *user, hs_raw_session *session, const char *prefix, hs_error *err);

typedef struct hs_saver_options {
    size_t size;
    const hs_env *env;
    int64_t max_to_keep; /* newest checkpoints to keep. 0: 5; HS_NEVER: all */
    /* Variables to save, ended by NULL, each at most once. Of a partitioned variable list all parts or none. NULL: all that
     * are not local */
    const char *const *variables;
    const hs_checkpoint_name *names;      /* HS_CHECKPOINT_NAMES(...), each variable at most once. NULL: none */
    double keep_checkpoint_every_n_hours; /* keep one of the old checkpoints per N hours forever. 0: none */
    int64_t keep_best;                    /* also keep the best N by hs_save_options.metric. 0: none */
    bool larger_is_better;                /* metrics: larger is better. false: smaller is */
    /* Save NaN and infinity in any variable. false: the save fails, and names the variable and the first index, unless it
     * has hs_variable_def.nonfinite */
    bool allow_nonfinite;
    unsigned char reserved[6];
    int64_t shards; /* data files per checkpoint, at most 64, written in parallel (below). 0: 1 */
    /* A serialized SaverDef, which names ops of the graph. PREFIX.meta gets it as it is. Copied. Size 0: one without ops,
     * or none if a program that imports the graph makes one */
    hs_bytes saver_def;
    hs_variables_fn save_variables;    /* saves the variables (below). NULL: the saver does it */
    hs_variables_fn restore_variables; /* restores the variables (below). NULL: the saver does it */
    void *user;                        /* for both */
} hs_saver_options;
#define HS_SAVER_OPTIONS(...) HS_OPTIONS(hs_saver_options, __VA_ARGS__)

/* Shards. Each of the N data files holds whole variables; they are of similar size. The first also holds the state. Reading
 * accepts any number. Each file has a thread and 8 MiB of buffers. A foreground save of device memory, or of a backend
 * without HS_BACKEND_KEEPS_VIEWS, reads the variables in the calling thread. TensorFlow: Saver(sharded=True).
 *
 * Functions. A program can save and restore the variables itself, with tensors that only it knows. The ops of a TensorFlow
 * graph do so with hs_tensorflow_options.graph_saves and graph_restores.
 *
 *   save_variables      Writes a checkpoint into an empty temporary directory. It need not sync. It may use other
 *                       functions than hs_env.files, but these must find its files. The library copies and verifies its
 *                       tensors in one thread, adds the state and commits as always. This needs twice the space on the
 *                       disk. Background saves become foreground saves.
 *   restore_variables   Restores from a checkpoint that the library has verified, before the state is loaded.
 *                       HS_INVALID_ARGUMENT means that it has changed nothing. After another code the model may be partly
 *                       restored. It is not used with names, skip, allow_missing or reshape. */

/* Creates a saver. Free it after the sessions that use it. `options` may be NULL. NULL with HS_INVALID_ARGUMENT: a number
 * out of range, a name listed twice, or save_variables or restore_variables with `variables` or `names`. Check the result:
 * a session that gets NULL uses a default saver. */
HS_API hs_saver *hs_saver_new(const hs_saver_options *options, hs_error *err);
/* Waits for a background save, and unlocks the directory. In a forked child of a process that has saved in the background:
 * does nothing. There hs_saver_save() returns HS_FAILED_PRECONDITION, and hs_saver_wait() does not wait. */
HS_API void hs_saver_free(hs_saver *saver);

/* Saving. */

/* What a background save does if the one before, in the same directory, is still being written. For one in another
 * directory it waits. */
typedef enum hs_busy_policy {
    HS_BUSY_WAIT = 0, /* waits for it */
    HS_BUSY_SKIP = 1, /* does nothing; hs_saver_save returns HS_CANCELLED */
    /* Cancels the save in progress and starts this one. A save that itself replaced another is waited for, so that frequent
     * saves cannot starve each other */
    HS_BUSY_REPLACE = 2
} hs_busy_policy;

typedef struct hs_save_options {
    size_t size;
    double metric;          /* with has_metric: for hs_saver_options.keep_best. NaN: not known */
    const char *state_file; /* its name, without a directory. NULL: "checkpoint" */
    bool no_meta_graph;     /* write no PREFIX.meta */
    bool no_state_file;     /* write no state file, and delete no checkpoints */
    bool has_metric;
    bool background; /* copy the state, and write it in a thread of the saver */
    bool overlap;    /* with background: copy large variables during the next runs */
    unsigned char reserved[3];
    hs_busy_policy busy; /* with background. 0: HS_BUSY_WAIT */
    int32_t reserved_busy;
    int64_t copy_limit;  /* with background: largest state to copy, in bytes; larger: foreground. 0, HS_NEVER: no limit */
    int64_t max_to_keep; /* as in hs_saver_options. 0: the saver's */
} hs_save_options;
#define HS_SAVE_OPTIONS(...) HS_OPTIONS(hs_save_options, __VA_ARGS__)

/* Saves the variables and the state of `session` as PREFIX-STEP. In a group of processes (group.h) all ranks make this
 * call, with a saver each; rank 0 writes.
 *
 * prefix   path without step. A missing directory is created if its parent exists
 * step     negative: the checkpoint is called PREFIX
 * options  NULL: the defaults
 *
 * A checkpoint of the same name is replaced atomically. On failure, existing checkpoints are unchanged:
 *
 *   HS_INVALID_ARGUMENT      invalid options, an unknown variable, a variable named "hooksess/...", no parent directory
 *   HS_FAILED_PRECONDITION   a variable is not finite, another process saves there, or the state file has the same name
 *   HS_RESOURCE_EXHAUSTED    the disk is full (checked before writing), or memory is exhausted
 *   others                   from the backend, a state provider or the file system
 *
 * If only the state file cannot be replaced, the call fails, but the checkpoint is complete. Returns when the data is on
 * disk. Memory: 16 MiB, and 8 MiB for each further shard.
 *
 * background   Returns when the state is copied; the result covers the copy only. hs_saver_poll reports the rest. If the
 *              previous background save failed and was not polled, this call returns that failure (its step is in the
 *              message) and saves nothing. The next save reuses the memory, which is as large as the variables.
 * overlap      Returns earlier: variables of 64 KiB or more are copied while the session runs. An op waits for the
 *              variables in hs_op_def.writes, or without this list for all. Use it only if nothing but ops changes
 *              variables: other writes during the copy spoil the checkpoint. Ignored if the backend does not support it.
 *              Variables of hs_graph_variable_at are always copied before the call returns.
 *
 * TensorFlow: Saver.save. */
HS_API hs_code hs_saver_save(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                             const hs_save_options *options, hs_error *err);

/* The result of a background save. Frozen. */
typedef struct hs_save_result {
    int64_t step;
    int64_t bytes;    /* of its variables and states */
    int64_t write_ns; /* nanoseconds of writing, without the copy before */
    hs_error error;   /* code HS_OK: the checkpoint is on disk */
} hs_save_result;
/* Returns true once per finished background save, with its result. If several of one directory finished, only the latest is
 * reported. A replaced save is not reported. Never waits. The saver's other functions wait for a save in progress, except
 * with HS_BUSY_SKIP.
 *
 * prefix  with the directory of the save. NULL: of any
 * result  may be NULL */
HS_API bool hs_saver_poll(hs_saver *saver, const char *prefix, hs_save_result *result);
/* Waits for a background save. */
HS_API void hs_saver_wait(hs_saver *saver);

/* Prepares saving to `prefix` (without step), as the first save does: creates the directory if its parent exists, locks
 * it, and removes files of interrupted saves. Call it before restoring, to learn early that another process, or a
 * session of this one that has claimed the directory, saves there (HS_FAILED_PRECONDITION). Other errors: as hs_saver_save.
 *
 * session  claims the directory for this session: until the saver is freed, saves of another session of this process there
 *          fail with HS_FAILED_PRECONDITION, also of another saver. NULL: claims nothing
 *
 * The lock lasts until the saver is freed; without this call, until it saves elsewhere. Savers of one process share it; a
 * forked child does not inherit it. Without locks in the file system, the log has a warning, and nothing is refused. */
HS_API hs_code hs_saver_hold(hs_saver *saver, const hs_raw_session *session, const char *prefix, hs_error *err);
/* A saver keeps a list of checkpoints, a last path and a lock for each directory. The next three functions tell of the one
 * in which it has saved, or from which it has restored, last.
 *
 * Returns the prefix that was saved or restored last, valid until the next save or restore. NULL: none. */
HS_API const char *hs_saver_last_path(const hs_saver *saver);
/* Returns the bytes of its variables and states. 0: not known. Waits for a background save. */
HS_API int64_t hs_saver_last_bytes(const hs_saver *saver);
/* Returns the prefixes of the kept checkpoints, oldest first, valid until the next save: the newest max_to_keep, the best
 * keep_best and the pinned ones. With HS_NEVER: the newest and the pinned ones; of a checkpoint manager: all. NULL after
 * the last. */
HS_API const char *hs_saver_checkpoint(const hs_saver *saver, size_t index);
/* Pins a kept checkpoint, so that it is never deleted, or unpins it. The state file records it. HS_NOT_FOUND if the saver
 * does not keep `prefix`; with max_to_keep HS_NEVER, it keeps all in its directory. Other errors: as hs_saver_hold. */
HS_API hs_code hs_saver_pin(hs_saver *saver, const char *prefix, bool pinned, hs_error *err);
/* Sets the metric of a kept checkpoint (hs_save_options.metric), for a model that was evaluated after its save. The next
 * save chooses by it. Errors: as hs_saver_pin. */
HS_API hs_code hs_saver_set_metric(hs_saver *saver, const char *prefix, double metric, hs_error *err);
/* Adds existing checkpoints to the kept ones.
 *
 * paths  prefixes, oldest first, ended by NULL. A path without files is skipped
 *
 * Pins and metrics come from the state file next to the last one; a missing or damaged one is ignored. Errors:
 * HS_RESOURCE_EXHAUSTED, or that of reading the state file. TensorFlow: Saver.recover_last_checkpoints. */
HS_API hs_code hs_saver_recover(hs_saver *saver, const char *const *paths, hs_error *err);
/* After another saver has restored `prefix`: adopts the kept checkpoints of its directory, as if this saver had restored
 * it. HS_NOT_FOUND: the directory has no such checkpoint. Other errors: those of reading the directory. */
HS_API hs_code hs_saver_take_over(hs_saver *saver, const char *prefix, hs_error *err);

/* Restoring. */

/* What a restore reports, with `name` and `detail`. */
typedef enum hs_restore_event {
    HS_RESTORE_EVENT_RESTORED = 0,   /* the variable `name` gets the tensor `detail` */
    HS_RESTORE_EVENT_SKIPPED = 1,    /* the variable `name` is skipped */
    HS_RESTORE_EVENT_MISSING = 2,    /* the checkpoint has no tensor `name` */
    HS_RESTORE_EVENT_MISMATCHED = 3, /* the tensor `name` has another dtype or shape; `detail` has both */
    HS_RESTORE_EVENT_EXTRA = 4,      /* no variable uses the tensor `name` */
    /* The checkpoint `name` is damaged (`detail`). hs_saver_restore fails; a restore of the newest tries an older one */
    HS_RESTORE_EVENT_REJECTED = 5,
    HS_RESTORE_EVENT_WITHOUT_MEMORY = 6 /* the variable `name` had no memory when it was saved (hs_graph_variable_at) */
} hs_restore_event;
/* Called before values are read: the restore can still fail. Strings are valid during the call. */
typedef void (*hs_restore_report_fn)(void *user, hs_restore_event event, const char *name, const char *detail);

/* A partial restore. Lists are read during the call. Later saves do not use `names`: a program that restores its own
 * checkpoints sets hs_saver_options.names instead. */
typedef struct hs_restore_options {
    size_t size;
    const hs_checkpoint_name *names; /* names in this checkpoint, each variable at most once. NULL: those of the saver */
    const char *const *skip;         /* variables that keep their values, ended by NULL. NULL: none */
    hs_restore_report_fn report;     /* called for each variable, tensor and checkpoint. NULL: none */
    void *user;
    bool allow_missing; /* variables that the checkpoint lacks keep their values */
    bool reshape;       /* accept other shapes with as many elements, in row-major order */
    bool any_identity;  /* accept state of another identity than its provider's (state.h) */
    unsigned char reserved[5];
} hs_restore_options;
#define HS_RESTORE_OPTIONS(...) HS_OPTIONS(hs_restore_options, __VA_ARGS__)

/* Restores the variables and the state of `session` from `prefix`. `options` NULL: everything. If verification fails, the
 * model is unchanged:
 *
 *   HS_NOT_FOUND             no such checkpoint, or it lacks variables
 *   HS_INVALID_ARGUMENT      dtypes or shapes differ (all are listed, in the message or the log), or invalid options
 *   HS_FAILED_PRECONDITION   state of another identity, or of a later version than its provider's (state.h)
 *   HS_DATA_LOSS             damage
 *
 * Three later failures can leave the model partly restored (do not train on; reopen): a state provider's load fails;
 * writing device memory fails; or the second read of a model or a state over 64 MiB fails (it is read twice, to verify and
 * to load). Hooks then save nothing more (hs_raw_session_refuse_saves).
 *
 * State without a provider waits for hs_raw_session_add_state. The kept checkpoints do not change (hs_saver_take_over).
 * TensorFlow: Saver.restore. */
HS_API hs_code hs_saver_restore(hs_saver *saver, hs_raw_session *session, const char *prefix,
                                const hs_restore_options *options, hs_error *err);

/* Checkpoints as files. `env` NULL: the system's. */

/* Returns the prefix of the newest checkpoint in a directory, which the saver's state file names. Free it with
 * hs_env_free(env, ...). If the file has an absolute path, a checkpoint of that name next to the file is preferred, because
 * the directory may have been moved or copied.
 *
 * state_file  name without directory. NULL: "checkpoint"
 *
 * If that file or that checkpoint does not exist: NULL, and `err` is HS_OK. On failure: NULL and HS_DATA_LOSS for a damaged
 * state file, HS_INVALID_ARGUMENT for a file without a checkpoint, or the code of reading it. TensorFlow:
 * latest_checkpoint. */
HS_API char *hs_checkpoint_latest(const hs_env *env, const char *directory, const char *state_file, hs_error *err);
/* TensorFlow: checkpoint_exists. */
HS_API bool hs_checkpoint_exists(const hs_env *env, const char *prefix);

/* Sets *ns to the time when the checkpoint was finished, in nanoseconds since 1970. HS_NOT_FOUND. TensorFlow:
 * get_checkpoint_mtimes. */
HS_API hs_code hs_checkpoint_mtime(const hs_env *env, const char *prefix, int64_t *ns, hs_error *err);
/* Deletes the files of a checkpoint. HS_OK if it does not exist; HS_UNKNOWN if it cannot be deleted (the log has the
 * cause). TensorFlow: remove_checkpoint. */
HS_API hs_code hs_checkpoint_remove(const hs_env *env, const char *prefix, hs_error *err);
/* Waits until hs_checkpoint_latest returns another prefix than `last`. Looks once a second, and retries read errors.
 *
 * last          NULL: any checkpoint
 * timeout_secs  seconds. 0: look once; HS_NEVER: no limit
 * found         set to the prefix (free it with hs_env_free(env, ...)), or to NULL after an error
 *
 * HS_DEADLINE_EXCEEDED after the timeout. To evaluate checkpoints as they appear, pass the previous result as `last`.
 * TensorFlow: wait_for_new_checkpoint, checkpoints_iterator. */
HS_API hs_code hs_checkpoint_wait(const hs_env *env, const char *directory, const char *last, double timeout_secs,
                                  char **found, hs_error *err);

/* Reading without a session. */

/* TensorFlow: load_checkpoint. */
typedef struct hs_checkpoint_reader hs_checkpoint_reader;

/* Reads the index of `prefix`, or the header of a safetensors file if the name ends in ".safetensors". NULL after an error:
 * HS_NOT_FOUND, HS_INVALID_ARGUMENT (an unknown format version), HS_UNIMPLEMENTED (TensorFlow's former format V1, or a
 * compression other than Snappy), HS_DATA_LOSS (damage, or overlapping tensors). */
HS_API hs_checkpoint_reader *hs_checkpoint_open(const hs_env *env, const char *prefix, hs_error *err);
HS_API void hs_checkpoint_close(hs_checkpoint_reader *reader);
/* Describes tensor `index`, in the order of names. Returns false after the last. A partitioned variable is one tensor.
 *
 * name  set to the name, valid as long as the reader. May be NULL
 * info  set to dtype, shape and `bytes`, the size for hs_checkpoint_read (strings: hs_string elements, then text). `data`
 *       is NULL. May be NULL
 *
 * Tensors that this library does not support are listed too: unknown dtypes (for which hs_dtype_size returns 0), unknown
 * ranks (-1), and strings in slices. hs_checkpoint_read reads them as the `bytes` of the file if it is a safetensors file.
 * In a checkpoint it returns HS_UNIMPLEMENTED. */
HS_API bool hs_checkpoint_tensor(const hs_checkpoint_reader *reader, size_t index, const char **name, hs_tensor *info);
/* Returns the name of a tensor's dtype: that of hs_dtype_name, or for an unknown dtype the file's, such as "F8_E4M3" in a
 * safetensors file, or TensorFlow's number, such as "25", in a checkpoint. If the file gives an unknown dtype a name of
 * hs_dtype_name, the name is in quotes: "'float'". Valid as long as the reader. NULL: no such tensor. */
HS_API const char *hs_checkpoint_dtype_name(const hs_checkpoint_reader *reader, const char *name);
/* The same by name. HS_NOT_FOUND. */
HS_API hs_code hs_checkpoint_find(const hs_checkpoint_reader *reader, const char *name, hs_tensor *info, hs_error *err);
/* Reads and verifies one tensor, in the byte order of this machine. `bytes` must be info.bytes. HS_NOT_FOUND: no such
 * tensor or data file. HS_DATA_LOSS: damage, a short file, or slices that are missing, overlap or do not fit; the content
 * of `data` is then undefined. */
HS_API hs_code hs_checkpoint_read(hs_checkpoint_reader *reader, const char *name, void *data, size_t bytes, hs_error *err);
/* Reads a rectangular part of a tensor, in row-major order.
 *
 * starts   first index in each dimension. NULL: 0
 * lengths  in each dimension; -1: up to the end. NULL: -1
 * bytes    the size of the part
 *
 * The first call verifies the tensor, or the slices that the part touches, in little memory. Later calls of this reader
 * read only the part. HS_INVALID_ARGUMENT: a part outside of the tensor. HS_UNIMPLEMENTED: strings, unknown dtypes and
 * ranks. Others: as hs_checkpoint_read. TensorFlow: the op RestoreV2 with shape_and_slices. */
HS_API hs_code hs_checkpoint_read_slice(hs_checkpoint_reader *reader, const char *name, const int64_t *starts,
                                        const int64_t *lengths, void *data, size_t bytes, hs_error *err);
/* Verifies one tensor, also of an unknown dtype, in little memory. `name` NULL: verifies the index. HS_DATA_LOSS: damage.
 * HS_NOT_FOUND: no such tensor or data file. HS_UNIMPLEMENTED: a safetensors file, which has no checksums. A checkpoint is
 * intact if its index and all tensors are. */
HS_API hs_code hs_checkpoint_verify(hs_checkpoint_reader *reader, const char *name, hs_error *err);

/* The graph as a file. */

/* Writes the backend's graph to DIRECTORY/NAME, serialized or as text (graph.pbtxt). Creates missing directories.
 * HS_UNIMPLEMENTED if the backend has no graph. TensorFlow: write_graph. */
HS_API hs_code hs_backend_write_graph(hs_backend backend, const char *directory, const char *name, bool as_text,
                                      hs_error *err);
/* Sets *out to the serialized MetaGraphDef of a .meta file: the graph, meta_graph of the backend and the saver's SaverDef.
 * `saver` may be NULL. Free out->data with hs_env_free(hs_backend_env(backend), ...). HS_UNIMPLEMENTED if the backend has
 * no graph. TensorFlow: export_meta_graph. */
HS_API hs_code hs_backend_export_meta_graph(hs_backend backend, const hs_saver *saver, hs_bytes *out, hs_error *err);

HS_END_DECLS

#endif
