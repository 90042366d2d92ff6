/* SPDX-License-Identifier: Apache-2.0 */
#include "open_session.h"

enum { LAST_SAMPLE = 64000 };

static unsigned char seen[LAST_SAMPLE + 128];

static void add_sample(model *m, int64_t index, int batch_size)
{
    float x = noise(2 * index), y = 2 * x - 1 + 0.1f * noise(2 * index + 1);
    float error = m->weights[0] * x + m->weights[1] - y;
    m->gradients[0] += error * x / (float)batch_size;
    m->gradients[1] += error / (float)batch_size;
    seen[index]++;
}

static int64_t samples;

static void run(int argc, char **argv, int64_t step, bool interrupted)
{
    static model m;
    memset(&m, 0, sizeof m);
    samples = 0;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(2), m.weights);
    last_step = step;
    /* BLOCK */
    hs_outcome outcome = finish(s, g, step);
    CHECK(outcome.last_saved_step == step);
    CHECK(interrupted || test_loss(&m) < 0.001);
}

int main(void)
{
    run(1, (char *[]){"train", NULL}, 1000, true);        /* 32,000 samples in batches of 32 */
    run(2, (char *[]){"train", "64", NULL}, 1500, false); /* 32,000 samples in batches of 64 */
    CHECK(samples == LAST_SAMPLE);
    for (int i = 0; i < LAST_SAMPLE; i++)
        CHECK(seen[i] == 1);
}
