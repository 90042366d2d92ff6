/* SPDX-License-Identifier: Apache-2.0 */
/* A session's queue (queue.h): the memory of its elements; the queue, which enqueue and dequeue lock; and the producer,
 * whose own lock is held while it is called or its position is saved or loaded. */
#include <hooksess/coordinator.h>

#include "backends/graph/queue.h"
#include "base/device.h"
#include "base/state.h"
#include "base/tensor.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

/* Elements of queues: tensors with their memory. */

static bool is_open(const hs_output_def *component)
{
    return component->dtype == HS_STRING || hs_shape_elements(&component->shape) < 0;
}

static void element_free(const hs__queue_def *def, hs__element *element)
{
    const hs_env *env = &def->graph->env;
    if (!element)
        return;
    for (size_t i = 0; element->owned && i < def->element.n_outputs; i++)
        hs__free(env, element->owned[i]);
    hs__free(env, element->values);
    hs__free(env, element->owned);
    hs__free(env, element->capacity);
    hs__buffer_free(&element->position);
    hs__free(env, element);
}

static hs_code grow(const hs__queue_def *def, hs__element *element, size_t component, size_t bytes, hs_error *err)
{
    if (element->owned[component] && bytes <= element->capacity[component])
        return HS_OK;
    void *memory = hs__alloc(&def->graph->env, bytes, 1);
    if (!memory)
        return hs__no_memory(err, bytes, "an element of a queue");
    hs__free(&def->graph->env, element->owned[component]);
    element->owned[component] = memory;
    element->capacity[component] = bytes;
    return HS_OK;
}

/* Points the values to the element's memory. Values of unknown size become unset (rank -1). */
static void element_clear(const hs__queue_def *def, hs__element *element)
{
    for (size_t i = 0; i < def->element.n_outputs; i++) {
        const hs_output_def *component = &def->element.outputs[i];
        bool open = is_open(component);
        element->values[i] = hs_tensor_of(component->dtype, component->shape, open ? NULL : element->owned[i]);
        if (open)
            element->values[i].rank = -1; /* unset */
    }
    hs__buffer_clear(&element->position);
}

static hs__element *element_new(const hs__queue_def *def, hs_error *err)
{
    const hs_env *env = &def->graph->env;
    size_t n = def->element.n_outputs;
    hs__element *element = hs__alloc(env, 1, sizeof *element);
    if (!element) {
        hs__no_memory(err, sizeof *element, "an element of a queue");
        return NULL;
    }
    hs__buffer_init(&element->position, env);
    element->values = hs__alloc(env, n, sizeof *element->values);
    element->owned = hs__alloc(env, n, sizeof *element->owned);
    element->capacity = hs__alloc(env, n, sizeof *element->capacity);
    hs_code code = element->values && element->owned && element->capacity
                       ? HS_OK
                       : hs__no_memory(err, n * sizeof *element->values, "an element of a queue");
    for (size_t i = 0; !code && i < n; i++) {
        const hs_output_def *component = &def->element.outputs[i];
        if (!is_open(component))
            code = grow(def, element, i, hs_tensor_of(component->dtype, component->shape, NULL).bytes, err);
    }
    if (!code)
        return element;
    element_free(def, element);
    return NULL;
}

/* Copies the list of strings, followed by their bytes. */
static hs_code copy_strings(const hs__queue_def *def, hs__element *element, size_t component, const hs_tensor *value,
                            hs_error *err)
{
    const hs_string *from = value->data;
    size_t n = value->bytes / sizeof *from, bytes = value->bytes;
    for (size_t i = 0; i < n; i++)
        bytes += from[i].bytes;
    hs_code code = grow(def, element, component, bytes, err);
    if (code)
        return code;
    hs_string *to = element->owned[component];
    char *text = (char *)(to + n);
    for (size_t i = 0; i < n; i++) {
        to[i] = (hs_string){text, from[i].bytes};
        if (from[i].bytes)
            memcpy(text, from[i].data, from[i].bytes);
        text += from[i].bytes;
    }
    return HS_OK;
}

