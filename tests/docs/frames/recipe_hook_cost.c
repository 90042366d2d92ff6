/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

static hs_code work(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    volatile double *sum = self;
    (void)run, (void)values, (void)err;
    for (int i = 0; i < 100000; i++)
        *sum += sqrt(i);
    return HS_OK;
}

int main(void)
{
    model m = {0};
    reader data = {0};
    double sum = 0;
    static const hs_hook_ops slow_ops = HS_INIT(hs_hook_ops, .name = "slow", .after_run = work);
    hs_graph *g = new_graph(&m, &data);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.hooks = HS_HOOKS(hs_stop_at_step(.last_step = 100), HS_HOOK(.ops = &slow_ops, .self = &sum))),
        NULL);
    train(s, &m, &data);
    CHECK(freopen("costs", "w", stdout));
    /* BLOCK */
    CHECK(fflush(stdout) == 0);
    char *text = contents("costs"), *slow = strstr(text, "slow: "), callback[32];
    double per_run, longest;
    CHECK(strstr(text, "stop_at_step: ") && slow);
    CHECK(sscanf(slow, "slow: %lf ms per run; longest %lf ms, %31s at step", &per_run, &longest, callback) == 3);
    CHECK(per_run > 0.001 && longest >= per_run && strcmp(callback, "after_run") == 0);
    free(text);
    finish(s, g, 100);
}
