/* SPDX-License-Identifier: Apache-2.0 */
#include "open_session.h"

enum { EPOCH = 20 * BATCH };

static int64_t run(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    hs_session *s = open_session(g);
    /* BLOCK */
    hs_outcome outcome = finish(s, g, 200);
    CHECK(!outcome.interrupted && outcome.last_saved_step == 200);
    CHECK(data.position == 10 * EPOCH);
    return outcome.step;
}

int main(void)
{
    run();
    run(); /* makes no step */
}
