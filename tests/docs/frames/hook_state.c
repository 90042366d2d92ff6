/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

typedef struct {
    double target;
    int64_t good_steps;
} target_hook;

static const hs_run_args wanted = HS_INIT(hs_run_args, .names = HS_NAMES("loss"));

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    (void)self;
    return hs_backend_check_tensor(backend, "loss", err);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)self, (void)run, (void)err;
    *args = &wanted;
    return HS_OK;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    target_hook *h = self;
    (void)err;
    h->good_steps = hs_run_values_number(values, 0) < h->target ? h->good_steps + 1 : 0;
    if (h->good_steps == 10)
        hs_run_context_request_stop(run);
    return HS_OK;
}

/* BLOCK */

/* Each loss is good. Returns the number of steps. */
static int64_t run(int64_t last_step)
{
    float loss = 0;
    target_hook target = {.target = 0.05};
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(HS_HOOK(.ops = &target_ops, .self = &target),
                                                                       hs_stop_at_step(.last_step = last_step))),
        NULL);
    int64_t steps = 0;
    for (; hs_step_begin(s); steps++)
        hs_step_end(s);
    hs_outcome outcome = hs_session_close(s, NULL);
    CHECK(hs_outcome_exit_code(&outcome) == 0);
    hs_graph_free(g);
    return steps;
}

int main(void)
{
    CHECK(run(9) == 9);
    CHECK(run(1000) == 1); /* the tenth good step */
    CHECK(run(1000) == 0); /* already complete */
}
