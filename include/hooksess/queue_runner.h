/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_QUEUE_RUNNER_H
#define HOOKSESS_QUEUE_RUNNER_H

#include <hooksess/hook.h>

/* Fills a backend's queue: each enqueue op runs repeatedly in its own thread. When the input ends, the queue is closed.
 * Backends with queues add the runners to the collection HS_QUEUE_RUNNERS, and sessions start and join these. TensorFlow:
 * QueueRunner.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_queue_runner hs_queue_runner;

typedef struct hs_queue_runner_options {
    size_t size;
    const char *queue;              /* (required) the queue's full name; also the runner's name */
    const char *const *enqueue_ops; /* (required) ops that add an element. An op that is named N times gets N threads */
    const char *close_op;  /* an op that closes the queue; elements and pending enqueues stay. NULL: "QUEUE/close" */
    const char *cancel_op; /* an op that also cancels pending enqueues. NULL: "QUEUE/cancel" */
    /* Codes by which an enqueue op reports the end of the input: HS_CODES(...), not empty. NULL: HS_OUT_OF_RANGE */
    const hs_code *closed_codes;
    const hs_env *env;
} hs_queue_runner_options;
#define HS_QUEUE_RUNNER_OPTIONS(...) HS_OPTIONS(hs_queue_runner_options, __VA_ARGS__)

HS_API hs_queue_runner *hs_queue_runner_new(const hs_queue_runner_options *options, hs_error *err);
/* Frees the runner. Close the sessions that it fills first. */
HS_API void hs_queue_runner_free(hs_queue_runner *runner);
HS_API const char *hs_queue_runner_name(const hs_queue_runner *runner);

/* The threads of queue runners: zero, or a list that hs_queue_runner_create_threads() has added to. Frozen. */
typedef struct hs_threads {
    hs_thread **items; /* ended by NULL, as hs_join_options.threads. NULL: no threads */
    const hs_env *env; /* the list's */
} hs_threads;
/* Frees the list and its handles. Running threads continue. */
HS_API void hs_threads_free(hs_threads *threads);

/* Creates the threads that fill the queue in `session`: "QueueRunnerThread-QUEUE-OP" for each enqueue op and, with a
 * coordinator, "QueueRunnerThread-QUEUE-close_on_stop", which cancels pending enqueues when a stop is requested. Call it
 * from the session's thread.
 *
 * coordinator  joins the threads, and stops on their errors. NULL: errors are logged and kept for hs_queue_runner_error()
 * start        starts all threads of the list. False: the caller starts them, or a later call with this list
 * threads      receives the handles. None if the session has started this runner itself, or if threads of an earlier call
 *              still fill it. NULL: no list
 *
 * On failure the list gets no handles. If a thread cannot be started, the coordinator stops with the error, the queues are
 * cancelled, and the list ends before the first thread that was not started before this call. The threads after it end.
 * HS_UNIMPLEMENTED: the backend has no hs_backend_ops.fork. HS_NOT_FOUND: an op does not exist. TensorFlow:
 * QueueRunner.create_threads. */
HS_API hs_code hs_queue_runner_create_threads(hs_queue_runner *runner, hs_raw_session *session, hs_coordinator *coordinator,
                                              bool start, hs_threads *threads, hs_error *err);
/* Copies the kept error number `index` to `out`, which may be NULL. False after the last. The next start discards the
 * errors. */
HS_API bool hs_queue_runner_error(hs_queue_runner *runner, size_t index, hs_error *out);

HS_END_DECLS

#endif
