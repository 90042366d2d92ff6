/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TF1_SESSION_MANAGER_H
#define HOOKSESS_TF1_SESSION_MANAGER_H

#include <hooksess/scaffold.h>

/* Makes raw sessions whose variables have their values: initialized, restored, or waited for. TensorFlow: SessionManager.
 *
 * A hooked session does all this by itself (hs_session_options); this is for programs that want a session without hooks.
 * Threads: one at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_session_manager hs_session_manager;

typedef struct hs_session_manager_options {
    size_t size;
    const char *ready_op;                /* gives the names of what is not initialized; NULL: all is always ready */
    const char *ready_for_local_init_op; /* as ready_op, before local_init_op, which it requires */
    const char *local_init_op;           /* run in each session, also in one that was restored or waited for */
    const hs_feed *local_init_feeds;     /* for local_init_op; ended by a NULL name; borrowed */
    const hs_run_options *local_init_run_options; /* for local_init_op; borrowed */
    double recovery_wait_secs;                    /* between one look and the next, where something is waited for; 0: 30 */
    const hs_env *env;                            /* NULL: the system's. Copied */
} hs_session_manager_options;
#define HS_SESSION_MANAGER_OPTIONS(...) HS_OPTIONS(hs_session_manager_options, __VA_ARGS__)

/* Names are copied. The caller's to free. `options` may be NULL. HS_INVALID_ARGUMENT, HS_RESOURCE_EXHAUSTED. */
HS_API hs_session_manager *hs_session_manager_new(const hs_session_manager_options *options, hs_error *err);
HS_API void hs_session_manager_free(hs_session_manager *manager);

/* Borrowed during the call. */
typedef struct hs_session_manager_prepare_options {
    size_t size;
    const char *target; /* as in hs_session_options */
    hs_bytes config;
    const char *init_op; /* run if nothing was restored */
    const hs_feed *init_feeds;
    hs_init_fn init_fn; /* called after it; its scaffold is NULL */
    void *user;
    hs_saver *saver;               /* NULL: nothing is restored */
    const char *checkpoint_dir;    /* restore its newest valid checkpoint, if there is one. "" is NULL */
    const char *checkpoint_prefix; /* restore this one. Not together with checkpoint_dir. "" is NULL */
    const hs_restore_options *restore_options;
    /* 0: 7200, as TensorFlow's prepare_session, but no limit in hs_session_manager_wait, as its wait_for_session;
     * HS_NEVER: no limit */
    double max_wait_secs;
    bool wait_for_checkpoint; /* wait for one to come to checkpoint_dir. What none has come to by then is initialized */
    unsigned char reserved[7];
} hs_session_manager_prepare_options;
#define HS_PREPARE_OPTIONS(...) HS_OPTIONS(hs_session_manager_prepare_options, __VA_ARGS__)

/* A session in which all is ready: restored, or else initialized by init_op and init_fn; then the check for the local init
 * op, the local init op, and the check that all is ready. NULL after a failure, with all closed that was opened.
 * HS_FAILED_PRECONDITION: something is not ready after that, and named; or nothing was restored, and there is nothing to
 * initialize with. The session is closed by hs_raw_session_close. */
HS_API hs_raw_session *hs_session_manager_prepare(hs_session_manager *manager, hs_backend backend,
                                                  const hs_session_manager_prepare_options *options, hs_error *err);
/* The same without init_op and init_fn: *initialized tells whether the session was restored and all is ready. If not, it is
 * open all the same, and the log says why. */
HS_API hs_raw_session *hs_session_manager_recover(hs_session_manager *manager, hs_backend backend,
                                                  const hs_session_manager_prepare_options *options, bool *initialized,
                                                  hs_error *err);
/* A session in which somebody else has initialized everything: opens one after the other, runs the local init op where it
 * may, and looks, every recovery_wait_secs. HS_DEADLINE_EXCEEDED: max_wait_secs are over, and this is still not ready. Only
 * target, config and max_wait_secs of the options are looked at (here, 0 is no limit, too). */
HS_API hs_raw_session *hs_session_manager_wait(hs_session_manager *manager, hs_backend backend,
                                               const hs_session_manager_prepare_options *options, hs_error *err);

/* Lets several threads run a session that a manager made; a second call changes nothing. Called by the thread whose session
 * it is, before any other uses it. From then on hs_raw_session_run and hs_raw_session_global_step may be called from any
 * thread, and wait for each other, in the order of coming. The values of that thread's own runs stay until its next one,
 * whatever others run; other threads have values only until they leave (below). All else goes between enter and leave, too
 * (hs_saver_save, say). HS_FAILED_PRECONDITION: it is the raw session of a hooked one. HS_RESOURCE_EXHAUSTED. */
HS_API hs_code hs_raw_session_share(hs_raw_session *session, hs_error *err);
/* Keeps other threads out of a shared session: several runs of which nobody is to see the middle, values that are looked
 * at. Each enter is followed by a leave of the same thread; they nest. Of a session that is not shared: nothing. */
HS_API void hs_raw_session_enter(hs_raw_session *session);
HS_API void hs_raw_session_leave(hs_raw_session *session);

/* Closes and frees a session that a manager made. No other thread uses it any more. Whatever happens it is closed; what the
 * backend said of it. NULL is fine. HS_FAILED_PRECONDITION: it is the raw session of a hooked one, which hs_session_close
 * closes. */
HS_API hs_code hs_raw_session_close(hs_raw_session *session, hs_error *err);

HS_END_DECLS

#endif
