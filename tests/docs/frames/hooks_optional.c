/* SPDX-License-Identifier: Apache-2.0 */
/* The block's hooks are called, whether the optional one is listed or not. */
#include <assert.h>
#include <hooksess/hooksess.h>
#include <string.h>

static int n_lines;

static void count_lines(void *user, hs_log_level level, const char *line)
{
    (void)user, (void)level;
    n_lines += strstr(line, "loss = 0.5") != NULL;
}

static hs_outcome train(bool verbose, float loss)
{
    const hs_env env = HS_INIT(hs_env, .logger = {count_lines, NULL});
    hs_graph *g = hs_graph_new(&env);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    /* BLOCK */
    while (hs_step_begin(s))
        hs_step_end(s);
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    return outcome;
}

int main(void)
{
    for (int verbose = 0; verbose < 2; verbose++) {
        n_lines = 0;
        assert(train(verbose, 0.5f).step == 300);
        assert(n_lines == (verbose ? 3 : 0));
        hs_outcome bad = train(verbose, 0.0f / 0.0f);
        assert(bad.reason == HS_REASON_FAILED && strcmp(bad.hook, "nan_tensor") == 0);
    }
}
