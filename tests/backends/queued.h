/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_QUEUED_H
#define HS_TESTS_BACKENDS_QUEUED_H

/* Graphs with a queue, and threads that fill it through forks of the session. */

#include "backends/bare.h"

#include <hooksess/tf1/queue_runner.h>

#include <pthread.h>
#include <stdatomic.h>

/* Produces begun + 1, begun + 2, ... until `last`, and then says that it is at its end. Its position is `at`. */
typedef struct counter {
    int64_t at, last;
    int64_t fails_at;      /* this one is HS_ABORTED instead, "no luck"; 0: none */
    atomic_int_fast64_t n; /* how many times it was called */
    atomic_bool inside;    /* somebody is producing, saving or loading; */
    atomic_bool met;       /* two did at once */
} counter;
hs_code counter_produce(void *self, hs_op *op, hs_error *err);
hs_code counter_save(void *self, hs_state_writer *out, hs_error *err);
hs_code counter_load(void *self, hs_state_reader *in, hs_error *err);
#define COUNTER(upto) ((counter){.last = (upto)})

/* Lets whoever produces wait: a counter's producer that comes to it. `self` is the gate. */
typedef struct gate {
    counter c;
    atomic_bool entered, may_leave;
} gate;
hs_code gate_produce(void *self, hs_op *op, hs_error *err);
/* Waits until somebody is in there. */
void gate_await(gate *g);

/* As bare_setup; but threads may use the graph, as it has the system's environment. */
int queued_setup(void **state);

#define QUEUED_NUMBER HS_OUTPUTS({.dtype = HS_INT64})

/* Adds the queue "q" of numbers, which `c` produces, and which only the test fills. */
void queued_add(bare *b, counter *c, int64_t capacity);
/* The same with the position "reader". */
void queued_add_position(bare *b, counter *c, int64_t capacity);

/* A run of one name on a session or a fork; `value` may be NULL. */
hs_code queued_run(bare *b, void *session, const char *name, hs_tensor *value, hs_error *err);
/* Runs of the session that succeed. */
void queued_enqueue(bare *b, int times);
void queued_close(bare *b);
int64_t queued_dequeue(bare *b);
int64_t queued_size(bare *b);
/* The code of a dequeue that fails; the error is in b->err. */
hs_code queued_failing_dequeue(bare *b);
void *queued_fork(bare *b);

/* A thread that runs q/enqueue on a fork until that fails; then it runs q/close, and closes the fork. */
typedef struct filler {
    const hs_backend_ops *ops;
    void *fork;
    hs_node enqueue, close;
    pthread_t thread;
    hs_error err; /* why it ended */
} filler;
void filler_start(filler *f, bare *b);
/* Its code. */
hs_code filler_join(filler *f);

#endif
