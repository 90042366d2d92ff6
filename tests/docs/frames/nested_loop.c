/* SPDX-License-Identifier: Apache-2.0 */
/* A training of 10 epochs of 100 batches is stopped in step 250, and must continue with the next batch. */
#include <assert.h>
#include <hooksess/hooksess.h>

static hs_session *s;
static int64_t epoch, batch, steps;

static void train_batch(int64_t of_epoch, int64_t number)
{
    assert(of_epoch * 100 + number == steps);
    if (++steps == 250)
        hs_session_interrupt(s);
}

static hs_outcome run(void)
{
    epoch = batch = 0;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_bytes(g, "epoch", &epoch, sizeof epoch);
    hs_graph_bytes(g, "batch", &batch, sizeof batch);
    s = hs_training_session_open(hs_graph_backend(g), HS_TRAINING_OPTIONS(.checkpoint_dir = "run"), NULL);
    /* BLOCK */
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    assert(epoch == (steps == 250 ? 3 : 10)); /* the loops have changed it after the stop */
    return outcome;
}

int main(void)
{
    hs_outcome outcome = run();
    assert(outcome.step == 250 && outcome.last_saved_step == 250 && hs_outcome_exit_code(&outcome) == 75);
    outcome = run();
    assert(steps == 1000 && outcome.last_saved_step == 1000);
    return hs_outcome_exit_code(&outcome);
}
