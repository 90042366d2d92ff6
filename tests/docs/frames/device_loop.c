/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of the block must copy the loss in the steps in which the hook logs it. */
#include <assert.h>
#include <hooksess/hooksess.h>
#include <string.h>

static float weight, loss, on_device, *device_loss = &on_device;
static int copies;

static void train_on_device(void)
{
    *device_loss = ++weight;
}

static void copy_to_host(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    copies++;
}

int main(void)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weight", HS_FLOAT, HS_SCALAR, &weight);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run",
                            .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 20),
                                              hs_logging_tensor(.tensors = HS_NAMES("loss"), .when = HS_EVERY_STEPS(10)))),
        NULL);
    /* BLOCK */
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    assert(outcome.step == 20 && copies == 2 && loss == 20);
    return hs_outcome_exit_code(&outcome);
}
