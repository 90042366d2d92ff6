/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the producer of a queue, and saves and loads its position (queue.h). */
#include "backends/graph/queue.h"

#include "base/state.h"

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
    if (!queue->def->saved.save || hs__queue_has_position(queue))
        return HS_OK;
    hs__buffer position;
    hs__buffer_init(&position, &queue->def->graph->env);
    hs_code code = save_producer_position(queue->def, &position, err);
    if (code)
        hs__buffer_free(&position);
    else
        hs__queue_set_position(queue, &position, true);
    return code;
}

/* Calls `produce` with an op whose outputs are the element's values. */
static hs_code call_producer(const hs__queue_def *def, const hs_op *op, hs__element *element, hs_error *err)
{
    hs__graph_session inside = {.graph = def->graph, .tensors = element->values, .step = op->session->step};
    hs_op producing = {&inside, &def->element};
    hs_code code = hs__normalize_error(def->produce(def->self, &producing, err), "produce", err);
    return code ? code : hs__element_copy_views(def, element, err);
}

static hs_code produce_locked(hs__queue *queue, const hs_op *op, hs__element *element, hs_error *err)
{
    const hs__queue_def *def = queue->def;
    if (hs__queue_cancelled(queue)) /* during the wait for the lock: another session may use the producer now */
        return hs_error_set(err, HS_CANCELLED, "cannot enqueue to queue '%s': it is closed", def->name);
    hs_code code = ensure_position(queue, err);
    if (!code && !(code = call_producer(def, op, element, err)) && def->saved.save)
        code = save_producer_position(def, &element->position, err);
    return code;
}

hs_code hs__queue_produce(hs__queue *queue, const hs_op *op, hs__element *element, hs_error *err)
{
    hs__queue_def *def = queue->def;
    if (!def->locks_producer)
        return hs__queue_end_enqueue(queue, element, call_producer(def, op, element, err), err);
    lock_producer(&def->producer_lock, false);
    hs_code code = hs__queue_end_enqueue(queue, element, produce_locked(queue, op, element, err), err);
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
    if (!hs__queue_has_position(queue)) { /* otherwise do not wait for a slow producer */
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

/* Copies the remaining bytes to `to`, and makes `in` read them from there. */
static hs_code read_remaining(hs_state_reader *in, hs__buffer *to, hs_error *err)
{
    size_t bytes = in->left;
    unsigned char *room = bytes ? hs__buffer_room(to, bytes) : NULL;
    if (bytes && !room)
        return hs__no_memory(err, bytes, "the position of a queue");
    hs_code code = hs_state_reader_read(in, room, bytes, err);
    to->size += code ? 0 : bytes;
    if (!code)
        *in = (hs_state_reader){.at = to->data, .left = bytes, .version = in->version};
    return code;
}

/* The loaded bytes are the position until an element is dequeued. If they are of an older version, the producer is asked
 * for its position instead, so that a save has the current version. */
static hs_code load_locked(hs__queue *queue, hs_state_reader *in, hs_error *err)
{
    const hs__queue_def *def = queue->def;
    hs__buffer loaded;
    hs__buffer_init(&loaded, &def->graph->env);
    hs_code code = read_remaining(in, &loaded, err);
    if (!code)
        code = hs__normalize_error(def->saved.load(def->saved.self, in, err), "position.load", err);
    if (code) {
        hs__buffer_free(&loaded);
        return code;
    }
    hs__queue_rewind(queue, &loaded, hs_state_reader_version(in) == def->saved.version);
    return HS_OK;
}

hs_code hs__queue_load_position(void *self, hs_state_reader *in, hs_error *err)
{
    hs__queue_def *def = self;
    hs_code code = check_live(def, err);
    if (code)
        return code;
    lock_producer(&def->producer_lock, true);
    code = load_locked(def->live, in, err);
    unlock_producer(&def->producer_lock);
    return code;
}
