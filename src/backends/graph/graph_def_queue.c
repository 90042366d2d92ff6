/* SPDX-License-Identifier: Apache-2.0 */
/* Queues in the GraphDef: the producer, the queue and its ops, as TensorFlow's ops. */
#include "backends/graph/graph_def.h"
#include "backends/graph/queue.h"

/* Returns an unused name for a node that only the GraphDef has. */
static char *free_name(const hs__queue_def *queue, const char *what)
{
    const hs_env *env = &queue->graph->env;
    char *name = hs__format(env, "%s/%s", queue->name, what);
    for (int i = 1; name && hs__graph_node_of(queue->graph, name); i++) {
        hs__free(env, name);
        name = hs__format(env, "%s/%s_%d", queue->name, what, i);
    }
    return name;
}

bool hs__is_queue_op(const hs__graph_node *op)
{
    return op->run == hs__queue_run_enqueue || op->run == hs__queue_run_dequeue || op->run == hs__queue_run_close ||
           op->run == hs__queue_run_cancel || op->run == hs__queue_run_size;
}

/* Writes the shapes only if all are fully known, as TensorFlow requires. */
static void define_queue(hs__node_def *def, const hs__queue_def *queue, const char *name)
{
    static const hs_output_def handle = {.shape = {.rank = 0}};
    const hs__graph_node *element = &queue->element;
    bool closed = true;
    for (size_t i = 0; i < element->n_outputs; i++)
        closed &= hs_shape_elements(&element->outputs[i].shape) >= 0;
    hs__node_def_begin(def, name, "FIFOQueueV2");
    hs__node_def_types(def, "component_types", element->outputs, element->n_outputs);
    if (closed)
        hs__node_def_shapes(def, "shapes", element->outputs, element->n_outputs);
    hs__node_def_int(def, "capacity", queue->capacity);
    hs__node_def_shapes(def, HS__OUTPUT_SHAPES, &handle, 1);
    hs__node_def_end(def);
}

static void define_producer(hs__node_def *def, const hs__queue_def *queue, const char *name)
{
    const hs__graph_node *element = &queue->element;
    hs__node_def_begin(def, name, "Op");
    hs__node_def_end_list(def, "Tin");
    hs__node_def_types(def, "Tout", element->outputs, element->n_outputs);
    hs__node_def_shapes(def, HS__OUTPUT_SHAPES, element->outputs, element->n_outputs);
    hs__node_def_end(def);
}

static void define_enqueue(hs__node_def *def, const hs__queue_def *queue, const char *name, const char *producer)
{
    const hs__graph_node *op = queue->enqueue, *element = &queue->element;
    define_queue(def, queue, name);
    if (queue->produce)
        define_producer(def, queue, producer);
    hs__node_def_begin(def, op->name, "QueueEnqueueV2");
    hs__node_def_input(def, name, 0);
    for (size_t i = 0; i < element->n_outputs; i++)
        if (queue->produce)
            hs__node_def_input(def, producer, i);
        else
            hs__node_def_input(def, op->inputs[i].node->name, op->inputs[i].output);
    hs__node_def_controls(def, op);
    hs__node_def_types(def, "Tcomponents", element->outputs, element->n_outputs);
}

static void define_dequeue(hs__node_def *def, const hs__graph_node *op, const char *name)
{
    hs__node_def_begin(def, op->name, "QueueDequeueV2");
    hs__node_def_input(def, name, 0);
    hs__node_def_types(def, "component_types", op->outputs, op->n_outputs);
    hs__node_def_shapes(def, HS__OUTPUT_SHAPES, op->outputs, op->n_outputs);
}

static void define_close(hs__node_def *def, const hs__graph_node *op, const char *name)
{
    hs__node_def_begin(def, op->name, "QueueCloseV2");
    hs__node_def_input(def, name, 0);
    hs__node_def_bool(def, "cancel_pending_enqueues", op->run == hs__queue_run_cancel);
}

static void define_size(hs__node_def *def, const hs__graph_node *op, const char *name)
{
    hs__node_def_begin(def, op->name, "QueueSizeV2");
    hs__node_def_input(def, name, 0);
    hs__node_def_shapes(def, HS__OUTPUT_SHAPES, op->outputs, op->n_outputs);
}

hs_code hs__define_queue_op(hs__node_def *def, const hs__graph_node *op, hs_error *err)
{
    const hs__queue_def *queue = op->self;
    const hs_env *env = &queue->graph->env;
    char *name = free_name(queue, "fifo_queue"), *producer = free_name(queue, "produce");
    hs_code code = name && producer ? HS_OK : hs__no_memory(err, 1, "a name");
    if (code)
        ;
    else if (op->run == hs__queue_run_enqueue)
        define_enqueue(def, queue, name, producer);
    else if (op->run == hs__queue_run_dequeue)
        define_dequeue(def, op, name);
    else if (op->run == hs__queue_run_size)
        define_size(def, op, name);
    else
        define_close(def, op, name);
    hs__free(env, name);
    hs__free(env, producer);
    return code;
}
