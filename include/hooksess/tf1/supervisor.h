/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TF1_SUPERVISOR_H
#define HOOKSESS_TF1_SUPERVISOR_H

#include <hooksess/session.h>
#include <hooksess/summary.h>
#include <hooksess/tf1/queue_runner.h>
#include <hooksess/tf1/session_manager.h>

/* Training without hooks: a raw session that is prepared, or waited for, and threads beside it that save checkpoints,
 * compute summaries and count steps. TensorFlow: Supervisor.
 *
 *     hs_supervisor *sv = hs_supervisor_new(backend, &options, &err);
 *     hs_raw_session *session = hs_supervisor_managed_session(sv, NULL, &err);
 *     while (!err.code && !hs_supervisor_should_stop(sv))
 *         hs_raw_session_run(session, &args, NULL, &err);
 *     code = hs_supervisor_leave(sv, session, err.code, NULL, &err);
 *
 * Threads: one at a time per object. Any thread may call request_stop, should_stop, wait_for_stop, stop_on_error,
 * summary_computed and save. The supervisor's sessions are shared (hs_raw_session_share), so that loops of the program's
 * own may run them too. Who has entered a session leaves it before anything is stopped.
 *
 * Leaving saves nothing: what came after the service's last checkpoint is lost, unless it is saved before
 * (hs_supervisor_save). It heeds no signals: set a flag in a handler of your own, look at it in the loop, save and leave.
 *
 * A session is not recovered where it is lost: that is what hs_basic_train_loop does, or hs_training_session_open. */

HS_BEGIN_DECLS

typedef struct hs_supervisor hs_supervisor;

/* Instead of a name: there is none, not even the default. TensorFlow: None. */
#define HS_NONE ""

/* Names that are NULL are the first of the graph's collection (backend.h), or else the backend's own. Whatever is not for a
 * chief alone is for workers, too. */
typedef struct hs_supervisor_options {
    size_t size;
    const char *ready_op;                /* as in hs_scaffold_options */
    const char *ready_for_local_init_op; /* NULL: the collection's, or none */
    const char *init_op;                 /* the chief's, for what is not restored */
    const hs_feed *init_feeds;           /* for it; ended by a NULL name; borrowed */
    hs_init_fn init_fn;                  /* the chief's, after it; its scaffold is NULL */
    void *user;
    const char *local_init_op;
    const hs_run_options *local_init_run_options; /* borrowed */
    const char *checkpoint_dir; /* the chief's: where checkpoints and events go. NULL and HS_NONE: neither is written */
    /* Gives a serialized Summary. NULL: the collection's, or what merges the graph's summaries (HS_SUMMARIES), or none */
    const char *summary_op;
    /* Borrowed. NULL: the graph's, or none where it has no variables to be saved. It is the services' while they run
     * (hs_supervisor_save) */
    hs_saver *saver;
    const char *global_step; /* a tensor, one int32 or int64. NULL: the backend's, or a variable named global_step */
    /* Between summaries, and between the step counter's points. 0: 120, as TensorFlow's Supervisor (a training session has
     * 100 steps); HS_NEVER: neither. The service feeds nothing: if summaries need what is fed, say HS_NEVER and give them
     * to hs_supervisor_summary_computed */
    double save_summaries_secs;
    double save_model_secs;              /* between checkpoints. 0: 600; HS_NEVER: none */
    double recovery_wait_secs;           /* between one look and the next, where a worker waits. 0: 30 */
    double stop_grace_secs;              /* as in hs_join_options; 0: 120 */
    const char *checkpoint_basename;     /* NULL: "model.ckpt" */
    hs_session_manager *session_manager; /* borrowed. NULL: one of the supervisor's, made of the ops above */
    /* One of the program's, which it closes after the supervisor is freed. NULL: one of the supervisor's, for the
     * checkpoint_dir */
    hs_summary_writer *summary_writer;
    bool is_worker; /* not the chief: somebody else initializes, restores, saves and writes */
    bool no_saver;
    bool no_summary_writer;
    unsigned char reserved[5];
} hs_supervisor_options;
#define HS_SUPERVISOR_OPTIONS(...) HS_OPTIONS(hs_supervisor_options, __VA_ARGS__)

/* Fills in what is left out and finalizes the graph, until it is freed. The caller's to free; backend and graph must
 * outlive it. `options` may be NULL. HS_INVALID_ARGUMENT: options that contradict each other; what to change is in the
 * message. */
HS_API hs_supervisor *hs_supervisor_new(hs_backend backend, const hs_supervisor_options *options, hs_error *err);
/* After its sessions are closed. Stops what still runs, waits for its services, and closes its writer; the session log STOP
 * is hs_supervisor_stop's alone. NULL is fine. */
HS_API void hs_supervisor_free(hs_supervisor *sv);

/* Sessions. */

