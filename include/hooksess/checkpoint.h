/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_CHECKPOINT_H
#define HOOKSESS_CHECKPOINT_H

#include <hooksess/raw_session.h>

/* Checkpoints: files with the variables and the state of a session. A training session saves and restores by itself
 * (training_session.h).
 *
 *     hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 3), &err);
 *     hs_code code = hs_saver_save(saver, raw, "run/model.ckpt", 1000, NULL, &err);
 *     char *newest = hs_checkpoint_latest(NULL, "run", NULL, &err); // "run/model.ckpt-1000"
 *     if (!code && newest)
 *         code = hs_saver_restore(saver, raw, newest, NULL, &err);
 *     hs_env_free(NULL, newest);
 *     hs_saver_free(saver);
 *
 * A prefix, such as "run/model.ckpt-1000", names a checkpoint. It exists if PREFIX.index exists. Equal models give equal
 * files. The state file "checkpoint" names the newest checkpoint and the kept ones (docs/file-formats.md).
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

/* Saves or restores variables as the checkpoint `prefix`. It may run the session (hs_raw_session_run). */
typedef hs_code (*hs_variables_fn)(void *user, hs_raw_session *session, const char *prefix, hs_error *err);

typedef struct hs_saver_options {
    size_t size;
    const hs_env *env;
    int64_t max_to_keep; /* newest checkpoints to keep. 0: 5; HS_NEVER: all */
    /* Variables to save; all parts of a partitioned variable, or none. NULL: all that are not local */
    const char *const *variables;
    const hs_checkpoint_name *names;      /* HS_CHECKPOINT_NAMES(...). NULL: none */
    double keep_checkpoint_every_n_hours; /* keep one old checkpoint per N hours forever. 0: none */
    int64_t keep_best;                    /* also keep the best N by hs_save_options.metric. 0: none */
    bool larger_is_better;                /* larger metrics are better. false: smaller ones are */
    /* Save NaN and infinity in any variable. false: only in variables with hs_variable_def.nonfinite; otherwise the save
     * fails */
    bool allow_nonfinite;
    unsigned char reserved[6];
    int64_t shards; /* data files per checkpoint, at most 64 (below). 0: 1 */
    /* A serialized SaverDef for PREFIX.meta, which names ops. Size 0: one without ops, or none if importing programs make
     * one */
    hs_bytes saver_def;
    hs_variables_fn save_variables;    /* NULL: the saver saves the variables */
    hs_variables_fn restore_variables; /* NULL: the saver restores them */
    void *user;                        /* for both functions (below) */
} hs_saver_options;
#define HS_SAVER_OPTIONS(...) HS_OPTIONS(hs_saver_options, __VA_ARGS__)

/* Shards. A thread writes each data file. Reading accepts any number of files. With device memory, or a backend without
 * HS_BACKEND_KEEPS_VIEWS, the calling thread reads the variables of a foreground save. TensorFlow: Saver(sharded=True).
 *
 * Functions (for the ops of a TensorFlow graph: hs_tensorflow_options.graph_saves):
 *
 *   save_variables      Writes a checkpoint into an empty temporary directory, in which hs_env.files must find it. It need
 *                       not sync. The library copies and verifies it, and adds the state. This needs twice the disk space.
 *                       Background saves become foreground saves.
 *   restore_variables   Restores from a verified checkpoint, before the state is loaded. HS_INVALID_ARGUMENT: it has
 *                       changed nothing. After another code the model may be partly restored. Not called with names, skip,
 *                       allow_missing or reshape. */

/* Creates a saver. Free it after the sessions that use it. `options` may be NULL. HS_INVALID_ARGUMENT: a number out of
 * range, a name listed twice, or save_variables or restore_variables with `variables` or `names`. Check the result: a
 * session that gets NULL uses a default saver. */
HS_API hs_saver *hs_saver_new(const hs_saver_options *options, hs_error *err);
/* Waits for a background save, and unlocks the directory. */
HS_API void hs_saver_free(hs_saver *saver);

