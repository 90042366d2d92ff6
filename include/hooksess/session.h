/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SESSION_H
#define HOOKSESS_SESSION_H

#include <hooksess/hook.h>
#include <hooksess/scaffold.h>

/* A session restores the variables of a graph, runs it, and calls hooks around each run. training_session.h adds the usual
 * hooks. If the program computes the steps itself, use hs_step_begin instead of hs_session_run.
 *
 *     hs_session *session = hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.checkpoint_dir = "run"), &err);
 *     while (!hs_session_should_stop(session))
 *         if (hs_session_run(session, "train", NULL))
 *             break;
 *     hs_outcome outcome = hs_session_close(session, &err);
 *     return hs_outcome_exit_code(&outcome);
 *
 * hs_session_open or hs_session_close puts the first error into `err`, or into the log if `err` is NULL. A NULL session has
 * stopped, as has the parent's session in a forked child (docs/conventions.md): calls that run it fail with
 * HS_FAILED_PRECONDITION. TensorFlow: SingularMonitoredSession, StepContext.
 *
 * Threads: one thread at a time per object. Any thread and any signal handler may call hs_session_interrupt,
 * hs_session_request_stop and hs_session_request_save. Any thread may call hs_session_poll. */

HS_BEGIN_DECLS

typedef struct hs_session hs_session;

/* What opening does with the checkpoints in checkpoint_dir. */
typedef enum hs_restore_policy {
    HS_RESTORE_IF_PRESENT = 0, /* restores the newest valid one, or initializes the variables */
    HS_RESTORE_REQUIRE = 1,    /* restores the newest valid one, or fails with HS_NOT_FOUND */
    HS_RESTORE_NEVER = 2       /* initializes. The first save renames checkpoints of later steps to PREFIX.abandoned */
} hs_restore_policy;

/* Recovery from a lost session of the backend: a run, or a thread of the coordinator, failed with HS_ABORTED or
 * HS_UNAVAILABLE. Without an hs_recovery, these codes are errors like any other.
 *
 *   1. The lost session and its threads are closed.
 *   2. A new session is restored from the newest checkpoint in checkpoint_dir. If this session has not saved, and the
 *      directory has no checkpoint, the policy is HS_RESTORE_NEVER or restore_options left out variables, it is restored
 *      from a copy in memory of the state at the opening.
 *   3. after_create_session of each hook is called again, with a new coordinator: start threads and add late state
 *      (hs_raw_session_add_state) there. The old coordinator stays stopped, and valid until the close.
 *   4. The interrupted call, or the opening, is repeated. If a hook reports that the training is already complete, it
 *      returns HS_STOP.
 *
 * If a thread also reports another error, the session fails with it. A loss after the end of the training is only logged.
 * TensorFlow: MonitoredSession. */
typedef struct hs_recovery {
    size_t size;
    /* Most recoveries in a row without progress of the global step (or of the newest saved step, if it cannot be read). 0:
     * 10. HS_NEVER: no recovery */
    int64_t max_attempts;
    /* Seconds before the second attempt, doubled for each further one up to 60. A stop ends the wait. 0: 1 */
    double backoff_secs;
    /* Largest state in bytes to copy at the opening. Without a copy, recovery before the first save initializes again, or
     * fails if a variable in the program's memory has neither `initial` nor `initialize`, and a rollback fails. 0: 1 GiB.
     * HS_NEVER: no limit */
    int64_t snapshot_limit;
    /* After a recovery, return HS_ABORTED instead of repeating the call: the caller prepares its batch again */
    bool return_aborted;
    unsigned char reserved[7];
} hs_recovery;
#define HS_RECOVERY(...) HS_OPTIONS(hs_recovery, __VA_ARGS__)

/* What ends the training if the inputs of a group differ in length. */
typedef enum hs_end_of_input {
    HS_END_WITH_FIRST_RANK = 0, /* the first end of an input ends the training of all */
    /* A rank without input continues until all inputs have ended: a run that ends with HS_OUT_OF_RANGE is repeated with
     * hs_op_has_input false, and the rank adds nothing to the sums. Needs a gate in each step */
    HS_END_WITH_LAST_RANK = 1
} hs_end_of_input;

