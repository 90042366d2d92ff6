/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_QUEUE_H
#define HOOKSESS_QUEUE_H

#include <hooksess/env.h>

/* A bounded first-in-first-out queue of pointers, for several producers and consumers. For queues of tensors that feed a
 * session, see hs_graph_queue (graph.h). TensorFlow: FIFOQueue.
 *
 *     hs_queue *queue = hs_queue_new(HS_QUEUE_OPTIONS(.name = "batches", .capacity = 8), &err);
 *     void *batch = NULL;
 *     if (hs_queue_push(queue, &first_batch, &err) == HS_OK)
 *         hs_queue_pop(queue, &batch, &err);
 *     hs_queue_close(queue, true, NULL);
 *     hs_queue_free(queue);
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_queue hs_queue;

typedef struct hs_queue_options {
    size_t size;
    const char *name;                           /* the name in messages. NULL: "queue". Copied */
    int64_t capacity;                           /* elements, 1 to 2^24. 0: 32 */
    void (*release)(void *user, void *element); /* frees an element that remains in hs_queue_free(). NULL: nothing */
    void *user;
    const hs_env *env;
} hs_queue_options;
#define HS_QUEUE_OPTIONS(...) HS_OPTIONS(hs_queue_options, __VA_ARGS__)

/* `options` NULL: the defaults. */
HS_API hs_queue *hs_queue_new(const hs_queue_options *options, hs_error *err);
/* Releases the remaining elements and frees the queue. Does nothing in a forked child of the process that made it. */
HS_API void hs_queue_free(hs_queue *queue);

/* Appends an element. Blocks while the queue is full. HS_CANCELLED: the queue is closed; the caller keeps the element. */
HS_API hs_code hs_queue_push(hs_queue *queue, void *element, hs_error *err);
/* Removes the first element. Blocks while the queue is empty and open. If it is closed and empty: the error that
 * hs_queue_close() got, or else HS_OUT_OF_RANGE. */
HS_API hs_code hs_queue_pop(hs_queue *queue, void **element, hs_error *err);
/* The same without blocking. HS_UNAVAILABLE: the queue is full, or empty. */
HS_API hs_code hs_queue_try_push(hs_queue *queue, void *element, hs_error *err);
HS_API hs_code hs_queue_try_pop(hs_queue *queue, void **element, hs_error *err);

/* Closes the queue. New pushes fail with HS_CANCELLED. The elements can still be popped.
 *
 * cancel_pending_pushes  true: pushes that wait for room fail with HS_CANCELLED. false: they succeed when pops make room
 * why                    what pops return when the queue is empty. NULL or HS_OK: HS_OUT_OF_RANGE
 *
 * A later call may cancel pushes that still wait. The first error is kept. */
HS_API void hs_queue_close(hs_queue *queue, bool cancel_pending_pushes, const hs_error *why);
HS_API bool hs_queue_closed(const hs_queue *queue);
/* Return the number of elements, which other threads may change at any time; the capacity; and the name, which is valid as
 * long as the queue. 0 or NULL for a NULL queue. */
HS_API size_t hs_queue_size(const hs_queue *queue);
HS_API size_t hs_queue_capacity(const hs_queue *queue);
HS_API const char *hs_queue_name(const hs_queue *queue);

HS_END_DECLS

#endif
