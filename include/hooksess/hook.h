/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOK_H
#define HOOKSESS_HOOK_H

#include <hooksess/backend.h>
#include <hooksess/coordinator.h>
#include <hooksess/graph.h>
#include <hooksess/outcome.h>
#include <hooksess/summary.h>

/* Hooks: what is called around each run of a session. TensorFlow: SessionRunHook, SessionRunContext. The built-in hooks
 * use only what the public headers declare. timer.h lets a hook act every N steps or seconds.
 *
 * Threads: the session's only. It calls the callbacks too. Functions that any thread may call say so. */

HS_BEGIN_DECLS

/* The backend's session inside a hooked one: running it runs no hook. */
typedef struct hs_raw_session hs_raw_session;
/* One run, as a hook sees it. */
typedef struct hs_run_context hs_run_context;

/* clang-format off */
/* The callbacks. Any may be NULL; initialize them by name, with HS_INIT:
 *
 *     static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "early_stop", .before_run = before_run, .after_run = after_run);
 *
 * Each callback takes the hook's own `self` first and returns HS_OK, or a code with a message, to which the library adds
 * the hook's name, the callback and the step. HS_STOP requests a stop in the hook's name, as hs_run_context_request_stop
 * does, and also ends the run with HS_STOP: no later callback of the run is called. A training that is started again after
 * such a stop makes one more step before the hook can stop it, unless the hook saves that it is done (save_state) and
 * requests the stop in after_create_session. Callbacks are called in the order of the session's list of hooks, all but
 * close:
 *
 *   begin                  while the session is opened, before the graph is finalized: may add nodes. A second begin on the
 *                          same graph must add nothing twice. Memory that the nodes use: hs_graph_memory. Called once a
 *                          session. HS_STOP is a failure here.
 *   after_create_session   the backend's session is there and its variables have their values; again after a recovery. A
 *                          stop that is requested of the coordinator here means that there is nothing left to do
 *                          (HS_REASON_ALREADY_DONE).
 *   before_run             *args is NULL before; set it to what the hook wants fetched, fed or otherwise done in this run.
 *                          It is read after the function has returned, until the run is over: let it be static, or a part
 *                          of self, never of the function's own block. At file scope (in a function HS_NAMES is no
 *                          constant, and `static` does not compile):
 *                              static const hs_run_args wanted = HS_INIT(hs_run_args, .names = HS_NAMES("loss"));
 *                          If it fails, neither the backend nor any after_run is called.
 *   after_run              `values` has the hook's own fetches in the shape of its args (no leaves if it asked for none).
 *                          Not called after a run that failed. If it fails, later hooks' is not called.
 *   boundary               the step is whole for everyone: after every hook's after_run, if one of them asked for it
 *                          (hs_run_context_request_boundary); once after every hook's after_create_session; and once after
 *                          the ends. Event files are flushed before. This is where a checkpoint is saved, so that it
 *                          holds each hook's state of this step.
 *   end                    the session ends well (closed, stopped, end of input). One that fails makes the outcome a
 *                          failure, but keeps neither the other hooks from theirs nor the last boundary from coming.
 *   close                  always, once for each begin that was called, last hook first, however the session ended.
 *   save_state, load_state the hook's part of the checkpoint, under "hooksess/hook/NAME". load_state is called while the
 *                          session is opened or recovers, before after_create_session, if what is restored has such a part.
 *                          state_version, state_identity and state_bytes are what hs_state_provider (state.h) has of these
 *                          names; the identity is asked for before, and copied. More pieces than one are added in
 *                          after_create_session (hs_raw_session_add_state).
 *   destroy                frees self. Once for each self, however often it is listed, even if opening failed early.
 *
 * A hook that changes a variable of 64 KiB or more does it by an op that lists the variable in its writes:
 *
 *     static const hs_run_args scaled = HS_INIT(hs_run_args, .names = HS_NAMES("scale"));
 *     ...
 *     hs_graph_op(graph, .name = "scale", .run = scale, .user = &hook, .writes = HS_NAMES("weights")); // in begin
 *     ...
 *     return hs_raw_session_run(hs_run_context_session(run), &scaled, NULL, &err);
 *
 * In before_run that is before the run's ops. If before_run asks for the op instead (*args = &scaled), the op runs in its
 * place among the run's ops: in the order in which they were added to the graph. The session does not see what a hook
 * writes to the memory itself: a save that overlaps the runs (hs_save_options.overlap) would hold a part of it. Smaller
 * variables (a learning rate) are copied when the save is asked for: a hook may write to them.
 *
 * A callback, an op and a step function should return. If one throws a C++ exception, or leaves by pthread_exit or longjmp,
 * the session has failed with HS_INTERNAL: it runs no more, and it can be closed. After an exception
 * hs_session_should_stop is true; a longjmp is noticed by the next call that runs or closes the session. Make that call in
 * the function that called setjmp, on the same stack. What the call had allocated may leak. destroy must return. */