/* Which values the variables of a group have if no checkpoint is restored. Variables that the library initializes (with
 * `initial`, `initialize`, an init op, or to zeros) always get those of rank 0. */
typedef enum hs_initial_values {
    /* Variables that the program has set, in its memory, must be equal on all ranks. HS_DATA_LOSS: one differs */
    HS_EQUAL_ON_ALL_RANKS = 0,
    HS_FROM_CHIEF = 1 /* rank 0 sends its values to the other ranks */
} hs_initial_values;

/* hs_replica_options.step_secs: ten times the slowest of the last 100 to 200 steps of this rank, at least 60 s. 600 s for
 * the first ten steps. */
#define HS_LEARNED (-2)

/* How the sessions of a group train together. All ranks pass the same options. */
typedef struct hs_replica_options {
    size_t size;
    hs_end_of_input end_of_input;     /* 0: HS_END_WITH_FIRST_RANK */
    hs_initial_values initial_values; /* 0: HS_EQUAL_ON_ALL_RANKS */
    /* The ranks agree at global steps that are multiples of N, and after a run that does not advance the step. For steps
     * of less than 100 us: decisions other than failures take effect up to N steps later. 0: 1 */
    int64_t agree_every_n_steps;
    /* What else must be the same on all ranks, such as the program's version and arguments, or the size of its data set.
     * HS_INVALID_ARGUMENT: it differs. NULL: nothing */
    const char *identity;
    /* Limit of the time of a rank from the gate (hs_step_pass_gate) to the end of its step, in a group of several ranks
     * over TCP or MPI. When it has passed, all ranks end as if this one had died, and the error says where each rank is.
     * HS_LEARNED; 0: none */
    double step_secs;
} hs_replica_options;
#define HS_REPLICA_OPTIONS(...) HS_OPTIONS(hs_replica_options, __VA_ARGS__)

typedef struct hs_session_options {
    size_t size;
    /* Restore the newest undamaged checkpoint in this directory. NULL and "": initialize the variables */
    const char *checkpoint_dir;
    const char *checkpoint_prefix; /* restore this checkpoint. It must exist. Not with checkpoint_dir */
    const char *summary_dir;       /* for event files. NULL: checkpoint_dir */
    /* its lists are borrowed if the session recovers. NULL: restore everything */
    const hs_restore_options *restore_options;
    hs_restore_policy restore; /* with checkpoint_dir. 0: HS_RESTORE_IF_PRESENT */
    bool signals;              /* handle SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE (hs_session_interrupt) */
    /* Wait until another session, the chief, has initialized or restored the variables. In an embedded graph, it reaches
     * only variables in the program's memory: pass `data` to hs_graph_global_step. TensorFlow: WorkerSessionCreator */
    bool is_worker;
    bool take_scaffold;          /* the session frees the scaffold, also if opening fails */
    bool no_queue_runners;       /* the program starts the graph's queue runners (queue_runner.h) */
    double signal_grace_secs;    /* with signals: seconds from the first signal to the kill. 0: 30. HS_NEVER: no limit */
    const hs_recovery *recovery; /* NULL: no recovery. Copied */
    /* with is_worker: seconds to wait for the chief, then HS_DEADLINE_EXCEEDED. 0: 1800. HS_NEVER: no limit */
    double max_wait_secs;
    double recovery_wait_secs; /* with is_worker: seconds between polls for the chief. 0: 30 */
    /* Seconds to wait for threads at close or recovery. Slower ones keep running. 0: 120. HS_NEVER: no limit */
    double stop_grace_secs;
    /* The processes that train this model together (group.h). All ranks open at the same time, with the same hooks,
     * variables and options. Copied; `ops` and `self` are borrowed. NULL: this process trains alone */
    const hs_group *group;
    const hs_replica_options *replicas; /* with a group. NULL: the defaults. Copied */
    const char *target;                 /* passed to the backend: where it runs. NULL: in this process */
    hs_bytes config;                    /* passed to the backend: a serialized ConfigProto. Copied */
    hs_scaffold *scaffold;              /* NULL: the defaults. Borrowed, except with take_scaffold */
    const hs_hook *hooks;               /* HS_HOOKS(...), called in this order. Copied */
} hs_session_options;
#define HS_SESSION_OPTIONS(...) HS_OPTIONS(hs_session_options, __VA_ARGS__)

