/* SPDX-License-Identifier: Apache-2.0 */
/* The time of passing an element from thread to thread: with a queue of the graph, and with a minimal ring, interleaved.
 *
 *     queue_ns         one element through hs_graph_queue, from its thread to runs that fetch it, at a depth of 32
 *     ring_ns          the same through a mutex, two condition variables and an array
 *     queue_over_ring  elements a second of the first over those of the second: the median of the rounds
 */
#include "bench.h"

#include <hooksess/hooksess.h>

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

static void *fill_ring(void *user)
{
    for (uintptr_t i = 1; i <= ELEMENTS; i++)
        ring_push(user, (void *)i);
    return NULL;
}

/* Nanoseconds per element. */
static double measure_ring(void)
{
    static ring r = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, {NULL}};
    pthread_t producer;
    double begun = bench_now();
    if (pthread_create(&producer, NULL, fill_ring, &r))
        abort();
    for (uintptr_t i = 1; i <= ELEMENTS; i++)
        if ((uintptr_t)ring_pop(&r) != i)
            abort();
    pthread_join(producer, NULL);
    return (bench_now() - begun) * 1e9 / ELEMENTS;
}

static hs_code produce(void *user, hs_op *op, hs_error *err)
{
    int64_t *next = user;
    (void)err;
    *(int64_t *)hs_op_output(op, 0)->data = ++*next;
    return HS_OK;
}

/* Nanoseconds per element, of which the first starts the thread. */
static double measure_queue(void)
{
    const hs_run_args dequeue = HS_INIT(hs_run_args, .names = HS_NAMES("input/dequeue"));
    int64_t next = 0;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_queue(g, .name = "input", .capacity = DEPTH, .components = HS_OUTPUTS({.dtype = HS_INT64}), .produce = produce,
                   .user = &next);
    hs_session *s = hs_session_open(hs_graph_backend(g), NULL, NULL);
    double begun = bench_now();
    if (!s)
        abort();
    for (int64_t i = 1; i <= ELEMENTS; i++) {
        const hs_run_values *values;
        if (hs_raw_session_run(hs_session_raw(s), &dequeue, &values, NULL) ||
            *(const int64_t *)hs_run_values_tensor(values, 0)->data != i)
            abort();
    }
    double ns = (bench_now() - begun) * 1e9 / ELEMENTS;
    hs_session_close(s, NULL);
    hs_graph_free(g);
    return ns;
}

int main(void)
{
    double queue_ns[BENCH_ROUNDS], ring_ns[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        bool first = i % 2; /* the order may matter */
        if (first)
            queue_ns[i] = measure_queue();
        ring_ns[i] = measure_ring();
        if (!first)
            queue_ns[i] = measure_queue();
        ratio[i] = ring_ns[i] / queue_ns[i];
    }
    bench_print("queue_ns", bench_median(queue_ns, BENCH_ROUNDS), "ns");
    bench_print("ring_ns", bench_median(ring_ns, BENCH_ROUNDS), "ns");
    bench_print("queue_over_ring", bench_median(ratio, BENCH_ROUNDS), "ratio");
    return 0;
}
