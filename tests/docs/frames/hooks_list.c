/* SPDX-License-Identifier: Apache-2.0 */
/* A training with the hooks of the block, which must log, and stop it at step 300. */
#include <assert.h>
#include <hooksess/hooksess.h>
#include <string.h>

static int n_lines;

static void count_lines(void *user, hs_log_level level, const char *line)
{
    (void)user, (void)level;
    n_lines += strstr(line, "loss = 0.5") != NULL;
}

int main(void)
{
    const hs_env env = HS_INIT(hs_env, .logger = {count_lines, NULL});
    float loss = 0.5f;
    hs_graph *g = hs_graph_new(&env);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    /* BLOCK */
    while (hs_step_begin(s))
        hs_step_end(s);
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    assert(outcome.step == 300 && strcmp(outcome.hook, "stop_at_step") == 0);
    assert(n_lines == 3);
    return hs_outcome_exit_code(&outcome);
}
