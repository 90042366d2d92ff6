/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOK_H
#define HOOKSESS_HOOK_H

#include <hooksess/coordinator.h>
#include <hooksess/outcome.h>
#include <hooksess/raw_session.h>
#include <hooksess/trigger.h>

/* Hooks: callbacks around each run of a session. Use this header to write a hook (docs/guide/writing-a-hook.md); ready-made
 * hooks are in hooksess/hooks/.
 *
 *     static const hs_hook_ops ops =
 *         HS_INIT(hs_hook_ops, .name = "print", .fetches = HS_NAMES("loss"), .after_run = after_run);
 *     ...
 *     hs_hook hook = HS_HOOK(.ops = &ops, .when = HS_EVERY_STEPS(100));
 *     hs_session *session = hs_session_open(backend, HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook)), &err);
 *
 * TensorFlow: SessionRunHook, SessionRunContext.
 *
 * Threads: the session's thread only. It also calls the callbacks. Exceptions are at the functions. */

HS_BEGIN_DECLS

/* One run, as a hook sees it. */
typedef struct hs_run_context hs_run_context;

/* clang-format off */
/* The callbacks. Any may be NULL. Each takes the hook's `self` and returns HS_OK, or a code with a message, to which the
 * library adds the hook's name, the callback and the step. HS_STOP requests a stop as hs_run_context_request_stop does, and
 * skips the later callbacks of this run. Hooks are called in the order of the session's list.
 *
 *   callback               call
 *   begin                  once, while the session is opened. May add nodes to the graph, and then returns the result of
 *                          hs_graph_error, which has the message; a second begin on the same graph must add nothing
 *                          twice. The nodes' memory: hs_graph_memory. HS_STOP is a failure
 *   after_create_session   the variables have their values. Called again after each recovery. HS_STOP, or a stop of the
 *                          coordinator: training is already complete (HS_REASON_ALREADY_DONE)
 *   before_run             before a run. Set *args, initially those of `fetches` or NULL, to request fetches and feeds. They
 *                          are read until the run is over: make them static or part of `self`. A failure prevents the run
 *   after_run              after a successful run. `values` has the hook's own fetches, in the shape of its args: none if
 *                          it requested nothing. A failure skips the later hooks
 *   boundary               at the times of hs_boundary, after event files were flushed. Save here
 *   end                    the session ends normally: closed, stopped, or the input has ended. If it fails, the outcome is
 *                          a failure; the other hooks' end and the last boundary are still called
 *   close                  once for each begin that was called, last hook first. Not if the engine of a group ends the
 *                          process (group.h)
 *   save_state, load_state the hook's part of a checkpoint, "hooksess/hook/NAME", of a second hook of this name NAME#2.
 *                          Both or neither. load_state is called before after_create_session, if the restored checkpoint
 *                          has this part. Do not save options: a restore would overwrite them
 *   rank_identity          in a group: lines of text that must be the same on all ranks, such as options. Called after
 *                          begin. HS_INVALID_ARGUMENT: a line differs, and the session does not open. NULL: nothing
 *   destroy                frees `self`. Once per `self`, even if it is listed twice or opening failed
 *
 * before_run and after_run are called in the runs that hs_hook.when says. Hooks with before_run or fetches are decided before
 * a run, for the last global step plus one; others after it, by the step read then. Seconds are read at the beginning of a
 * run; in a group, those of rank 0 count, in the next run. A hook that was called before a run is called after it.
 *
 * state_version, state_identity (copied when the session is created) and state_bytes are as in hs_state_provider. To save
 * several pieces, call hs_raw_session_add_state in after_create_session.
 *
 * Args for before_run, at file scope (in a function, `static` does not compile with HS_NAMES):
 *
 *     static const hs_run_args wanted = HS_INIT(hs_run_args, .names = HS_NAMES("loss"));
 *
 * Checkpoints do not record a stop. So that a restart makes no further step, save completion in save_state and return
 * HS_STOP from after_create_session.
 *
 * A save that overlaps the runs (hs_save_options.overlap) may copy part of a change that a hook makes in a variable's
 * memory. Change a variable of 64 KiB or more by an op that lists it in `writes`:
 *
 *     static const hs_run_args scaled = HS_INIT(hs_run_args, .names = HS_NAMES("scale"));
 *     ...
 *     hs_graph_op(graph, .name = "scale", .run = scale, .user = &hook, .writes = HS_NAMES("weights")); // in begin
 *     ...
 *     return hs_raw_session_run(hs_run_context_session(run), &scaled, NULL, &err);
 *
 * In before_run, this op runs before those of the run; with `*args = &scaled` among them, in the order of their addition.
 *
 * If a callback, an op or a step function throws a C++ exception, or leaves by pthread_exit, the session fails with
 * HS_INTERNAL and can only be closed. Memory may leak. longjmp out of them is undefined. destroy must return. */
