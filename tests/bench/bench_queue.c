/* SPDX-License-Identifier: Apache-2.0 */
/* The time of passing an element from thread to thread: with hs_queue, and with a minimal ring, interleaved.
 *
 *     queue_ns         one element through hs_queue, from one producer to one consumer, at a depth of 32
 *     ring_ns          the same through a mutex, two condition variables and an array
 *     queue_over_ring  elements a second of the first over those of the second: the median of the rounds
 */
#include "bench.h"

#include <hooksess/queue.h>

#include <pthread.h>

enum { DEPTH = 32, ELEMENTS = 200000 };

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    size_t first, n;
    void *items[DEPTH];
} ring;

static void ring_push(void *self, void *element)
{
    ring *r = self;
    pthread_mutex_lock(&r->lock);
    while (r->n == DEPTH)
        pthread_cond_wait(&r->not_full, &r->lock);
    r->items[(r->first + r->n++) % DEPTH] = element;
    pthread_mutex_unlock(&r->lock);
    pthread_cond_signal(&r->not_empty);
}

static void *ring_pop(void *self)
{
    ring *r = self;
    pthread_mutex_lock(&r->lock);
    while (r->n == 0)
        pthread_cond_wait(&r->not_empty, &r->lock);
    void *element = r->items[r->first];
    r->first = (r->first + 1) % DEPTH;
    r->n--;
    pthread_mutex_unlock(&r->lock);
    pthread_cond_signal(&r->not_full);
    return element;
}

static void queue_push(void *self, void *element)
{
    if (hs_queue_push(self, element, NULL))
        abort();
}

static void *queue_pop(void *self)
{
    void *element = NULL;
    if (hs_queue_pop(self, &element, NULL))
        abort();
    return element;
}

typedef struct {
    void *self;
    void (*push)(void *self, void *element);
    void *(*pop)(void *self);
} subject;

static void *produce(void *user)
{
    const subject *s = user;
    for (uintptr_t i = 1; i <= ELEMENTS; i++)
        s->push(s->self, (void *)i);
    return NULL;
}

/* Nanoseconds per element. */
static double measure(subject *s)
{
    pthread_t producer;
    double begun = bench_now();
    if (pthread_create(&producer, NULL, produce, s))
        abort();
    for (uintptr_t i = 1; i <= ELEMENTS; i++)
        if ((uintptr_t)s->pop(s->self) != i)
            abort();
    pthread_join(producer, NULL);
    return (bench_now() - begun) * 1e9 / ELEMENTS;
}

int main(void)
{
    static ring bare = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, {NULL}};
    hs_queue *queue = hs_queue_new(HS_QUEUE_OPTIONS(.capacity = DEPTH), NULL);
    subject ours = {queue, queue_push, queue_pop}, theirs = {&bare, ring_push, ring_pop};
    double queue_ns[BENCH_ROUNDS], ring_ns[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
    if (!queue)
        return 1;
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        bool first = i % 2; /* the order may matter */
        if (first)
            queue_ns[i] = measure(&ours);
        ring_ns[i] = measure(&theirs);
        if (!first)
            queue_ns[i] = measure(&ours);
        ratio[i] = ring_ns[i] / queue_ns[i];
    }
    bench_print("queue_ns", bench_median(queue_ns, BENCH_ROUNDS), "ns");
    bench_print("ring_ns", bench_median(ring_ns, BENCH_ROUNDS), "ns");
    bench_print("queue_over_ring", bench_median(ratio, BENCH_ROUNDS), "ratio");
    hs_queue_free(queue);
    return 0;
}