/* clang-format on */
typedef struct hs_hook_ops {
    size_t size;
    const char *name; /* (required) for messages, the outcome and the checkpoint; without ':' where there is save_state */
    hs_code (*begin)(void *self, hs_backend backend, hs_error *err);
    hs_code (*after_create_session)(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err);
    hs_code (*before_run)(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err);
    hs_code (*after_run)(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err);
    hs_code (*boundary)(void *self, hs_run_context *run, hs_error *err);
    hs_code (*end)(void *self, hs_raw_session *session, hs_error *err);
    void (*close)(void *self, const hs_outcome *outcome);
    hs_save_state_fn save_state;
    hs_load_state_fn load_state;
    void (*destroy)(void *self);
    int64_t state_version;
    const char *(*state_identity)(void *self);
    size_t state_bytes;
} hs_hook_ops;

/* What a hook's flags say. The first three: the kinds of run for which before_run, after_run and the run's boundary are
 * called; none of them means TRAIN. */
enum { HS_HOOK_TRAIN = 1, HS_HOOK_EVAL = 2, HS_HOOK_AUX = 4, HS_HOOK_BEST_EFFORT = 8, HS_HOOK_HELD = 256 };

/* A hook: its functions, its state, its flags. Travels by value. `ops` must live as long as the session. Frozen. */
typedef struct hs_hook {
    const hs_hook_ops *ops;
    void *self;
    uint32_t flags;        /* HS_HOOK_TRAIN and so on; 0: HS_HOOK_TRAIN */
    uint32_t max_failures; /* with HS_HOOK_BEST_EFFORT, as in hs_hook_best_effort; 0: no limit */
} hs_hook;

/* The constructors of built-in hooks (hooksess/hooks/) copy their options, lists and names, except what an option's comment
 * calls borrowed. A constructor never fails: the hook's begin reports invalid options (HS_INVALID_ARGUMENT) or exhausted
 * memory. */

/* A hook of the program's own: hs_hook hook = HS_HOOK(.ops = &ops, .self = &h); */
#define HS_HOOK(...)  HS__VALUE(hs_hook, __VA_ARGS__)
/* .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 100), hs_nan_tensor(.tensor = "loss")). A named array of hooks ends with a
 * hook whose `ops` is NULL: hs_hook hooks[] = {hs_progress(), {0}}. */
#define HS_HOOKS(...) HS__LIST(hs_hook, __VA_ARGS__, {.ops = NULL})

/* The same hook, not destroyed by the session it is given to: for one that is used again, or read afterwards. */
HS_API hs_hook hs_hook_hold(hs_hook hook);
/* The same hook, without which the training can do: a logger, say. Where one of its callbacks fails, what it asked for
 * cannot be fetched, or its state cannot be saved, the training goes on as if the hook were not there; it is called again
 * after 1, 2, 4 ... 64 seconds (after_create_session first, if that is what failed; what there was to do meanwhile, such as
 * rows of a file, is left out), and the log and the outcome say how often that was so. After `max_failures` in a row it is
 * left alone for good; 0 and HS_NEVER: no limit. A begin that fails is final. What it fetches is a part of the run: an op
 * of its own that fails in there fails the run. At most 2^31 - 1 failures. */
