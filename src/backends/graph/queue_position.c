/* SPDX-License-Identifier: Apache-2.0 */
/* The position of a queue's producer: it rides with the elements, and what is saved is that of the last one consumed. */
#include "backends/graph/queue.h"

#include "base/state.h"

hs_code hs__producer_lock_init(hs__producer_lock *turn, hs_error *err)
{
    if (pthread_mutex_init(&turn->lock, NULL) != 0)
        return hs__no_memory(err, sizeof turn->lock, "a lock");
    if (pthread_cond_init(&turn->changed, NULL) == 0)
        return HS_OK;
    pthread_mutex_destroy(&turn->lock);
    return hs__no_memory(err, sizeof turn->changed, "a lock");
}

void hs__producer_lock_destroy(hs__producer_lock *turn)
{
    pthread_cond_destroy(&turn->changed);
    pthread_mutex_destroy(&turn->lock);
}

static void lock_producer(hs__producer_lock *turn, bool loads)
{
    pthread_mutex_lock(&turn->lock);
    turn->loads_waiting += loads;
    while (turn->taken || (!loads && turn->loads_waiting))
        pthread_cond_wait(&turn->changed, &turn->lock);
    turn->loads_waiting -= loads;
    turn->taken = true;
    pthread_mutex_unlock(&turn->lock);
}

static void unlock_producer(hs__producer_lock *turn)
{
    pthread_mutex_lock(&turn->lock);
    turn->taken = false;
    pthread_cond_broadcast(&turn->changed);
    pthread_mutex_unlock(&turn->lock);
}

/* Where the producer is now, in its turn. */
static hs_code save_producer_position(const hs__queue_def *def, hs__buffer *position, hs_error *err)
{
    hs_state_writer writer = hs__state_writer_to(position);
    hs__buffer_clear(position);
    hs_code code = hs__settle(def->saved.save(def->saved.self, &writer, err), "position.save", err);
    return code ? code : hs__error_copy(err, &writer.error);
}

/* Before anything was consumed, the position is the one to begin with: asked for, in the producer's turn, before anything
 * is produced from it. */
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

/* What `produce` sees is an op whose outputs are the element's tensors. */
static hs_code call_producer(const hs__queue_def *def, const hs_op *op, hs__element *element, hs_error *err)
{
    hs__graph_session inside = {.graph = def->graph, .tensors = element->values, .step = op->session->step};
    hs_op producing = {&inside, &def->element};
    hs_code code = hs__settle(def->produce(def->self, &producing, err), "produce", err);
    return code ? code : hs__element_copy_views(def, element, err);
}

static hs_code produce_locked(hs__queue *queue, const hs_op *op, hs__element *element, hs_error *err)
{
    const hs__queue_def *def = queue->def;
    if (hs__queue_cancelled(queue)) /* while it waited: the producer may be another session's now */
        return hs_error_set(err, HS_CANCELLED, "cannot enqueue to queue '%s': it is closed", def->name);
    hs_code code = ensure_position(queue, err);
    if (!code && !(code = call_producer(def, op, element, err)) && def->saved.save)
        code = save_producer_position(def, &element->position, err);
    return code;
}

hs_code hs__queue_produce(hs__queue *queue, const hs_op *op, hs__element *element, hs_error *err)
{
    hs__queue_def *def = queue->def;
    if (!def->locks_producer) /* nobody waits for anybody */
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
    if (!hs__queue_has_position(queue)) { /* else nobody has to wait for a slow producer */
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

/* What is left goes to `to`, from where it is read afterwards. */
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

/* What was loaded is the position, until something was consumed; but in the form of today. */
static hs_code load_locked(hs__queue *queue, hs_state_reader *in, hs_error *err)
{
    const hs__queue_def *def = queue->def;
    hs__buffer loaded;
    hs__buffer_init(&loaded, &def->graph->env);
    hs_code code = read_remaining(in, &loaded, err);
    if (!code)
        code = hs__settle(def->saved.load(def->saved.self, in, err), "position.load", err);
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
