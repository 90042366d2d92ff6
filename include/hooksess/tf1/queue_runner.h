/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TF1_QUEUE_RUNNER_H
#define HOOKSESS_TF1_QUEUE_RUNNER_H

#include <hooksess/hook.h>

/* Fills a backend's queue: runs its enqueue ops again and again, each in a thread of its own, and closes it when they end.
 * TensorFlow: QueueRunner, start_queue_runners.
 *
 * hs_graph_queue (graph.h) makes one for each queue and puts it into the collection HS_QUEUE_RUNNERS; a session starts all
 * that are there, and joins their threads when it closes. So few programs need this header.
 *
 * Threads: one at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_queue_runner hs_queue_runner;

typedef struct hs_queue_runner_options {
    size_t size;
    const char *queue;              /* (required) the queue's full name, which is the runner's */
    const char *const *enqueue_ops; /* (required) ended by NULL; one may be named several times */
    const char *close_op;           /* closes the queue, keeping what is pending. NULL: "QUEUE/close" */
    const char *cancel_op;          /* closes it and cancels what is pending. NULL: "QUEUE/cancel" */
    /* The codes that mean that an enqueue op has no more to give, rather than failed. They replace the default,
     * HS_OUT_OF_RANGE; ended by HS_OK (HS_CODES), not empty. */
    const hs_code *closed_codes;
    const hs_env *env; /* NULL: the system's. Copied */
} hs_queue_runner_options;
#define HS_QUEUE_RUNNER_OPTIONS(...) HS_OPTIONS(hs_queue_runner_options, __VA_ARGS__)

/* All is copied. The caller's to free. HS_INVALID_ARGUMENT, HS_RESOURCE_EXHAUSTED. */
HS_API hs_queue_runner *hs_queue_runner_new(const hs_queue_runner_options *options, hs_error *err);
/* When the sessions that it filled are closed. */
HS_API void hs_queue_runner_free(hs_queue_runner *runner);
/* The queue's full name. The runner's. */
HS_API const char *hs_queue_runner_name(const hs_queue_runner *runner);

/* Threads of a runner, or of several; the list and the handles are the caller's. Frozen. */
typedef struct hs_threads {
    hs_thread **items; /* ended by NULL, for hs_join_options.threads. NULL: none */
    const hs_env *env; /* what they are freed with; the list's */
} hs_threads;
/* NULL past the last. The list's. */
HS_API hs_thread *hs_threads_item(const hs_threads *threads, size_t index);
/* Frees the handles and the list. */
HS_API void hs_threads_free(hs_threads *threads);

/* Makes the threads that fill the queue in a session: "QueueRunnerThread-QUEUE-OP" for each enqueue op and, with a
 * coordinator, "QueueRunnerThread-QUEUE-close_on_stop", which cancels what is pending when a stop is requested. With a
 * coordinator they are registered, and errors stop it. Without one (NULL) errors are kept here and logged. `start`: they
 * run; otherwise they are the caller's to start. A second call for the same session gives an empty list, as long as threads
 * of the first one have not ended.
 *
 * Called by the thread that runs the session. `threads` may be NULL: the handles are let go of. After a failure no thread
 * is left that fills: if one could not be started, the queue is cancelled, and the coordinator, if there is one, stopped
 * with that error. HS_UNIMPLEMENTED: the backend cannot run ops beside others (hs_backend_ops.fork). HS_NOT_FOUND: it has
 * no such op. */
HS_API hs_code hs_queue_runner_create_threads(hs_queue_runner *runner, hs_raw_session *session, hs_coordinator *coordinator,
                                              bool start, hs_threads *threads, hs_error *err);
/* Copies an error that was kept, in the order in which they came, until the runner is started again. False past the last;
 * `out` may be NULL. */
HS_API bool hs_queue_runner_error(hs_queue_runner *runner, size_t index, hs_error *out);

/* The same for all runners of the backend's collection HS_QUEUE_RUNNERS. None there: a warning in the log, and an empty
 * list. A session's own raw session (hs_session_raw), whose runners the session has started: an empty list. */
HS_API hs_code hs_queue_runners_start(hs_raw_session *session, hs_coordinator *coordinator, bool start, hs_threads *threads,
                                      hs_error *err);

HS_END_DECLS

#endif
