/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_COORDINATOR_H
#define HOOKSESS_COORDINATOR_H

#include <hooksess/env.h>

/* How the threads of one training run agree to stop, and are waited for. TensorFlow: Coordinator, LooperThread.
 *
 * Threads: any.
 *
 * A session has a coordinator of its own, which hooks get in after_create_session; a program may make others. Functions
 * that wait go by the system's clock, whatever the environment's is: no other one wakes a thread. Waiting times are
 * seconds. */

HS_BEGIN_DECLS

typedef struct hs_coordinator hs_coordinator;
typedef struct hs_thread hs_thread;

typedef struct hs_coordinator_options {
    size_t size;
    const hs_env *env; /* NULL: the system's. Copied */
    /* The codes that mean a thread's work is done, rather than gone wrong: .clean_stop_codes = HS_CODES(HS_CANCELLED). They
     * replace the default, HS_OUT_OF_RANGE; HS_CODES(HS_OK) is none. HS_STOP always means it. Copied. */
    const hs_code *clean_stop_codes;
} hs_coordinator_options;
#define HS_COORDINATOR_OPTIONS(...) HS_OPTIONS(hs_coordinator_options, __VA_ARGS__)
#define HS_CODES(...)               HS__LIST(hs_code, __VA_ARGS__, HS_OK)

/* `options` may be NULL. The caller's to free. HS_RESOURCE_EXHAUSTED, HS_INVALID_ARGUMENT. */
HS_API hs_coordinator *hs_coordinator_new(const hs_coordinator_options *options, hs_error *err);
/* Lets go of it, without waiting for anybody: join first. Its memory stays until the last of its threads has ended. */
HS_API void hs_coordinator_free(hs_coordinator *coordinator);

/* Asks every thread to stop. `why` NULL or of code HS_OK, HS_STOP or a clean-stop code: because the work is done; else
 * because of that error, which join reports. The first error is kept; a report of a lost session (HS_ABORTED,
 * HS_UNAVAILABLE) is replaced by the first other error. After a stop, HS_CANCELLED is not an error: a thread
 * that was woken by the stop reports it. After an error, a stop without an error comes from a thread that ends because of
 * the first one. It does not keep a session from recovering; hs_session_request_stop does. If the coordinator was joined
 * already, no join is left to report the error, and the function returns it. */
HS_API hs_code hs_coordinator_request_stop(hs_coordinator *coordinator, const hs_error *why);
/* Of NULL: true. */
HS_API bool hs_coordinator_should_stop(const hs_coordinator *coordinator);
/* Waits until a stop is requested, for at most `timeout_secs`; the same as should_stop then. 0: does not wait. HS_NEVER: no
 * limit. */
HS_API bool hs_coordinator_wait_for_stop(hs_coordinator *coordinator, double timeout_secs);
/* The error that was reported, copied to `err`; its code. HS_OK: none. It stays until clear_stop. TensorFlow:
 * raise_requested_exception. */
HS_API hs_code hs_coordinator_error(const hs_coordinator *coordinator, hs_error *err);
/* Takes the stop back, with the error and with its having been joined. Threads that are registered stay so. */
HS_API void hs_coordinator_clear_stop(hs_coordinator *coordinator);
/* Has it been joined, and not cleared since? */
HS_API bool hs_coordinator_joined(const hs_coordinator *coordinator);

/* Threads. */

/* A thread's body. What it returns, if not HS_OK, is reported to the coordinator. `coordinator` is NULL for a thread that
 * was registered with none. */
typedef hs_code (*hs_thread_fn)(void *user, hs_coordinator *coordinator, hs_error *err);

typedef struct hs_thread_options {
    size_t size;
    const char *name; /* (required) copied; join names who does not stop */
    /* NULL: the program runs the thread itself. It counts as alive from hs_thread_start to hs_thread_mark_ended, which it
     * calls at its end (in any thread). */
    hs_thread_fn run;
    void *user;
    /* Makes the thread look whether it should stop, if it is waiting for something: closes a queue, writes to a pipe.
     * Called by whoever joins, once a stop was requested, again and again until the thread has ended; never after that, nor
     * by two at once. A thread does not end while it is being woken. May be NULL. */
    void (*wake)(void *user);
    const hs_env *env; /* NULL: the system's. Copied */
} hs_thread_options;
#define HS_THREAD_OPTIONS(...) HS_OPTIONS(hs_thread_options, __VA_ARGS__)

/* A thread that has not started yet. Its handle is the caller's to free. It takes no signals: they are the program's. */
HS_API hs_thread *hs_thread_new(const hs_thread_options *options, hs_error *err);
/* HS_FAILED_PRECONDITION: it was started before. HS_RESOURCE_EXHAUSTED: the system has no more threads. */
HS_API hs_code hs_thread_start(hs_thread *thread, hs_error *err);
/* Of a thread that the program runs itself: it has ended. Nothing of it may be woken any more when this returns. */
HS_API void hs_thread_mark_ended(hs_thread *thread);
/* Was it started, and has it not ended? */
HS_API bool hs_thread_alive(const hs_thread *thread);
/* The thread's. */
HS_API const char *hs_thread_name(const hs_thread *thread);
/* Waits until it has ended, for at most `timeout_secs`. True: it has, or was never started. 0: does not wait. HS_NEVER: no
 * limit. */
