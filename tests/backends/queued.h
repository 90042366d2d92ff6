/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_QUEUED_H
#define HS_TESTS_BACKENDS_QUEUED_H

/* Graphs with a queue, and threads that fill it through forks of the session. */

#include "backends/bare.h"

#include <hooksess/queue_runner.h>

#include <pthread.h>
#include <stdatomic.h>

/* A producer of at + 1, at + 2 ... `last`, which then ends. Its position is `at`. */
typedef struct counter {
    int64_t at, last;
    int64_t fails_at;      /* instead of this number: HS_ABORTED, "no luck". 0: none */
    atomic_int_fast64_t n; /* number of calls */
    atomic_bool inside;    /* a thread is producing, saving or loading */
    atomic_bool met;       /* two threads did at the same time */
} counter;
hs_code counter_produce(void *self, hs_op *op, hs_error *err);
hs_code counter_save(void *self, hs_state_writer *out, hs_error *err);
hs_code counter_load(void *self, hs_state_reader *in, hs_error *err);
#define COUNTER(upto) ((counter){.last = (upto)})

/* A counter whose producer waits until may_leave is set. `self` is the gate. */
typedef struct gate {
    counter c;
    atomic_bool entered, may_leave;
} gate;
hs_code gate_produce(void *self, hs_op *op, hs_error *err);
/* Waits until a producer waits in the gate. */
void gate_await(gate *g);

/* The same as bare_setup, with the system's environment, so that threads may use the graph. */
int queued_setup(void **state);

#define QUEUED_NUMBER HS_OUTPUTS({.dtype = HS_INT64})

/* Adds the queue "q" of numbers with the producer `c` and without threads. */
void queued_add(bare *b, counter *c, int64_t capacity);
/* The same with the position "reader". */
void queued_add_position(bare *b, counter *c, int64_t capacity);

/* Runs one name on a session or a fork. `value` may be NULL. */
hs_code queued_run(bare *b, void *session, const char *name, hs_tensor *value, hs_error *err);
/* Run ops of "q" in the session. They must succeed. */
void queued_enqueue(bare *b, int times);
void queued_close(bare *b);
int64_t queued_dequeue(bare *b);
int64_t queued_size(bare *b);
/* Returns the code of a dequeue that fails. Sets b->err. */
hs_code queued_failing_dequeue(bare *b);
void *queued_fork(bare *b);

/* A thread that runs q/enqueue on a fork until a run fails, then runs q/close and closes the fork. */
typedef struct filler {
    const hs_backend_ops *ops;
    void *fork;
    hs_node enqueue, close;
    pthread_t thread;
    hs_error err; /* of the failed run */
} filler;
void filler_start(filler *f, bare *b);
/* Joins the thread. Returns the code of the failed run. */
hs_code filler_join(filler *f);

#endif
