/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_THREADS_SOURCE_H
#define HS_TESTS_THREADS_SOURCE_H

#include "support/test.h"

#include <hooksess/queue_runner.h>

#include "backends/raw_session.h"

#include <pthread.h>

/* A backend whose ops count their runs. Several threads may run ops at the same time, each with its own handle. */

enum { SOURCE_MAX = 8 };

typedef struct source_op {
    const char *name;
    int limit;           /* it fails after this number of runs */
    hs_code code;        /* with this code; */
    const char *message; /* and message (NULL: "NAME has ended") */
    bool blocks;         /* it waits for "q/cancel" before it fails. No code: HS_CANCELLED */
    int calls;           /* number of successful runs */
} source_op;

typedef struct source {
    test_env t;
    const hs_env *env; /* that of t, or of the scenario */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    source_op ops[SOURCE_MAX]; /* guarded by the lock. The last one has no name */
    int tried;                 /* runs of all ops */
    bool cancelled;            /* "q/cancel" has run */
    int open;                  /* handles */
    bool fork_fails;
    const void *runners[SOURCE_MAX]; /* the collection. Ends with NULL */
    hs_raw_session raw, other;       /* two sessions */
    hs_error err;
} source;

/* cmocka's setup and teardown. *state is a source with the ops "q/close" and "q/cancel". Teardown fails if a handle is
 * open. */
int source_setup(void **state);
int source_teardown(void **state);
void source_init(source *s, const hs_env *env);
void source_end(source *s);

source_op *source_add(source *s, source_op op);
/* The number of successful runs of an op. */
int source_calls(source *s, const char *name);
/* Number of threads in a list, and the thread at `index`, or NULL after the last. */
size_t source_count_threads(const hs_threads *threads);
hs_thread *source_thread(const hs_threads *threads, size_t index);
/* Waits for all threads of a list and frees it. */
void source_wait_threads(hs_threads *threads);
/* Waits until ops were run n times, with or without success. */
void source_wait_tried(source *s, int n);

#endif