/* Saving. */

/* What a background save does while the previous one writes to the same directory. For another directory it waits. */
typedef enum hs_busy_policy {
    HS_BUSY_WAIT = 0, /* waits for it */
    HS_BUSY_SKIP = 1, /* does nothing; hs_saver_save returns HS_CANCELLED */
    /* Cancels it and starts this one. A save that itself replaced another is waited for */
    HS_BUSY_REPLACE = 2
} hs_busy_policy;

typedef struct hs_save_options {
    size_t size;
    double metric;          /* with has_metric: for hs_saver_options.keep_best. NaN: not known */
    const char *state_file; /* file name. NULL: "checkpoint" */
    bool no_meta_graph;     /* write no PREFIX.meta */
    bool no_state_file;     /* write none, and delete no checkpoints */
    bool has_metric;
    bool background; /* copy the state, and write it in a thread */
    bool overlap;    /* with background: copy large variables during the next runs */
    unsigned char reserved[3];
    hs_busy_policy busy; /* with background. 0: HS_BUSY_WAIT */
    int32_t reserved_busy;
    int64_t copy_limit;  /* with background: largest state to copy, in bytes; larger: foreground. 0: no limit */
    int64_t max_to_keep; /* as in hs_saver_options. 0: the saver's */
} hs_save_options;
#define HS_SAVE_OPTIONS(...) HS_OPTIONS(hs_save_options, __VA_ARGS__)

/* Saves the variables and the state of `session` as PREFIX-STEP. In a group of processes (group.h) all ranks call it, with
 * a saver each; rank 0 writes.
 *
 * prefix   path without step. A missing directory is created if its parent exists
 * step     negative: the checkpoint is called PREFIX
 * options  NULL: the defaults
 *
 * Replaces a checkpoint of the same name atomically. On failure, existing checkpoints are unchanged:
 *
 *   HS_INVALID_ARGUMENT      invalid options, an unknown variable, a variable named "hooksess/...", no parent directory
 *   HS_FAILED_PRECONDITION   a variable is not finite, another process saves there, or the state file has the same name
 *   HS_RESOURCE_EXHAUSTED    the disk is full (checked before writing), or memory is exhausted
 *   HS_DATA_LOSS             in a group, a variable differs between the ranks
 *
 * If only the state file cannot be replaced, the call fails, but the checkpoint is complete. Returns when the data is on
 * disk. Memory: 16 MiB, and 8 MiB for each further shard; for variables on a device, and on rank 0 of a group, 32 MiB more.
 *
 * background   Returns when the state is copied, and hs_saver_poll reports the rest. If the previous background save failed
 *              and was not polled, this call returns that failure and saves nothing. Memory: as much as the variables; on
 *              the device for those that it can copy (hs_memory.duplicate) and has room for. Only the device waits for such
 *              a copy. In a group, the save runs in the foreground if the per-rank states (state.h) of another rank than 0
 *              are larger than 16 MiB divided by the rank count.
 * overlap      Returns earlier: variables of 64 KiB or more are copied while the session runs, except those of
 *              hs_graph_variable_at on the host. An op waits for the variables in hs_op_def.writes. Only ops may change
 *              variables: other writes spoil the checkpoint. Ignored if the backend does not support it. A program that
 *              calls hs_step_before_update needs no overlap.
 *
 * TensorFlow: Saver.save. */
HS_API hs_code hs_saver_save(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                             const hs_save_options *options, hs_error *err);

/* The result of a background save. Frozen. */
typedef struct hs_save_result {
    int64_t step;
    int64_t bytes;    /* of variables and states */
    int64_t write_ns; /* nanoseconds of writing, without the copy */
    hs_error error;   /* code HS_OK: the checkpoint is on disk */
} hs_save_result;
/* Returns true once per finished background save, with its result. If several of one directory finished, only the latest is
 * reported; a replaced save never is. Never waits. The saver's other functions wait for a save in progress, except with
 * HS_BUSY_SKIP.
 *
 * prefix  with the directory of the save. NULL: of any
 * result  may be NULL */