typedef struct hs_supervisor_session_options {
    size_t size;
    const char *target; /* as in hs_session_options */
    hs_bytes config;
    /* For a checkpoint, or as a worker. 0: 7200, as TensorFlow's Supervisor; HS_NEVER: no limit */
    double max_wait_secs;
    /* The chief waits for one to come to the checkpoint_dir, and initializes after max_wait_secs */
    bool wait_for_checkpoint;
    bool no_standard_services; /* start neither the services nor the graph's queue runners */
    unsigned char reserved[6];
    const hs_recovery *recovery; /* hs_basic_train_loop's attempts and pauses; NULL: as if all in it were 0 */
} hs_supervisor_session_options;
#define HS_SUPERVISOR_SESSION_OPTIONS(...) HS_OPTIONS(hs_supervisor_session_options, __VA_ARGS__)

/* Takes an earlier stop back, and gives a session in which all is ready. A chief restores the newest checkpoint of the
 * checkpoint_dir, or else initializes; it writes graph.pbtxt and the graph's events, and starts the standard services. A
 * worker waits. Then the graph's queue runners are started. NULL after a failure, with all stopped and closed that was
 * begun (but for a session that threads may still run, as they did not stop in the grace period: it stays open for good,
 * and the log says so). Errors as of hs_session_manager_prepare and _wait; HS_FAILED_PRECONDITION: services of an earlier
 * session still run. The session is the caller's: hs_raw_session_close after hs_supervisor_stop, when all threads that run
 * it have ended. `options` may be NULL. */
HS_API hs_raw_session *
hs_supervisor_prepare_or_wait_for_session(hs_supervisor *sv, const hs_supervisor_session_options *options, hs_error *err);
/* The same, for a session that hs_supervisor_leave ends: together they are TensorFlow's `with managed_session()`. */
HS_API hs_raw_session *hs_supervisor_managed_session(hs_supervisor *sv, const hs_supervisor_session_options *options,
                                                     hs_error *err);

typedef struct hs_supervisor_stop_options {
    size_t size;
    hs_thread *const *threads;    /* waited for in addition to the registered threads: HS_THREADS(...). NULL: none */
    bool no_summary_writer_close; /* neither write STOP to it, nor close it */
    bool ignore_live_threads;     /* threads that do not stop are no error, but a warning in the log */
    unsigned char reserved[6];
    size_t *left_behind; /* as in hs_join_options: how many threads did not end. NULL: not asked for */
} hs_supervisor_stop_options;
#define HS_SUPERVISOR_STOP_OPTIONS(...) HS_OPTIONS(hs_supervisor_stop_options, __VA_ARGS__)

/* Requests a stop, waits for all threads as hs_coordinator_join does, and ends the event file with the session log STOP:
 * a writer of the supervisor's is closed, one of the program's flushed. The session stays open, and nothing is saved
 * (hs_supervisor_save). The first error that was reported; then what the join and the writer came to. `options` may
 * be NULL.
 *
 * Whom it leaves behind may still run the session: wait for the services, which end by themselves (hs_thread_wait for each
 * hs_supervisor_service), and for threads of the program's before it is closed. */
HS_API hs_code hs_supervisor_stop(hs_supervisor *sv, const hs_supervisor_stop_options *options, hs_error *err);
/* Leaves a managed session because of `code`, an error of the caller's whose message is in `err`, or HS_OK: reports it to
 * the coordinator, stops, waits for the services (however long), and closes the session, whatever fails. Returns the first
 * error that was reported, by whomever, and puts it into `err`; the end of the input (HS_OUT_OF_RANGE) and HS_STOP are
 * none. `session` NULL: it was not opened, and all is done but for the closing.
 *
 * Where other threads do not stop in the grace period, they may still run the session: it stays open, and is the caller's
 * to close (hs_raw_session_close) when they have ended. The message says so, and the log; *left_behind tells it from all
 * else, also where ignore_live_threads makes it no error. With stop_grace_secs HS_NEVER there is no such end. Whom an
 * earlier hs_supervisor_stop has left behind is not known any more: name him in options->threads. */
HS_API hs_code hs_supervisor_leave(hs_supervisor *sv, hs_raw_session *session, hs_code code,
                                   const hs_supervisor_stop_options *options, hs_error *err);

/* Calls `step` in a managed session until a stop is requested; an error of its ends the loop, and is returned. HS_ABORTED
 * means that the session was lost: unless a stop is requested, all begins anew, with another session, from the newest
 * checkpoint; so often, and after such pauses, as options->recovery has it (max_attempts and backoff_secs; it counts anew
 * when a session begins at a later step than all before it). If threads do not stop in the grace period, no other session
 * is made: the last one stays open, as hs_supervisor_leave has it, and is the caller's to close; `step` was called with it.
 * TensorFlow: basic_train_loop, which tries forever, without a pause. */
