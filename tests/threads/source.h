/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_THREADS_SOURCE_H
#define HS_TESTS_THREADS_SOURCE_H

#include "support/test.h"

#include <hooksess/tf1/queue_runner.h>

#include "backends/raw_session.h"

#include <pthread.h>

/* A backend whose ops count their runs, which several threads may make at once, each with a handle of its own. */

enum { SOURCE_MAX = 8 };

typedef struct source_op {
    const char *name;
    int limit;           /* after so many runs it fails */
    hs_code code;        /* with this code; */
    const char *message; /* and message (NULL: "NAME has ended") */
    bool blocks;         /* before that it waits for "q/cancel"; no code: HS_CANCELLED */
    int calls;           /* made so far, without those that failed */
} source_op;

typedef struct source {
    test_env t;
    const hs_env *env; /* t's, or the one of the scenario */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    source_op ops[SOURCE_MAX]; /* under the lock; ended by one without a name */
    int tried;                 /* runs of any op */
    bool cancelled;            /* "q/cancel" has run */
    int open;                  /* handles */
    bool fork_fails;
    const void *runners[SOURCE_MAX]; /* the collection; ended by NULL */
    hs_raw_session raw, other;       /* two sessions */
    hs_error err;
} source;

/* cmocka's setup and teardown: *state is a source with the ops "q/close" and "q/cancel". Nothing may be left open. */
int source_setup(void **state);
int source_teardown(void **state);
void source_init(source *s, const hs_env *env);
void source_end(source *s);

source_op *source_add(source *s, source_op op);
/* Runs of it that succeeded. */
int source_calls(source *s, const char *name);
/* Until an op was run so often, well or not. */
void source_wait_tried(source *s, int n);

#endif
