/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_GRAPH_QUEUE_H
#define HS_BACKENDS_GRAPH_QUEUE_H

#include "backends/graph/graph.h"

#include <pthread.h>

/* The graph's queues: what a graph knows of one, what a session has of it, and what moves through it. */

/* One after another: the function that produces, and what saves and loads its position. A thread of a former session may
 * still be in there; who loads comes before those that go on producing. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool taken;
    size_t loads_waiting;
} hs__producer_lock;

/* A queue of a graph's. */
struct hs__queue_def {
    hs_graph *graph;
    char *name;
    size_t index; /* among the graph's queues */
    int64_t capacity;
    hs_op_fn produce; /* NULL: elements are copied from inputs */
    void *self;
    hs__graph_node *enqueue;         /* its op */
    hs__graph_node element;          /* what `produce` sees for its op: its outputs are the components */
    hs_state_provider saved;         /* the position; save NULL: it has none */
    bool locks_producer;             /* it has a position, or one thread alone fills it */
    hs__producer_lock producer_lock; /* if so */
    struct hs__queue *live;          /* the one live session's, of a queue with a position */
};

/* One element. Its memory is made when it is filled for the first time, and used again. */
typedef struct hs__element {
    struct hs__element *next;
    hs_tensor *values;   /* by component */
    void **owned;        /* by component: the memory of its own */
    size_t *capacity;    /* and how much that is */
    hs__buffer position; /* the producer's, after it; once it is taken, before it */
    uint64_t run;        /* of the session, that has taken it */
} hs__element;

/* element.c. `values` of a new one, or one that was cleared: views of its own memory, or not set where they are open. */
hs__element *hs__element_new(const hs__queue_def *def, hs_error *err);
void hs__element_free(const hs__queue_def *def, hs__element *element);
void hs__element_clear(const hs__queue_def *def, hs__element *element);
/* What was set as views is copied. INTERNAL: something was not set. */
hs_code hs__element_copy_views(const hs__queue_def *def, hs__element *element, hs_error *err);
/* Copies the value into the element's memory. */
hs_code hs__element_set(const hs__queue_def *def, hs__element *element, size_t component, const hs_tensor *value,
                        hs_error *err);

/* What a session has of a queue, and shares with its forks. */
typedef struct hs__queue {
    hs__queue_def *def;
    size_t references; /* under the lock, as all below */
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    hs__element *first, *last; /* those that are ready */
    hs__element *spare;        /* memory to be used again */
    int64_t n_ready, n_filling;
    size_t n_pending; /* enqueues that have begun: they wait for room, or fill an element */
    bool closed, cancelled;
    bool ended;              /* the last enqueue failed: whoever made it does not go on */
    bool stale;              /* a position was loaded after the end, and nobody has produced from it */
    hs_error producer_error; /* the first error of a run that was to fill it */
    bool has_position;       /* `position` is that of what was consumed last; else it is asked for */
    hs__buffer position;
} hs__queue;

/* queue_state.c */
hs__queue *hs__queue_new(hs__queue_def *def, hs_error *err);
void hs__queue_retain(hs__queue *queue);
void hs__queue_release(hs__queue *queue);
/* Waits for room, and gives an element to be filled, which hs__queue_end_enqueue takes back. CANCELLED: the queue is
 * closed. */
hs_code hs__queue_begin_enqueue(hs__queue *queue, hs__element **element, hs_error *err);
/* With HS_OK the element is ready; otherwise it is dropped, and the code is the result. CANCELLED as above. */
hs_code hs__queue_end_enqueue(hs__queue *queue, hs__element *element, hs_code code, hs_error *err);
/* Waits for an element, as long as nobody has asked the op's run to stop (HS_STOP). *held, if there is one, goes back to
 * the queue. */
hs_code hs__queue_dequeue(hs__queue *queue, const hs_op *op, hs__element **held, hs_error *err);
void hs__queue_recycle(hs__queue *queue, hs__element *held);
void hs__queue_close(hs__queue *queue, bool cancel);
bool hs__queue_cancelled(hs__queue *queue);
int32_t hs__queue_size(hs__queue *queue);
bool hs__queue_has_position(hs__queue *queue);
/* Takes the bytes over. Not `known`: they are to be asked for before something is produced. */
void hs__queue_set_position(hs__queue *queue, const hs__buffer *position, bool known);
/* The same after a load: what was produced ahead is thrown away, and the queue forgets its error. */
void hs__queue_rewind(hs__queue *queue, const hs__buffer *position, bool known);

/* queue_position.c */
hs_code hs__producer_lock_init(hs__producer_lock *turn, hs_error *err);
void hs__producer_lock_destroy(hs__producer_lock *turn);
/* Calls the function that produces, saves the position that it has come to, and ends the enqueue (hs__queue_end_enqueue).
 */
hs_code hs__queue_produce(hs__queue *queue, const hs_op *op, hs__element *element, hs_error *err);
/* The position as the graph's state; `self` is the hs__queue_def. */
hs_code hs__queue_save_position(void *self, hs_state_writer *out, hs_error *err);
hs_code hs__queue_load_position(void *self, hs_state_reader *in, hs_error *err);

/* queue.c: the functions of a queue's ops; `self` is the hs__queue_def. */
hs_code hs__queue_run_enqueue(void *self, hs_op *op, hs_error *err);
hs_code hs__queue_run_dequeue(void *self, hs_op *op, hs_error *err);
hs_code hs__queue_run_close(void *self, hs_op *op, hs_error *err);
hs_code hs__queue_run_cancel(void *self, hs_op *op, hs_error *err);
hs_code hs__queue_run_size(void *self, hs_op *op, hs_error *err);

#endif
