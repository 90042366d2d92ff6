/* SPDX-License-Identifier: Apache-2.0 */
#include "open_session.h"

/* Gradients above 5000 overflow, as in half precision. */
static float add_scaled_gradients(model *m, batch b, float scale)
{
    float loss = add_gradients(m, b);
    for (int i = 0; i < 2; i++) {
        m->gradients[i] *= scale;
        if (fabsf(m->gradients[i]) > 5000)
            m->gradients[i] = INFINITY;
    }
    return loss;
}

/* Trains up to a step. Returns the scale. */
static float run(int64_t step)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    last_step = step;
    /* BLOCK */
    finish(s, g, step);
    CHECK(isfinite(m.weights[0]));
    CHECK(step < 5000 || test_loss(&m) < 0.001);
    return scale;
}

int main(void)
{
    CHECK(run(100) < 65536);
    float scale = run(1000);
    CHECK(scale < 65536);
    CHECK(run(5000) > scale); /* grows again; the counter continues after a resume */
}
