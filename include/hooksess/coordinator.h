/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_COORDINATOR_H
#define HOOKSESS_COORDINATOR_H

#include <hooksess/env.h>

/* Threads that stop together: a coordinator passes a stop or an error from one thread to the others, and joins them. Hooks
 * get the session's in after_create_session. TensorFlow: Coordinator.
 *
 *     hs_coordinator *coordinator = hs_coordinator_new(NULL, &err);
 *     hs_coordinator_start(coordinator, &err, .name = "reader", .run = read_ahead, .user = &reader);
 *     while (!hs_coordinator_should_stop(coordinator))
 *         train_step(&reader);
 *     hs_code code = hs_coordinator_join(coordinator, NULL, &err);
 *     hs_coordinator_free(coordinator);
 *
 * Timeouts use the system's monotonic clock, also if `env` has another. HS_NEVER: no limit.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_coordinator hs_coordinator;
typedef struct hs_thread hs_thread;

typedef struct hs_coordinator_options {
    size_t size;
    const hs_env *env;
    /* Codes of a normal end, as HS_STOP always is. Copied. NULL: HS_OUT_OF_RANGE. HS_CODES(HS_OK): none */
    const hs_code *clean_stop_codes;
} hs_coordinator_options;
#define HS_COORDINATOR_OPTIONS(...) HS_OPTIONS(hs_coordinator_options, __VA_ARGS__)
#define HS_CODES(...)               HS__LIST(hs_code, __VA_ARGS__, HS_OK)

/* `options` NULL: the defaults. */
HS_API hs_coordinator *hs_coordinator_new(const hs_coordinator_options *options, hs_error *err);
/* Join first: it does not wait for threads. The memory stays until the last registered thread ends. */
HS_API void hs_coordinator_free(hs_coordinator *coordinator);

/* Asks all threads to stop. `why` is an error, or the work is done: NULL, HS_OK, HS_STOP or a clean-stop code.
 *
 * The coordinator keeps the first error for hs_coordinator_join(). If it reports a lost session (HS_ABORTED,
 * HS_UNAVAILABLE), the first other error replaces it. After a stop, HS_CANCELLED is not an error. After an error, a request
 * without one does not prevent the session's recovery; hs_session_interrupt() does.
 *
 * Returns HS_OK, or the error's code if the coordinator was already joined. */
HS_API hs_code hs_coordinator_request_stop(hs_coordinator *coordinator, const hs_error *why);
/* Returns true if a stop was requested. Takes no lock. */
HS_API bool hs_coordinator_should_stop(const hs_coordinator *coordinator);
/* Returns true if a stop was requested without an error, and no error was kept before. True until
 * hs_coordinator_clear_stop(), also if an error follows. */
HS_API bool hs_coordinator_clean_stop(const hs_coordinator *coordinator);
/* Blocks until a stop is requested, or `timeout_secs` have passed. Returns true after a stop. */
HS_API bool hs_coordinator_wait_for_stop(hs_coordinator *coordinator, double timeout_secs);
/* Copies the kept error to `err` and returns its code, or HS_OK. TensorFlow: raise_requested_exception. */
HS_API hs_code hs_coordinator_error(const hs_coordinator *coordinator, hs_error *err);
/* Withdraws the stop and discards the error. Threads stay registered. */
HS_API void hs_coordinator_clear_stop(hs_coordinator *coordinator);
/* Returns true from hs_coordinator_join() until hs_coordinator_clear_stop(). */
HS_API bool hs_coordinator_joined(const hs_coordinator *coordinator);

/* Threads. */

/* The function of a thread. Its error stops the coordinator. `coordinator` is NULL if the thread is not registered. */
typedef hs_code (*hs_thread_fn)(void *user, hs_coordinator *coordinator, hs_error *err);

typedef struct hs_thread_options {
    size_t size;
    const char *name; /* (required) for messages. Copied */
    hs_thread_fn run; /* (required) */
    void *user;
    /* Wakes the thread from a wait. After a stop, hs_coordinator_join() calls it until the thread has ended. Calls never
     * overlap, and the thread does not end during one. NULL: nothing */
    void (*wake)(void *user);
    const hs_env *env;
} hs_thread_options;
#define HS_THREAD_OPTIONS(...) HS_OPTIONS(hs_thread_options, __VA_ARGS__)

