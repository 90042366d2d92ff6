/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

/* BLOCK */

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    hs_session *s =
        hs_training_session_open(hs_graph_backend(g),
                                 HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .listeners = HS_LISTENERS({&exporter, NULL}),
                                                     .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 1000))),
                                 NULL);
    train(s, &m, &data);
    finish(s, g, 1000);

    CHECK(hs_checkpoint_convert(NULL, "model.safetensors", "check/model.ckpt", NULL, NULL) == HS_OK);
    hs_checkpoint_reader *weights = hs_checkpoint_open(NULL, "check/model.ckpt", NULL);
    const char *name;
    float saved[2];
    CHECK(hs_checkpoint_tensor(weights, 0, &name, NULL) && strcmp(name, "weights") == 0);
    CHECK(!hs_checkpoint_tensor(weights, 1, NULL, NULL)); /* nothing else */
    CHECK(hs_checkpoint_read(weights, name, saved, sizeof saved, NULL) == HS_OK);
    CHECK(memcmp(saved, m.weights, sizeof saved) == 0);
    hs_checkpoint_close(weights);
}
