/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_SERVICES_H
#define HS_SESSION_SERVICES_H

#include <hooksess/checkpoint.h>
#include <hooksess/hook.h>

#include "summary/trace.h"

/* What the session does for some built-in hooks only: tests/checks/no_privileges.py lists them. */

/* A flag of a hook with HS_HOOK_ALL_RANKS whose begin is called on rank 0 alone. */
#define HS__HOOK_BEGINS_ON_CHIEF ((uint32_t)1 << 29)

/* In before_run and after_run: true if a condition of the hook's `when` is met, or if it is empty. False: the hook is
 * called because of hs_raw_session_due_from. */
bool hs__run_context_is_due(const hs_run_context *run);
/* For a hook with on_request: true if a save was requested (hs_session_request_save, SIGUSR1) since the hook last acted. In
 * a run, as the schedule has seen it; in a boundary, until now. The next act answers these requests. */
bool hs__run_context_is_requested(hs_run_context *run);
/* In a boundary: the hook has acted at this step. every_n_secs counts from now on; with `restarts`, every_n_steps from this
 * step. */
void hs__run_context_acted(hs_run_context *run, bool restarts);
/* For the hook that is being called: whether its interval has begun, by an act, or without `first` at the session's begin.
 * Else this is its first act. */
bool hs__raw_session_interval_has_begun(const hs_raw_session *session);
/* The session logs a warning if a training run does not advance the global step, once until it advances. */
void hs__raw_session_warn_of_stalls(hs_raw_session *session);
/* For the end of a session: logs a warning if a metric that a hook reads was never set. It begins with `what`: the hook, or
 * the effect. */
void hs__raw_session_warn_of_unset_metric(const hs_raw_session *session, const char *what, const char *name);
/* Returns hs_session_options.signal_grace_secs. 0: no limit, or the session does not handle signals. */
double hs__raw_session_grace_secs(const hs_raw_session *session);
/* Records how long training has waited for a save (hs_raw_session_save_secs). 0 and less are ignored. */
void hs__raw_session_set_save_secs(hs_raw_session *session, double secs);

/* The session's decision after a failed save (failure.c has the rules). */
typedef enum hs__remedy {
    HS__REMEDY_FAIL,     /* fail with the error */
    HS__REMEDY_CONTINUE, /* continue training; the error was counted, logged and cleared */
    HS__REMEDY_REPEAT    /* the same; and save now: the session has waited */
} hs__remedy;
/* Call it after each failed save. In the boundaries of a stop and of the end, the decision is never to continue: the save
 * cannot be left to a later one. hs_raw_session_report_result with the hook's name reports that a save has succeeded.
 *
 * step        of the save
 * on_failure  an hs_save_failure
 * repeatable  false: an earlier save in the background; never HS__REMEDY_REPEAT */
hs__remedy hs__raw_session_save_failed(hs_raw_session *session, int64_t step, int on_failure, bool repeatable,
                                       hs_error *error);
/* True if the last save of the hook that is being called failed. */
bool hs__raw_session_saves_fail(const hs_raw_session *session);
/* Whether this hook saves in this run: `is_due`, or after failures as on_failure says: when the backoff ends. */
bool hs__raw_session_may_save(const hs_raw_session *session, bool is_due);

/* A save in the background that a hook has begun. */
typedef struct hs__pending_save {
    hs_saver *saver;    /* NULL: none */
    const char *prefix; /* borrowed */
    int64_t step;
    int64_t restores; /* hs_raw_session_restores at its begin */
} hs__pending_save;

typedef enum hs__save_end {
    HS__SAVE_PENDING,   /* not ended, or none */
    HS__SAVE_RECORDED,  /* saved, and reported with hs_raw_session_record_save */
    HS__SAVE_ABANDONED, /* saved, but the session has returned to another state since the begin: not reported */
    HS__SAVE_FAILED
} hs__save_end;
/* Gets the result of the pending save, if it has ended; then none is pending. Never waits. */
hs__save_end hs__raw_session_poll_save(hs_raw_session *session, hs__pending_save *pending, hs_save_result *result);
/* Waits until the pending save has ended. Cancels it first, unless it replaces a cancelled one. */
void hs__cancel_save(const hs__pending_save *pending);
/* In after_create_session: *pending is where this hook has its pending save. The close, which may call the hook no more
 * after a failure, waits for it, counts it in the outcome, and logs its end. */
void hs__raw_session_watch_save(hs_raw_session *session, hs__pending_save *pending);

/* In after_create_session: the hook may roll back, so that the opening ends with a copy of the state in memory, unless it
 * is in a checkpoint (last_good.h). */
void hs__raw_session_want_last_good(hs_raw_session *session);
/* In a boundary: returns to the last good state, the newest checkpoint that no rank finds damaged or that copy, with
 * `saver` (NULL: the scaffold's). In a group all ranks call it. After a failure the state is undefined: refuse saves. */
hs_code hs__raw_session_roll_back(hs_raw_session *session, hs_saver *saver, hs_error *err);
/* In `end`: returns to the checkpoint of a step, of the series that `saver` (NULL: the scaffold's) saves or that was
 * restored. *found is false if no rank has changed anything, because it is missing or damaged. In a group all ranks call
 * it.
 */
hs_code hs__raw_session_return_to(hs_raw_session *session, hs_saver *saver, int64_t step, bool *found, hs_error *err);

/* Records the times of all callbacks until the next run and its boundary are over. */
void hs__run_context_record_spans(hs_run_context *run);
/* The recorded calls of this run, in order. A boundary gets all calls of the run, but of boundaries only those of hooks in
 * front. */
const hs__hook_span *hs__run_context_spans(const hs_run_context *run, size_t *n);

typedef struct hs__trace_options {
    const char *directory; /* created if missing */
    hs_bytes metadata;     /* serialized RunMetadata (hs_run_values_metadata). Empty: no ops in the trace */
    bool show_memory;      /* add the memory of each op, if the metadata has it */
} hs__trace_options;
/* Writes DIRECTORY/timeline-STEP.json, in Chrome's trace format: the recorded callbacks of this run, and the ops in its
 * metadata (hooks/profiler.h). Readers never see a partial file. The log has its path and the number of dropped events.
 * DATA_LOSS: the metadata is not a RunMetadata. TensorFlow: timeline.Timeline. */
hs_code hs__run_context_write_trace(const hs_run_context *run, int64_t step, const hs__trace_options *options,
                                    hs_error *err);

#endif
