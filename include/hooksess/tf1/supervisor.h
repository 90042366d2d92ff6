/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TF1_SUPERVISOR_H
#define HOOKSESS_TF1_SUPERVISOR_H

#include <hooksess/queue_runner.h>
#include <hooksess/summary.h>
#include <hooksess/tf1/session_manager.h>

/* Training without hooks: prepares a session, and runs threads that save checkpoints, write summaries and count steps.
 * Handles no signals. Link with libhooksess_tf1. TensorFlow: Supervisor.
 *
 *     hs_supervisor *sv = hs_supervisor_new(backend, HS_SUPERVISOR_OPTIONS(.checkpoint_dir = "run"), &err);
 *     hs_session *session = hs_supervisor_managed_session(sv, NULL, &err);
 *     while (!err.code && !hs_supervisor_should_stop(sv))
 *         hs_supervisor_run(sv, session, HS_RUN_ARGS(.names = HS_NAMES("train")), NULL, &err);
 *     if (!err.code || err.code == HS_OUT_OF_RANGE)
 *         hs_supervisor_save(sv, session, &err);
 *     hs_code code = hs_supervisor_leave(sv, session, err.code, NULL, &err);
 *     hs_supervisor_free(sv);
 *
 * Without hs_supervisor_save(), steps after the last checkpoint are lost.
 *
 * Threads: one thread at a time per object. Any thread may call hs_supervisor_run, _lock, _unlock, _save,
 * _summary_computed, _request_stop and _should_stop. */

HS_BEGIN_DECLS

typedef struct hs_supervisor hs_supervisor;

/* A name that is NULL: the first item of the graph's collection (backend.h), or else the backend's default op. HS_NONE: no
 * op. Fields with (chief) have no effect with is_worker. */
typedef struct hs_supervisor_options {
    size_t size;
    const char *ready_op;                /* as in hs_scaffold_options */
    const char *ready_for_local_init_op; /* NULL: the collection's only; no default op */
    const char *init_op;                 /* (chief) run if no checkpoint is restored */
    const hs_feed *init_feeds;           /* HS_FEEDS(...). Borrowed */
    hs_init_fn init_fn;                  /* called after init_op, with scaffold NULL. Invalid with is_worker */
    void *user;
    const char *local_init_op;                    /* run in every session */
    const hs_run_options *local_init_run_options; /* borrowed */
    const char *checkpoint_dir;                   /* (chief) checkpoints and event files. NULL, HS_NONE: no files */
    const char *summary_op;                       /* returns a serialized Summary. NULL: merges HS_SUMMARIES */
    hs_saver *saver;                              /* NULL: the collection's, or one with default options */
    const char *global_step; /* one int32 or int64. NULL: the backend's, or the variable "global_step" */
    /* (chief) Seconds between summaries, and between rates in steps per second. 0: 120. HS_NEVER: neither. If summary_op
     * needs feeds, use HS_NEVER and hs_supervisor_summary_computed() */
    double save_summaries_secs;
    double save_model_secs;              /* (chief) seconds between checkpoints. 0: 600. HS_NEVER: none */
    double recovery_wait_secs;           /* with is_worker: seconds between polls for the chief. 0: 30 */
    double stop_grace_secs;              /* as in hs_join_options. 0: 120 */
    const char *checkpoint_basename;     /* of CHECKPOINT_DIR/BASENAME-STEP. NULL: "model.ckpt" */
    hs_session_manager *session_manager; /* borrowed. NULL: made of the ops above */
    hs_summary_writer *summary_writer;   /* (chief) NULL: the supervisor opens one for checkpoint_dir */
    bool is_worker;                      /* another process initializes, restores, saves and writes */
    bool no_saver;
    bool no_summary_writer;
    unsigned char reserved[5];
} hs_supervisor_options;
#define HS_SUPERVISOR_OPTIONS(...) HS_OPTIONS(hs_supervisor_options, __VA_ARGS__)

/* Creates a supervisor and finalizes the graph until it is freed. The backend must outlive it. `options` NULL: the
 * defaults. HS_INVALID_ARGUMENT: options contradict each other. */
HS_API hs_supervisor *hs_supervisor_new(hs_backend backend, const hs_supervisor_options *options, hs_error *err);
/* Ends the services, closes the supervisor's own writer, and frees the supervisor. Close its sessions first.
 *
 * In a forked child this does nothing, and functions that open, run, save or stop sessions, or start threads, fail with
 * HS_FAILED_PRECONDITION. */
HS_API void hs_supervisor_free(hs_supervisor *sv);

/* Sessions. */

