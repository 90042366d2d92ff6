/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SESSION_H
#define HOOKSESS_SESSION_H

#include <hooksess/scaffold.h>

/* Hooked sessions. TensorFlow: SingularMonitoredSession, StepContext.
 *
 * Threads: one at a time per object. Any thread and any signal handler may call hs_session_request_stop,
 * hs_session_request_done and hs_session_request_save, any thread hs_session_poll.
 * Functions that take a session take NULL: it is a session that could not be opened, stopped already, and the calls that
 * run it fail with HS_FAILED_PRECONDITION.
 *
 * Why a session was not opened, or failed, is reported once: in `err` of the call that opens or closes it, or in the log if
 * that `err` is NULL. */

HS_BEGIN_DECLS

typedef struct hs_session hs_session;

/* What a session does about the checkpoints of its checkpoint_dir. */
typedef enum hs_restore_policy {
    HS_RESTORE_IF_PRESENT = 0, /* goes on from the newest valid one, if there is any */
    HS_RESTORE_REQUIRE = 1,    /* there must be one: HS_NOT_FOUND */
    HS_RESTORE_NEVER = 2       /* starts anew. What is saved then takes the place of what is there, which is kept aside */
} hs_restore_policy;

/* Recovery: a run that fails with HS_ABORTED or HS_UNAVAILABLE, or a thread that reports one of these to the coordinator,
 * means that the backend's session is lost, and not the training. It is closed, with its threads, and another one is made:
 * restored from the newest checkpoint of checkpoint_dir, or else from a copy that was taken at the opening, as it is where
 * restore_options leave variables out, until a checkpoint of its own is there; every hook's
 * after_create_session is called again. Then the call that was interrupted is made again from its beginning. Each recovery
 * is a line in the log. Without an hs_recovery these codes are errors like any other. TensorFlow: MonitoredSession.
 *
 * If a thread has reported another error, or reports one while it is stopped for the recovery, the session fails with that
 * error instead. A report of a lost session that comes after the training has ended is a warning in the log.
 *
 * A hook that finds nothing left to do where it was restored (as at the opening) ends it: the call returns HS_STOP.
 *
 * The coordinator is another one afterwards; the old one stays stopped, and valid until the session is closed. So start
 * threads of your own, and add late state (hs_raw_session_add_state), in a hook's after_create_session, which comes again.
 */
typedef struct hs_recovery {
    size_t size;
    /* Recoveries in a row that bring the training no further than where it first failed, before its error is returned; how
     * far it is, is its global step, or the newest that is saved where that cannot be read (without either they count over
     * the whole session). 0: 10; HS_NEVER: no recovery */
    int64_t max_attempts;
    /* Waited before the second of them, and twice as long before each further one, up to a minute; ended by a stop request.
     * 0: 1 */
    double backoff_secs;
    /* A state of more bytes is not copied when the session is opened: until there is a checkpoint, recovery initializes
     * again, or fails where variables are the program's own memory. 0: 1 GiB; HS_NEVER: no limit */
    int64_t snapshot_limit;
    /* The interrupted call, or the first one after a thread's report, is not made, but returns HS_ABORTED when the session
     * is restored, so that the caller makes its batch anew: `if (code == HS_ABORTED && !hs_session_should_stop(s))
     * continue;`. A stop that is requested instead ends the session well. What queues or ops of a graph read is restored,
     * and needs none of this. */
    bool return_aborted;
    unsigned char reserved[7];
} hs_recovery;
#define HS_RECOVERY(...) HS_OPTIONS(hs_recovery, __VA_ARGS__)