HS_API bool hs_saver_poll(hs_saver *saver, const char *prefix, hs_save_result *result);
/* Waits for a background save. */
HS_API void hs_saver_wait(hs_saver *saver);

/* Prepares saving to `prefix` (without step): creates the directory if its parent exists, locks it, and removes files of
 * interrupted saves. Call it before restoring. HS_FAILED_PRECONDITION: another process saves there, or another session has
 * claimed the directory. Others: as hs_saver_save.
 *
 * session  claims the directory: until the saver is freed, saves of other sessions of this process there fail with
 *          HS_FAILED_PRECONDITION. NULL: claims nothing
 *
 * The lock lasts until the saver is freed; without this call, until it saves elsewhere. Savers of one process share it; a
 * forked child does not inherit it. Without locks in the file system, a warning is logged, and nothing is refused. */
HS_API hs_code hs_saver_hold(hs_saver *saver, const hs_raw_session *session, const char *prefix, hs_error *err);
/* The next three functions use the directory of the saver's last save or restore.
 *
 * Returns the prefix that was saved or restored last, valid until the next save or restore. NULL: none. */
HS_API const char *hs_saver_last_path(const hs_saver *saver);
/* Returns the bytes of the variables and states. 0: not known. Waits for a background save. */
HS_API int64_t hs_saver_last_bytes(const hs_saver *saver);
/* Returns a kept checkpoint, oldest first, valid until the next save: the newest max_to_keep, the best keep_best and the
 * pinned ones. With HS_NEVER: the newest and the pinned ones; of a checkpoint manager: all. */
HS_API const char *hs_saver_checkpoint(const hs_saver *saver, size_t index);
/* Pins a kept checkpoint, so that it is never deleted, or unpins it. HS_NOT_FOUND: `prefix` is not kept (with HS_NEVER, all
 * in its directory are kept). Others: as hs_saver_hold. */
HS_API hs_code hs_saver_pin(hs_saver *saver, const char *prefix, bool pinned, hs_error *err);
/* Sets the metric of a kept checkpoint (hs_save_options.metric). The next save uses it. Errors: as hs_saver_pin. */
HS_API hs_code hs_saver_set_metric(hs_saver *saver, const char *prefix, double metric, hs_error *err);
/* Adds existing checkpoints to the kept ones.
 *
 * paths  prefixes, oldest first. A path without files is skipped
 *
 * Pins and metrics come from the state file next to the last one, if it is intact. Errors: HS_RESOURCE_EXHAUSTED, or that
 * of reading the state file. TensorFlow: Saver.recover_last_checkpoints. */
HS_API hs_code hs_saver_recover(hs_saver *saver, const char *const *paths, hs_error *err);
/* Adopts the kept checkpoints of a directory, as if this saver had restored `prefix`. HS_NOT_FOUND: no such checkpoint.
 * Others: those of reading the directory. */
HS_API hs_code hs_saver_take_over(hs_saver *saver, const char *prefix, hs_error *err);

/* Restoring. */

/* What a restore reports of `name`. */
typedef enum hs_restore_event {
    HS_RESTORE_EVENT_RESTORED = 0,   /* the variable gets the tensor `detail` */
    HS_RESTORE_EVENT_SKIPPED = 1,    /* the variable is skipped */
    HS_RESTORE_EVENT_MISSING = 2,    /* the checkpoint has no such tensor */
    HS_RESTORE_EVENT_MISMATCHED = 3, /* the tensor has another dtype or shape; `detail` has both */
    HS_RESTORE_EVENT_EXTRA = 4,      /* no variable uses the tensor */
    /* The checkpoint is damaged (`detail`). hs_saver_restore fails; a restore of the newest tries an older one */
    HS_RESTORE_EVENT_REJECTED = 5,
    HS_RESTORE_EVENT_WITHOUT_MEMORY = 6 /* the variable had no memory when it was saved */
} hs_restore_event;
/* Called before values are read: the restore can still fail. Strings are valid during the call. */
typedef void (*hs_restore_report_fn)(void *user, hs_restore_event event, const char *name, const char *detail);

