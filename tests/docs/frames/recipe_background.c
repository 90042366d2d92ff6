/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    /* BLOCK */
    train(s, &m, &data);
    finish(s, g, 1000);
    for (int step = 600; step <= 1000; step += 100) { /* each checkpoint holds the state of its step */
        char prefix[64];
        int64_t position;
        snprintf(prefix, sizeof prefix, "run/model.ckpt-%d", step);
        hs_checkpoint_reader *saved = hs_checkpoint_open(NULL, prefix, NULL);
        CHECK(hs_checkpoint_read(saved, "hooksess/state/data", &position, sizeof position, NULL) == HS_OK);
        CHECK(position == (int64_t)step * BATCH);
        hs_checkpoint_close(saved);
    }
}