HS_API bool hs_thread_wait(hs_thread *thread, double timeout_secs);
/* What its body returned, copied to `err`; HS_OK before its end. */
HS_API hs_code hs_thread_error(const hs_thread *thread, hs_error *err);
/* Lets go of the handle. A thread that runs goes on, and what it needs of the library's stays until it has ended; one that
 * the program runs itself has ended with its handle (hs_thread_mark_ended). */
HS_API void hs_thread_free(hs_thread *thread);

/* Registers a thread, which may have started: join waits for it. Registering it twice is registering it once; with another
 * coordinator it is HS_FAILED_PRECONDITION. The handle stays the caller's, and may be freed before the thread's end. One
 * that has ended already, or is not started by the time of the join, is not waited for. */
HS_API hs_code hs_coordinator_register(hs_coordinator *coordinator, hs_thread *thread, hs_error *err);
/* Makes, registers and starts a thread that has a body. */
HS_API hs_code hs_coordinator_start_thread(hs_coordinator *coordinator, const hs_thread_options *options, hs_error *err);
/* hs_coordinator_start(c, &err, .name = "reader", .run = read_ahead, .user = &reader). If no environment is given, it is
 * the coordinator's. */
#define hs_coordinator_start(coordinator, err, ...)                                                                        \
    hs_coordinator_start_thread((coordinator), HS_THREAD_OPTIONS(__VA_ARGS__), (err))

/* For threads that the program runs itself: calls `body` and reports what it returns, if not HS_OK. Then the result is
 * HS_OK, as it is the coordinator's now; if that was joined already, it is the error. TensorFlow: stop_on_exception. */
HS_API hs_code hs_coordinator_stop_on_error(hs_coordinator *coordinator, hs_thread_fn body, void *user, hs_error *err);

/* A list of threads. NULL ends it: leave out a thread that could not be made. */
#define HS_THREADS(...) HS__LIST(hs__thread_pointer, __VA_ARGS__, NULL)
typedef hs_thread *hs__thread_pointer;

typedef struct hs_join_options {
    size_t size;
    hs_thread *const *threads; /* waited for in addition to the registered threads: HS_THREADS(...). NULL: none */
    double stop_grace_secs;    /* how long to wait after a stop was requested. 0: 120; HS_NEVER: no limit */
    bool ignore_live_threads;  /* threads that do not stop are no error, but a warning in the log */
    unsigned char reserved[7];
    /* How many of the threads did not end: who still runs may still use what they share. NULL: not asked for. Set also
     * where the result is another error, or none (ignore_live_threads) */
    size_t *left_behind;
} hs_join_options;
#define HS_JOIN_OPTIONS(...) HS_OPTIONS(hs_join_options, __VA_ARGS__)

/* Waits until all threads that are registered now have ended: without a limit as long as no stop is requested; from then
 * on it wakes them, and waits for the grace period. Afterwards no thread is registered, whether it has ended or not, and a
 * later request_stop returns its error. `options` may be NULL.
 *
 * The error that was reported first, if there is one; else HS_FAILED_PRECONDITION with the names of the threads that did
 * not stop, if there are any. Not to be called by one of the threads. */
HS_API hs_code hs_coordinator_join(hs_coordinator *coordinator, const hs_join_options *options, hs_error *err);

/* The threads that are registered and alive, as text for people: "'reader', 'writer' and 3 more", or "". Returns how many
 * there are. `text` may be NULL where `size` is 0; with less than 40 bytes it may be cut short. Of NULL: none. */
HS_API size_t hs_coordinator_live_threads(hs_coordinator *coordinator, char *text, size_t size);

/* Loopers. */

typedef struct hs_looper_options {
    size_t size;
    hs_coordinator *coordinator; /* (required) */
    const char *name;            /* NULL: "looper" */
    /* A call every so many seconds, from the first on, which is made at once; one that took longer is followed by the next
     * at once, until it has caught up. 0: one after the other. */
    double every_n_secs;
    hs_code (*loop)(void *user, hs_error *err);       /* (required) */
    hs_code (*start_loop)(void *user, hs_error *err); /* before the first call; may be NULL */
    hs_code (*stop_loop)(void *user, hs_error *err);  /* after the last one, unless one of them failed; may be NULL */
    void *user;
    void (*wake)(void *user); /* as in hs_thread_options; not needed to end the waiting for the next call */
} hs_looper_options;
#define HS_LOOPER_OPTIONS(...) HS_OPTIONS(hs_looper_options, __VA_ARGS__)

/* A thread that calls `loop` until a stop is requested, which it looks for before each call; an error stops the
 * coordinator. It is registered, and not started yet. Its handle is the caller's to free. TensorFlow: LooperThread. */
HS_API hs_thread *hs_looper_new(const hs_looper_options *options, hs_error *err);

HS_END_DECLS

#endif
