/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SESSION_H
#define HOOKSESS_SESSION_H

#include <hooksess/scaffold.h>

/* Hooked sessions. TensorFlow: SingularMonitoredSession, StepContext.
 *
 * One thread at a time uses a session; hs_session_request_stop may be called from any thread and from signal handlers.
 * Functions that take a session take NULL: it is a session that could not be opened, stopped already, and the calls that
 * run it fail with HS_FAILED_PRECONDITION.
 *
 * Whoever looks only at the log learns why a session was not opened, or failed: both are logged as errors, once. */

HS_BEGIN_DECLS

typedef struct hs_session hs_session;
/* Several processes that train together; none yet. */
typedef struct hs_group hs_group;

/* What a session does about the checkpoints of its checkpoint_dir. */
typedef enum hs_restore_policy {
    HS_RESTORE_IF_PRESENT = 0, /* goes on from the newest valid one, if there is any */
    HS_RESTORE_REQUIRE = 1,    /* there must be one: HS_NOT_FOUND */
    HS_RESTORE_NEVER = 2       /* starts anew. What is saved then takes the place of what is there, which is kept aside */
} hs_restore_policy;

typedef struct hs_session_options {
    size_t size;
    const hs_hook *hooks; /* in their order; the array is copied */
    size_t n_hooks;
    hs_scaffold *scaffold;       /* NULL: one of the session's own, all defaults. Stays the caller's */
    const char *checkpoint_dir;  /* restore the newest valid checkpoint that is there, if any; "" and NULL: do not */
    const char *checkpoint_path; /* restore this one, which must exist. Not together with checkpoint_dir */
    const char *target;          /* where the backend runs; NULL: in this process. Passed through */
    hs_bytes config;             /* a serialised ConfigProto, passed through to the backend; copied */
    const hs_group *group;       /* NULL */
    const hs_restore_options *restore_options; /* how to restore; NULL: everything */
    int64_t restore;                           /* an hs_restore_policy: what to do about checkpoint_dir */
    bool take_scaffold;                        /* the session frees the scaffold, also when opening fails */
    unsigned char reserved[7];
} hs_session_options;
#define HS_SESSION_OPTIONS .size = sizeof(hs_session_options)

/* Opens a session: begin of every hook, the scaffold finalized, the backend's session made, its variables restored or
 * initialised, the ready checks, after_create_session of every hook, and their first boundary. The session takes the hooks:
 * it destroys them, also when opening fails (but for options that cannot be read: their size is wrong). Backend and graph
 * stay the caller's and must outlive it. Failing, it closes what was opened (close of each hook whose begin was called) and
 * returns NULL with the first error. */
HS_API hs_session *hs_session_open(hs_backend backend, const hs_session_options *options, hs_error *err);

/* True when the loop is to end: a stop was requested, the session failed to open, or a run came to the end of the input. */
HS_API bool hs_session_should_stop(const hs_session *session);

/* One run of one op, without values. See hs_session_run_args. */
HS_API hs_code hs_session_run(hs_session *session, const char *op, hs_error *err);

/* One run with hooks: before_run of each, one run of the backend with everything that was asked for, after_run of each.
 * *values (values may be NULL; *values is NULL after a failure) has what `args` asked for, in their shape, borrowed until
 * the session's next run. `args` NULL asks for nothing. HS_OUT_OF_RANGE: the input has ended. HS_FAILED_PRECONDITION: a
 * hook's stop was in force already, two feeds of one tensor, or a call from inside a callback; other codes come from hooks
 * and backend with their messages.
 */
HS_API hs_code hs_session_run_args(hs_session *session, const hs_run_args *args, const hs_run_values **values,
                                   hs_error *err);

/* A step function makes one step's runs itself. It returns HS_OK, HS_STOP (from hs_step_context_request_stop), or a
 * failure's code with a message. TensorFlow: run_step_fn. */
typedef struct hs_step_context hs_step_context;
typedef hs_code (*hs_step_fn)(void *user, hs_step_context *step, hs_error *err);

/* Calls `step` and returns what it returns. HS_STOP: it asked to stop; hs_session_should_stop is then true. */
HS_API hs_code hs_session_run_step(hs_session *session, hs_step_fn step, void *user, hs_error *err);
HS_API hs_raw_session *hs_step_context_session(const hs_step_context *step);
/* One run with hooks. Values are borrowed until the session's next run. HS_STOP if a hook asked to stop in an earlier run
 * of the same step: return it. */
HS_API hs_code hs_step_context_run_with_hooks(hs_step_context *step, const hs_run_args *args, const hs_run_values **values,
                                              hs_error *err);
/* return hs_step_context_request_stop(step); */
HS_API hs_code hs_step_context_request_stop(hs_step_context *step);

/* Asks the session to stop: hs_session_should_stop is true from now on. A run that is being made is finished, and one that
 * is begun before the caller looks is made. Any thread, any signal handler. */
HS_API void hs_session_request_stop(hs_session *session);

/* The caller leaves the loop because of an error of its own: closing then calls no end. `code` HS_OK takes an earlier one
 * back; HS_STOP and HS_OUT_OF_RANGE end the session well, unless its last run failed. `why` is copied. */
HS_API void hs_session_fail(hs_session *session, hs_code code, const char *why);

/* Ends the session and frees it: the pointer is dead afterwards, so set it to NULL where it is used again. If its last run
 * was good or ended with HS_OUT_OF_RANGE or HS_STOP, and hs_session_fail was not called, every hook's end is called, and
 * their last boundary; otherwise none. Then threads are stopped, hooks closed, event files and the backend's session
 * closed: each whatever fails before it. The outcome tells how it went; `err` gets the outcome's error, the first there
 * was.
 *
 * Of NULL: an outcome made of `err`, as it is left by the call that could not open; with nothing in `err`, the error is
 * that there is no session (HS_FAILED_PRECONDITION). */
HS_API hs_outcome hs_session_close(hs_session *session, hs_error *err);

/* NULL or zero of a NULL session. The raw session is the session's. */
HS_API hs_raw_session *hs_session_raw(const hs_session *session);
HS_API hs_backend hs_session_backend(const hs_session *session);
HS_API hs_coordinator *hs_session_coordinator(const hs_session *session);
HS_API hs_scaffold *hs_session_scaffold(const hs_session *session);
HS_API hs_bytes hs_session_config(const hs_session *session);
/* The global step as it is now; -1: not known. */
HS_API int64_t hs_session_step(hs_session *session);

HS_END_DECLS

#endif
