/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_THREADS_QUEUE_FILLING_H
#define HS_THREADS_QUEUE_FILLING_H

#include "backends/queue_runner.h"
#include "backends/raw_session.h"

#include <stdatomic.h>

/* One filling of a runner's queue: what hs_queue_runner_create_threads has made threads for. Counted by their work. */
typedef struct hs__filling {
    struct hs__filling *next;
    hs_queue_runner *runner;       /* counted */
    const hs_raw_session *session; /* which session it is for, with `opened`; never looked into */
    uint64_t opened;
    hs_backend_ops ops;
    hs_node close;
    atomic_bool abandoned; /* its threads could not all be started */
    /* under the runner's lock */
    size_t producing; /* enqueue threads that have not come to their end */
    size_t unended;   /* nor done what is to be done then */
    size_t references;
} hs__filling;

/* A list with room for so many threads. */
hs_code hs__threads_init(hs_threads *threads, const hs_env *env, size_t capacity, hs_error *err);
/* How many threads the runner needs. */
size_t hs__filling_threads(const hs_queue_runner *runner, const hs_coordinator *coordinator);
/* Makes and registers the threads and appends them to the list, which has room for them; none, if those of an earlier call
 * have not ended. After a failure some may be there. */
hs_code hs__fill(hs_queue_runner *runner, hs_raw_session *session, hs_coordinator *coordinator, hs_threads *threads,
                 hs_error *err);
/* Starts all of a list that hs__fill has made. If one cannot be started, those that were are told to end, also by the
 * coordinator, and what they wait for is cancelled: the one that would do so may not be there. */
hs_code hs__start_filling(hs_threads *threads, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err);
/* After a failure: what was not started lets go of the session at once, whoever else still knows the thread. */
void hs__drop_filling(hs_threads *threads);
/* The list is the caller's, if there is a place for it and no failure; else it is freed. */
hs_code hs__threads_give(hs_threads *threads, hs_threads *to, const hs_error *error, hs_error *err);

#endif