typedef struct hs_session_options {
    size_t size;
    const char *checkpoint_dir;    /* restore the newest valid checkpoint that is there, if any; "" and NULL: do not */
    const char *checkpoint_prefix; /* restore this one, which must exist. Not together with checkpoint_dir */
    const char *summary_dir;       /* event files of hooks that name no directory (hs_scalars). NULL: checkpoint_dir */
    /* How to restore; NULL: everything. Must live as long as the session if it recovers */
    const hs_restore_options *restore_options;
    hs_restore_policy restore; /* what to do about checkpoint_dir. 0: HS_RESTORE_IF_PRESENT */
    bool signals;              /* SIGTERM and SIGINT stop the session, SIGUSR1 has it saved: see hs_session_request_stop */
    /* Somebody else initializes and restores: wait until all is ready. That somebody must be able to: in an embedded graph,
     * each session has the variables that are not in the program's memory to itself (the global step, too, unless
     * hs_graph_global_step is given a place). TensorFlow: WorkerSessionCreator */
    bool is_worker;
    bool take_scaffold; /* the session frees the scaffold, also when opening fails */
    unsigned char reserved[1];
    double signal_grace_secs;    /* with `signals`: how long the process may live on after one. 0: 30, HS_NEVER: no limit */
    const hs_recovery *recovery; /* NULL: none (TensorFlow: SingularMonitoredSession). Copied */
    /* A worker waits at most so long; then opening fails with HS_DEADLINE_EXCEEDED. 0: 1800, as TensorFlow's
     * WorkerSessionCreator; HS_NEVER: no limit */
    double max_wait_secs;
    double recovery_wait_secs; /* between one look and the next; 0: 30 */
    /* For threads to end in when the session is closed, or recovers; 0: 120, HS_NEVER: no limit. Who takes longer is
     * named in the log, and left behind */
    double stop_grace_secs;
    const char *target;    /* where the backend runs; NULL: in this process. Passed through */
    hs_bytes config;       /* a serialized ConfigProto, passed through to the backend; copied */
    hs_scaffold *scaffold; /* NULL: one of the session's own, all defaults. Stays the caller's */
    const hs_hook *hooks;  /* HS_HOOKS(...), in their order; the array is copied */
} hs_session_options;
#define HS_SESSION_OPTIONS(...) HS_OPTIONS(hs_session_options, __VA_ARGS__)

/* Opens a session: begin of every hook, the scaffold finalized, the backend's session made, its variables restored or
 * initialized, the ready checks, after_create_session of every hook, and their first boundary. The session takes the hooks:
 * it destroys them, also when opening fails (but for options that cannot be read: their size is wrong). Backend and graph
 * stay the caller's and must outlive it. Failing, it closes what was opened (close of each hook whose begin was called) and
 * returns NULL with the first error.
 *
 * hs_session_close(NULL, &err) makes an outcome of that error. So pass the same `err` to both, and do not change it between
 * them. hs_outcome_from_error makes the outcome without a session. */
HS_API hs_session *hs_session_open(hs_backend backend, const hs_session_options *options, hs_error *err);

/* True when the loop is to end: a stop was requested, the session failed to open or could not recover, or a run came to the
 * end of the input. A thread's error from which the next run will recover is none. */
HS_API bool hs_session_should_stop(const hs_session *session);

/* One run of one op, without values. See hs_session_run_args. */
HS_API hs_code hs_session_run(hs_session *session, const char *op, hs_error *err);

/* One run with hooks: before_run of each, one run of the backend with everything that was asked for, after_run of each.
 * *values (values may be NULL; *values is NULL after a failure) has what `args` asked for, in their shape, borrowed until
 * the session's next run. `args` NULL asks for nothing. HS_OUT_OF_RANGE: the input has ended. HS_STOP: the session was
 * lost, and is recovered where a hook has nothing left to do: no run was made. HS_FAILED_PRECONDITION: a hook's stop was in
 * force already, two feeds of one tensor, or a call from inside a callback; other codes come from hooks
 * and backend with their messages.
 */
HS_API hs_code hs_session_run_args(hs_session *session, const hs_run_args *args, const hs_run_values **values,
                                   hs_error *err);

/* A step function makes one step's runs itself. It returns HS_OK, HS_STOP (from hs_step_context_request_stop), or a
 * failure's code with a message. TensorFlow: run_step_fn. */
typedef struct hs_step_context hs_step_context;
typedef hs_code (*hs_session_run_step_fn)(void *user, hs_step_context *step, hs_error *err);

/* Calls `step` and returns what it returns. HS_STOP: it asked to stop; hs_session_should_stop is then true. In a session
 * that recovers, HS_ABORTED and HS_UNAVAILABLE have it called again, from its beginning. */
HS_API hs_code hs_session_run_step(hs_session *session, hs_session_run_step_fn step, void *user, hs_error *err);
HS_API hs_raw_session *hs_step_context_session(const hs_step_context *step);
/* One run with hooks. Values are borrowed until the session's next run. HS_STOP if a hook asked to stop in an earlier run
 * of the same step: return it. */
HS_API hs_code hs_step_context_run_with_hooks(hs_step_context *step, const hs_run_args *args, const hs_run_values **values,
                                              hs_error *err);
