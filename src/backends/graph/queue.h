/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_GRAPH_QUEUE_H
#define HS_BACKENDS_GRAPH_QUEUE_H

#include "backends/graph/graph.h"

#include <pthread.h>

/* Queues of the embedded graph.
 *
 * A queue belongs to the graph (hs__queue_def). Each session has its own contents of it (hs__queue), which it shares with
 * its forks. Threads that fill a queue run its enqueue op in a fork.
 *
 * A queue with a position saves where its producer continues. The producer's position after each element is saved with the
 * element, and a checkpoint saves the position of the element that was dequeued last. */

/* Lets one thread at a time call the producer of a queue, or save and load its position. Saves and loads go before
 * waiting producers. A thread of a former session may still hold it. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool held;
    size_t priority_waiting;
} hs__producer_lock;

struct hs__queue_def {
    hs_graph *graph;
    char *name;
    size_t index; /* in hs_graph.queues */
    int64_t capacity;
    hs_op_fn produce; /* NULL: elements are copied from the inputs of the enqueue op */
    void *self;       /* of `produce` */
    hs__graph_node *enqueue;
    hs__graph_node element;          /* the op that `produce` is called with: its outputs are the components */
    hs_state_provider saved;         /* the position. save NULL: the queue has no position */
    bool locks_producer;             /* the queue has a position, or one thread fills it */
    hs__producer_lock producer_lock; /* with locks_producer */
    struct hs__queue *live;          /* of a queue with a position: that of the open session, or NULL */
};

/* An element. Its memory is allocated when it is first filled, and reused. */
typedef struct hs__element {
    struct hs__element *next;
    hs_tensor *values; /* by component */
    void **owned;      /* by component: memory */
    size_t *capacity;  /* by component: its size in bytes */
    /* While the element is in the queue: the producer's position after it. While it is dequeued: the queue's position
     * before it. */
    hs__buffer position;
    uint64_t run; /* number of the session's run that dequeued it */
} hs__element;
/* Copies a value to the element's memory. */
hs_code hs__element_set(const hs__queue_def *def, hs__element *element, size_t component, const hs_tensor *value,
                        hs_error *err);

/* A session's queue. `lock` protects all members except `def`. */
typedef struct hs__queue {
    hs__queue_def *def;
    size_t references; /* one of the session and one of each fork */
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    hs__element *first, *last; /* elements that are ready */
    hs__element *spare;        /* unused elements */
    int64_t n_ready, n_filling;
    size_t n_pending; /* enqueues that have begun and not ended */
    bool closed, cancelled;
    bool ended;              /* the last enqueue failed, so its thread has ended */
    bool stale;              /* a position was loaded after the queue was closed or had ended. An enqueue reopens it */
    hs_error producer_error; /* the first error of a run that should have filled the queue */
    bool has_position;       /* false: `position` is not known yet; the producer has it */
    hs__buffer position;     /* of the element that was dequeued last */
} hs__queue;

/* queue_state.c */
hs__queue *hs__queue_new(hs__queue_def *def, hs_error *err);
void hs__queue_retain(hs__queue *queue);
void hs__queue_release(hs__queue *queue);
/* Waits for room and sets *element to an element to fill. hs__queue_end_enqueue must follow. HS_CANCELLED: the queue is
 * closed. */
hs_code hs__queue_begin_enqueue(hs__queue *queue, hs__element **element, hs_error *err);
/* With HS_OK: appends the element, or returns HS_CANCELLED if the queue was cancelled. With another code: drops the element
 * and returns the code. */
hs_code hs__queue_end_enqueue(hs__queue *queue, hs__element *element, hs_code code, hs_error *err);
/* Waits for an element and sets *held to it. The former *held returns to the queue's spare elements. HS_STOP: a stop of the
 * op's run was requested. Other codes: the queue has ended. */
hs_code hs__queue_dequeue(hs__queue *queue, const hs_op *op, hs__element **held, hs_error *err);
/* Returns a dequeued element, or NULL, to the spare elements. */
void hs__queue_recycle(hs__queue *queue, hs__element *held);
/* Closes the queue. With `cancel`, waiting enqueues fail and ready elements remain. */
void hs__queue_close(hs__queue *queue, bool cancel);
int32_t hs__queue_size(hs__queue *queue);

hs_code hs__producer_lock_init(hs__producer_lock *producer, hs_error *err);
void hs__producer_lock_destroy(hs__producer_lock *producer);
/* Calls `produce`, saves the producer's position to the element, and ends the enqueue (hs__queue_end_enqueue). */
hs_code hs__queue_produce(hs__queue *queue, const hs_op *op, hs__element *element, hs_error *err);
/* The position as state of the graph. `self` is the hs__queue_def. */
hs_code hs__queue_save_position(void *self, hs_state_writer *out, hs_error *err);
hs_code hs__queue_load_position(void *self, hs_state_reader *in, hs_error *err);

/* graph_queue.c. What an op does to the queue `op->self`. */
typedef enum {
    HS__NO_QUEUE_OP,
    HS__QUEUE_ENQUEUE,
    HS__QUEUE_DEQUEUE,
    HS__QUEUE_CLOSE,
    HS__QUEUE_CANCEL,
    HS__QUEUE_SIZE,
} hs__queue_op;
hs__queue_op hs__queue_op_of(const hs__graph_node *op);

#endif
