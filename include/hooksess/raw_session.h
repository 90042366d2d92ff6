/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_RAW_SESSION_H
#define HOOKSESS_RAW_SESSION_H

#include <hooksess/backend.h>
#include <hooksess/group.h>
#include <hooksess/run.h>
#include <hooksess/state.h>
#include <hooksess/summary.h>

/* The raw session: what a session does for its hooks. Callbacks get it, directly or by hs_run_context_session; a program
 * gets it by hs_session_raw. TensorFlow: SessionRunContext.session.
 *
 * Threads: the session's thread only. Exceptions are at the functions. */

HS_BEGIN_DECLS

typedef struct hs_raw_session hs_raw_session;

/* Queries. */

HS_API hs_backend hs_raw_session_backend(const hs_raw_session *session);
/* Returns the backend's handle of the session, for hs_backend_ops. */
HS_API void *hs_raw_session_handle(const hs_raw_session *session);
/* Returns the global step. -1 on failure, as hs_run_context_global_step. */
HS_API int64_t hs_raw_session_global_step(hs_raw_session *session, hs_error *err);
/* Returns true if long work should end: a stop was requested, or a session was lost. Also reports progress to the watchdog.
 * Any thread. */
HS_API bool hs_raw_session_stop_requested(const hs_raw_session *session);
/* The number of this process in its group, from 0, and the number of processes. Without a group: 0 and 1. */
HS_API int32_t hs_raw_session_rank(const hs_raw_session *session);
HS_API int32_t hs_raw_session_rank_count(const hs_raw_session *session);
/* Returns the prefix of the checkpoint restored last, valid until the next restore or recovery. NULL: none. */
HS_API const char *hs_raw_session_restored_from(const hs_raw_session *session);
/* Returns the global step that the last restore has set. -1: nothing was restored since the creation or the last recovery
 * began, or the graph has no global step. */
HS_API int64_t hs_raw_session_restored_step(const hs_raw_session *session);
/* Returns summary_dir of the session's options, or else checkpoint_dir, for event files. NULL: both are unset. */
HS_API const char *hs_raw_session_summary_dir(const hs_raw_session *session);
/* Returns a number that each restore increments. A change makes cached facts about saved state invalid. */
HS_API int64_t hs_raw_session_restores(const hs_raw_session *session);
/* Returns the step saved or restored last. -1: none. */
HS_API int64_t hs_raw_session_last_saved_step(const hs_raw_session *session);
/* Returns the seconds that training waits for a save: the longest of the last few, or that of an earlier process. 0: not
 * known. */
HS_API double hs_raw_session_save_secs(const hs_raw_session *session);
/* If hooks must not save, copies the reason to `out` and returns its code: of hs_raw_session_refuse_saves, or HS_CANCELLED
 * after a second signal. HS_OK: they may. */
HS_API hs_code hs_raw_session_save_refusal(const hs_raw_session *session, hs_error *out);
/* Sets *value and *step to the latest value of a metric (hs_raw_session_set_metric) and its step. Either may be NULL.
 * Returns false if the metric was not set since the last restore. */
HS_API bool hs_raw_session_metric(const hs_raw_session *session, const char *name, double *value, int64_t *step);
/* Returns the age of a tensor: the global step after the run that has computed it. If this is less than the current step, a
 * hook does not use the tensor (docs/guide/values.md). Without a global step, known ages are 0. -1: unknown, or the session
 * is NULL.
 *
 *   tensor                        its age is the step of
 *   a value in own steps          the last step, unless hs_session_wants returned false for it there
 *   a value that ops write        the last run of an op that lists it in `writes`; without own steps, also of an op
 *                                 without `writes`
 *   another value                 the last training run; in an evaluation, of its last run
 *   a value after a restore       unknown, until one of these. Also after the opening, a recovery and a rollback
 *   any other tensor              the current run, as fetching it computes it */
HS_API int64_t hs_raw_session_computed_at(hs_raw_session *session, const char *tensor);
/* Failures of a hook, or of work that it reports (hs_raw_session_report_result), after which training continued. */
typedef struct hs_hook_failure {
    const char *hook;              /* its name. Valid as long as the session */
    int64_t failures;              /* their number */
    int64_t first_step, last_step; /* the global step at the first and the last failure. -1: not known */
    bool muted;                    /* the hook is suspended or disabled */
    unsigned char reserved[7];
    hs_error last; /* the last failure */
} hs_hook_failure;
/* Sets *failure to the failures at `index`, in the order of first failures. Returns false after the last. */
HS_API bool hs_raw_session_failure(const hs_raw_session *session, size_t index, hs_hook_failure *failure);

