/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

/* BLOCK */

int main(void)
{
    /* Each upload creates a file, and waits until the saver has deleted the checkpoint. */
    FILE *script = fopen("upload.sh", "w");
    CHECK(script);
    CHECK(fputs("#!/bin/sh\n"
                "until [ -e ended ]; do sleep 0.01; done\n"
                "mkdir -p bucket && cp -r $1 bucket && rm -r $1 && touch bucket/done-$(basename $1)\n",
                script) >= 0);
    CHECK(fclose(script) == 0 && chmod("upload.sh", 0700) == 0);
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    hs_session *s = hs_training_session_open(hs_graph_backend(g),
                                             HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .save_checkpoint_steps = 100,
                                                                 .listeners = HS_LISTENERS({&uploader, NULL}),
                                                                 .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 1000))),
                                             NULL);
    train(s, &m, &data);
    finish(s, g, 1000);
    CHECK(!exists("run/model.ckpt-100.index") && exists("upload/100/model.ckpt-100.index"));
    CHECK(system("touch ended; until [ -e bucket/done-100 ] && [ -e bucket/done-1000 ]; do sleep 0.01; done") == 0);
    hs_error err;
    hs_checkpoint_reader *uploaded = hs_checkpoint_open(NULL, "bucket/100/model.ckpt-100", &err);
    CHECK(uploaded && hs_checkpoint_verify(uploaded, "weights", &err) == HS_OK);
    hs_checkpoint_close(uploaded);
}
