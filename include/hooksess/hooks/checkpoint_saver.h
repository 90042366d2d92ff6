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
 * Where the session heeds signals, a save that takes longer than the time there is after one is told of as soon as that is
 * known, and then the state is saved more often than was asked for, for a twentieth of the time.
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

/* What is done when the file system fails: the checkpoints that are there stay, what was written of the new one is removed,
 * the log has a warning, and */
typedef enum hs_save_failure {
    HS_SAVE_FAILURE_SKIP = 0,  /* training goes on; the next save is the next that is due */
    HS_SAVE_FAILURE_RETRY = 1, /* training goes on; it is tried again after 1, 2, 4 ... 64 seconds */
    HS_SAVE_FAILURE_PAUSE =
        2, /* training waits, and it is tried again every second, until it succeeds or a stop is asked for */
    HS_SAVE_FAILURE_FAIL = 3 /* the run fails */
} hs_save_failure;
/* At the end of the session there is no going on: SKIP fails, RETRY does after 5 tries. */

typedef struct hs_checkpoint_saver_options {
    size_t size;
    const char *checkpoint_dir; /* copied; made when it is missing, with those that it is in */
    double every_n_secs;        /* exactly one of the two, or of the two and trigger */
    int64_t every_n_steps;
    const char *checkpoint_basename;    /* NULL: "model.ckpt" */
    hs_saver *saver;                    /* at most one of saver and scaffold; without either, the one that the graph's */
    hs_scaffold *scaffold;              /* collection HS_SAVERS has. Borrowed: both must outlive the hook */
    const hs_saver_listener *listeners; /* called in their order; copied */
    const hs_env *env;                  /* the hook's own memory; NULL: malloc */
    hs_save_failure on_failure;
    hs_busy_policy busy; /* in the background */
    int64_t copy_limit;  /* in the background: a state of more bytes is not copied (hs_save_options); 0 and HS_NEVER: no
                          * limit */
    const char *metric;  /* what says how good the state is (hs_saver_options.keep_best): a metric of the session's board
                          * (hs_raw_session_metric), or a tensor. If the board has one of that name, it counts where it is
                          * of the step that is saved, and other checkpoints are none of the best: list hooks that evaluate
                          * before this one. Else the tensor is fetched, in a run of its own, whenever a checkpoint is
                          * saved. NULL: nobody says */
    bool background;   /* saves in the course of training are made by a thread, from a copy (hs_save_options); listeners are
                        * told when they are done, and failures come in the step after */
    bool overlap;      /* and copies beside the runs that follow; only if nothing but ops changes variables */
    bool no_graph_def; /* write neither graph.pbtxt nor .meta files (the event file has the graph all the same) */
    unsigned char reserved[5];
    const hs_trigger *trigger; /* instead of every_n_secs or every_n_steps; copied */
} hs_checkpoint_saver_options;

/* Options that make no sense, or no memory, are reported by the hook's begin. */
HS_API hs_hook hs_checkpoint_saver_hook(const hs_checkpoint_saver_options *options);
#define hs_checkpoint_saver(...) hs_checkpoint_saver_hook(HS_OPTIONS(hs_checkpoint_saver_options, __VA_ARGS__))

HS_END_DECLS

#endif
