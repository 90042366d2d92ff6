/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/queue.h>

#include "base/env.h"
#include "base/forks.h"

#include <pthread.h>

enum { DEFAULT_CAPACITY = 32, MOST_CAPACITY = 1 << 24 };

/* A condition is signaled only if the count of waiting threads is not 0. A signaled thread is counted until it runs, so
 * that it may get a second, harmless signal. */
struct hs_queue {
    hs_env env;
    char *name;
    void (*release)(void *user, void *element);
    void *user;
    size_t capacity;
    unsigned generation;  /* of the process that made it */
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t not_empty, not_full;
    size_t pops_waiting, pushes_waiting;
    size_t first, n;
    bool closed, cancelled;
    hs_error why; /* the error passed to hs_queue_close */
    void *ring[]; /* `capacity` elements */
};

static hs_code check_options(const hs_queue_options *options, hs_error *err)
{
    if (options->capacity >= 0 && options->capacity <= MOST_CAPACITY)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "queue '%s': capacity is %lld; it must be from 1 to %d, or 0 for %d",
                        options->name ? options->name : "queue", (long long)options->capacity, MOST_CAPACITY,
                        DEFAULT_CAPACITY);
}

static bool init_locks(hs_queue *queue)
{
    if (pthread_mutex_init(&queue->lock, NULL) != 0)
        return false;
    if (pthread_cond_init(&queue->not_empty, NULL) != 0) {
        pthread_mutex_destroy(&queue->lock);
        return false;
    }
    if (pthread_cond_init(&queue->not_full, NULL) != 0) {
        pthread_cond_destroy(&queue->not_empty);
        pthread_mutex_destroy(&queue->lock);
        return false;
    }
    return true;
}

hs_queue *hs_queue_new(const hs_queue_options *given, hs_error *err)
{
    hs_queue_options options = HS_INIT(hs_queue_options);
    hs_env env;
    hs_error_clear(err);
    if ((given && HS_STRUCT_TAKE(hs_queue_options, env, &options, given, err)) || check_options(&options, err) ||
        hs__env_copy(&env, options.env, err))
        return NULL;
    size_t capacity = options.capacity ? (size_t)options.capacity : DEFAULT_CAPACITY;
    hs_queue *queue = hs__alloc(&env, 1, sizeof *queue + capacity * sizeof *queue->ring);
    char *name = hs__strdup(&env, options.name ? options.name : "queue");
    if (!queue || !name || !init_locks(queue)) {
        hs__free(&env, name);
        hs__free(&env, queue);
        hs__no_memory(err, capacity * sizeof *queue->ring, "a queue");
        return NULL;
    }
    queue->env = env;
    queue->generation = hs__fork_generation();
    queue->name = name;
    queue->capacity = capacity;
    queue->release = options.release;
    queue->user = options.user;
    return queue;
}

static void *remove_first(hs_queue *queue)
{
    void *element = queue->ring[queue->first];
    queue->first = queue->first + 1 < queue->capacity ? queue->first + 1 : 0;
    queue->n--;
    return element;
}

void hs_queue_free(hs_queue *queue)
{
    if (!queue || hs__is_inherited(queue->generation))
        return;
    while (queue->n) {
        void *element = remove_first(queue);
        if (queue->release)
            queue->release(queue->user, element);
    }
    pthread_cond_destroy(&queue->not_full);
    pthread_cond_destroy(&queue->not_empty);
    pthread_mutex_destroy(&queue->lock);
    hs_env env = queue->env;
    hs__free(&env, queue->name);
    hs__free(&env, queue);
}

/* Pushing. */

/* Unlocks. Wakes all pops of a closed queue, because this may have been the last pending push. */
static void unlock_after_push(hs_queue *queue, bool pushed)
{
    bool wakes_all = queue->closed && queue->pops_waiting;
    bool wakes_one = pushed && queue->pops_waiting;
    pthread_mutex_unlock(&queue->lock);
    if (wakes_all)
        pthread_cond_broadcast(&queue->not_empty);
    else if (wakes_one)
        pthread_cond_signal(&queue->not_empty);
}