/* What the session is doing. */
typedef enum hs_phase {
    HS_PHASE_INIT = 0, /* opens or recovers */
    HS_PHASE_DATA = 1, /* the program works: prepares data, or computes its own step */
    HS_PHASE_STEP = 2, /* the backend and the hooks work on a run */
    HS_PHASE_EVAL = 3, /* a hook evaluates */
    HS_PHASE_SAVE = 4, /* a hook saves */
    HS_PHASE_END = 5   /* closes */
} hs_phase;
/* Returns "init", "data", "step", "eval", "save" or "end". Any thread. */
HS_API const char *hs_phase_name(hs_phase phase);
/* Returns the phase. Any thread.
 *
 * hook      set to the name of the hook that is being called, valid as long as the session. "": none. May be NULL
 * progress  set to a number that changes while the session works. May be NULL */
HS_API hs_phase hs_raw_session_phase(const hs_raw_session *session, const char **hook, int64_t *progress);

/* Actions. */

/* Makes a run without hooks. Args, results and errors are as in hs_session_run_args. Not from an op. Lifetime of the
 * values: hs_run_values. */
HS_API hs_code hs_raw_session_run(hs_raw_session *session, const hs_run_args *args, const hs_run_values **values,
                                  hs_error *err);
/* What the ranks of a group say to each other. All ranks make these calls in the same order: from after_run, a boundary or
 * `end` of a hook that all have, or from the program between its steps. Without a group, and in a hook of rank 0 alone
 * (HS_HOOK_CHIEF_ONLY), they concern one rank.
 *
 * A call fails on all ranks if one of them
 *   has failed                with that rank's error, which names the rank. The session ends, or recovers (hs_recovery)
 *   makes another call        HS_INVALID_ARGUMENT. The error names both calls and the ranks
 *   has stopped, has closed   HS_CANCELLED. Then return it from the callback: it is not a failure
 *   calls it in a best-effort hook, which may fail alone   HS_INVALID_ARGUMENT */

/* Sets *any to true on all ranks if `mine` is true on at least one. NULL: only waits for all ranks. On failure *any is
 * false. In a boundary, so that all ranks act or none:
 *
 *     bool any;
 *     if (hs_raw_session_any(raw, wants_another_save(), &any, &err) == HS_OK && any)
 *         save_model();
 */
HS_API hs_code hs_raw_session_any(hs_raw_session *session, bool mine, bool *any, hs_error *err);
/* Copies `bytes` bytes at `data` from rank 0 to `data` of the other ranks. `bytes` is the same on all ranks. */
HS_API hs_code hs_raw_session_from_chief(hs_raw_session *session, void *data, size_t bytes, hs_error *err);
/* Sends `mine` to rank 0, which calls receive(user, rank, bytes) for each rank in order, including its own, before it
 * returns. Sizes may differ. `receive` is given on all ranks. */
HS_API hs_code hs_raw_session_gather(hs_raw_session *session, hs_bytes mine, hs_gather_fn receive, void *user,
                                     hs_error *err);
/* Sets a variable to its value on rank 0. No effect if it has no memory there. On all ranks:
 *
 *   HS_UNIMPLEMENTED       it is of type string, or the backend cannot read and set variables
 *   HS_NOT_FOUND           a rank has no variable of this name
 *   HS_INVALID_ARGUMENT    it has another size on a rank, or rank 0 sends another variable
 *   HS_FAILED_PRECONDITION the session is lost */
HS_API hs_code hs_raw_session_send_variable(hs_raw_session *session, const char *name, hs_error *err);

/* Adds state to checkpoints while the session is open, as "hooksess/state/NAME". If the restored checkpoint has it, it is
 * loaded immediately. Until then, saves include the checkpoint's state; after the first training run they do not, and the
 * log has a warning.
 *
 * Call it from after_create_session or before_run, or between runs with hs_session_raw, and again after each recovery. The
 * provider is copied with its name and identity; its `self` is borrowed.
 *
 * On failure the state is not added, and the session still keeps the checkpoint's:
 *
 *   HS_ALREADY_EXISTS           the name is in use
 *   HS_FAILED_PRECONDITION      identity or version do not match (state.h), no session is open, or called by a load
 *   HS_INVALID_ARGUMENT         an invalid name, or a missing function
 *   HS_DATA_LOSS, HS_NOT_FOUND  the checkpoint was damaged or deleted
 *   others                      the code of `load`, or of reading the checkpoint. Both may leave the state partly loaded */
HS_API hs_code hs_raw_session_add_state(hs_raw_session *session, const hs_state_provider *provider, hs_error *err);
/* As the functions of the session. Any thread, any signal handler. */
HS_API void hs_raw_session_request_save(hs_raw_session *session);
HS_API void hs_raw_session_request_stop(hs_raw_session *session);
HS_API void hs_raw_session_interrupt(hs_raw_session *session);
/* Sets a metric: the result of an evaluation of the model at `step`, for other hooks. The latest value of a name counts. A
 * restore clears all metrics. The name is copied. */
HS_API hs_code hs_raw_session_set_metric(hs_raw_session *session, const char *name, double value, int64_t step,
                                         hs_error *err);