/* clang-format on */
typedef struct hs_hook_ops {
    size_t size;
    const char *name; /* (required) without ':' if the hook has save_state, or steps in `when` */
    /* Tensors and ops that it fetches in each run for which it is called, for hs_run_values_number(values, 0) and so on.
     * They must exist after `begin`. Borrowed: do not change the list while the session is open. NULL: none */
    const char *const *fetches;
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
    const char *(*rank_identity)(void *self);
} hs_hook_ops;

/* Flags of a hook:
 *
 *   HS_HOOK_TRAIN, _EVAL, _AUX  kinds of run for which before_run, after_run and boundary are called
 *   HS_HOOK_BEST_EFFORT, _HELD  set by hs_hook_best_effort and hs_hook_hold
 *   HS_HOOK_STATE_VARIES        the state differs between equal runs: `hooksess verify-resume` does not compare it
 *   HS_HOOK_CHIEF_ONLY          in a group, only rank 0 calls the hook; the others only destroy it
 *   HS_HOOK_PER_RANK            in a group, each rank saves and loads its own state of the hook (HS_STATE_PER_RANK)
 *   HS_HOOK_ANY_RANK_COUNT      with HS_HOOK_PER_RANK: a checkpoint of n ranks can be restored on another number of ranks.
 *                               Rank r then loads the state of rank r modulo n
 *   HS_HOOK_ALL_RANKS           the hook makes collective calls. In a group, not with _CHIEF_ONLY or _BEST_EFFORT
 *   HS_HOOK_LATE                set by hs_hook_late */
enum {
    HS_HOOK_TRAIN = 1,
    HS_HOOK_EVAL = 2,
    HS_HOOK_AUX = 4,
    HS_HOOK_BEST_EFFORT = 8,
    HS_HOOK_STATE_VARIES = 16,
    HS_HOOK_CHIEF_ONLY = 32,
    HS_HOOK_PER_RANK = 64,
    HS_HOOK_ANY_RANK_COUNT = 128,
    HS_HOOK_HELD = 256,
    HS_HOOK_ALL_RANKS = 512,
    HS_HOOK_LATE = 1024
};

/* A hook: its callbacks and their state. `ops` is borrowed. Frozen. */
typedef struct hs_hook {
    const hs_hook_ops *ops;
    void *self;
    uint32_t flags;        /* 0: HS_HOOK_TRAIN */
    uint32_t max_failures; /* with HS_HOOK_BEST_EFFORT: consecutive failures before it is disabled. 0: no limit */
    /* The runs for which before_run and after_run are called. {0}: each. With `last`, they are called once more before
     * `end`, around a run that only makes the fetches; values may then be of an earlier step (docs/guide/values.md). In a
     * group, they then are on all ranks if they are on one */
    hs_trigger when;
} hs_hook;

/* Constructors of ready-made hooks never fail: `begin` reports invalid options or exhausted memory. Options are copied. */

#define HS_HOOK(...)  HS__VALUE(hs_hook, __VA_ARGS__)
/* HS_HOOKS(hs_stop_at_step(.last_step = 100), hook). A hook without `ops` ends the list: the hooks after it are ignored. A
 * named array ends with {0}. */
#define HS_HOOKS(...) HS__LIST(hs_hook, __VA_ARGS__, {.ops = NULL})