/* return hs_step_context_request_stop(step); */
HS_API hs_code hs_step_context_request_stop(hs_step_context *step);

/* A loop that computes its steps itself, without ops, stays its owner's:
 *
 *     while (hs_step_begin(session)) {
 *         train_step(&model); // on memory that the graph knows as variables and values
 *         hs_step_end(session);
 *     }
 *
 * hs_step_begin calls every hook's before_run, for a run of kind TRAIN. False: the loop is to end (hs_session_should_stop),
 * or a hook failed. hs_step_end advances the global step by one, fetches what the hooks have asked for, and calls their
 * after_run, and boundaries where they ask for them; an error is returned, ends the loop, and shows when the session is
 * closed, so that nobody needs to look at it: the first one counts, and no more runs are made after it. What hooks feed is
 * there for what hooks fetch; the memory that the step works on is not touched by it. Between the two,
 * hs_session_global_step is the step before; raw runs may be made, and no others. A session that is closed between the two
 * was left in the middle of a step: the step is discarded, a warning says so, and the session was interrupted (hs_outcome).
 * So end each step that was begun. If a batch is no good, draw another one within the step. One that is begun before the
 * last was ended is an error of the loop's, and so is an end without a beginning.
 *
 * To leave the loop early, call hs_session_request_stop, then hs_step_end as always: the next hs_step_begin returns false,
 * and the session was interrupted. If the training is done, call hs_session_request_done instead. A break after hs_step_end
 * closes a training that counts as done, too. If the reason is an error of the program, call hs_session_fail before.
 *
 * The memory is the caller's from hs_step_end on: copies that a save takes beside the runs (overlap) are finished before it
 * returns.
 *
 * The code between the two may throw C++ exceptions and use longjmp: no function of the library is left by it.
 *
 * Only hs_step_end advances the global step. If the program changes it as well, as a step++ that is left in the loop does,
 * the session fails with HS_FAILED_PRECONDITION. A counter of the program's own is the global step only if
 * hs_graph_global_step names it. Any other counter starts again when the training is resumed: name it, or read
 * hs_session_global_step.
 *
 * The graph needs a global step (hs_graph_global_step; a training session makes one for a graph without ops), and its
 * backend has to be able to advance it: HS_UNIMPLEMENTED. What a lost session (hs_recovery) would need to be made again
 * here, the caller's step, is the caller's: hs_step_end recovers, returns HS_ABORTED, and the loop goes on from the step
 * that was restored. What was lost before the step began, hs_step_begin recovers from, and the step is the restored one's.
 */
HS_API bool hs_step_begin(hs_session *session);
HS_API hs_code hs_step_end(hs_session *session);

/* Asks the session to stop: hs_session_should_stop is true from now on. A run that is being made is finished, and one that
 * is begun before the caller looks is made; but whoever waits in it for an element of a queue, between the batches of an
 * evaluation, or to try again something that failed, waits no longer (HS_STOP, a good end). It ends before it was done
 * (hs_outcome.interrupted), unless a hook says at the same step that it is done. Any thread, any signal handler.
 *
 * With hs_session_options.signals the session does so itself, from its opening to its closing:
 *   SIGTERM, SIGINT   the first asks it to stop, and closing it saves: "SIGTERM: stopping after step 31" and "saved step
 * 31; start again to continue" are in the log. It has signal_grace_secs for that, and the log says when saving takes longer
 * than that, as soon as it is known (savers then save more often). After a second one of these, closing saves nothing any
 * more; a third finds the signals as they were before. What comes within half a second of the first is one with it:
 * timeout, for one, signals a process and then its group. SIGUSR1           has it saved (hs_session_request_save).
 * Handlers that were there before are called too, and are back when the last session with signals is closed. A signal that
 * was ignored (SIGINT of a background job) stays so. The handlers do nothing but note the signal in memory; system calls
 * are restarted. In a process that is forked they do what they did before the session. At most 16 sessions of a process at
 * once: HS_RESOURCE_EXHAUSTED. */