HS_API hs_hook hs_hook_best_effort(hs_hook hook, int64_t max_failures);
/* A hook whose begin fails with `error`, so that opening a session with it fails. For constructors of hooks, which have no
 * error to return: they give this hook if the options are invalid or memory is exhausted.
 *
 *     struct model *self = (struct model *)hs_env_alloc(NULL, sizeof *self);
 *     hs_error_set(&error, HS_RESOURCE_EXHAUSTED, "no memory for the hook");
 *     hs_hook hook = self ? HS_HOOK(.ops = &early_stop_ops, .self = self) : hs_hook_broken("early_stop", &error);
 *
 * name   the hook's name, for messages; not copied
 * error  copied; NULL, or without a code: HS_INVALID_ARGUMENT
 *
 * Any thread. Beyond TensorFlow, whose constructors raise. */
HS_API hs_hook hs_hook_broken(const char *name, const hs_error *error);
/* Destroys a hook that was held, or never came to a session. */
HS_API void hs_hook_free(hs_hook hook);
/* Destroys a list of hooks as a session does: each self once, and none that is held. */
HS_API void hs_hooks_free(const hs_hook *hooks);

/* The run that is being made: what a hook may know. The same context is passed to before_run, after_run and boundary of one
 * run, and to all hooks. */

/* The caller's own fetches and feeds. At the boundaries that follow no run: empty args. */
HS_API const hs_run_args *hs_run_context_original_args(const hs_run_context *run);
HS_API hs_raw_session *hs_run_context_session(const hs_run_context *run);
/* The run's kind, an hs_run_kind. */
HS_API hs_run_kind hs_run_context_kind(const hs_run_context *run);
/* Which boundary this is. */
typedef enum hs_boundary { HS_BOUNDARY_CREATED = 1, HS_BOUNDARY_RUN = 2, HS_BOUNDARY_END = 3 } hs_boundary;
/* 0 in before_run and after_run. */
HS_API hs_boundary hs_run_context_boundary(const hs_run_context *run);
/* The global step: in before_run before the run, afterwards after it. Read at most once at each of the two times, only if a
 * hook asks, and shared by all of them. -1 on failure: HS_FAILED_PRECONDITION if the graph has none, or a negative one; or
 * what the backend returned. A callback's `err` is never NULL: return err->code then. */
HS_API int64_t hs_run_context_global_step(hs_run_context *run, hs_error *err);
/* The monotonic clock in nanoseconds, read at most once before and once after the run, and shared likewise. */
HS_API int64_t hs_run_context_now(hs_run_context *run);
/* The same clock to some milliseconds, at a fifth of the cost: never later than hs_run_context_now. For a look in each step
 * whether some seconds have passed. */
HS_API int64_t hs_run_context_coarse_now(hs_run_context *run);
/* True if a hook has asked the session to stop after this run. */
HS_API bool hs_run_context_stop_requested(const hs_run_context *run);
/* How often something was requested of the session so far (hs_session_request_save): a number that is higher than the last
 * that was seen is a request. */
HS_API int64_t hs_run_context_requests(const hs_run_context *run);

/* One call of a hook's callback, by the monotonic clock. Frozen. */
typedef struct hs_hook_span {
    const char *hook, *callback; /* their names, as long as the session */
    int64_t begin_ns, end_ns;
} hs_hook_span;
/* The calls that hs_run_context_record_spans has recorded in this run so far, in their order. In a boundary, only those of
 * later boundaries are missing. False past the last. */
HS_API bool hs_run_context_span(const hs_run_context *run, size_t index, hs_hook_span *out);