static hs_code copy_bytes(const hs__queue_def *def, hs__element *element, size_t component, const hs_tensor *value,
                          hs_error *err)
{
    hs_code code = grow(def, element, component, value->bytes, err);
    if (code)
        return code;
    void *to = element->owned[component];
    if (value->memory)
        return hs__tensor_to_host(NULL, value, to, err);
    if (value->bytes)
        memcpy(to, value->data, value->bytes);
    return HS_OK;
}

hs_code hs__element_set(const hs__queue_def *def, hs__element *element, size_t component, const hs_tensor *value,
                        hs_error *err)
{
    const hs_output_def *wanted = &def->element.outputs[component];
    hs_shape shape = hs_tensor_shape(value);
    char open[HS_SHAPE_TEXT_SIZE], given[HS_SHAPE_TEXT_SIZE];
    if (value->dtype != wanted->dtype || !hs__shape_fits(&wanted->shape, &shape))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "component %zu of queue '%s' is %s %s, but its value is %s %s",
                            component, def->name, hs_dtype_name(wanted->dtype),
                            hs_shape_text(&wanted->shape, open, sizeof open), hs_dtype_name(value->dtype),
                            hs_shape_text(&shape, given, sizeof given));
    hs_code code = value->dtype == HS_STRING ? copy_strings(def, element, component, value, err)
                                             : copy_bytes(def, element, component, value, err);
    if (!code)
        element->values[component] = hs_tensor_of(wanted->dtype, shape, element->owned[component]);
    return code;
}

static bool init_locks(hs__queue *queue)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    bool lock = pthread_mutex_init(&queue->lock, NULL) == 0;
    bool filled = lock && pthread_cond_init(&queue->filled, &monotonic) == 0;
    bool emptied = filled && pthread_cond_init(&queue->emptied, NULL) == 0;
    pthread_condattr_destroy(&monotonic);
    if (filled && !emptied)
        pthread_cond_destroy(&queue->filled);
    if (lock && !emptied)
        pthread_mutex_destroy(&queue->lock);
    return emptied;
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
        element_free(def, element);
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

hs_code hs__queue_begin_enqueue(hs__queue *queue, hs__element **out, hs_error *err)
{
    pthread_mutex_lock(&queue->lock);
    bool is_open = !queue->closed || (queue->stale && !queue->cancelled);
    if (is_open) {
        queue->closed = queue->stale = queue->ended = false;
        queue->n_pending++;
        while (!queue->cancelled && queue->n_ready + queue->n_filling >= queue->def->capacity)
            pthread_cond_wait(&queue->emptied, &queue->lock);
        if (queue->cancelled)
            finish_enqueue(queue);
    }
    if (!is_open || queue->cancelled) {
        pthread_mutex_unlock(&queue->lock);
        return set_closed_error(queue, err);
    }
    queue->n_filling++;
    hs__element *element = queue->spare;
    if (element)
        queue->spare = element->next;
    pthread_mutex_unlock(&queue->lock);
    if (!element && !(element = element_new(queue->def, err)))
        return hs__queue_end_enqueue(queue, NULL, HS_RESOURCE_EXHAUSTED, err);
    element->next = NULL;
    element_clear(queue->def, element);
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
        *(queue->last ? &queue->last->next : &queue->first) = element;
        queue->last = element;
        queue->n_ready++;
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
        (*held)->run = op->session->run;
        swap_position(queue, *held);
    }
    pthread_mutex_unlock(&queue->lock);
    return code;
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

int32_t hs__queue_size(hs__queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    int32_t n = (int32_t)queue->n_ready;
    pthread_mutex_unlock(&queue->lock);
    return n;
}

static bool queue_has_position(hs__queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    bool has = queue->has_position;
    pthread_mutex_unlock(&queue->lock);
    return has;
}

/* Sets the position; adopts its memory. If not `known`, the producer is asked for it before its next call. The caller holds
 * the queue's lock. */
static void set_position(hs__queue *queue, const hs__buffer *position, bool known)
{
    hs__buffer_free(&queue->position);
    queue->position = *position;
    queue->has_position = known;
}

