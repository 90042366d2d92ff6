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

static hs_outcome run(void)
{
    const hs_env env = HS_INIT(hs_env, .clock = {now, now, sleep_ns, NULL});
    float loss = 0;
    hs_graph *g = hs_graph_new(&env);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    /* BLOCK */
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(deadline, hs_stop_at_step(.last_step = 300))), NULL);
    while (hs_step_begin(s)) {
        now_ns += 60000000000;
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    return outcome;
}

int main(void)
{
    char end[32];
    snprintf(end, sizeof end, "%lld", (long long)(now_ns / 1000000000 + 100 * 60));
    CHECK(setenv("SLURM_JOB_END_TIME", end, 1) == 0);
    hs_outcome outcome = run();
    CHECK(hs_outcome_exit_code(&outcome) == 75 && strcmp(outcome.hook, "stop_after") == 0);
    CHECK(outcome.step >= 97 && outcome.step <= 99);
    CHECK(unsetenv("SLURM_JOB_END_TIME") == 0);
    outcome = run(); /* without Slurm, the job has no time limit */
    CHECK(hs_outcome_exit_code(&outcome) == 0 && outcome.step == 300);
}