/* For a hook that computes when it acts next: from the next run on, the hook whose callback makes this call is called in
 * each run whose global step reaches or passes `step`, and when its `when` says. Without `when`, it is called in no other
 * run. Replaces an earlier call; not saved, so call it in after_create_session, too. HS_NEVER: no step, as always in a
 * graph without a global step. With counts_runs, `step` is a number of runs. Only in before_run, after_run, boundary and
 * after_create_session. */
HS_API void hs_raw_session_due_from(hs_raw_session *session, int64_t step);
/* Sets the phase, and returns the previous one, which the hook restores. */
HS_API hs_phase hs_raw_session_enter_phase(hs_raw_session *session, hs_phase phase);
/* Reports the result of work without which training can continue. Call it after each attempt; the hook keeps no count:
 *
 *     hs_code code = hs_safetensors_save(raw, "export.safetensors", NULL, &err);
 *     return hs_raw_session_report_result(raw, "export", code, &err);
 *
 * After a failure it logs and counts the error for the outcome, clears `err`, and returns HS_OK. If the program is wrong
 * (HS_INVALID_ARGUMENT without os_error) or `session` is NULL, it returns `code`, and `err` is unchanged. The log has a
 * warning for the first failure in a row, and a line for the first success after it.
 *
 * name  of the work, for the log and the outcome. Each hook has its own count for a name
 * code  HS_OK: the attempt has succeeded
 * err   of the attempt. May be NULL */
HS_API hs_code hs_raw_session_report_result(hs_raw_session *session, const char *name, hs_code code, hs_error *err);
/* Reports that the state of `step` is on disk (hs_outcome.last_saved_step). For savers. */
HS_API void hs_raw_session_record_save(hs_raw_session *session, int64_t step);
/* Forbids further saves, because the state in memory is bad. A recovery, hs_saver_restore and hs_raw_session_restore_copy
 * allow them again.
 *
 * why  the reason, copied; the first one is kept. NULL or HS_OK: not known */
HS_API void hs_raw_session_refuse_saves(hs_raw_session *session, const hs_error *why);

/* A copy of variables and state in memory: of the host, or for variables on a device, of the device if it can copy them
 * (hs_memory.duplicate) and has room. */
typedef struct hs_state_copy hs_state_copy;
/* Copies the current variables and state.
 *
 * copy  NULL, or an earlier copy of the same session, whose memory is reused. The caller frees it. It may outlive the
 *       session, but neither its environment nor an hs_memory
 *
 * Errors: HS_RESOURCE_EXHAUSTED, or of the backend or a provider's save. An earlier copy is then unchanged, or lost, with
 * step -1. */
HS_API hs_code hs_raw_session_copy_state(hs_raw_session *session, hs_state_copy **copy, hs_error *err);
/* Sets variables and state to those of the copy, which stays valid. Also in a later session of the same graph.
 *
 * It counts as a restore, after which hs_raw_session_restored_from is NULL. The next save abandons checkpoints of later
 * steps. State without a provider is kept as in hs_raw_session_add_state.
 *
 * HS_NOT_FOUND, HS_INVALID_ARGUMENT: a copy of another graph. HS_FAILED_PRECONDITION: a lost copy, or a version or identity
 * does not match. Others: of a provider or the backend. Only failures of a provider's load and of the backend's writing
 * leave the state partly restored, and forbid saves. */
HS_API hs_code hs_raw_session_restore_copy(hs_raw_session *session, const hs_state_copy *copy, hs_error *err);
/* Returns the global step of the copy. -1: none, or lost. */
HS_API int64_t hs_state_copy_step(const hs_state_copy *copy);
HS_API void hs_state_copy_free(hs_state_copy *copy);

/* Event files. */

/* Gets the writer for a hook's events. Its first call for a writer writes a START record: TensorBoard then discards the
 * points of a lost run from the next step on. Call it before the first event after each creation of the session.
 *
 * directory  of the event file (hs_raw_session_summary_writer). NULL: none
 * given      the program's writer, instead of `directory`. Borrowed. NULL: none
 * writer     receives the writer. NULL if both are NULL, or on failure
 *
 * Errors: of hs_raw_session_summary_writer and hs_raw_session_global_step. TensorFlow: SummaryWriterCache.get. */
HS_API hs_code hs_raw_session_event_writer(hs_raw_session *session, const char *directory, hs_summary_writer *given,
                                           hs_summary_writer **writer, hs_error *err);
/* Gets the process's writer of a directory, which is created if missing (hs_summary_writer_shared), without a START record.
 * The session flushes it before each boundary and closes it. */
HS_API hs_code hs_raw_session_summary_writer(hs_raw_session *session, const char *directory, hs_summary_writer **writer,
                                             hs_error *err);
/* Flushes a writer (hs_summary_writer_flush) for a hook. An error that the writer retries counts as a failure of "summary
 * writer" (hs_raw_session_failure), and is not returned. */
HS_API hs_code hs_raw_session_flush_writer(hs_raw_session *session, hs_summary_writer *writer, bool sync, hs_error *err);

HS_END_DECLS

#endif
