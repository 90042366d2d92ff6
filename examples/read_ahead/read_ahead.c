/* SPDX-License-Identifier: Apache-2.0 */
/* A thread reads batches ahead of the training, an evaluation runs every 100 steps, and the program ends with the best
 * weights. If the program is killed and started again, it continues with the next batch. read_ahead [DIRECTORY] */
#include <hooksess/hooksess.h>

#include <math.h>
#include <stdio.h>

enum { BATCH = 32, BATCHES = 4000, TEST = 512 };

/* The data: y = 2 x - 1, with noise. The sample at a position is always the same, as in a file. */
typedef struct {
    uint64_t position; /* of the next sample */
} reader;

static float unit(uint64_t place)
{
    uint64_t z = (place + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (float)((z ^ z >> 31) >> 40) / (float)(1 << 24);
}

static void sample(uint64_t place, float *x, float *y)
{
    *x = 2 * unit(2 * place) - 1;
    *y = 2 * *x - 1 + (unit(2 * place + 1) - 0.5f);
}

/* Runs in a thread of the session, concurrently with training. */
static hs_code read_batch(void *self, hs_op *op, hs_error *err)
{
    reader *r = self;
    float *x = hs_op_output(op, 0)->data, *y = hs_op_output(op, 1)->data;
    if (r->position == (uint64_t)BATCH * BATCHES)
        return hs_error_set(err, HS_OUT_OF_RANGE, "all %d batches are read", BATCHES);
    for (int i = 0; i < BATCH; i++)
        sample(r->position++, &x[i], &y[i]);
    return HS_OK;
}

static hs_code save_position(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((reader *)self)->position, sizeof(uint64_t), err);
}

static hs_code load_position(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, &((reader *)self)->position, sizeof(uint64_t), err);
}

/* The model: a line. */
typedef struct {
    float weights[2], loss;
} line;

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    line *m = self;
    const float *x = hs_op_input(op, 0)->data, *y = hs_op_input(op, 1)->data;
    float slope = 0, offset = 0, loss = 0;
    (void)err;
    for (int i = 0; i < BATCH; i++) {
        float error = m->weights[0] * x[i] + m->weights[1] - y[i];
        slope += error * x[i] / BATCH, offset += error / BATCH, loss += error * error / BATCH;
    }
    m->weights[0] -= 0.05f * slope;
    m->weights[1] -= 0.05f * offset;
    m->loss = loss;
    return HS_OK;
}

/* The mean squared error on samples that the training never uses. Only the evaluation runs this op. */
static hs_code test(void *self, hs_op *op, hs_error *err)
{
    const line *m = self;
    double sum = 0;
    (void)err;
    for (uint64_t i = 0; i < TEST; i++) {
        float x, y;
        sample((uint64_t)BATCH * BATCHES + i, &x, &y);
        sum += pow(m->weights[0] * x + m->weights[1] - y, 2);
    }
    *(double *)hs_op_output(op, 0)->data = sum / TEST;
    return HS_OK;
}

static hs_graph *make_graph(line *m, reader *r)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_state_provider position = HS_INIT(hs_state_provider, .name = "position", .save = save_position,
                                         .load = load_position, .self = r, .identity = "the noisy line");
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(2), m->weights);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &m->loss);
    hs_graph_queue(g, .name = "input", .capacity = 8, .produce = read_batch, .user = r, .position = &position,
                   .components = HS_OUTPUTS({.dtype = HS_FLOAT, .shape = HS_SHAPE(BATCH)},
                                            {.dtype = HS_FLOAT, .shape = HS_SHAPE(BATCH)}));
    hs_graph_op(g, .name = "train", .run = train, .user = m, .writes = HS_NAMES("weights", "loss"), .advances_step = true,
                .inputs = HS_NAMES("input/dequeue:0", "input/dequeue:1"));
    hs_graph_op(g, .name = "error", .run = test, .user = m, .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}));
    return g;
}

int main(int argc, char **argv)
{
    line m = {{0, 0}, 0};
    reader r = {0};
    hs_graph *g = make_graph(&m, &r);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = argc > 1 ? argv[1] : NULL, .save_checkpoint_steps = 100,
                            /* The order matters: early stopping reads the result of the evaluation */
                            .hooks =
                                HS_HOOKS(hs_nan_tensor(.tensor = "loss"),
                                         hs_evaluation(.metrics = HS_NAMES("error"), .every_n_steps = 100),
                                         hs_early_stopping(.metric = "eval/error", .patience = 5, .restore_best = true))),
        NULL);
    while (!hs_session_should_stop(s))
        if (hs_session_run(s, "train", NULL) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(s, NULL);
    if (hs_outcome_exit_code(&outcome) == 0)
        printf("%s at step %lld: y = %.3f x %+.3f\n", hs_reason_name(outcome.reason), (long long)outcome.step,
               (double)m.weights[0], (double)m.weights[1]);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}
