/* SPDX-License-Identifier: Apache-2.0 */
/* train_graph LAST_STEP DIRECTORY: trains a graph with all kinds of nodes: scopes, a queue, a placeholder, groups, ops with
 * several outputs, summaries. Every second run is traced. No option names the summaries. */
#include <hooksess/hooksess.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, SIZE = 3 };

static float weights[SIZE], bias, rate = 0.5F, loss;

static hs_code read_batch(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    memset(hs_op_output(op, 0)->data, 0, hs_op_output(op, 0)->bytes);
    memset(hs_op_output(op, 1)->data, 0, hs_op_output(op, 1)->bytes);
    return HS_OK;
}

static hs_code split(void *self, hs_op *op, hs_error *err)
{
    static float data[BATCH * SIZE];
    (void)self;
    const hs_tensor value = hs_tensor_of(HS_FLOAT, HS_SHAPE(BATCH, SIZE), data);
    *(double *)hs_op_output(op, 1)->data = 0.25;
    return hs_op_set_output(op, 0, &value, err);
}

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    for (size_t i = 0; i < SIZE; i++)
        weights[i] += (float)i;
    bias += 1;
    loss = 1 / (float)(hs_op_global_step(op, NULL) + 1);
    return HS_OK;
}

static void add_summaries(hs_graph *g)
{
    hs_graph_summary(g, HS_SUMMARY_SCALAR, .name = "loss", .tensor = "loss");
    hs_graph_add_summary(g, HS_SUMMARY_SCALAR,
                         HS_GRAPH_SUMMARY_DEF(.name = "scale", .tensor = "model/split:1", .tag = "scale/größe"));
    hs_graph_summary(g, HS_SUMMARY_SCALAR, .name = "rate", .tensor = "rate");
    hs_graph_summary(g, HS_SUMMARY_HISTOGRAM, .name = "weights", .tensor = "model/dense/weights");
}

static hs_graph *make_graph(void)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "model/dense/weights", HS_FLOAT, HS_SHAPE(SIZE), weights);
    hs_graph_variable(g, "model/dense/bias", HS_FLOAT, HS_SCALAR, &bias);
    hs_graph_value(g, "rate", HS_FLOAT, HS_SCALAR, &rate);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    hs_graph_placeholder(g, "extra", HS_INT64, HS_SHAPE(-1, 2));
    hs_graph_queue(g, .name = "input", .capacity = 2, .produce = read_batch,
                   .components = HS_OUTPUTS({.dtype = HS_FLOAT, .shape = HS_SHAPE(BATCH, SIZE)},
                                            {.dtype = HS_INT64, .shape = HS_SHAPE(BATCH)}));
    hs_graph_op(g, .name = "model/split", .type = "Split", .run = split, .inputs = HS_NAMES("input/dequeue:0"),
                .outputs = HS_OUTPUTS({.dtype = HS_FLOAT, .shape = HS_SHAPE(-1, SIZE)}, {.dtype = HS_DOUBLE}));
    hs_graph_op(g, .name = "shuffle", .run = read_batch, .inputs = HS_NAMES("extra"),
                .outputs = HS_OUTPUTS({.dtype = HS_INT64, .shape = HS_ANY_SHAPE}, {.dtype = HS_INT64}));
    hs_graph_op(g, .name = "check", .run = train, .inputs = HS_NAMES("model/split:1"));
    hs_graph_op(g, .name = "train/update", .type = "ApplyGradientDescent", .run = train,
                .inputs = HS_NAMES("model/dense/weights", "model/split:0", "input/dequeue:1", "rate"),
                .control_inputs = HS_NAMES("check"), .writes = HS_NAMES("model/dense/weights", "model/dense/bias", "loss"),
                .advances_step = true);
    hs_graph_op(g, .name = "train/group", .inputs = HS_NAMES("model/split:1"), .control_inputs = HS_NAMES("train/update"));
    add_summaries(g);
    return g;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    hs_error err = {0};
    hs_graph *g = make_graph();
    hs_hook hooks[] = {hs_stop_at_step(.last_step = atoll(argv[1])),
                       hs_profiler(.every_n_steps = 2, .trace_dir = argv[2], .show_memory = true),
                       {.ops = NULL}};
    hs_training_options training =
        HS_INIT(hs_training_options, .checkpoint_dir = argv[2], .hooks = hooks, .save_summaries_steps = 1);
    hs_session *s = hs_training_session_open(hs_graph_backend(g), &training, &err);
    while (!hs_session_should_stop(s) && hs_session_run(s, "train/group", &err) == HS_OK)
        ;
    hs_outcome outcome = hs_session_close(s, &err);
    if (outcome.error.code)
        fprintf(stderr, "%s: %s\n", hs_code_name(outcome.error.code), outcome.error.message);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}
