/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TF1_SESSION_MANAGER_H
#define HOOKSESS_TF1_SESSION_MANAGER_H

#include <hooksess/session.h>

/* Opens sessions without hooks, as TensorFlow 1 does: checks that the variables are ready, and waits. For hooks, use
 * session.h. Link with libhooksess_tf1. TensorFlow: SessionManager.
 *
 *     hs_session_manager *manager = hs_session_manager_new(NULL, &err);
 *     hs_session *session = hs_session_manager_prepare(
 *         manager, backend, HS_PREPARE_OPTIONS(.init_op = "init", .saver = saver, .checkpoint_dir = "run"), &err);
 *     hs_session_run(session, "train", &err);
 *     hs_session_close(session, &err);
 *     hs_session_manager_free(manager);
 *
 * The sessions do not recover, and do not start queue runners (hs_queue_runners_start). While a session is open, its graph
 * is finalized.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_session_manager hs_session_manager;

typedef struct hs_session_manager_options {
    size_t size;
    const char *ready_op;                         /* as in hs_scaffold_options. NULL: always ready */
    const char *ready_for_local_init_op;          /* the same before local_init_op, which it requires */
    const char *local_init_op;                    /* run in every session */
    const hs_feed *local_init_feeds;              /* HS_FEEDS(...). Borrowed */
    const hs_run_options *local_init_run_options; /* borrowed */
    double recovery_wait_secs;                    /* seconds between attempts while waiting. 0: 30 */
    const hs_env *env;
} hs_session_manager_options;
#define HS_SESSION_MANAGER_OPTIONS(...) HS_OPTIONS(hs_session_manager_options, __VA_ARGS__)

/* `options` NULL: the defaults. */
HS_API hs_session_manager *hs_session_manager_new(const hs_session_manager_options *options, hs_error *err);
HS_API void hs_session_manager_free(hs_session_manager *manager);

/* Used during the call only. */
typedef struct hs_session_manager_prepare_options {
    size_t size;
    const char *target; /* as in hs_session_options */
    hs_bytes config;
    const char *init_op;       /* run if no checkpoint is restored */
    const hs_feed *init_feeds; /* HS_FEEDS(...) */
    hs_init_fn init_fn;        /* called after init_op, with scaffold NULL */
    void *user;
    hs_saver *saver;                           /* NULL: no restore */
    const char *checkpoint_dir;                /* restores its newest valid checkpoint, if any. "": NULL */
    const char *checkpoint_prefix;             /* restores this checkpoint; invalid with checkpoint_dir. "": NULL */
    const hs_restore_options *restore_options; /* NULL: restores everything */
    double max_wait_secs;                      /* 0: 7200, in hs_session_manager_wait() no limit. HS_NEVER: no limit */
    /* Open a session every recovery_wait_secs until checkpoint_dir has a checkpoint; after max_wait_secs, initialize */
    bool wait_for_checkpoint;
    unsigned char reserved[7];
} hs_session_manager_prepare_options;
#define HS_PREPARE_OPTIONS(...) HS_OPTIONS(hs_session_manager_prepare_options, __VA_ARGS__)

/* Opens a session that is ready to run. Close it with hs_session_close.
 *
 * 1. Restores a checkpoint. Without one, runs init_op and calls init_fn.
 * 2. Checks ready_for_local_init_op, runs local_init_op, checks ready_op.
 *
 * HS_FAILED_PRECONDITION: variables, named in the message, are not initialized, or neither a checkpoint nor init_op,
 * init_fn or local_init_op exists. Other errors: as hs_session_open. TensorFlow: prepare_session. */
HS_API hs_session *hs_session_manager_prepare(hs_session_manager *manager, hs_backend backend,
                                              const hs_session_manager_prepare_options *options, hs_error *err);
/* The same without init_op and init_fn. *initialized is true if a checkpoint was restored and the session is ready. If not,
 * the session is open, too. Without a restored checkpoint, ready_op is not checked. A failed check is logged. TensorFlow:
 * recover_session. */
HS_API hs_session *hs_session_manager_recover(hs_session_manager *manager, hs_backend backend,
                                              const hs_session_manager_prepare_options *options, bool *initialized,
                                              hs_error *err);
/* Waits until another process has initialized the variables: opens a session every recovery_wait_secs and does step 2. Uses
 * only target, config and max_wait_secs. HS_DEADLINE_EXCEEDED: not ready after max_wait_secs. HS_INVALID_ARGUMENT: a
 * variable has no device that processes share. TensorFlow: wait_for_session. */
HS_API hs_session *hs_session_manager_wait(hs_session_manager *manager, hs_backend backend,
                                           const hs_session_manager_prepare_options *options, hs_error *err);

HS_END_DECLS

#endif