/* The run: what a hook may do. */

/* Requests a stop after this run, because the training is done: the session is not interrupted, and the exit code is 0. The
 * run itself is completed. For the program there is hs_session_request_done. */
HS_API void hs_run_context_request_stop(hs_run_context *run);
/* Requests a stop after this run, before the training is done, for example because its time is up: the session is
 * interrupted (hs_outcome.interrupted). If another hook says in the same run that the training is done, it is done. */
HS_API void hs_run_context_interrupt(hs_run_context *run);
/* Asks for every hook's boundary after this run. Without effect in a boundary. */
HS_API void hs_run_context_request_boundary(hs_run_context *run);
/* A decision that replicas must share, such as whether a timer has fired: true on all of them if it is true on one. Asked
 * in a boundary, by every replica alike. A session that trains alone gets its own answer back. */
HS_API bool hs_run_context_agree(hs_run_context *run, bool mine);
/* Records the times of all callbacks (hs_run_context_span), from now until the next run and its boundary are over. */
HS_API void hs_run_context_record_spans(hs_run_context *run);

typedef struct hs_trace_options {
    size_t size;
    const char *trace_dir; /* (required) created if it is missing */
    hs_bytes metadata;     /* of the run: a serialized RunMetadata (hs_run_values_metadata). Empty: no ops in the trace */
    int64_t max_bytes;     /* of events in the file: later ones are dropped and counted. 0: 64 MiB */
    bool show_memory;      /* memory of each op, if the metadata have it */
    unsigned char reserved[7];
} hs_trace_options;
#define HS_TRACE_OPTIONS(...) HS_OPTIONS(hs_trace_options, __VA_ARGS__)

/* Writes TRACE_DIR/timeline-STEP.json: the recorded callbacks of this run and the ops of its metadata, in Chrome's trace
 * format (hooks/profiler.h has more). Call it in the boundary of a run that was traced:
 *
 *   before_run   set *args to args with .options of HS_TRACE_FULL; hs_run_context_record_spans(run)
 *   after_run    copy hs_run_values_metadata(values); hs_run_context_request_boundary(run)
 *   boundary     hs_run_context_write_trace(run, step, HS_TRACE_OPTIONS(.trace_dir = "run", .metadata = copy), err)
 *
 * Readers see no file or the whole file. Logs its path, and how many events were dropped. Returns HS_INVALID_ARGUMENT for
 * invalid options, HS_DATA_LOSS if the metadata are not a RunMetadata, HS_RESOURCE_EXHAUSTED, or the code of the failing
 * file operation. TensorFlow: timeline.Timeline. */
HS_API hs_code hs_run_context_write_trace(hs_run_context *run, int64_t step, const hs_trace_options *options,
                                          hs_error *err);

/* The raw session: what a hook may know. */

HS_API hs_backend hs_raw_session_backend(const hs_raw_session *session);
/* The backend's own handle of the session, for hs_backend_ops. */
HS_API void *hs_raw_session_handle(const hs_raw_session *session);
/* The global step as it is now; -1 on failure, as in hs_run_context_global_step. */
HS_API int64_t hs_raw_session_global_step(hs_raw_session *session, hs_error *err);
/* Is the session to stop, or has a thread reported that it is lost? For hooks that wait for something, or take long. Any
 * thread; tells the watchdog that somebody is alive. */
HS_API bool hs_raw_session_stop_requested(const hs_raw_session *session);
/* How long the process may live on after a signal; 0: no signals are looked at (hs_session_options.signals), or no limit.
 */
HS_API double hs_raw_session_grace_secs(const hs_raw_session *session);
/* The checkpoint that the session's variables were restored from, as a path without ending; NULL: none. */
HS_API const char *hs_raw_session_restored_from(const hs_raw_session *session);
/* The directory of the session's event files: summary_dir of its options, else their checkpoint_dir. NULL: neither was
 * given. For hooks that name no directory of their own. */
