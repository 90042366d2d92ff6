/* SPDX-License-Identifier: Apache-2.0 */
#include "open_session.h"

static int n_updates;

static void counted_update(model *m, float rate)
{
    n_updates++;
    update(m, rate);
}
#define update counted_update

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    last_step = 300;
    hs_session *s = open_session(g);
    /* BLOCK */
    finish(s, g, 300);
    CHECK(n_updates == 300);
    CHECK(data.position == 300 * 8 * BATCH);
    CHECK(m.loss > 0 && m.loss < 0.01f);
    CHECK(test_loss(&m) < 0.001);
}
