/* SPDX-License-Identifier: Apache-2.0 */
/* Of 1200 steps, the block's hook must log 1, 10, 100, 1000, 501 (after the request in step 500), and the last one. */
#include <assert.h>
#include <hooksess/hooksess.h>
#include <stdio.h>
#include <string.h>

static char steps[200];

static void note_step(void *user, hs_log_level level, const char *line)
{
    int step;
    (void)user, (void)level;
    if (strstr(line, "loss = ") && sscanf(line, "step %d", &step) == 1)
        sprintf(steps + strlen(steps), "%d ", step);
}

int main(void)
{
    const hs_env env = HS_INIT(hs_env, .logger = {note_step, NULL});
    float loss = 0.5f;
    hs_graph *g = hs_graph_new(&env);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    hs_session *s;
    {
        /* BLOCK */
        s = hs_training_session_open(hs_graph_backend(g),
                                     HS_TRAINING_OPTIONS(.hooks = HS_HOOKS(hs_stop_at_step(.last_step = 1200), log_loss)),
                                     NULL);
    }
    while (hs_step_begin(s)) {
        if (hs_session_global_step(s, NULL) == 499)
            hs_session_request_save(s);
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    fprintf(stderr, "%s\n", steps);
    assert(strcmp(steps, "1 10 100 501 1000 1200 ") == 0);
    return hs_outcome_exit_code(&outcome);
}