typedef hs_code (*hs_supervisor_step_fn)(void *user, hs_raw_session *session, hs_error *err);
HS_API hs_code hs_basic_train_loop(hs_supervisor *sv, const hs_supervisor_session_options *options,
                                   hs_supervisor_step_fn step, void *user, hs_error *err);

/* Threads. */

/* Starts those of the three services that there is something for: summaries (a summary op, a writer), the step counter,
 * "STEP/sec" (a global step, a writer), and checkpoints (a saver); each works at once, and then every so many seconds. An
 * error of theirs stops the coordinator. Checkpoints are copied under the session's lock, and written beside its runs. With
 * a global step and a writer, the session log has a START, at the next step. Without a checkpoint_dir: a warning in the
 * log, and none is started. Preparing a session does this already. HS_FAILED_PRECONDITION: a worker's supervisor, or there
 * are some.
 */
HS_API hs_code hs_supervisor_start_standard_services(hs_supervisor *sv, hs_raw_session *session, hs_error *err);
/* The services that were started last; NULL past the last. The supervisor's, until the next start. */
HS_API hs_thread *hs_supervisor_service(const hs_supervisor *sv, size_t index);
/* hs_queue_runners_start with the supervisor's coordinator: those of the collection. For one that is in no collection there
 * is hs_queue_runner_create_threads, between hs_raw_session_enter and leave. */
HS_API hs_code hs_supervisor_start_queue_runners(hs_supervisor *sv, hs_raw_session *session, hs_threads *threads,
                                                 hs_error *err);
/* Starts a looper (hs_looper_new) of the supervisor's coordinator: a call every `interval_secs`; 0: one after the other.
 * The handle is the caller's to free, at once if it likes. NULL: it could not be started. */
HS_API hs_thread *hs_supervisor_loop(hs_supervisor *sv, double interval_secs, hs_code (*fn)(void *user, hs_error *err),
                                     void *user, hs_error *err);

/* As the functions of the coordinator: hs_coordinator_request_stop and so on. Of NULL: stopped already. */
HS_API hs_code hs_supervisor_request_stop(hs_supervisor *sv, const hs_error *why);
HS_API bool hs_supervisor_should_stop(const hs_supervisor *sv);
HS_API void hs_supervisor_wait_for_stop(hs_supervisor *sv);
HS_API hs_code hs_supervisor_stop_on_error(hs_supervisor *sv, hs_thread_fn body, void *user, hs_error *err);

/* What the program computes and saves itself. */

/* Writes a serialized Summary (hs_summary_serialized). `step` -1: the session's global step, 0 without one.
 * HS_FAILED_PRECONDITION: a worker's supervisor, or one without a writer. */
HS_API hs_code hs_supervisor_summary_computed(hs_supervisor *sv, hs_raw_session *session, hs_string summary, int64_t step,
                                              hs_error *err);
/* Saves now, as the service does; durable when this returns. Others run the session meanwhile, but while it is copied, or
 * if the caller has entered it. HS_FAILED_PRECONDITION: a worker, no checkpoint_dir, no saver. */
HS_API hs_code hs_supervisor_save(hs_supervisor *sv, hs_raw_session *session, hs_error *err);

/* What it works with; NULL, or 0 seconds: none. The supervisor's, but for what the program gave. A worker has no
 * checkpoint_dir, save path, writer and intervals, whatever it was given. The writer is opened with the session. */
HS_API bool hs_supervisor_is_chief(const hs_supervisor *sv);
HS_API hs_session_manager *hs_supervisor_session_manager(const hs_supervisor *sv);
HS_API hs_coordinator *hs_supervisor_coordinator(const hs_supervisor *sv);
HS_API const char *hs_supervisor_init_op(const hs_supervisor *sv);
HS_API const hs_feed *hs_supervisor_init_feeds(const hs_supervisor *sv);
HS_API const char *hs_supervisor_local_init_op(const hs_supervisor *sv);
HS_API const char *hs_supervisor_ready_op(const hs_supervisor *sv);
HS_API const char *hs_supervisor_ready_for_local_init_op(const hs_supervisor *sv);
HS_API const char *hs_supervisor_summary_op(const hs_supervisor *sv);
HS_API const char *hs_supervisor_global_step(const hs_supervisor *sv);
HS_API hs_saver *hs_supervisor_saver(const hs_supervisor *sv);
HS_API hs_summary_writer *hs_supervisor_summary_writer(const hs_supervisor *sv);
HS_API const char *hs_supervisor_checkpoint_dir(const hs_supervisor *sv);
HS_API const char *hs_supervisor_save_path(const hs_supervisor *sv);
HS_API double hs_supervisor_save_summaries_secs(const hs_supervisor *sv);
HS_API double hs_supervisor_save_model_secs(const hs_supervisor *sv);

HS_END_DECLS

#endif
