/* SPDX-License-Identifier: Apache-2.0 */
/* Describes the trainer to hooksess as a graph: variables (saved in checkpoints), values (can be fetched) and ops (can be
 * run). trainer_graph at the end puts it together. */
#include "trainer.h"

#include <stdio.h>
#include <string.h>

/* The ops. */

/* The components of a batch in the queue. The last batch of an epoch may have fewer rows than the tensors. */
enum { PIXELS, LABELS, SIZE };
struct batch_size {
    int64_t rows, epoch;
};

/* Fills the next batch. Runs in the thread of the queue, concurrently with a step. */
static hs_code read_batch(void *self, hs_op *op, hs_error *err)
{
    struct input *input = self;
    struct batch_size *size = hs_op_output(op, SIZE)->data;
    (void)err;
    size->rows = (int64_t)input_next(input, hs_op_output(op, PIXELS)->data, hs_op_output(op, LABELS)->data);
    size->epoch = (int64_t)input->epoch;
    return HS_OK;
}

/* Makes one step. With --replicas, each process computes its share of the rows. */
static hs_code train(void *self, hs_op *op, hs_error *err)
{
    struct trainer *trainer = self;
    struct mlp *model = &trainer->model;
    const struct batch_size *size = hs_op_input(op, SIZE)->data;
    const float *pixels = hs_op_input(op, PIXELS)->data;
    const unsigned char *labels = hs_op_input(op, LABELS)->data;
    int mine, first = replicas_share(&trainer->replicas, (int)size->rows, &mine);
    trainer_compute(trainer, pixels + (size_t)first * trainer->train.pixels, labels + first, mine);
    hs_code code = hs_op_pass_gate(op, err);
    if (code)
        return code;
    if ((code = replicas_average(&trainer->replicas, model->gradients, model->n_parameters, &trainer->loss, mine,
                                 (int)size->rows, err)))
        return code;
    optimizer_update(&trainer->optimizer, model->parameters, model->gradients, hs_op_global_step(op, NULL) + 1,
                     (uint64_t)size->epoch);
    return HS_OK;
}

/* Runs only if a run fetches it. */
static hs_code test_accuracy(void *self, hs_op *op, hs_error *err)
{
    struct trainer *trainer = self;
    (void)err;
    trainer_test(trainer, &trainer->result);
    *(float *)hs_op_output(op, 0)->data = (float)test_result_accuracy(&trainer->result);
    return HS_OK;
}

/* The variables. */

enum { MAX_NAMES = (1 + MAX_SLOTS) * 2 * MAX_LAYERS + 1, NAME_BYTES = 32 };

/* Names of variables or values. The graph copies them. */
struct names {
    char text[MAX_NAMES][NAME_BYTES];
    const char *list[MAX_NAMES + 1]; /* ended by NULL */
    int n;
};

/* hs_graph_variable: is saved. hs_graph_value: is not. */
typedef hs_code (*add_fn)(hs_graph *graph, const char *name, hs_dtype dtype, hs_shape shape, void *data);

static const char *add_name(struct names *names, const char *group, const char *matrix, int number)
{
    char *name = names->text[names->n];
    snprintf(name, NAME_BYTES, "%s/%s%d", group, matrix, number);
    return names->list[names->n++] = name;
}

/* Adds an array with the layout of the parameters. The group is "model" for the parameters, "gradients" for the gradients,
 * or an optimizer slot. TensorBoard draws a group as one node. */
static void add_arrays(hs_graph *graph, struct names *names, const char *group, const struct mlp *model, float *base,
                       add_fn add)
{
    for (int i = 0; i < model->n_layers; i++) {
        const struct layer *layer = &model->layers[i];
        add(graph, add_name(names, group, "w", i + 1), HS_FLOAT, HS_SHAPE(layer->inputs, layer->outputs),
            base + (layer->weights - model->parameters));
        add(graph, add_name(names, group, "b", i + 1), HS_FLOAT, HS_SHAPE(layer->outputs),
            base + (layer->biases - model->parameters));
    }
}

static size_t append(const char **list, size_t n, const struct names *names)
{
    for (int i = 0; i < names->n; i++)
        list[n++] = names->list[i];
    return n;
}