/* Opens a session: calls begin of each hook, finalizes the graph, restores or initializes the variables, and calls
 * after_create_session and boundary of each hook. On failure it calls close of the hooks that began, and returns NULL.
 * Blocks while it restores or waits for a chief.
 *
 * backend  borrowed, with its graph
 * options  NULL: the defaults. The session frees the hooks, also on failure */
HS_API hs_session *hs_session_open(hs_backend backend, const hs_session_options *options, hs_error *err);

/* Returns true if the loop must end: a stop was requested, the input has ended, a step has failed, or recovery failed. Also
 * for NULL. A failed hs_session_run does not count: check its result. */
HS_API bool hs_session_should_stop(const hs_session *session);

/* Runs one op or tensor without returning values. Errors: as hs_session_run_args. */
HS_API hs_code hs_session_run(hs_session *session, const char *op, hs_error *err);

/* Makes one run with hooks: calls before_run of each hook, runs the backend once for all requests, and calls after_run.
 *
 * args    fetches and feeds. NULL: none
 * values  receives the values in the shape of `args`, borrowed until the session's next run. NULL on failure. May be NULL
 *
 * Returns HS_OK, the code of a hook or of the backend, or one of these:
 *
 *   HS_OUT_OF_RANGE          the input has ended
 *   HS_STOP                  a hook or an op stopped the run, or training was already complete after a recovery
 *   HS_INVALID_ARGUMENT      invalid args
 *   HS_NOT_FOUND             no such op or tensor
 *   HS_FAILED_PRECONDITION   a hook had requested a stop, an earlier step or recovery failed, a tensor was fed twice, or
 *                            the call came from a callback */
HS_API hs_code hs_session_run_args(hs_session *session, const hs_run_args *args, const hs_run_values **values,
                                   hs_error *err);

/* Makes the runs of one step. Returns HS_OK, HS_STOP (hs_step_context_request_stop), or a code with a message. TensorFlow:
 * run_step_fn. */
typedef struct hs_step_context hs_step_context;
typedef hs_code (*hs_session_run_step_fn)(void *user, hs_step_context *step, hs_error *err);

/* Calls `step` and returns its result. After a recovery, `step` is called again. */
HS_API hs_code hs_session_run_step(hs_session *session, hs_session_run_step_fn step, void *user, hs_error *err);
HS_API hs_raw_session *hs_step_context_session(const hs_step_context *step);
/* As hs_session_run_args, in a step function. HS_STOP: a hook requested a stop in this step; return HS_STOP. */
HS_API hs_code hs_step_context_run_with_hooks(hs_step_context *step, const hs_run_args *args, const hs_run_values **values,
                                              hs_error *err);
/* Stops the session after this step, and returns HS_STOP, for `return`. */
HS_API hs_code hs_step_context_request_stop(hs_step_context *step);

/* A step that the program computes itself, without ops (docs/guide/your-loop.md):
 *
 *     while (hs_step_begin(session)) {
 *         train_step(&model); // on memory that the graph knows as variables and values
 *         hs_step_end(session);
 *     }
 *
 * hs_step_begin calls before_run of each hook, with kind HS_RUN_TRAIN. It returns false when the loop must end: a stop was
 * requested, the input has ended, or a hook failed. It also saves at a stop between two steps.
 *
 * hs_step_end adds 1 to the global step, fetches the tensors that hooks requested, and calls after_run, then boundary if
 * requested. Then the program may write to its memory again. You may ignore the result: the first error ends the loop, and
 * hs_session_close reports it.
 *
 *   in the step         hs_session_global_step returns the number of completed steps. Of runs, only raw runs are allowed
 *   `break` in a step   discards the step: the close saves nothing, and the session is interrupted
 *   `break` after one   as if the training were complete: the close saves
 *   wrong order         two begins, or an end without a begin, fail the session
 *   other counters      start at zero in a resumed training. Name the program's counter in hs_graph_global_step. Another
 *                       change of the global step is HS_FAILED_PRECONDITION
 *   lost session        hs_step_begin recovers and begins the restored step. hs_step_end recovers and returns HS_ABORTED
 *
 * HS_UNIMPLEMENTED: the graph has no global step (hs_graph_global_step), or the backend cannot advance it. */
