/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <errno.h>

/* BLOCK */

/* Moves the clock by a second per step. */
static int64_t now_ns = 1000000000000000000;

static int64_t now(void *user)
{
    (void)user;
    return now_ns;
}

static void sleep_ns(void *user, int64_t ns)
{
    (void)user;
    now_ns += ns;
}

int main(void)
{
    const hs_env env = HS_INIT(hs_env, .clock = {now, now, sleep_ns, NULL});
    float loss = 0;
    hs_graph *g = hs_graph_new(&env);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    hs_hook hooks[] = {hs_stop_at_step(.last_step = 25),
                       /* BLOCK */
                       {0}};
    hs_session *s = hs_training_session_open(hs_graph_backend(g), HS_TRAINING_OPTIONS(.hooks = hooks), NULL);
    while (hs_step_begin(s)) {
        loss = 0.5f * (float)(hs_session_global_step(s, NULL) + 1);
        now_ns += 1000000000;
        hs_step_end(s);
    }
    finish(s, g, 25);
    char *text = contents("training.prom"); /* steps 1, 11, 21 */
    CHECK(strcmp(text, "training_step 21\ntraining_loss 10.5\n") == 0);
    CHECK(!exists("training.prom.tmp"));
    free(text);
}
