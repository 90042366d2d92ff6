/* SPDX-License-Identifier: Apache-2.0 */
/* Each epoch must train on each sample once, in another order, and end with an evaluation. */
#include <assert.h>
#include <hooksess/hooksess.h>
#include <string.h>

enum { SAMPLES = 50 };

typedef struct {
    int64_t order[4 * SAMPLES], steps, evaluations;
} model;

static void train_step(model *m, int64_t sample)
{
    m->order[m->steps++] = sample;
}

static double test_loss(void *user)
{
    model *m = user;
    assert(m->steps == SAMPLES * ++m->evaluations);
    return 1;
}

/* BLOCK */

static model run(void)
{
    model m = {0};
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_bytes(g, "model", &m, sizeof m);
    /* BLOCK */
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    assert(outcome.step == 4 * SAMPLES && hs_outcome_exit_code(&outcome) == 0);
    return m;
}

int main(void)
{
    model m = run();
    assert(m.evaluations == 4);
    for (int epoch = 0; epoch < 4; epoch++) {
        bool seen[SAMPLES] = {false};
        for (int i = 0; i < SAMPLES; i++)
            seen[m.order[epoch * SAMPLES + i]] = true;
        for (int i = 0; i < SAMPLES; i++)
            assert(seen[i]);
    }
    assert(memcmp(m.order, m.order + SAMPLES, SAMPLES * sizeof *m.order) != 0);
    assert(run().steps == 4 * SAMPLES); /* makes no step */
}
