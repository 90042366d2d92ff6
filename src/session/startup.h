/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_STARTUP_H
#define HS_SESSION_STARTUP_H

#include <hooksess/session.h>
#include <hooksess/tf1/session_manager.h>

/* How a session that was just opened comes by its values. TensorFlow: SessionManager. */

struct hs_session;

/* What there is to do it with. All is borrowed; names NULL: there is none. */
typedef struct hs__startup {
    const char *ready_op, *ready_for_local_init_op, *local_init_op;
    const hs_feed *local_init_feeds;
    const hs_run_options *local_init_run_options;

    const char *init_op;
    const hs_feed *init_feeds;
    hs_init_fn init_fn;
    void *user;
    const hs_scaffold *scaffold; /* for init_fn */

    hs_saver *saver;                           /* NULL: nothing is restored */
    const char *checkpoint_prefix;             /* this one, */
    const char *checkpoint_dir;                /* or the newest valid one of this directory; NULL and "": neither */
    hs_restore_policy restore;                 /* what to do about checkpoint_dir */
    const hs_restore_options *restore_options; /* complete; NULL: everything */
    bool wait_for_checkpoint;
    bool must_start;                          /* not being restored, and having nothing to initialize with, is an error */
    double max_wait_secs, recovery_wait_secs; /* INFINITY: forever */
} hs__startup;

/* A number of seconds in some options: 0 is the default, HS_NEVER is forever; HS_INVALID_ARGUMENT for others below 0. */
hs_code hs__seconds(double *secs, double given, double default_secs, const char *what, hs_error *err);

/* Restores what the startup says; *path is the checkpoint, to be freed with hs__free, or NULL. */
hs_code hs__startup_restore(hs_raw_session *session, const hs__startup *startup, char **path, hs_error *err);
/* The init op, then the init function. */
hs_code hs__startup_initialize(hs_raw_session *session, const hs__startup *startup, hs_error *err);
/* The check for the local init op, the local init op, the check that all is ready. */
hs_code hs__startup_finish(hs_raw_session *session, const hs__startup *startup, hs_error *err);

/* Restores, or else initializes; then finishes. */
hs_code hs__startup_prepare(hs_raw_session *session, const hs__startup *startup, hs_error *err);
/* Restores; then finishes. *initialized: something was restored, and all is ready. */
hs_code hs__startup_recover(hs_raw_session *session, const hs__startup *startup, bool *initialized, hs_error *err);
/* Opens the session itself, again and again, until all is ready that others initialize. */
hs_code hs__startup_wait(struct hs_session *session, const hs__startup *startup, hs_error *err);

#endif
