/* SPDX-License-Identifier: Apache-2.0 */
/* write_run DIRECTORY LAST_STEP [fail]: trains to a step, with checkpoints, events and status in DIRECTORY. Each step adds
 * 1 to `weights`, and the loss is 1 / step; of a run that is resumed, -1 / step. A best-effort hook fails in each step.
 * "fail": the run ends with an error after LAST_STEP. */
#include <hooksess/hooksess.h>

#include <stdlib.h>

typedef struct {
    float weights[6];
    double loss;
    int64_t step, position;
    bool resumed;
} model;

static hs_code save_position(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, sizeof(int64_t), err);
}

static hs_code load_position(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, self, sizeof(int64_t), err);
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)run, (void)values;
    return hs_error_set(err, HS_UNAVAILABLE, "no \"chart\" today: \xff");
}

static hs_code save_three(void *self, hs_state_writer *out, hs_error *err)
{
    (void)self;
    return hs_state_writer_write(out, "abc", 3, err);
}

static hs_code load_three(void *self, hs_state_reader *in, hs_error *err)
{
    char text[3];
    (void)self;
    return hs_state_reader_read(in, text, sizeof text, err);
}

static hs_graph *make_graph(model *m)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(2, 3), m->weights);
    hs_graph_value(g, "loss", HS_DOUBLE, HS_SCALAR, &m->loss);
    hs_graph_global_step(g, NULL, &m->step);
    hs_graph_bytes(g, "plain", &m->position, sizeof m->position);
    hs_graph_add_state(g, HS_STATE_PROVIDER(.name = "position", .save = save_position, .load = load_position,
                                            .self = &m->position, .version = 3, .identity = "data set größe 7"));
    return g;
}

int main(int argc, char **argv)
{
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "chart", .after_run = after_run, .save_state = save_three, .load_state = load_three);
    if (argc < 3)
        return 2;
    model m = {0};
    hs_error err = {0};
    long long last = strtoll(argv[2], NULL, 10);
    hs_graph *g = make_graph(&m);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = argv[1], .save_checkpoint_steps = 2, .save_summaries_steps = 1,
                            .log_step_count_steps = HS_NEVER, .scalars = HS_NAMES("loss"),
                            .hooks = HS_HOOKS(hs_stop_at_step(.last_step = last + (argc > 3)),
                                              hs_hook_best_effort(HS_HOOK(.ops = &ops), 0))),
        &err);
    m.resumed = m.step > 0;
    while (hs_step_begin(s)) {
        for (int i = 0; i < 6; i++)
            m.weights[i] += 1;
        m.position += 10;
        m.loss = (m.resumed ? -1.0 : 1.0) / (double)(m.step + 1);
        if (m.step == last) {
            hs_error_set(&err, HS_DATA_LOSS, "batch '%s' is damaged", "größe");
            hs_session_fail(s, &err);
            break;
        }
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, &err);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}
