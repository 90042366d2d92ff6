/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

/* The batch that begins at sample 350 * BATCH is bad. */
static int bad_batches;

static float add_or_spoil(model *m, batch b)
{
    float loss = add_gradients(m, b);
    if (b.first == 350 * BATCH) {
        bad_batches++;
        m->gradients[0] = NAN;
        return NAN;
    }
    return loss;
}
#define add_gradients add_or_spoil

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    /* BLOCK */
    finish(s, g, 1000);
    CHECK(bad_batches == 1);
    CHECK(rate == 0.05f);
    CHECK(data.position == (1000 + 51) * BATCH); /* steps 301 to 351 were made again */
    CHECK(test_loss(&m) < 0.001);
}