HS_API const char *hs_raw_session_summary_dir(const hs_raw_session *session);
/* How many restores there were: whoever remembers what was saved, and finds another number, has to think again. */
HS_API int64_t hs_raw_session_restores(const hs_raw_session *session);
/* The newest step that is durable, restored or saved; -1: none. */
HS_API int64_t hs_raw_session_last_saved_step(const hs_raw_session *session);
/* How long training has to wait for one save, in seconds: the longest of the last few that savers have measured. Before the
 * first save it is the time of an earlier run. 0: not known. */
HS_API double hs_raw_session_save_secs(const hs_raw_session *session);
/* Why hooks must not save (hs_raw_session_refuse_saves), copied to `out`, and its code. HS_OK: they may. */
HS_API hs_code hs_raw_session_save_refusal(const hs_raw_session *session, hs_error *out);
/* The latest value of a metric (hs_raw_session_set_metric), and its step. False: there is none. Look at the step to know
 * whether it is fresh. `value` and `step` may be NULL. */
HS_API bool hs_raw_session_metric(const hs_raw_session *session, const char *name, double *value, int64_t *step);
/* Failures that the training gets over. */
typedef struct hs_hook_failure {
    const char *hook;              /* the hook's name */
    int64_t failures;              /* all in all */
    int64_t first_step, last_step; /* the global step at the first and the last of them; -1: not known */
    bool muted;                    /* it is not called at present, or not any more */
    unsigned char reserved[7];
    hs_error last; /* what it said the last time */
} hs_hook_failure;
/* In the order of their first failures. False past the last. */
HS_API bool hs_raw_session_failure(const hs_raw_session *session, size_t index, hs_hook_failure *failure);

/* What the session is doing, for those who watch it from another thread. */
typedef enum hs_phase {
    HS_PHASE_INIT = 0, /* it is being made, or made anew */
    HS_PHASE_DATA = 1, /* the program's: between the runs, or the own step of a loop that stays its owner's */
    HS_PHASE_STEP = 2, /* a run: the backend, and the hooks around it */
    HS_PHASE_EVAL = 3, /* a hook evaluates */
    HS_PHASE_SAVE = 4, /* a hook saves */
    HS_PHASE_END = 5   /* it is being closed */
} hs_phase;
/* "init", "data", "step", "eval", "save", "end". Static. */
HS_API const char *hs_phase_name(hs_phase phase);
/* The phase; the name of the hook that is being called, "" if none is; a number that changes whenever something goes on.
 * Any thread; the pointers may be NULL. The name lives as long as the session. */
HS_API hs_phase hs_raw_session_phase(const hs_raw_session *session, const char **hook, int64_t *progress);

/* The raw session: what a hook may do to the training. */

/* A run without hooks. The values (which may be NULL, and are after a failure) are borrowed until the next raw run made in
 * the same callback, or by the same caller; values that are in use further out stay as they are. */
HS_API hs_code hs_raw_session_run(hs_raw_session *session, const hs_run_args *args, const hs_run_values **values,
                                  hs_error *err);
/* Adds a piece of state while the session is open: from after_create_session, from before_run, or between runs through
 * hs_session_raw. From then on it is saved and restored like any other, as "hooksess/state/NAME"; if the checkpoint that
 * was restored has it, it is loaded at once. So memory may come to be in the first step. The provider is copied with its
 * name and identity; its self must live as long as the session. After a recovery it is to be added again.
 *
 * What nobody has taken of a checkpoint waits in the session: in memory, where it does not come to more than 64 MiB, else
 * in the checkpoint, to be read again. Checkpoints that are saved before the first training run carry it along. After that
 * run the log warns of what still waits, once, for later checkpoints lack it.
 *
 * Failing, it is not added, and what waits goes on waiting. HS_ALREADY_EXISTS: there is one of that name.
 * HS_FAILED_PRECONDITION: an identity or a version that does not fit (state.h), no open session, or a call from a
 * provider's load. HS_INVALID_ARGUMENT: a name that may not be, a function that is missing. HS_DATA_LOSS or HS_NOT_FOUND:
 * what is to be read again was damaged or deleted. Else what load returned. */
