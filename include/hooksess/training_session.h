/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TRAINING_SESSION_H
#define HOOKSESS_TRAINING_SESSION_H

#include <hooksess/hooks/checkpoint_saver.h>
#include <hooksess/session.h>

/* A session with the usual hooks. TensorFlow: MonitoredTrainingSession.
 *
 * Threads: one at a time per object. */

HS_BEGIN_DECLS

/* The hooks of the session, in their order: a run_status, where there is a checkpoint_dir, chief_only_hooks, hooks, a step
 * counter (log_step_count_steps), a summary saver, both where there is a directory for it, hs_scalars, where `scalars` are
 * named, and a checkpoint saver, where there is a checkpoint_dir. Of each pair of secs and steps at most one may be given,
 * both are HS_INVALID_ARGUMENT; HS_NEVER switches the hook off: for saves with a metric, give a checkpoint_saver of your own
 * among the hooks, and save_checkpoint_secs HS_NEVER. Instead of a pair there may be a trigger; with one of the pair given
 * besides it is HS_INVALID_ARGUMENT, and HS_NEVER in the pair says nothing that the trigger does not: the trigger alone
 * counts.
 *
 * A worker has `hooks` alone, and waits for the chief to initialize or restore; nothing of the above is its own, but for
 * what worker_saves_summaries and worker_saves_checkpoints say. chief_only_hooks are destroyed.
 *
 * If an embedded graph has no global step and no ops of the program's own, the session adds the global step, for steps that
 * the program computes itself (hs_step_begin). Summaries (graph_summary.h) do not count as ops. To a graph with ops it adds
 * none, because a training whose global step no op advances never ends: call hs_graph_global_step then.
 *
 * The session recovers (hs_recovery), unless it is told not to. */
typedef struct hs_training_options {
    size_t size;
    const char *checkpoint_dir;  /* restored from, and saved to; NULL and "": nothing is restored or saved */
    const char *summary_dir;     /* NULL: checkpoint_dir */
    double save_checkpoint_secs; /* seconds between checkpoints. None of secs, steps and trigger: 600 */
    int64_t save_checkpoint_steps;
    const hs_trigger *save_checkpoint_trigger; /* instead of save_checkpoint_secs or _steps */
    /* The number of newest checkpoints that are kept; older ones are deleted. 0: as the saver has it, by default 5.
     * HS_NEVER: all. This and the next three are HS_INVALID_ARGUMENT if no checkpoints are saved */
    int64_t max_to_keep;
    /* No checkpoint when the session is created, at step 0. Not with save_checkpoint_trigger, whose `first` decides */
    bool no_initial_checkpoint;
    bool background; /* saves during training are made by a thread, from a copy (hs_checkpoint_saver_options) */
    bool overlap;    /* with background: copies during the next runs. Only if nothing but ops changes variables */
    unsigned char reserved_checkpoint[5];
    double save_summaries_secs;
    /* Steps between summaries, which begin with the first run: 1, 101, 201. For 100, 200, 300 use the trigger. None of
     * secs, steps and trigger: 100, as TensorFlow's MonitoredTrainingSession (a supervisor has 120 s) */
    int64_t save_summaries_steps;
    const hs_trigger *save_summaries_trigger; /* instead of save_summaries_secs or _steps */
    /* Steps between two rates (steps per second) in the log and, for TensorBoard, in the event file. 0: 100. For tokens per
     * second and FLOPs utilization: HS_NEVER, and an own hs_step_counter with units_per_step and summary_dir in `hooks` */
    int64_t log_step_count_steps;
    bool signals;                /* as in hs_session_options */
    bool is_worker;              /* not the chief: as in hs_session_options */
    bool worker_saves_summaries; /* this worker has a step counter, a summary saver and `scalars`, as a chief has */
    /* This worker takes part in saving: to checkpoint_dir/tmp_worker_INDEX, out of the way */
    bool worker_saves_checkpoints;
    bool no_graph_def;  /* write neither graph.pbtxt nor .meta files */
    bool no_run_status; /* write neither status.json nor outcome.json */
    unsigned char reserved[2];
    int64_t worker_index;                      /* among the workers */
    double signal_grace_secs;                  /* as in hs_session_options */
    const hs_restore_options *restore_options; /* as in hs_session_options */
    hs_restore_policy restore;                 /* as in hs_session_options */
    int32_t reserved_restore;
    const hs_recovery *recovery; /* NULL: its defaults. max_attempts HS_NEVER: none */
    double max_wait_secs;        /* as in hs_session_options, but 0: 7200, as TensorFlow's MonitoredTrainingSession */
    double recovery_wait_secs;   /* as in hs_session_options */
    double stop_grace_secs;      /* as in hs_session_options */
    const char *target;          /* as in hs_session_options */
    hs_bytes config;             /* as in hs_session_options */
    hs_scaffold *scaffold;       /* as in hs_session_options */
    const hs_saver_listener *listeners; /* of the checkpoint saver. HS_INVALID_ARGUMENT if no checkpoints are saved */
    /* HS_NAMES(...): tensors with one number each, such as the loss, for TensorBoard: written to the event file in
     * summary_dir at the intervals of save_summaries_* (hooks/scalars.h). HS_INVALID_ARGUMENT if there is no directory, or
     * save_summaries_* is HS_NEVER */
    const char *const *scalars;
    const hs_hook *hooks;            /* HS_HOOKS(...); the array is copied */
    const hs_hook *chief_only_hooks; /* HS_HOOKS(...); the array is copied. A worker frees them without calling them */
} hs_training_options;
#define HS_TRAINING_OPTIONS(...) HS_OPTIONS(hs_training_options, __VA_ARGS__)

/* Opens a session, as hs_session_open does; closed like any session. The session frees all hooks in the options, also if
 * opening fails. Only if options->size is refused, the hooks stay the caller's.
 *
 * `hooksess verify-resume -- ./train ARGS` proves that a program resumes exactly, and names the first step, variable, state
 * and value that differ. It starts the program with the environment variable HOOKSESS_RESUME_TRIAL, which only this
 * function reads. The process is a trial then:
 *   - The first training session of the process is recorded: after each step a checksum of each variable, of each piece of
 *     state and of each value of the graph (hs_graph_value). Opening another training session fails with
 *     HS_FAILED_PRECONDITION.
 *   - checkpoint_dir and summary_dir are replaced. From the opening on, hooks, savers and all functions that use the
 * system's files find a directory of the trial at these paths. So a trial does not touch a run. Files that the program
 * itself writes, and what it does before it opens the session, are not redirected. A session without checkpoint_dir, a
 *     worker's, and one with files of its own (hs_env.files) fail with HS_FAILED_PRECONDITION.
 *   - After the last step of the trial, or when the session is closed, the process ends by SIGKILL.
 * A malformed value fails with HS_INVALID_ARGUMENT. A setuid program ignores the variable (Linux). */
HS_API hs_session *hs_training_session_open(hs_backend backend, const hs_training_options *options, hs_error *err);

HS_END_DECLS

#endif