/* Fields without a comment: as in hs_session_manager_prepare_options. */
typedef struct hs_supervisor_session_options {
    size_t size;
    const char *target;
    hs_bytes config;
    double max_wait_secs;
    bool wait_for_checkpoint;  /* (chief) */
    bool no_standard_services; /* starts neither the services nor the queue runners */
    unsigned char reserved[6];
    const hs_recovery *recovery; /* for hs_basic_train_loop(): max_attempts and backoff_secs. NULL: their defaults */
} hs_supervisor_session_options;
#define HS_SUPERVISOR_SESSION_OPTIONS(...) HS_OPTIONS(hs_supervisor_session_options, __VA_ARGS__)

/* Opens a session that is ready to run. `options` NULL: the defaults.
 *
 * 1. Withdraws an earlier stop.
 * 2. A chief restores the newest checkpoint of checkpoint_dir, or initializes. A worker waits for this.
 * 3. A chief writes graph.pbtxt and the graph's event, and starts the standard services.
 * 4. Starts the graph's queue runners.
 *
 * To close the session, call hs_supervisor_stop(), wait for all threads that run it and for each hs_supervisor_service(),
 * and call hs_session_close(). On failure everything is closed. Only if threads do not stop within stop_grace_secs, the
 * session stays open, and the log says so. Errors: as hs_session_manager_prepare() and _wait(). HS_FAILED_PRECONDITION:
 * another process saves to checkpoint_dir, or services of an earlier session still run. */
HS_API hs_session *hs_supervisor_prepare_or_wait_for_session(hs_supervisor *sv,
                                                             const hs_supervisor_session_options *options, hs_error *err);
/* The same, but end the session with hs_supervisor_leave(). TensorFlow: managed_session. */
HS_API hs_session *hs_supervisor_managed_session(hs_supervisor *sv, const hs_supervisor_session_options *options,
                                                 hs_error *err);

/* Fields without a comment: as in hs_join_options. */
typedef struct hs_supervisor_stop_options {
    size_t size;
    hs_thread *const *threads;
    bool no_summary_writer_close; /* the event file stays open, without STOP, until hs_supervisor_free() */
    bool ignore_live_threads;
    unsigned char reserved[6];
    size_t *n_live_threads;
} hs_supervisor_stop_options;
#define HS_SUPERVISOR_STOP_OPTIONS(...) HS_OPTIONS(hs_supervisor_stop_options, __VA_ARGS__)

/* Requests a stop, joins all threads as hs_coordinator_join() does, and writes the session log STOP. Closes the
 * supervisor's own writer, and flushes the program's. Saves nothing; the session stays open. `options` NULL: the defaults.
 * Returns the first reported error, else the error of the join or of the writer. */
HS_API hs_code hs_supervisor_stop(hs_supervisor *sv, const hs_supervisor_stop_options *options, hs_error *err);
/* Ends a managed session: reports `code`, stops as hs_supervisor_stop() does, waits for the services without a limit, and
 * closes the session, also after errors.
 *
 * session  NULL: the session was not opened
 * code     the caller's error, with its message in `err`; or HS_OK
 *
 * Returns the first reported error and copies it to `err`. HS_OUT_OF_RANGE and HS_STOP are not errors.
 *
 * If threads do not stop within stop_grace_secs (*n_live_threads > 0, also with ignore_live_threads), the session stays
 * open: close it with hs_session_close() once they have ended. Pass threads that an earlier hs_supervisor_stop() left
 * running in options->threads. */
HS_API hs_code hs_supervisor_leave(hs_supervisor *sv, hs_session *session, hs_code code,
                                   const hs_supervisor_stop_options *options, hs_error *err);

/* Calls `step` in a managed session until a stop is requested or `step` fails, and returns the error. `step` runs the
 * session with hs_supervisor_run().
 *
 * If `step` returns HS_ABORTED, the session is lost. Unless a stop was requested, the loop, and only it, opens another one
 * from the newest checkpoint. HS_UNAVAILABLE ends the loop, unlike in hs_recovery. options->recovery limits the attempts,
 * which are counted from 0 when a session begins at a later step than all before. If threads do not stop in time, the loop
 * ends, and the last session stays open. TensorFlow: basic_train_loop, which retries forever without pauses. */
typedef hs_code (*hs_supervisor_step_fn)(void *user, hs_session *session, hs_error *err);
HS_API hs_code hs_basic_train_loop(hs_supervisor *sv, const hs_supervisor_session_options *options,
                                   hs_supervisor_step_fn step, void *user, hs_error *err);

/* Threads. */

/* Lock the sessions for several calls, such as a run and reading its values. Threads are served in order of arrival; calls
 * nest. While services or loops run, no thread uses a session without the lock: hs_supervisor_run(), _save() and
 * _summary_computed() take it themselves. */