HS_API void hs_session_request_stop(hs_session *session);
/* Stops the session as hs_session_request_stop does, but because the training is done: it is not interrupted
 * (hs_outcome.interrupted), and hs_outcome_exit_code is 0. This also holds if a signal, a hook or hs_session_request_stop
 * interrupts the session in the same step. A step that was begun must be ended: closing in the middle of it interrupts the
 * session all the same.
 *
 * Checkpoints do not say that the training is done. A program that is started again resumes from the last checkpoint and
 * trains until it calls this function again: at least one step, unless it calls it before the first one:
 *
 *     if (is_good_enough(&model))
 *         hs_session_request_done(session);
 *     while (hs_step_begin(session)) {
 *         ...
 *         hs_step_end(session);
 *         if (is_good_enough(&model))
 *             hs_session_request_done(session);
 *     }
 *
 * Hooks call hs_run_context_request_stop, which means the same. Any thread, any signal handler. Beyond TensorFlow. */
HS_API void hs_session_request_done(hs_session *session);
/* Asks every saver to save, and whatever has a trigger with on_request to do what it does, after the run that is being made
 * or the next one. Any thread, any signal handler. */
HS_API void hs_session_request_save(hs_session *session);
/* hs_session_should_stop for whoever is in the middle of something: a step function, an op that takes minutes, a loop of a
 * hook's, another thread. A load from memory, and as such cheap enough for an inner loop. It also tells the watchdog that
 * somebody is alive. */
HS_API bool hs_session_poll(hs_session *session);

/* The caller leaves the loop because of an error of its own: closing then calls no end. `why` is copied. Its code HS_OK
 * takes an earlier one back; HS_STOP and HS_OUT_OF_RANGE end the session normally, unless its last run failed. NULL: an
 * error without a reason (HS_UNKNOWN). */
HS_API void hs_session_fail(hs_session *session, const hs_error *why);

/* Ends the session and frees it: the pointer is dead afterwards, so set it to NULL where it is used again. If its last run
 * was good or ended with HS_OUT_OF_RANGE or HS_STOP, and hs_session_fail was not called, every hook's end is called, and
 * their last boundary; otherwise none. Then threads are stopped and waited for, hooks closed, event files and the
 * backend's session closed: each whatever fails before it. The outcome tells how it went; `err` gets the outcome's error,
 * the first there was.
 *
 * Of NULL: an outcome made of `err`, as it is left by the call that could not open; with nothing in `err`, the error is
 * that there is no session (HS_FAILED_PRECONDITION).
 *
 * What follows the loop runs also if the session could not be opened, failed or was interrupted. So look at the outcome
 * before you use what was trained:
 *
 *     hs_outcome outcome = hs_session_close(session, &err);
 *     if (hs_outcome_exit_code(&outcome) == 0)
 *         save_model();
 */
HS_API hs_outcome hs_session_close(hs_session *session, hs_error *err);

/* The outcome as it would be if the session were closed now, but for what closing brings with it. Of NULL: as from
 * hs_session_close without an error. */
HS_API hs_outcome hs_session_outcome(hs_session *session);

/* NULL or zero of a NULL session. The raw session is the session's. */
HS_API hs_raw_session *hs_session_raw(const hs_session *session);
HS_API hs_backend hs_session_backend(const hs_session *session);
HS_API hs_coordinator *hs_session_coordinator(const hs_session *session);
HS_API hs_scaffold *hs_session_scaffold(const hs_session *session);
HS_API hs_bytes hs_session_config(const hs_session *session);
/* The global step as it is now; -1 on failure. HS_FAILED_PRECONDITION: the graph has none, or the session is NULL. */
HS_API int64_t hs_session_global_step(hs_session *session, hs_error *err);
/* How often it has recovered. */
HS_API int64_t hs_session_recoveries(const hs_session *session);

/* What a hook has cost so far. Boundaries, and hooks that were seen to take more than a microsecond, are timed each time;
 * of the others one run in 64 or so is, and stands for those between: the total is nearly right, and a step pays nothing.
 * Hooks that take a good part of the session's time are named in the log when it is closed. Frozen. */
typedef struct hs_hook_cost {
    const char *name;     /* the hook's */
    const char *slowest;  /* the callback that took longest; "" if none was timed */
    int64_t runs;         /* for which it was called */
    int64_t total_ns;     /* in all its callbacks */
    int64_t largest_ns;   /* of the slowest */
    int64_t largest_step; /* the global step when it was over; -1: not known */
} hs_hook_cost;
/* By the hook's place in the list. False past the last. */
HS_API bool hs_session_hook_cost(const hs_session *session, size_t index, hs_hook_cost *cost);

HS_END_DECLS

#endif