/* Returns the hook with a flag: sessions do not destroy it. Free it with hs_hook_free. */
HS_API hs_hook hs_hook_hold(hs_hook hook);
/* Returns the hook with a flag: training continues if the hook fails.
 *
 * If a callback fails, a fetch of the hook does not exist, or its state cannot be saved, the hook is suspended for 1, 2, 4
 * ... 64 s. When it resumes, after_create_session is called first if it had failed. After `max_failures` consecutive
 * failures (0, HS_NEVER: no limit), or a failure of begin, it is disabled. The log and the outcome count the failures. An
 * op that the hook fetches can still fail the run. */
HS_API hs_hook hs_hook_best_effort(hs_hook hook, int64_t max_failures);
/* Returns the hook with a flag: it gets values of a device one call later, and the training does not wait for them.
 *
 * In each training run for which the hook is called, the device begins to copy the hook's values. after_run gets the
 * copies, with the global step and the time of that run: in the next such run, or earlier, before hooks save in their
 * boundary and before `end`. A restore and a failure of the session discard them. hs_raw_session_computed_at speaks of the
 * current run.
 *
 * The flag has no effect in a group, and in a run in which the hook fetches no value of a device, more than 64 KiB in one
 * value, strings, or a value of an earlier step; and if the memory has no hs_memory.wait or .hold, or a copy cannot begin.
 * HS_INVALID_ARGUMENT at the opening: the hook has HS_HOOK_ALL_RANKS. */
HS_API hs_hook hs_hook_late(hs_hook hook);
/* Returns a hook whose begin fails with `error`. Constructors of hooks return it on failure. Any thread.
 *
 * name   for messages. Borrowed
 * error  copied. NULL or HS_OK: HS_INVALID_ARGUMENT */
HS_API hs_hook hs_hook_broken(const char *name, const hs_error *error);
/* Destroys a hook that was held, or that no session got. */
HS_API void hs_hook_free(hs_hook hook);
/* Destroys a list of hooks as a session does: each `self` once, except for held hooks. */
HS_API void hs_hooks_free(const hs_hook *hooks);

/* The current run: queries. All callbacks of a run get the same context. */

/* Returns the args of the call, without those of hooks. In boundaries without a run: empty args. */
HS_API const hs_run_args *hs_run_context_original_args(const hs_run_context *run);
HS_API hs_raw_session *hs_run_context_session(const hs_run_context *run);
HS_API hs_run_kind hs_run_context_kind(const hs_run_context *run);
typedef enum hs_boundary {
    HS_BOUNDARY_CREATED = 1, /* after all after_create_session */
    HS_BOUNDARY_RUN = 2,     /* after all after_run, if a hook requested it */
    HS_BOUNDARY_END = 3,     /* after all ends */
    /* A stop takes effect: at the end of its run or step, or in the hs_step_begin that returns false. At most once in a
     * session, and not for a close without a stop. hs_session_close reports a failure */
    HS_BOUNDARY_STOP = 4
} hs_boundary;
/* Returns the current boundary. 0: in before_run or after_run. */
HS_API hs_boundary hs_run_context_boundary(const hs_run_context *run);
/* Returns the global step: before the run in before_run, otherwise after it. -1 on failure: HS_FAILED_PRECONDITION if the
 * graph has no global step or a negative one, or the backend's code. In a callback `err` is not NULL: return err->code. */
HS_API int64_t hs_run_context_global_step(hs_run_context *run, hs_error *err);
/* Returns the monotonic time in nanoseconds: before the run in before_run, otherwise after it. The same for all hooks. */
HS_API int64_t hs_run_context_now(hs_run_context *run);
/* Returns true if a hook requested a stop in this run. */
HS_API bool hs_run_context_stop_requested(const hs_run_context *run);

/* The current run: actions. */

/* Requests a stop after this run, because the training is complete (hs_session_request_stop). */
HS_API void hs_run_context_request_stop(hs_run_context *run);
/* Requests a stop after this run, before the training is complete (hs_outcome.interrupted). If another hook reports
 * completion in the same run, completion wins. */
HS_API void hs_run_context_interrupt(hs_run_context *run);
/* Requests a save after this run (hs_session_request_save). */
HS_API void hs_run_context_request_save(hs_run_context *run);
/* Requests boundary of all hooks after this run, in a group on all ranks. No effect in a boundary. */
HS_API void hs_run_context_request_boundary(hs_run_context *run);

HS_END_DECLS

#endif