void hs__graph_requeue(hs__graph_session *session)
{
    for (size_t i = 0; i < session->graph->n_queues; i++) {
        hs__queue *queue = session->queues[i];
        hs__element *element = session->held[i];
        if (!element || element->run != session->run)
            continue;
        session->held[i] = NULL;
        pthread_mutex_lock(&queue->lock);
        swap_position(queue, element);
        element->next = queue->first;
        queue->first = element;
        if (!queue->last)
            queue->last = element;
        queue->n_ready++;
        pthread_cond_signal(&queue->filled);
        pthread_mutex_unlock(&queue->lock);
    }
}

void hs__graph_fail_queues(hs__graph_session *session, const hs_backend_call *call, hs_code code, const hs_error *err)
{
    bool has_codes = call->size > offsetof(hs_backend_call, end_codes) && call->end_codes;
    bool is_end = code == HS_CANCELLED || code == HS_STOP;
    for (const hs_code *end = has_codes ? call->end_codes : HS_CODES(HS_OUT_OF_RANGE); *end; end++)
        is_end |= code == *end;
    if (is_end)
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

/* The producer and its position. */

hs_code hs__producer_lock_init(hs__producer_lock *producer, hs_error *err)
{
    if (pthread_mutex_init(&producer->lock, NULL) != 0)
        return hs__no_memory(err, sizeof producer->lock, "a lock");
    if (pthread_cond_init(&producer->changed, NULL) == 0)
        return HS_OK;
    pthread_mutex_destroy(&producer->lock);
    return hs__no_memory(err, sizeof producer->changed, "a lock");
}

void hs__producer_lock_destroy(hs__producer_lock *producer)
{
    pthread_cond_destroy(&producer->changed);
    pthread_mutex_destroy(&producer->lock);
}

static void lock_producer(hs__producer_lock *producer, bool priority)
{
    pthread_mutex_lock(&producer->lock);
    producer->priority_waiting += priority;
    while (producer->held || (!priority && producer->priority_waiting))
        pthread_cond_wait(&producer->changed, &producer->lock);
    producer->priority_waiting -= priority;
    producer->held = true;
    pthread_mutex_unlock(&producer->lock);
}

static void unlock_producer(hs__producer_lock *producer)
{
    pthread_mutex_lock(&producer->lock);
    producer->held = false;
    pthread_cond_broadcast(&producer->changed);
    pthread_mutex_unlock(&producer->lock);
}

/* Sets *position to the producer's position. The caller holds the producer's lock. */
static hs_code save_producer_position(const hs__queue_def *def, hs__buffer *position, hs_error *err)
{
    hs_state_writer writer = hs__state_writer_to(position);
    hs__buffer_clear(position);
    hs_code code = hs__normalize_error(def->saved.save(def->saved.self, &writer, err), "position.save", err);
    return code ? code : hs__error_copy(err, &writer.error);
}

/* Asks the producer for its first position, before its first call. The caller holds the producer's lock. */
static hs_code ensure_position(hs__queue *queue, hs_error *err)
{
    if (!queue->def->saved.save || queue_has_position(queue))
        return HS_OK;
    hs__buffer position;
    hs__buffer_init(&position, &queue->def->graph->env);
    hs_code code = save_producer_position(queue->def, &position, err);
    if (code) {
        hs__buffer_free(&position);
        return code;
    }
    pthread_mutex_lock(&queue->lock);
    set_position(queue, &position, true);
    pthread_mutex_unlock(&queue->lock);
    return HS_OK;
}

/* Calls `produce` with an op whose outputs are the element's values. Copies values that it set as views to the element's
 * memory. HS_INTERNAL: a value is unset. */
static hs_code call_producer(const hs__queue_def *def, const hs_op *op, hs__element *element, hs_error *err)
{
    hs__graph_session inside = {.graph = def->graph, .tensors = element->values, .step = op->session->step};
    hs_op producing = {&inside, &def->element};
    hs_code code = hs__normalize_error(def->produce(def->self, &producing, err), "produce", err);
    for (size_t i = 0; !code && i < def->element.n_outputs; i++) {
        hs_tensor value = element->values[i];
        if (value.rank < 0 || (!value.data && value.bytes))
            code = hs_error_set(err, HS_INTERNAL, "component %zu of queue '%s' was not set", i, def->name);
        else if (value.data != element->owned[i] || is_open(&def->element.outputs[i]))
            code = hs__element_set(def, element, i, &value, err);
    }
    return code;
}

hs_code hs__queue_produce(hs__queue *queue, const hs_op *op, hs__element *element, hs_error *err)
{
    hs__queue_def *def = queue->def;
    if (!def->locks_producer)
        return hs__queue_end_enqueue(queue, element, call_producer(def, op, element, err), err);
    lock_producer(&def->producer_lock, false);
    /* If the queue was cancelled during the wait, another session may use the producer now. The end then fails. */
    pthread_mutex_lock(&queue->lock);
    bool is_cancelled = queue->cancelled;
    pthread_mutex_unlock(&queue->lock);
    hs_code code = is_cancelled ? HS_OK : ensure_position(queue, err);
    if (!code && !is_cancelled && !(code = call_producer(def, op, element, err)) && def->saved.save)
        code = save_producer_position(def, &element->position, err);
    code = hs__queue_end_enqueue(queue, element, code, err);
    unlock_producer(&def->producer_lock);
    return code;
}

static hs_code check_live(const hs__queue_def *def, hs_error *err)
{
    return def->live ? HS_OK
                     : hs_error_set(err, HS_FAILED_PRECONDITION,
                                    "queue '%s' has no position: the graph has no open session", def->name);
}

hs_code hs__queue_save_position(void *self, hs_state_writer *out, hs_error *err)
{
    hs__queue_def *def = self;
    hs_code code = check_live(def, err);
    if (code)
        return code;
    hs__queue *queue = def->live;
    if (!queue_has_position(queue)) { /* otherwise do not wait for a slow producer */
        lock_producer(&def->producer_lock, true);
        code = ensure_position(queue, err);
        unlock_producer(&def->producer_lock);
    }
    if (code)
        return code;
    pthread_mutex_lock(&queue->lock);
    code = hs_state_writer_write(out, queue->position.data, queue->position.size, err);
    pthread_mutex_unlock(&queue->lock);
    return code;
}

/* The loaded bytes are the position until an element is dequeued. If they are of an older version, the producer is asked
 * for its position instead, so that a save has the current version. */
hs_code hs__queue_load_position(void *self, hs_state_reader *in, hs_error *err)
{
    hs__queue_def *def = self;
    hs_code code = check_live(def, err);
    if (code)
        return code;
    hs__queue *queue = def->live;
    hs__buffer loaded;
    hs__buffer_init(&loaded, &def->graph->env);
    lock_producer(&def->producer_lock, true);

    /* copy the remaining bytes, and let the producer read them from there */
    size_t bytes = in->left;
    unsigned char *room = bytes ? hs__buffer_room(&loaded, bytes) : NULL;
    code =
        bytes && !room ? hs__no_memory(err, bytes, "the position of a queue") : hs_state_reader_read(in, room, bytes, err);
    if (!code) {
        loaded.size = bytes;
        *in = (hs_state_reader){.at = loaded.data, .left = bytes, .version = in->version};
        code = hs__normalize_error(def->saved.load(def->saved.self, in, err), "position.load", err);
    }
    if (code) {
        hs__buffer_free(&loaded);
    } else { /* drop ready elements and the producer's error */
        pthread_mutex_lock(&queue->lock);
        set_position(queue, &loaded, hs_state_reader_version(in) == def->saved.version);
        while (queue->first)
            add_spare(queue, pop_first(queue));
        queue->stale = queue->closed || queue->ended;
        queue->producer_error = (hs_error){.code = HS_OK};
        pthread_cond_broadcast(&queue->emptied);
        pthread_mutex_unlock(&queue->lock);
    }
    unlock_producer(&def->producer_lock);
    return code;
}
