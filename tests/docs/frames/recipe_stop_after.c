/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

/* A step takes a minute of this clock. */
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
    hs_hook hooks[] = {hs_stop_at_step(.last_step = 1000),
                       /* BLOCK */
                       {0}};
    hs_session *s =
        hs_training_session_open(hs_graph_backend(g), HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = hooks), NULL);
    while (hs_step_begin(s)) {
        now_ns += 60000000000;
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    CHECK(hs_outcome_exit_code(&outcome) == 75 && strcmp(outcome.hook, "stop_after") == 0);
    CHECK(outcome.step >= 237 && outcome.step <= 239); /* of 240 minutes, one for a step and one for the margin */
}
