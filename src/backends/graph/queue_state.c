/* SPDX-License-Identifier: Apache-2.0 */
/* A session's queue: enqueue, dequeue, close. */
#include "backends/graph/queue.h"

#include <hooksess/coordinator.h>

#include <stddef.h>
#include <time.h>

static bool init_filled(pthread_cond_t *filled)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    bool done = pthread_cond_init(filled, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return done;
}

static bool init_locks(hs__queue *queue)
{
    if (pthread_mutex_init(&queue->lock, NULL) != 0)
        return false;
    if (!init_filled(&queue->filled)) {
        pthread_mutex_destroy(&queue->lock);
        return false;
    }
    if (pthread_cond_init(&queue->emptied, NULL) != 0) {
        pthread_cond_destroy(&queue->filled);
        pthread_mutex_destroy(&queue->lock);
        return false;
    }
    return true;
}

hs__queue *hs__queue_new(hs__queue_def *def, hs_error *err)
{
    hs__queue *queue = hs__alloc(&def->graph->env, 1, sizeof *queue);
    if (!queue || !init_locks(queue)) {
        hs__free(&def->graph->env, queue);
        hs__no_memory(err, sizeof *queue, "a queue");
        return NULL;
    }
    queue->def = def;
    queue->references = 1;
    hs__buffer_init(&queue->position, &def->graph->env);
    return queue;
}

void hs__queue_retain(hs__queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->references++;
    pthread_mutex_unlock(&queue->lock);
}

static void free_elements(const hs__queue_def *def, hs__element *element)
{
    while (element) {
        hs__element *next = element->next;
        hs__element_free(def, element);
        element = next;
    }
}

void hs__queue_release(hs__queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    bool last = --queue->references == 0;
    pthread_mutex_unlock(&queue->lock);
    if (!last)
        return;
    free_elements(queue->def, queue->first);
    free_elements(queue->def, queue->spare);
    hs__buffer_free(&queue->position);
    pthread_cond_destroy(&queue->emptied);
    pthread_cond_destroy(&queue->filled);
    pthread_mutex_destroy(&queue->lock);
    hs__free(&queue->def->graph->env, queue);
}

/* Enqueue. */

static hs_code set_closed_error(const hs__queue *queue, hs_error *err)
{
    return hs_error_set(err, HS_CANCELLED, "cannot enqueue to queue '%s': it is closed", queue->def->name);
}

/* Ends an enqueue. The last one of a closed queue wakes threads that wait for an element. */
static void finish_enqueue(hs__queue *queue)
{
    queue->n_pending--;
    if (queue->closed && !queue->n_pending)
        pthread_cond_broadcast(&queue->filled);
}

/* The caller holds the lock. HS_CANCELLED: the queue is closed and cannot be reopened. */
static hs_code wait_for_room(hs__queue *queue, hs_error *err)
{
    if (queue->closed && (queue->cancelled || !queue->stale))
        return set_closed_error(queue, err);
    queue->closed = queue->stale = queue->ended = false;
    queue->n_pending++;
    while (!queue->cancelled && queue->n_ready + queue->n_filling >= queue->def->capacity)
        pthread_cond_wait(&queue->emptied, &queue->lock);
    if (queue->cancelled) {
        finish_enqueue(queue);
        return set_closed_error(queue, err);
    }
    queue->n_filling++;
    return HS_OK;
}

hs_code hs__queue_begin_enqueue(hs__queue *queue, hs__element **out, hs_error *err)
{
    pthread_mutex_lock(&queue->lock);
    hs__element *element = NULL;
    hs_code code = wait_for_room(queue, err);
    if (!code && (element = queue->spare))
        queue->spare = element->next;
    pthread_mutex_unlock(&queue->lock);
    if (code)
        return code;
    if (!element && !(element = hs__element_new(queue->def, err)))
        return hs__queue_end_enqueue(queue, NULL, HS_RESOURCE_EXHAUSTED, err);
    element->next = NULL;
    hs__element_clear(queue->def, element);
    *out = element;
    return HS_OK;
}

static void add_spare(hs__queue *queue, hs__element *element)
{
    if (!element)
        return;
    element->next = queue->spare;
    queue->spare = element;
}

static void append(hs__queue *queue, hs__element *element)
{
    *(queue->last ? &queue->last->next : &queue->first) = element;
    queue->last = element;
    queue->n_ready++;
}

hs_code hs__queue_end_enqueue(hs__queue *queue, hs__element *element, hs_code code, hs_error *err)
{
    pthread_mutex_lock(&queue->lock);
    queue->n_filling--;
    queue->ended |= code != HS_OK;
    if (!code && queue->cancelled)
        code = set_closed_error(queue, err);
    if (code) {
        add_spare(queue, element);
        pthread_cond_signal(&queue->emptied);
    } else {
        append(queue, element);
        pthread_cond_signal(&queue->filled);
    }
    finish_enqueue(queue);
    pthread_mutex_unlock(&queue->lock);
    return code;
}

/* Dequeue. */

static hs__element *pop_first(hs__queue *queue)
{
    hs__element *element = queue->first;
    if (!(queue->first = element->next))
        queue->last = NULL;
    element->next = NULL;
    queue->n_ready--;
    return element;
}

static bool is_exhausted(const hs__queue *queue)
{
    return queue->closed && (queue->cancelled || !queue->n_pending);
}

