/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_CHECKPOINT_SAVER_H
#define HOOKSESS_HOOKS_CHECKPOINT_SAVER_H

#include <hooksess/hook.h>
#include <hooksess/scaffold.h>
#include <hooksess/trigger.h>

/* Saves checkpoints. TensorFlow: CheckpointSaverHook.
 *
 *     hs_hook hook = hs_checkpoint_saver(.checkpoint_dir = "run", .every_n_secs = 600, .metric = "eval/accuracy",
 *                                        .background = true);
 *
 * It saves at the boundary. No step is saved twice, and a restored checkpoint is not saved again.
 *
 *   save              with `when`                             if a background save is in progress
 *   at creation       only with `first`, or a listed step     in the foreground
 *   by schedule       as `when` says                          `busy` decides
 *   on request        always                                  waits for it, except with HS_BUSY_REPLACE
 *   at a stop         always (HS_BOUNDARY_STOP)               waits for it
 *   at the end        always, if that step was not due at a   waits for it
 *                     stop, or a hook's end restored a state
 *
 * If the file system fails (hs_error.os_error is set) or memory is exhausted (HS_RESOURCE_EXHAUSTED), on_failure decides.
 * Any other failure, and any at creation, ends the run.
 *
 * In a group all ranks list the hook, and rank 0 writes.
 *
 * `begin` creates and locks the directory. If another process saves there, it fails with HS_FAILED_PRECONDITION, before a
 * restore. If the backend has a graph, the directory also gets graph.pbtxt and the graph's events.
 *
 * With hs_session_options.signals, a save that takes half of signal_grace_secs is logged. From 80 % on, the hook warns
 * and saves more often, at most 5 % of the run time.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

/* Callbacks around each save. Any may be NULL. A failure ends the run, whatever on_failure says; after a failed
 * after_save the checkpoint stays. In a group only rank 0 calls them: they must not execute collective ops. TensorFlow:
 * CheckpointSaverListener. */
typedef struct hs_saver_listener_ops {
    size_t size;
    hs_code (*begin)(void *self, hs_error *err); /* when the session is opened */
    hs_code (*before_save)(void *self, hs_raw_session *session, int64_t step, hs_error *err);
    /* The checkpoint is durable. *request_stop is false before; true stops the training. Not called for a background save
     * that was cancelled, or that is in progress when the session fails */
    hs_code (*after_save)(void *self, hs_raw_session *session, int64_t step, bool *request_stop, hs_error *err);
    /* At a normal end, after the last save */
    hs_code (*end)(void *self, hs_raw_session *session, int64_t step, hs_error *err);
} hs_saver_listener_ops;

/* Frozen. `ops` and `self` must live as long as the hook. */
typedef struct hs_saver_listener {
    const hs_saver_listener_ops *ops;
    void *self;
} hs_saver_listener;

/* .listeners = HS_LISTENERS({&ops, &state}) */
#define HS_LISTENERS(...) HS__LIST(hs_saver_listener, __VA_ARGS__, {.ops = NULL})

/* What happens if the file system or memory fails. The failed save is removed, and older checkpoints stay. The log gets a
 * warning for each failed save, and one for a pause. At a stop and at the end, SKIP fails, RETRY fails after 5 attempts,
 * and PAUSE retries without a limit. After a signal or hs_session_interrupt, RETRY and PAUSE fail early enough to close
 * the session within signal_grace_secs, and at a second signal. */
typedef enum hs_save_failure {
    HS_SAVE_FAILURE_SKIP = 0,  /* training continues until the next save of the schedule */
    HS_SAVE_FAILURE_RETRY = 1, /* training continues; the save is retried after 1, 2, 4 ... 64 seconds */
    HS_SAVE_FAILURE_PAUSE = 2, /* training waits; retried every second until success or a stop request */
    HS_SAVE_FAILURE_FAIL = 3   /* the run fails */
} hs_save_failure;

typedef struct hs_checkpoint_saver_options {
    size_t size;
    const char *checkpoint_dir;         /* (required) */
    const char *checkpoint_basename;    /* of CHECKPOINT_DIR/BASENAME-STEP. NULL: "model.ckpt" */
    int64_t every_n_steps;              /* steps between saves. Set one of the three */
    double every_n_secs;                /* or: seconds between saves */
    hs_trigger when;                    /* or: conditions */
    hs_saver *saver;                    /* NULL: the scaffold's, or the one in the graph's collection HS_SAVERS */
    hs_scaffold *scaffold;              /* borrowed; invalid with saver */
    const hs_saver_listener *listeners; /* HS_LISTENERS(...), called in their order. NULL: none */
    /* Metric for hs_saver_options.keep_best: a metric of the session (hs_raw_session_set_metric) or a tensor. A
     * checkpoint without a value of its step (hs_raw_session_computed_at) is not among the best: hs_session_wants does not
     * count this hook. An extra run fetches a tensor at each save, in a group on all ranks. List evaluating hooks in front
     * of this one. NULL: none */
    const char *metric;
    hs_save_failure on_failure; /* 0: HS_SAVE_FAILURE_SKIP */
    hs_busy_policy busy;        /* with background. 0: HS_BUSY_WAIT */
    int64_t copy_limit; /* with background: bytes of the largest state to copy. Larger: foreground. 0, HS_NEVER: no limit */
    int64_t max_to_keep; /* newest checkpoints to keep. 0: as the saver's options say; HS_NEVER: all */
    /* A thread writes a copy of the state (hs_save_options). after_save and failures follow in a later step; if
     * the session fails first, the close waits for the save and logs its end. Saves at creation, at a stop, at the end and
     * after a failure are in the foreground */
    bool background;
    bool overlap;      /* with background: copies during the next runs. Only if ops alone change variables */
    bool no_graph_def; /* no graph.pbtxt and no .meta files; the event file still has the graph */
    unsigned char reserved[5];
} hs_checkpoint_saver_options;

HS_API hs_hook hs_checkpoint_saver_hook(const hs_checkpoint_saver_options *options);
#define hs_checkpoint_saver(...) hs_checkpoint_saver_hook(HS_OPTIONS(hs_checkpoint_saver_options, __VA_ARGS__))

HS_END_DECLS

#endif