static hs_code push(hs_queue *queue, void *element, bool waits, hs_error *err)
{
    if (!queue)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "queue is NULL");
    hs__clear(err);
    pthread_mutex_lock(&queue->lock);
    bool refused = queue->closed; /* a push that already waits when the queue is closed is refused only if cancelled */
    while (waits && !refused && queue->n == queue->capacity) {
        queue->pushes_waiting++;
        pthread_cond_wait(&queue->not_full, &queue->lock);
        queue->pushes_waiting--;
        refused = queue->cancelled;
    }
    bool pushed = !refused && queue->n < queue->capacity;
    if (pushed) {
        size_t at = queue->first + queue->n++;
        queue->ring[at < queue->capacity ? at : at - queue->capacity] = element;
    }
    unlock_after_push(queue, pushed);
    if (pushed)
        return HS_OK;
    return refused ? hs_error_set(err, HS_CANCELLED, "cannot push to queue '%s': it is closed", queue->name)
                   : hs_error_set(err, HS_UNAVAILABLE, "queue '%s' is full", queue->name);
}

hs_code hs_queue_push(hs_queue *queue, void *element, hs_error *err)
{
    return push(queue, element, true, err);
}

hs_code hs_queue_try_push(hs_queue *queue, void *element, hs_error *err)
{
    return push(queue, element, false, err);
}

/* Popping. */

/* True if the queue is empty and no push can add an element. */
static bool is_drained(const hs_queue *queue)
{
    return queue->closed && !queue->n && (queue->cancelled || !queue->pushes_waiting);
}

/* The error of a pop from an empty queue. Call with the lock held. */
static hs_code empty_error(const hs_queue *queue, hs_error *err)
{
    if (!is_drained(queue))
        return hs_error_set(err, HS_UNAVAILABLE, "queue '%s' is empty", queue->name);
    if (queue->why.code)
        return hs__error_copy(err, &queue->why);
    return hs_error_set(err, HS_OUT_OF_RANGE, "queue '%s' is closed and empty", queue->name);
}

static hs_code pop(hs_queue *queue, void **element, bool waits, hs_error *err)
{
    if (!queue || !element)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is NULL", queue ? "element" : "queue");
    hs__clear(err);
    pthread_mutex_lock(&queue->lock);
    while (waits && !queue->n && !is_drained(queue)) {
        queue->pops_waiting++;
        pthread_cond_wait(&queue->not_empty, &queue->lock);
        queue->pops_waiting--;
    }
    hs_code code = queue->n ? HS_OK : empty_error(queue, err);
    bool wakes = !code && queue->pushes_waiting;
    if (!code)
        *element = remove_first(queue);
    pthread_mutex_unlock(&queue->lock);
    if (wakes)
        pthread_cond_signal(&queue->not_full);
    return code;
}

hs_code hs_queue_pop(hs_queue *queue, void **element, hs_error *err)
{
    return pop(queue, element, true, err);
}

hs_code hs_queue_try_pop(hs_queue *queue, void **element, hs_error *err)
{
    return pop(queue, element, false, err);
}

void hs_queue_close(hs_queue *queue, bool cancel_pending_pushes, const hs_error *why)
{
    if (!queue)
        return;
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    queue->cancelled |= cancel_pending_pushes;
    if (why && !queue->why.code)
        hs__error_copy(&queue->why, why);
    pthread_cond_broadcast(&queue->not_empty);
    if (cancel_pending_pushes)
        pthread_cond_broadcast(&queue->not_full);
    pthread_mutex_unlock(&queue->lock);
}

bool hs_queue_closed(const hs_queue *queue)
{
    hs_queue *locked = (hs_queue *)queue;
    if (!queue)
        return true;
    pthread_mutex_lock(&locked->lock);
    bool closed = queue->closed;
    pthread_mutex_unlock(&locked->lock);
    return closed;
}

size_t hs_queue_size(const hs_queue *queue)
{
    hs_queue *locked = (hs_queue *)queue;
    if (!queue)
        return 0;
    pthread_mutex_lock(&locked->lock);
    size_t n = queue->n;
    pthread_mutex_unlock(&locked->lock);
    return n;
}

size_t hs_queue_capacity(const hs_queue *queue)
{
    return queue ? queue->capacity : 0;
}

const char *hs_queue_name(const hs_queue *queue)
{
    return queue ? queue->name : NULL;
}
