/* SPDX-License-Identifier: Apache-2.0 */
/* The first session of the block must make 100 steps, and the second one none. */
#include <assert.h>
#include <hooksess/hooksess.h>

static int64_t n_steps, n_sessions;

static void train(hs_hook hook)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_session *s = hs_training_session_open(hs_graph_backend(g),
                                             HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(hook)), NULL);
    while (hs_step_begin(s)) {
        n_steps++;
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    assert(outcome.step == 100 && hs_outcome_exit_code(&outcome) == 0);
    n_sessions++;
    hs_graph_free(g);
}

int main(void)
{
    /* BLOCK */
    assert(n_sessions == 2 && n_steps == 100);
    return 0;
}