void trainer_add_parameters(hs_graph *graph, const struct mlp *model)
{
    struct names names = {.n = 0};
    add_arrays(graph, &names, "model", model, model->parameters, hs_graph_variable);
}

/* In no collection, so that it is not merged with the histograms. */
static void add_curve(hs_graph *graph, const char *tag, const char *tensor)
{
    hs_graph_add_summary(graph, HS_SUMMARY_SCALAR, HS_GRAPH_SUMMARY_DEF(.name = tag, .tensor = tensor, .collection = ""));
}

/* Ops of one run execute in the order of their definitions: train comes before the ops that show its result. */
static void add_ops(hs_graph *graph, struct trainer *trainer, const char *const *parameters, const char *const *written)
{
    hs_graph_op(graph, .name = "train", .run = train, .user = trainer, .writes = written, .collective = true,
                .advances_step = true, .inputs = HS_NAMES("input/dequeue:0", "input/dequeue:1", "input/dequeue:2"));
    hs_graph_op(graph, .name = "test_accuracy", .run = test_accuracy, .user = trainer, .inputs = parameters,
                .outputs = HS_OUTPUTS({.dtype = HS_FLOAT}));
    add_curve(graph, LOSS_TAG, "loss");
    add_curve(graph, ACCURACY_TAG, "test_accuracy");
    hs_graph_op(graph, .name = "summary/mistakes", .run = report_run, .user = &trainer->report,
                .control_inputs = HS_NAMES("test_accuracy"), .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
}

/* Call after the definition of `train`, which writes the tensors. Tags: "weights/w1", "gradients/w1". */
static void add_histograms(hs_graph *graph, const struct names *names, const char *kind)
{
    for (int i = 0; i < names->n; i++) {
        char tag[2 * NAME_BYTES];
        snprintf(tag, sizeof tag, "%s%s", kind, strchr(names->list[i], '/'));
        hs_graph_summary(graph, HS_SUMMARY_HISTOGRAM, .name = tag, .tensor = names->list[i]);
    }
}

/* Adds the queue of batches. With `position`, a checkpoint has the position after the last trained batch, not after the
 * batches that were read ahead. */
static void add_input(hs_graph *graph, struct input *input)
{
    hs_state_provider position = input_state(input);
    int64_t rows = (int64_t)input->batch_size, pixels = (int64_t)input->data->pixels;
    hs_graph_queue(graph, .name = "input", .capacity = 4, .produce = read_batch, .user = input, .position = &position,
                   .components =
                       HS_OUTPUTS({.dtype = HS_FLOAT, .shape = HS_SHAPE(rows, pixels)},
                                  {.dtype = HS_UINT8, .shape = HS_SHAPE(rows)}, {.dtype = HS_INT64, .shape = HS_SHAPE(2)}));
}

hs_graph *trainer_graph(struct trainer *trainer, const hs_env *env)
{
    struct names parameters = {.n = 0}, slots = {.n = 0}, gradients = {.n = 0};
    const char *written[3 * MAX_NAMES];
    size_t n = 0;
    const struct mlp *model = &trainer->model;
    const struct optimizer *optimizer = &trainer->optimizer;
    hs_graph *graph = hs_graph_new(env);
    add_arrays(graph, &parameters, "model", model, model->parameters, hs_graph_variable);
    for (int i = 0; optimizer->kind->slots[i]; i++)
        add_arrays(graph, &slots, optimizer->kind->slots[i], model, optimizer->slots[i], hs_graph_variable);
    add_arrays(graph, &gradients, "gradients", model, model->gradients, hs_graph_value);
    hs_graph_value(graph, "loss", HS_FLOAT, HS_SCALAR, &trainer->loss);
    add_input(graph, &trainer->input);
    n = append(written, n, &parameters);
    n = append(written, n, &slots);
    n = append(written, n, &gradients);
    written[n++] = "loss";
    written[n] = NULL;
    add_ops(graph, trainer, parameters.list, written);
    add_histograms(graph, &parameters, "weights");
    add_histograms(graph, &gradients, "gradients");
    hs_graph_merge_all_summaries(graph, &trainer->histograms);
    return graph;
}