HS_API bool hs_step_begin(hs_session *session);
HS_API hs_code hs_step_end(hs_session *session);
/* Call it in each step before the first change of a variable, so that a background save copies variables concurrently with
 * what comes before, such as forward and backward:
 *
 *     while (hs_step_begin(session)) {
 *         compute_gradients(&model);
 *         hs_step_before_update(session);
 *         update(&model);
 *         hs_step_end(session);
 *     }
 *
 * Until it returns, the program neither changes nor moves variables, except plain bytes (hs_graph_bytes): otherwise the
 * checkpoint has values of two steps. It waits until variables on the host are copied, and those on a device that has no
 * room for a copy. For the others the device waits, not the host. Does nothing if no save is in progress. If a program
 * never calls it, hs_step_end waits for the host's copies, and the device finishes its own before the program's later work.
 */
HS_API void hs_step_before_update(hs_session *session);
/* Call it between hs_step_begin and hs_step_end: returns true if a hook that is due in this step reads a value of the graph
 * (hs_graph_value), so that a loop whose loss is on a device copies it only then:
 *
 *     if (hs_session_wants(session, "loss"))
 *         copy_loss_to_host(&model);
 *
 * A hook reads the value if its before_run or hs_hook_ops.fetches requests it, or an op that has it as an input or lists no
 * inputs. The answer does not change in the step. Hooks on one rank only may want a value there alone: in a group, make no
 * collective operation depend on the answer.
 *
 * If it returns false, you may leave the old value, which keeps its age (hs_raw_session_computed_at). Hooks do not use a
 * value of an earlier step, or log "not computed in this step" (docs/guide/values.md). This concerns log lines and rows at
 * the end, hooks of the program whose `when` has `last`, the metric of hs_checkpoint_saver, and hs_evaluation without ops.
 *
 * True, too, outside of such a step and for a name that is not a value, which is logged once. */
HS_API bool hs_session_wants(hs_session *session, const char *tensor);
/* The gate of a step in a group: call it in the step, before the first collective operation
 * (docs/guide/several-processes.md). It returns on all ranks when all have reached it, or have failed. Change saved state
 * only behind it. Without a group it returns HS_OK. In an op, call hs_op_pass_gate instead.
 *
 * HS_OK: make the step. Otherwise no rank makes it: clear the accumulated data, and end the step. All ranks get the same
 * code, and hs_step_end acts on it:
 *
 *   HS_OUT_OF_RANGE          the input of a rank, or with HS_END_WITH_LAST_RANK of all, has ended
 *   HS_STOP                  a rank has closed its session, or stopped the run
 *   HS_ABORTED, HS_UNAVAILABLE  the session of a rank is lost. hs_step_end recovers the sessions of all ranks
 *   HS_FAILED_PRECONDITION   no step has begun
 *   others                   of the rank that failed */
HS_API hs_code hs_step_pass_gate(hs_session *session);
/* Reports in a step that the program's input has ended. The step is not made: hs_step_pass_gate and hs_step_end return
 * HS_OUT_OF_RANGE, and the training ends with HS_REASON_END_OF_INPUT. With HS_END_WITH_LAST_RANK, steps are made until all
 * ranks have called it; until then, hs_session_has_input returns false on this rank. */
HS_API void hs_session_end_input(hs_session *session);
HS_API bool hs_session_has_input(const hs_session *session);

