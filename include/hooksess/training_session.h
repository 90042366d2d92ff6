/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TRAINING_SESSION_H
#define HOOKSESS_TRAINING_SESSION_H

#include <hooksess/hooks/checkpoint_saver.h>
#include <hooksess/session.h>

/* A session with the usual hooks: it restores, saves checkpoints, writes summaries and logs the speed. To choose all hooks
 * yourself, use session.h.
 *
 *     hs_session *session = hs_training_session_open(
 *         hs_graph_backend(graph), HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .scalars = HS_NAMES("loss")), &err);
 *     while (hs_step_begin(session)) {
 *         train_step(&model);
 *         hs_step_end(session);
 *     }
 *     hs_outcome outcome = hs_session_close(session, &err);
 *
 * TensorFlow: MonitoredTrainingSession.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

/* The session has these hooks, in this order:
 *
 *   hook                 if
 *   run_status           there is a checkpoint_dir; off with no_run_status
 *   chief_only_hooks     is_worker is false
 *   hooks                always. A worker has only these
 *   step_counter         there is a summary_dir; off with log_step_count_steps HS_NEVER
 *   summary_saver        there is a summary_dir; off with save_summaries_* HS_NEVER
 *   hs_scalars           as summary_saver, and `scalars` names a tensor
 *   checkpoint_saver     there is a checkpoint_dir; off with save_checkpoint_* HS_NEVER
 *
 * In a group, all ranks pass the same options. Ranks other than 0 have only `hooks` and the checkpoint_saver, which writes
 * on rank 0.
 *
 * Set at most one of each group *_secs, *_steps, *_when (HS_INVALID_ARGUMENT). HS_NEVER in *_secs or *_steps switches
 * the hook off. To save by metric, do so and put your own hs_checkpoint_saver(...) in `hooks`.
 *
 * The session adds a global step to an embedded graph without ops (summaries do not count). In a graph with ops, an op must
 * advance it: call hs_graph_global_step.
 *
 * Fields without a comment are as in hs_session_options. */
typedef struct hs_training_options {
    size_t size;
    const char *checkpoint_dir;      /* NULL and "": neither restore nor save */
    const char *summary_dir;         /* event files. NULL: checkpoint_dir */
    double save_checkpoint_secs;     /* seconds between checkpoints. If this and the next two are 0: 600 */
    int64_t save_checkpoint_steps;   /* steps between checkpoints */
    hs_trigger save_checkpoint_when; /* in place of _secs and _steps */
    /* Newest checkpoints to keep. 0: as the scaffold's saver, by default 5. HS_NEVER: all. This field, the next three and
     * listeners are HS_INVALID_ARGUMENT if no checkpoints are saved */
    int64_t max_to_keep;
    /* no checkpoint at the opening. Not with save_checkpoint_when */
    bool no_initial_checkpoint;
    bool background; /* save from a copy, in a thread (hs_save_options) */
    bool overlap;    /* with background: copy during the next runs. Only if nothing but ops changes variables */
    unsigned char reserved_checkpoint[5];
    double save_summaries_secs; /* seconds between summaries */
    /* Steps between summaries, from the first run on: 1, 101, 201. For 100, 200, 300 use _when. If this, _secs and
     * _when are 0: 100 */
    int64_t save_summaries_steps;
    hs_trigger save_summaries_when; /* in place of _secs and _steps */
    /* Steps between two rates (steps per second) in the event file; the log gets their mean, at most once a second. 0: 100.
     * HS_NEVER: off */
    int64_t log_step_count_steps;
    bool signals;
    bool is_worker;
    bool worker_saves_summaries; /* with is_worker: step_counter, summary_saver and hs_scalars, too */
    /* with is_worker: checkpoint_saver, too, to checkpoint_dir/tmp_worker_INDEX */
    bool worker_saves_checkpoints;
    bool no_graph_def;  /* do not write graph.pbtxt and .meta files */
    bool no_run_status; /* do not write status.json and outcome.json */
    unsigned char reserved[2];
    int64_t worker_index; /* the INDEX in tmp_worker_INDEX */
    double signal_grace_secs;
    const hs_restore_options *restore_options;
    hs_restore_policy restore;
    int32_t reserved_restore;
    const hs_recovery *recovery; /* NULL: recovery with the defaults. Off: max_attempts HS_NEVER */
    double max_wait_secs;        /* with is_worker: seconds to wait for the chief. 0: 7200. HS_NEVER: no limit */
    double recovery_wait_secs;
    double stop_grace_secs;
    const hs_group *group;
    const hs_replica_options *replicas;
    const char *target;
    hs_bytes config;
    hs_scaffold *scaffold;
    const hs_saver_listener *listeners; /* HS_LISTENERS(...): called around each save. NULL: none */
    /* HS_NAMES("loss", ...): values or tensors with one element to chart at the intervals of save_summaries_*
     * (hooks/scalars.h). HS_INVALID_ARGUMENT without a directory, or if summaries are off. NULL: none */
    const char *const *scalars;
    const hs_hook *hooks;
    const hs_hook *chief_only_hooks; /* HS_HOOKS(...): only destroyed with is_worker and on ranks other than 0 */
} hs_training_options;
#define HS_TRAINING_OPTIONS(...) HS_OPTIONS(hs_training_options, __VA_ARGS__)

/* Opens a session as hs_session_open does. The session frees the hooks of both lists, also on failure.
 *
 * `hooksess verify-resume -- ./train ARGS` proves that a program resumes exactly (docs/guide/checkpoints.md). It sets the
 * environment variable HOOKSESS_RESUME_TRIAL, which makes the process a trial. On Linux, a setuid program ignores it.
 *
 *   recorded     after each step, a checksum of each variable, each state and each value (hs_graph_value)
 *   redirected   checkpoint_dir and summary_dir, for all functions that use the system's files. Not redirected: files that
 *                the program writes itself, and other directories of hooks
 *   ended        by SIGKILL after the last step of the trial, or when the session is closed
 *   refused      with HS_FAILED_PRECONDITION: a second training session, a worker, a group, no checkpoint_dir, its own
 *                hs_env.files. With HS_INVALID_ARGUMENT: a malformed variable */
HS_API hs_session *hs_training_session_open(hs_backend backend, const hs_training_options *options, hs_error *err);

HS_END_DECLS

#endif