HS_API void hs_supervisor_lock(hs_supervisor *sv);
HS_API void hs_supervisor_unlock(hs_supervisor *sv);
/* Runs ops and fetches tensors, as hs_raw_session_run() does, under the lock. The values are valid until the next run of
 * any thread: to read them, lock the supervisor around this call and the reading. */
HS_API hs_code hs_supervisor_run(hs_supervisor *sv, hs_session *session, const hs_run_args *args,
                                 const hs_run_values **values, hs_error *err);

/* Starts the standard services, each in a thread that works immediately and then at its interval:
 *
 *   service       requires                     interval
 *   summaries     summary op, writer           save_summaries_secs
 *   step counter  global step, writer          save_summaries_secs
 *   checkpoints   saver                        save_model_secs
 *
 * The step counter writes "STEP/sec", STEP being the global step's name. Checkpoints are copied under the lock and written
 * concurrently with runs. An error of a service stops the coordinator. Without a checkpoint_dir, no service starts, and the
 * log gets a warning. Opening a session calls this already. HS_FAILED_PRECONDITION: the supervisor is a worker's, or
 * services still run. */
HS_API hs_code hs_supervisor_start_standard_services(hs_supervisor *sv, hs_session *session, hs_error *err);
/* Returns the service threads, NULL after the last. Valid until the next start. */
HS_API hs_thread *hs_supervisor_service(const hs_supervisor *sv, size_t index);
/* Calls hs_queue_runners_start() with the supervisor's coordinator. For other runners, lock the supervisor around
 * hs_queue_runner_create_threads(). */
HS_API hs_code hs_supervisor_start_queue_runners(hs_supervisor *sv, hs_session *session, hs_threads *threads,
                                                 hs_error *err);
/* Starts a looper (hs_looper_new) that calls `fn` every `interval_secs`. 0: without pauses. The caller frees the handle. */
HS_API hs_thread *hs_supervisor_loop(hs_supervisor *sv, double interval_secs, hs_code (*fn)(void *user, hs_error *err),
                                     void *user, hs_error *err);

/* As hs_coordinator_request_stop() and _should_stop(). For other calls, use hs_supervisor_coordinator():
 * hs_coordinator_wait_for_stop() is TensorFlow's Supervisor.wait_for_stop, hs_coordinator_stop_on_error() its
 * stop_on_exception. */
HS_API hs_code hs_supervisor_request_stop(hs_supervisor *sv, const hs_error *why);
HS_API bool hs_supervisor_should_stop(const hs_supervisor *sv);

/* Summaries and checkpoints of the program. */

/* Writes a serialized Summary (hs_summary_serialized). `step` -1: the global step, or else 0. HS_FAILED_PRECONDITION: the
 * supervisor is a worker's, or has no writer or no session. */
HS_API hs_code hs_supervisor_summary_computed(hs_supervisor *sv, hs_session *session, hs_string summary, int64_t step,
                                              hs_error *err);
/* Saves a checkpoint and blocks until it is on the disk. Other threads can run the session after the copy, unless the
 * caller has locked the supervisor. HS_FAILED_PRECONDITION: the supervisor is a worker's, or has no checkpoint_dir or
 * saver. */
HS_API hs_code hs_supervisor_save(hs_supervisor *sv, hs_session *session, hs_error *err);

/* Return what the supervisor uses. NULL, or 0 seconds: none. The writer is open from the first preparation until
 * hs_supervisor_stop(). */
HS_API bool hs_supervisor_is_chief(const hs_supervisor *sv);
HS_API hs_session_manager *hs_supervisor_session_manager(const hs_supervisor *sv);
HS_API hs_coordinator *hs_supervisor_coordinator(const hs_supervisor *sv);
HS_API const char *hs_supervisor_init_op(const hs_supervisor *sv);
HS_API const char *hs_supervisor_local_init_op(const hs_supervisor *sv);
HS_API const char *hs_supervisor_ready_op(const hs_supervisor *sv);
HS_API const char *hs_supervisor_ready_for_local_init_op(const hs_supervisor *sv);
HS_API const char *hs_supervisor_summary_op(const hs_supervisor *sv);
HS_API const char *hs_supervisor_global_step(const hs_supervisor *sv);
HS_API hs_saver *hs_supervisor_saver(const hs_supervisor *sv);
HS_API hs_summary_writer *hs_supervisor_summary_writer(const hs_supervisor *sv);
HS_API const char *hs_supervisor_save_path(const hs_supervisor *sv);
HS_API double hs_supervisor_save_summaries_secs(const hs_supervisor *sv);
HS_API double hs_supervisor_save_model_secs(const hs_supervisor *sv);

HS_END_DECLS

#endif