/* Requests a stop before the training is complete (hs_outcome.interrupted). The current run is completed and, if there is a
 * saver, saved; if that save fails, hs_session_close returns its error. A run that begins before the loop checks for a stop
 * is saved by hs_session_close. Waits for a queue, evaluations and pauses between attempts end early with HS_STOP. If a
 * hook reports completion at the same step, the session is not interrupted. Any thread, any signal handler.
 *
 * With hs_session_options.signals (docs/guide/signals.md), the first SIGTERM, SIGINT or SIGHUP does the same; rank 0
 * answers a Ctrl-C in the terminal of standard error. After a second SIGTERM or SIGINT, 0.5 s later or more, nothing more
 * is saved. A third one ends the process, unless the program had a handler. SIGUSR1 requests a save. SIGPIPE has no effect,
 * also after the close. Earlier handlers are also called, and restored when the last such session is closed. Ignored
 * signals stay ignored. System calls are restarted. Forked children get the program's handlers. A 17th such session is
 * HS_RESOURCE_EXHAUSTED. */
HS_API void hs_session_interrupt(hs_session *session);
/* Requests a stop because the training is complete: hs_outcome_exit_code is 0, also if a signal or a hook interrupts the
 * session in the same step. A step that has begun must still be ended. Any thread, any signal handler.
 *
 * Checkpoints do not record completion. So that a restart makes no further step, call it before the first one. */
HS_API void hs_session_request_stop(hs_session *session);
/* Requests a save, and the action of each trigger with on_request, after the current or the next run. Any thread, any
 * signal handler. */
HS_API void hs_session_request_save(hs_session *session);
/* Returns true if long work should end early. Cheap. Also reports progress to the watchdog. Any thread. */
HS_API bool hs_session_poll(hs_session *session);

/* Reports an error of the program. Then leave the loop with `break`, in a step without hs_step_end. hs_session_close calls
 * no `end`, saves nothing, and returns HS_REASON_FAILED with this error. In a group, hs_step_pass_gate and hs_step_end also
 * return it.
 *
 * why  copied. NULL: HS_UNKNOWN. HS_OK withdraws an earlier report. HS_STOP and HS_OUT_OF_RANGE are not errors: the session
 *      ends normally, unless its last run failed */
HS_API void hs_session_fail(hs_session *session, const hs_error *why);

/* Ends and frees the session. If the last run succeeded, or returned HS_OUT_OF_RANGE or HS_STOP, and hs_session_fail was
 * not called, it calls end and then boundary of each hook. There, savers save a step that is not saved yet, unless its save
 * was due at a stop. In any case it stops and joins the threads, calls close of each hook, and closes event files and the
 * backend's session. Blocks up to stop_grace_secs, and while hooks save.
 *
 * Returns the outcome, and copies its error, the first one, to `err`. For NULL it makes an outcome of `err`, as
 * hs_session_open left it. Check it before you use the model. In a forked child it frees nothing, and the outcome is a
 * failure. */
HS_API hs_outcome hs_session_close(hs_session *session, hs_error *err);

/* Parts of the session, borrowed. A recovery changes the coordinator. */
HS_API hs_raw_session *hs_session_raw(const hs_session *session);
HS_API hs_coordinator *hs_session_coordinator(const hs_session *session);
/* Returns the global step, or -1 on failure. HS_FAILED_PRECONDITION: it does not exist, or is negative. */
HS_API int64_t hs_session_global_step(hs_session *session, hs_error *err);
/* The number of this process in its group, from 0, and the number of processes. Without a group: 0 and 1. */
HS_API int32_t hs_session_rank(const hs_session *session);
HS_API int32_t hs_session_rank_count(const hs_session *session);
/* Returns the number of successful recoveries. */
HS_API int64_t hs_session_recoveries(const hs_session *session);

/* The time that a hook has used, estimated from some of its calls. The close logs hooks that used over 1 s and over 5 % of
 * its time. Frozen. */
typedef struct hs_hook_cost {
    const char *name;     /* the hook's */
    const char *slowest;  /* the callback of the longest call. "": not known */
    int64_t runs;         /* runs of the kinds that the hook is called for */
    int64_t total_ns;     /* of all callbacks */
    int64_t largest_ns;   /* of the longest call */
    int64_t largest_step; /* the global step of the longest call. -1: not known */
} hs_hook_cost;
/* Sets *cost for the hook at `index` of the session's list. Returns false after the last. */
HS_API bool hs_session_hook_cost(const hs_session *session, size_t index, hs_hook_cost *cost);

HS_END_DECLS

#endif