/* A partial restore. Later saves do not use `names`: for a program's own checkpoints, set hs_saver_options.names. */
typedef struct hs_restore_options {
    size_t size;
    const hs_checkpoint_name *names; /* names in this checkpoint, each variable at most once. NULL: those of the saver */
    const char *const *skip;         /* variables that keep their values. NULL: none */
    hs_restore_report_fn report;     /* for each variable, tensor and checkpoint. NULL: none */
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
 *   HS_INVALID_ARGUMENT      dtypes or shapes differ, or invalid options
 *   HS_FAILED_PRECONDITION   state of another identity, or of a later version than its provider's (state.h)
 *   HS_DATA_LOSS             damage
 *
 * Later failures can leave the model partly restored: of a state provider's load, of writing device memory, or of the
 * second read of a model or state over 64 MiB. Hooks then save nothing more (hs_raw_session_refuse_saves). Reopen the
 * session.
 *
 * State without a provider waits for hs_raw_session_add_state. The kept checkpoints do not change (hs_saver_take_over).
 * TensorFlow: Saver.restore. */
HS_API hs_code hs_saver_restore(hs_saver *saver, hs_raw_session *session, const char *prefix,
                                const hs_restore_options *options, hs_error *err);

/* Checkpoints as files. `env` NULL: the system's. Free returned prefixes with hs_env_free(env, ...). */

/* Returns the newest checkpoint of a directory, which the state file names. For an absolute path, a checkpoint of that name
 * next to the file is preferred.
 *
 * state_file  NULL: "checkpoint"
 *
 * NULL and HS_OK: file or checkpoint do not exist. On failure: NULL and HS_DATA_LOSS for a damaged state file,
 * HS_INVALID_ARGUMENT for one without a checkpoint, or the code of reading it. TensorFlow: latest_checkpoint. */
HS_API char *hs_checkpoint_latest(const hs_env *env, const char *directory, const char *state_file, hs_error *err);
/* TensorFlow: checkpoint_exists. */
HS_API bool hs_checkpoint_exists(const hs_env *env, const char *prefix);

/* Sets *ns to the time when the checkpoint was finished, in nanoseconds since 1970. HS_NOT_FOUND. TensorFlow:
 * get_checkpoint_mtimes. */
HS_API hs_code hs_checkpoint_mtime(const hs_env *env, const char *prefix, int64_t *ns, hs_error *err);
/* Deletes a checkpoint. HS_OK if it does not exist; HS_UNKNOWN if it cannot be deleted (the log has the cause). TensorFlow:
 * remove_checkpoint. */
HS_API hs_code hs_checkpoint_remove(const hs_env *env, const char *prefix, hs_error *err);
/* Waits until hs_checkpoint_latest returns another prefix than `last`. Looks once a second, and retries read errors.
 *
 * last          NULL: any checkpoint
 * timeout_secs  seconds. 0: look once; HS_NEVER: no limit
 * found         set to the prefix, or to NULL after an error
 *
 * HS_DEADLINE_EXCEEDED after the timeout. TensorFlow: wait_for_new_checkpoint, checkpoints_iterator. */
HS_API hs_code hs_checkpoint_wait(const hs_env *env, const char *directory, const char *last, double timeout_secs,
                                  char **found, hs_error *err);

/* Reading without a session. */

/* TensorFlow: load_checkpoint. */
typedef struct hs_checkpoint_reader hs_checkpoint_reader;

/* Opens the checkpoint `prefix`, or a safetensors file if the name ends in ".safetensors". HS_NOT_FOUND, HS_DATA_LOSS
 * (damage), HS_INVALID_ARGUMENT (an unknown format version), HS_UNIMPLEMENTED (TensorFlow's format V1, or a compression
 * other than Snappy). */
HS_API hs_checkpoint_reader *hs_checkpoint_open(const hs_env *env, const char *prefix, hs_error *err);
HS_API void hs_checkpoint_close(hs_checkpoint_reader *reader);
/* Describes tensor `index`, in the order of names. A partitioned variable is one tensor.
 *
 * name  may be NULL
 * info  set to dtype, shape and `bytes`, the size for hs_checkpoint_read (strings: hs_string elements, then text). May be
 *       NULL
 *
 * Unsupported tensors are listed too: unknown dtypes (hs_dtype_size returns 0), unknown ranks (-1), and strings in slices.
 * hs_checkpoint_read reads them as bytes in a safetensors file, and returns HS_UNIMPLEMENTED in a checkpoint. */
HS_API bool hs_checkpoint_tensor(const hs_checkpoint_reader *reader, size_t index, const char **name, hs_tensor *info);
/* Returns the name of a tensor's dtype, as hs_dtype_name. For an unknown dtype: the name in a safetensors file, such as
 * "F8_E4M3" (in quotes if hs_dtype_name has the same: "'float'"), or TensorFlow's number in a checkpoint, such as "25".
 * NULL: no such tensor. */
HS_API const char *hs_checkpoint_dtype_name(const hs_checkpoint_reader *reader, const char *name);
/* As hs_checkpoint_tensor, by name. HS_NOT_FOUND. */
HS_API hs_code hs_checkpoint_find(const hs_checkpoint_reader *reader, const char *name, hs_tensor *info, hs_error *err);
/* Reads and verifies one tensor, in the byte order of this machine. `bytes` must be info.bytes. HS_NOT_FOUND: no such
 * tensor or data file. HS_DATA_LOSS: damage; `data` is then undefined. */
HS_API hs_code hs_checkpoint_read(hs_checkpoint_reader *reader, const char *name, void *data, size_t bytes, hs_error *err);
/* Reads a rectangular part of a tensor, in row-major order.
 *
 * starts   first index in each dimension. NULL: 0
 * lengths  in each dimension; -1: up to the end. NULL: -1
 * bytes    the size of the part
 *
 * The first call verifies the tensor, or the slices that the part touches; later calls read only the part.
 * HS_INVALID_ARGUMENT: a part outside of the tensor. HS_UNIMPLEMENTED: strings, unknown dtypes and ranks. Others: as
 * hs_checkpoint_read. TensorFlow: the op RestoreV2 with shape_and_slices. */
HS_API hs_code hs_checkpoint_read_slice(hs_checkpoint_reader *reader, const char *name, const int64_t *starts,
                                        const int64_t *lengths, void *data, size_t bytes, hs_error *err);
/* Verifies one tensor, also of an unknown dtype. `name` NULL: the index. HS_DATA_LOSS: damage. HS_NOT_FOUND: no such tensor
 * or data file. HS_UNIMPLEMENTED: a safetensors file. */
HS_API hs_code hs_checkpoint_verify(hs_checkpoint_reader *reader, const char *name, hs_error *err);

/* The graph as a file. */

/* Writes the backend's graph to DIRECTORY/NAME, serialized or as text. Creates missing directories. HS_UNIMPLEMENTED: the
 * backend has no graph. TensorFlow: write_graph. */
HS_API hs_code hs_backend_write_graph(hs_backend backend, const char *directory, const char *name, bool as_text,
                                      hs_error *err);
/* Sets *out to the serialized MetaGraphDef of a .meta file. `saver` may be NULL. Free out->data with
 * hs_env_free(hs_backend_env(backend), ...). HS_UNIMPLEMENTED: the backend has no graph. TensorFlow: export_meta_graph. */
HS_API hs_code hs_backend_export_meta_graph(hs_backend backend, const hs_saver *saver, hs_bytes *out, hs_error *err);

HS_END_DECLS

#endif