HS_API hs_code hs_raw_session_add_state(hs_raw_session *session, const hs_state_provider *provider, hs_error *err);
/* Adds a variable while the session is open, for memory that exists only after the first step has begun:
 *
 *     while (hs_step_begin(session)) {
 *         if (!model.m_memory) {
 *             allocate_moments(&model);
 *             hs_raw_session_add_variable(hs_session_raw(session),
 *                                         HS_VARIABLE_DEF(.name = "adam_m", .dtype = HS_FLOAT,
 *                                                         .shape = HS_SHAPE(model.n_parameters), .data = model.m_memory),
 *                                         &err);
 *         }
 *         train_step(&model);
 *         hs_step_end(session);
 *     }
 *
 * def  as for a graph, without flags; copied with its name. The memory is the program's, on the host or on a device (data,
 *      HS_DATA_AT or locate), and must live as long as the session
 *
 * If the checkpoint that was restored has the variable, it is set at once; else it keeps its value, and the log has a
 * warning if a checkpoint was restored. From then on it is saved and restored like the graph's variables. A restore of a
 * checkpoint that was saved before it was added sets it to its first value: `initial`, `initialize`, or zeros. It is not in
 * the graph, so it can be neither fetched nor an input. Call it when hs_raw_session_add_state may be called, and again
 * after a recovery. What that comment says of state that waits holds for such variables, too.
 *
 * Returns HS_ALREADY_EXISTS if the session has a variable of this name, HS_FAILED_PRECONDITION without an open session or
 * from a provider's load, HS_INVALID_ARGUMENT for an invalid definition or another type or shape in the checkpoint,
 * HS_DATA_LOSS or HS_NOT_FOUND if the checkpoint was damaged or deleted meanwhile. On failure it is not added. */
HS_API hs_code hs_raw_session_add_variable(hs_raw_session *session, const hs_variable_def *def, hs_error *err);
/* hs_session_request_save, hs_session_request_stop of the session. Any thread. */
HS_API void hs_raw_session_request_save(hs_raw_session *session);
HS_API void hs_raw_session_request_stop(hs_raw_session *session);
/* Metrics: what an evaluation, or the program, says of the model as it was at a step, for whoever looks for it (early
 * stopping, savers that keep the best). A name has its latest value. A restore clears the board, for the steps that follow
 * have the numbers of others. The name is copied. HS_RESOURCE_EXHAUSTED, HS_INVALID_ARGUMENT for no name. */
HS_API hs_code hs_raw_session_set_metric(hs_raw_session *session, const char *name, double value, int64_t step,
                                         hs_error *err);
/* For hooks: says what they do until it is said again, and returns what it was before, to be said at the end. */
HS_API hs_phase hs_raw_session_enter_phase(hs_raw_session *session, hs_phase phase);
/* Failures that the training gets over: of hooks of best effort, which the session counts itself, and of others who say so,
 * such as savers on a full disk. They are counted by `who`, and belong to the outcome. */
HS_API void hs_raw_session_report_failure(hs_raw_session *session, const char *who, const hs_error *error);
/* Tells the session that the state of `step` is durable: the outcome's last_saved_step. */
HS_API void hs_raw_session_record_save(hs_raw_session *session, int64_t step);
/* Sets how long a save takes (hs_raw_session_save_secs). For savers, and for whoever knows better before the first save. */
HS_API void hs_raw_session_set_save_secs(hs_raw_session *session, double secs);
/* Tells whoever saves that nothing is to be saved from now on, for what is in memory is not worth it (a loss that is not
 * finite): the newest checkpoint stays what it is. `why` is copied; the first reason counts. NULL, and the code
 * HS_OK: no reason is known. What a recovery, hs_saver_restore or hs_raw_session_restore_copy brings back may be saved
 * again. */