/* Creates a thread without starting it. It blocks all signals. */
HS_API hs_thread *hs_thread_new(const hs_thread_options *options, hs_error *err);
/* HS_FAILED_PRECONDITION: already started. HS_RESOURCE_EXHAUSTED: the system refuses it. */
HS_API hs_code hs_thread_start(hs_thread *thread, hs_error *err);
/* The thread was started and has not ended. False in a forked child, where waits and joins do not wait for it. */
HS_API bool hs_thread_alive(const hs_thread *thread);
HS_API const char *hs_thread_name(const hs_thread *thread);
/* Blocks until the thread has ended, or `timeout_secs` have passed. Returns true if it is not alive. */
HS_API bool hs_thread_wait(hs_thread *thread, double timeout_secs);
/* Copies the error of `run` to `err` and returns its code. HS_OK before the end. */
HS_API hs_code hs_thread_error(const hs_thread *thread, hs_error *err);
/* Frees the handle. A running thread continues. */
HS_API void hs_thread_free(hs_thread *thread);

/* Registers a thread: if it was started, hs_coordinator_join() waits for it. The caller keeps the handle. A second call
 * changes nothing. HS_FAILED_PRECONDITION: another coordinator has it. */
HS_API hs_code hs_coordinator_register(hs_coordinator *coordinator, hs_thread *thread, hs_error *err);
/* Creates, registers and starts a thread. `env` NULL: the coordinator's. */
HS_API hs_code hs_coordinator_start_thread(hs_coordinator *coordinator, const hs_thread_options *options, hs_error *err);
#define hs_coordinator_start(coordinator, err, ...)                                                                        \
    hs_coordinator_start_thread((coordinator), HS_THREAD_OPTIONS(__VA_ARGS__), (err))

/* Calls `body` in the calling thread and passes its error to the coordinator. Results: as hs_coordinator_request_stop.
 * TensorFlow: stop_on_exception. */
HS_API hs_code hs_coordinator_stop_on_error(hs_coordinator *coordinator, hs_thread_fn body, void *user, hs_error *err);

/* A list of threads: HS_THREADS(reader, writer). A NULL handle ends it. */
#define HS_THREADS(...) HS__LIST(hs__thread_pointer, __VA_ARGS__, NULL)
typedef hs_thread *hs__thread_pointer;

typedef struct hs_join_options {
    size_t size;
    hs_thread *const *threads; /* more threads to wait for: HS_THREADS(...). NULL: the registered ones only */
    /* threads to wait for without a limit, registered or not: HS_THREADS(...). NULL: none */
    hs_thread *const *awaited;
    double stop_grace_secs;   /* seconds to wait after a stop. 0: 120. HS_NEVER: no limit */
    bool ignore_live_threads; /* log threads that do not stop, instead of failing */
    unsigned char reserved[7];
    size_t *n_live_threads; /* receives the number of threads that still run, also on failure. May be NULL */
} hs_join_options;
#define HS_JOIN_OPTIONS(...) HS_OPTIONS(hs_join_options, __VA_ARGS__)

/* Blocks until the registered threads have ended. `options` NULL: the defaults.
 *
 * 1. Until a stop is requested, it waits without a limit.
 * 2. After the stop, it wakes the threads and waits up to stop_grace_secs.
 * 3. All threads are unregistered. From now on hs_coordinator_request_stop() returns errors instead of keeping them.
 *
 * Returns the kept error, or else HS_FAILED_PRECONDITION with the names of threads that did not stop. Not from one of the
 * threads. */
HS_API hs_code hs_coordinator_join(hs_coordinator *coordinator, const hs_join_options *options, hs_error *err);

/* Returns the number of registered threads that are alive, and writes "'reader', 'writer' and 3 more", or "". Names are
 * left out if `size` is small. `text` may be NULL if `size` is 0. */
HS_API size_t hs_coordinator_live_threads(hs_coordinator *coordinator, char *text, size_t size);

/* Loopers. */

typedef struct hs_looper_options {
    size_t size;
    hs_coordinator *coordinator; /* (required) */
    const char *name;            /* NULL: "looper". Copied */
    /* Seconds between the starts of two calls; the first call is immediate. Late calls follow each other without a pause.
     * 0: no pauses */
    double every_n_secs;
    hs_code (*loop)(void *user, hs_error *err);       /* (required) */
    hs_code (*start_loop)(void *user, hs_error *err); /* before the first call. NULL: nothing */
    hs_code (*stop_loop)(void *user, hs_error *err);  /* after the last call, unless one failed. NULL: nothing */
    void *user;
    void (*wake)(void *user); /* as in hs_thread_options; a pause ends without it. NULL: nothing */
} hs_looper_options;
#define HS_LOOPER_OPTIONS(...) HS_OPTIONS(hs_looper_options, __VA_ARGS__)

/* Creates and registers a thread that calls `loop` until a stop is requested. Start it with hs_thread_start(). An error of
 * a callback stops the coordinator. TensorFlow: LooperThread. */
HS_API hs_thread *hs_looper_new(const hs_looper_options *options, hs_error *err);

HS_END_DECLS

#endif