static hs_code set_end_error(const hs__queue *queue, hs_error *err)
{
    if (queue->producer_error.code) {
        hs__error_copy(err, &queue->producer_error);
        hs_error_prefix(err, "cannot fill queue '%s'", queue->def->name);
        return queue->producer_error.code;
    }
    if (queue->stale)
        return hs_error_set(
            err, HS_FAILED_PRECONDITION,
            "queue '%s' ended before its position was restored, so its threads no longer fill it; restore in a new session",
            queue->def->name);
    return hs_error_set(err, HS_OUT_OF_RANGE, "queue '%s' is closed and empty", queue->def->name);
}

/* Waits for a change, at most 50 ms: the caller polls for a stop request. */
static void wait_filled(hs__queue *queue)
{
    enum { SLICE_NS = 50000000, NS = 1000000000 };
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += SLICE_NS;
    if (until.tv_nsec >= NS) {
        until.tv_nsec -= NS;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&queue->filled, &queue->lock, &until);
}

static void swap_position(hs__queue *queue, hs__element *element)
{
    if (!queue->def->saved.save)
        return;
    hs__buffer before = queue->position;
    queue->position = element->position;
    element->position = before;
    queue->has_position = true;
}

hs_code hs__queue_dequeue(hs__queue *queue, const hs_op *op, hs__element **held, hs_error *err)
{
    pthread_mutex_lock(&queue->lock);
    bool stopped = false, waits = !queue->first && !is_exhausted(queue);
    if (waits)
        hs__op_report_wait(op, true);
    while (!queue->first && !is_exhausted(queue) && !(stopped = hs_op_stop_requested(op)))
        wait_filled(queue);
    if (waits)
        hs__op_report_wait(op, false);
    hs_code code =
        queue->first ? HS_OK
        : stopped ? hs_error_set(err, HS_STOP, "a stop was requested while a run waited for queue '%s'", queue->def->name)
                  : set_end_error(queue, err);
    if (!code) {
        add_spare(queue, *held);
        *held = pop_first(queue);
        pthread_cond_signal(&queue->emptied);
    }
    if (!code) {
        (*held)->run = op->session->run;
        swap_position(queue, *held);
    }
    pthread_mutex_unlock(&queue->lock);
    return code;
}

static void requeue(hs__queue *queue, hs__element **held)
{
    pthread_mutex_lock(&queue->lock);
    hs__element *element = *held;
    *held = NULL;
    swap_position(queue, element);
    element->next = queue->first;
    queue->first = element;
    if (!queue->last)
        queue->last = element;
    queue->n_ready++;
    pthread_cond_signal(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
}

void hs__queue_recycle(hs__queue *queue, hs__element *held)
{
    pthread_mutex_lock(&queue->lock);
    add_spare(queue, held);
    pthread_mutex_unlock(&queue->lock);
}

void hs__queue_close(hs__queue *queue, bool cancel)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    queue->cancelled |= cancel;
    pthread_cond_broadcast(&queue->filled);
    if (cancel)
        pthread_cond_broadcast(&queue->emptied);
    pthread_mutex_unlock(&queue->lock);
}

bool hs__queue_cancelled(hs__queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    bool cancelled = queue->cancelled;
    pthread_mutex_unlock(&queue->lock);
    return cancelled;
}

int32_t hs__queue_size(hs__queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    int32_t n = (int32_t)queue->n_ready;
    pthread_mutex_unlock(&queue->lock);
    return n;
}

bool hs__queue_has_position(hs__queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    bool has = queue->has_position;
    pthread_mutex_unlock(&queue->lock);
    return has;
}

static void set_position(hs__queue *queue, const hs__buffer *position, bool known)
{
    hs__buffer_free(&queue->position);
    queue->position = *position;
    queue->has_position = known;
}

void hs__queue_set_position(hs__queue *queue, const hs__buffer *position, bool known)
{
    pthread_mutex_lock(&queue->lock);
    set_position(queue, position, known);
    pthread_mutex_unlock(&queue->lock);
}

void hs__queue_rewind(hs__queue *queue, const hs__buffer *position, bool known)
{
    pthread_mutex_lock(&queue->lock);
    set_position(queue, position, known);
    while (queue->first)
        add_spare(queue, pop_first(queue));
    queue->stale = queue->closed || queue->ended;
    queue->producer_error = (hs_error){.code = HS_OK};
    pthread_cond_broadcast(&queue->emptied);
    pthread_mutex_unlock(&queue->lock);
}

static bool is_end(const hs_backend_call *call, hs_code code)
{
    bool has_codes = call->size > offsetof(hs_backend_call, end_codes) && call->end_codes;
    for (const hs_code *end = has_codes ? call->end_codes : HS_CODES(HS_OUT_OF_RANGE); *end; end++)
        if (*end == code)
            return true;
    return false;
}

void hs__graph_requeue(hs__graph_session *session)
{
    for (size_t i = 0; i < session->graph->n_queues; i++)
        if (session->held[i] && session->held[i]->run == session->run)
            requeue(session->queues[i], &session->held[i]);
}

void hs__graph_fail_queues(hs__graph_session *session, const hs_backend_call *call, hs_code code, const hs_error *err)
{
    if (code == HS_CANCELLED || code == HS_STOP || is_end(call, code))
        return;
    hs_error cause = {.code = code, .message = "a run failed"};
    if (err)
        hs__error_copy(&cause, err);
    for (size_t i = 0; i < session->graph->n_queues; i++) {
        size_t rank = session->graph->queues[i]->enqueue->rank;
        hs__queue *queue = session->queues[i];
        if (!(session->needed[rank / 64] >> rank % 64 & 1))
            continue;
        pthread_mutex_lock(&queue->lock);
        if (!queue->producer_error.code)
            hs__error_copy(&queue->producer_error, &cause);
        pthread_mutex_unlock(&queue->lock);
    }
}