HS_API void hs_raw_session_refuse_saves(hs_raw_session *session, const hs_error *why);

/* A copy in memory of all that a checkpoint would hold: variables and state. */
typedef struct hs_state_copy hs_state_copy;
/* Copies the state as it is now. *copy is NULL before, or an earlier copy of the same session, whose memory is used again.
 * Failing, an earlier copy is as it was, or says so when it is restored (HS_FAILED_PRECONDITION), and its step is -1.
 * HS_RESOURCE_EXHAUSTED; what the backend or a provider's save returned. It may outlive the session, but not what the
 * session's environment points to. */
HS_API hs_code hs_raw_session_copy_state(hs_raw_session *session, hs_state_copy **copy, hs_error *err);
/* Sets variables and state to what was copied, as a restore does: hs_raw_session_restores counts it, versions and
 * identities of states must fit, and what nobody takes of them waits. It is of no checkpoint: hs_raw_session_restored_from
 * is NULL afterwards, and the next save of any saver leaves what was saved later than this step as after a rollback. The
 * copy stays. Also into a later session of the same graph. What can fail does so before anything is changed, but for a
 * provider's load and the backend's writing. HS_NOT_FOUND, HS_INVALID_ARGUMENT: another graph's. */
HS_API hs_code hs_raw_session_restore_copy(hs_raw_session *session, const hs_state_copy *copy, hs_error *err);
/* The global step of what was copied; -1: there was none. */
HS_API int64_t hs_state_copy_step(const hs_state_copy *copy);
HS_API void hs_state_copy_free(hs_state_copy *copy);

/* The raw session: event files. */

/* The writer for a hook's events, ready for the first of them: in one call, what the next functions do. Call it in
 * after_create_session, or in before_run before the first event of each creation of the session.
 *
 * directory  of the session's writer (hs_raw_session_summary_writer); NULL: none
 * given      a writer of the program's own (hs_raw_session_use_writer), in place of `directory`; NULL: none
 * writer     set to the writer, which the session flushes before each boundary; NULL if neither is given, or after an error
 *
 * Writes the START record (hs_raw_session_log_start). The errors are those of the three functions. The session's thread.
 * TensorFlow: SummaryWriterCache.get, and the START record of SummarySaverHook. */
HS_API hs_code hs_raw_session_event_writer(hs_raw_session *session, const char *directory, hs_summary_writer *given,
                                           hs_summary_writer **writer, hs_error *err);
/* The event-file writer for a directory, which is made if it is missing: the one that the process shares
 * (hs_summary_writer_shared), got when it is first asked for, flushed before each boundary, closed with the session, whose
 * it is. */
HS_API hs_code hs_raw_session_summary_writer(hs_raw_session *session, const char *directory, hs_summary_writer **writer,
                                             hs_error *err);
/* A writer of the program's own, to be flushed before each boundary too. It must outlive the session. */
HS_API hs_code hs_raw_session_use_writer(hs_raw_session *session, hs_summary_writer *writer, hs_error *err);
/* Flushes a writer (summary.h) for a hook. An error that the writer goes on from is none: it is counted and belongs to the
 * outcome, under "summary writer" (hs_raw_session_report_failure). The session's thread. */
HS_API hs_code hs_raw_session_flush_writer(hs_raw_session *session, hs_summary_writer *writer, bool sync, hs_error *err);
/* Says in one of these that the run begins at the step after the present one (a session log START): TensorBoard then drops
 * what a run that crashed, or this session before it was lost, has written from there on. Once for each creation of the
 * session, however many ask: call it before the first event. HS_INVALID_ARGUMENT: the session does not know the writer. */
HS_API hs_code hs_raw_session_log_start(hs_raw_session *session, hs_summary_writer *writer, hs_error *err);

HS_END_DECLS

#endif
