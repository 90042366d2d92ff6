/* SPDX-License-Identifier: Apache-2.0 */
/* The first program: fits a line to the points of a parabola. If it is killed and started again, it continues from its last
 * checkpoint. docs/guide/your-loop.md explains it. */
#include <hooksess/hooksess.h>

#include <stdio.h>
#include <stdlib.h>

struct model {
    float *weights;
    float loss;
};

static struct model model_new(void)
{
    static float weights[2];
    return (struct model){weights, 0};
}

static void model_step(struct model *m)
{
    float slope = 0, offset = 0, n = 100;
    m->loss = 0;
    for (int i = 0; i < (int)n; i++) {
        float x = (float)i / n, difference = m->weights[0] * x + m->weights[1] - x * x;
        m->loss += difference * difference / n;
        slope += 2 * difference * x / n;
        offset += 2 * difference / n;
    }
    m->weights[0] -= 0.1f * slope;
    m->weights[1] -= 0.1f * offset;
}

static void model_save(const struct model *m)
{
    printf("y = %.3f x %+.3f\n", (double)m->weights[0], (double)m->weights[1]);
}

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    model_step(self); /* your mathematics */
    return HS_OK;
}

int main(void)
{
    struct model m = model_new();
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(2), m.weights);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &m.loss);
    hs_graph_op(g, .name = "train", .run = train, .user = &m, .writes = HS_NAMES("weights", "loss"), .advances_step = true);

    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .scalars = HS_NAMES("loss"),
                            .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 1000), hs_nan_tensor(.tensor = "loss"),
                                              hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 100))),
        NULL);
    while (!hs_session_should_stop(s))
        if (hs_session_run(s, "train", NULL) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(s, NULL);
    if (hs_outcome_exit_code(&outcome) == 0)
        model_save(&m); /* skipped if the run failed, was interrupted or never began */
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}
