/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_CHECKPOINT_SAVER_H
#define HOOKSESS_HOOKS_CHECKPOINT_SAVER_H

#include <hooksess/scaffold.h>
#include <hooksess/trigger.h>

/* Saves checkpoints: after the session's creation, every so many seconds or steps, on request (hs_session_request_save),
 * and at the end; never the same step twice, and not what was just restored from the same place. By steps, the rhythm rides
 * in the checkpoint: a run that was stopped between two saves and resumed saves next when it would have. TensorFlow:
 * CheckpointSaverHook.
 *
 * With a trigger, it is saved after the creation only if `first` is set, or the step is one of those listed. Requests and
 * the end count whatever the trigger says; a requested save waits for one in the background, where others are skipped.
 *
 * Each save is a log line: "step 1200: saved run/model.ckpt-1200 (1.2 MiB, 0.02 s)".
 *
 * With `.signals`: if a save takes half of signal_grace_secs or more, the hook logs it once. If a save takes longer than
 * that, it logs a warning and saves more often than its schedule says, spending at most 5 % of the run time on it.
 *
 * The directory is held from `begin` on, before anything is restored: a second process that saves to it is refused, and its
 * memory is not changed.
 *
 * Each creation of a session also writes graph.pbtxt and the graph's events, where the backend has a graph to show. Saving
 * happens at the boundary. If a save fails because of the file system (hs_error.os_error is set) or of memory
 * (HS_RESOURCE_EXHAUSTED), on_failure decides. Any other failure, and a failure of the first save, ends the run with its
 * error. */

HS_BEGIN_DECLS

/* What is told of each save. TensorFlow: CheckpointSaverListener. Any function may be NULL; a failure is the save's. */
typedef struct hs_saver_listener_ops {
    size_t size;
    hs_code (*begin)(void *self, hs_error *err); /* with the hook's begin */
    hs_code (*before_save)(void *self, hs_raw_session *session, int64_t step, hs_error *err);
    /* *request_stop is false before; set it to ask for a stop. The other listeners are called all the same. */
    hs_code (*after_save)(void *self, hs_raw_session *session, int64_t step, bool *request_stop, hs_error *err);
    hs_code (*end)(void *self, hs_raw_session *session, int64_t step, hs_error *err); /* after the last save */
} hs_saver_listener_ops;

/* Frozen. `ops` and `self` must live as long as the hook. */
typedef struct hs_saver_listener {
    const hs_saver_listener_ops *ops;
    void *self;
} hs_saver_listener;

/* .listeners = HS_LISTENERS({&ops, &state}, ...). A named array ends with {0}. */
#define HS_LISTENERS(...) HS__LIST(hs_saver_listener, __VA_ARGS__, {.ops = NULL})

/* What is done when the file system fails. In all cases the checkpoints that exist stay, what was written of the new one is
 * removed, and the log has a warning. At the end of the session training cannot go on: then SKIP fails, and RETRY fails
 * after 5 attempts. */
typedef enum hs_save_failure {
    HS_SAVE_FAILURE_SKIP = 0,  /* training continues; the next save is the next one of the schedule */
    HS_SAVE_FAILURE_RETRY = 1, /* training continues; the save is retried after 1, 2, 4 ... 64 seconds */
    /* training waits; the save is retried every second, until it succeeds or a stop is requested */
    HS_SAVE_FAILURE_PAUSE = 2,
    HS_SAVE_FAILURE_FAIL = 3 /* the run fails */
} hs_save_failure;

typedef struct hs_checkpoint_saver_options {
    size_t size;
    const char *checkpoint_dir;      /* (required) created if it is missing, with the directories above it */
    const char *checkpoint_basename; /* the name of a file. NULL: "model.ckpt" */
    int64_t every_n_steps;           /* steps between saves. One of every_n_steps, every_n_secs and trigger is required */
    double every_n_secs;             /* seconds between saves, instead of every_n_steps */
    const hs_trigger *trigger;       /* instead of every_n_secs and every_n_steps */
    hs_saver *saver;                 /* borrowed. NULL: the scaffold's, or the one in the graph's collection HS_SAVERS */
    hs_scaffold *scaffold;           /* borrowed. Not together with saver */
    const hs_saver_listener *listeners; /* HS_LISTENERS(...), called in their order. NULL: none */
    /* Measures how good the state is (hs_saver_options.keep_best). The name of a metric of the session
     * (hs_raw_session_metric), or of a tensor. A metric counts if it has the step that is saved: list hooks that evaluate
     * before this one. A tensor is fetched by a run of its own whenever a checkpoint is saved. NULL: no measure */
    const char *metric;
    hs_save_failure on_failure; /* 0: HS_SAVE_FAILURE_SKIP */
    hs_busy_policy busy;        /* with background. 0: HS_BUSY_WAIT */
    int64_t copy_limit;         /* with background: larger states are not copied. 0 and HS_NEVER: no limit */
    /* Saves during training are made by a thread, from a copy (hs_save_options). Listeners are called when they are done.
     * Failures are reported in the step after */
    bool background;
    bool overlap;      /* with background: copies during the next runs. Only if nothing but ops changes variables */
    bool no_graph_def; /* write neither graph.pbtxt nor .meta files. The event file has the graph in any case */
    unsigned char reserved[5];
    const hs_env *env; /* NULL: the system's. Copied */
} hs_checkpoint_saver_options;

/* Threads: any. The session's thread calls the listeners. */
HS_API hs_hook hs_checkpoint_saver_hook(const hs_checkpoint_saver_options *options);
#define hs_checkpoint_saver(...) hs_checkpoint_saver_hook(HS_OPTIONS(hs_checkpoint_saver_options, __VA_ARGS__))

HS_END_DECLS

#endif
