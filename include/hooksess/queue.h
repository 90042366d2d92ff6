/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_QUEUE_H
#define HOOKSESS_QUEUE_H

#include <hooksess/env.h>

/* A bounded queue of pointers between threads, first in, first out; many may push and pop. TensorFlow: FIFOQueue. For
 * queues of tensors that a session fills and empties, see hs_graph_queue (graph.h).
 *
 * Threads: any. */

HS_BEGIN_DECLS

typedef struct hs_queue hs_queue;

typedef struct hs_queue_options {
    size_t size;
    const char *name;                           /* for messages; NULL: "queue". Copied */
    int64_t capacity;                           /* elements, at most 2^24; 0: 32 */
    void (*release)(void *user, void *element); /* frees what is left when the queue is; NULL: nothing is freed */
    void *user;
    const hs_env *env; /* NULL: the system's. Copied */
} hs_queue_options;
#define HS_QUEUE_OPTIONS(...) HS_OPTIONS(hs_queue_options, __VA_ARGS__)

/* `options` may be NULL. The caller's to free. HS_RESOURCE_EXHAUSTED, HS_INVALID_ARGUMENT. */
HS_API hs_queue *hs_queue_new(const hs_queue_options *options, hs_error *err);
/* NULL is allowed. When no thread uses it any more. Releases what is left in it. */
HS_API void hs_queue_free(hs_queue *queue);

/* Appends an element, waiting as long as the queue is full. HS_CANCELLED: it is closed; the element stays the caller's. */
HS_API hs_code hs_queue_push(hs_queue *queue, void *element, hs_error *err);
/* Takes the first element, waiting as long as there is none. Of a queue that is closed and empty: HS_OUT_OF_RANGE, or the
 * error that it was closed with. */
HS_API hs_code hs_queue_pop(hs_queue *queue, void **element, hs_error *err);
/* The same without waiting: HS_UNAVAILABLE if it would have to. */
HS_API hs_code hs_queue_try_push(hs_queue *queue, void *element, hs_error *err);
HS_API hs_code hs_queue_try_pop(hs_queue *queue, void **element, hs_error *err);

/* Nothing more is taken in; what is there can still be popped, and then pops give HS_OUT_OF_RANGE, or `why` if it is an
 * error. Pushes that are waiting for room go on, and are made if there comes to be room; with `cancel_pending_pushes` they
 * fail at once with HS_CANCELLED. Closing again may cancel what an earlier close has left waiting; the first error is kept.
 */
HS_API void hs_queue_close(hs_queue *queue, bool cancel_pending_pushes, const hs_error *why);
/* Of NULL: true. */
HS_API bool hs_queue_closed(const hs_queue *queue);
/* How many elements are in it. */
HS_API size_t hs_queue_size(const hs_queue *queue);
HS_API size_t hs_queue_capacity(const hs_queue *queue);
/* The queue's. */
HS_API const char *hs_queue_name(const hs_queue *queue);

HS_END_DECLS

#endif
