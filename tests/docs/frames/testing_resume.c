/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooksess.h>

#include <assert.h>

typedef struct {
    int64_t runs;
} counter_hook;

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)values, (void)err;
    ((counter_hook *)self)->runs++;
    return HS_OK;
}

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, sizeof(counter_hook), err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, self, sizeof(counter_hook), err);
}

static const hs_hook_ops counter_ops =
    HS_INIT(hs_hook_ops, .name = "counter", .after_run = after_run, .save_state = save_state, .load_state = load_state);

static void run_to(int64_t step, counter_hook *hook)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(HS_HOOK(.ops = &counter_ops, .self = hook),
                                                                       hs_stop_at_step(.last_step = step))),
        NULL);
    while (hs_step_begin(s))
        hs_step_end(s);
    hs_outcome outcome = hs_session_close(s, NULL);
    assert(hs_outcome_exit_code(&outcome) == 0 && outcome.step == step);
    hs_graph_free(g);
}

/* BLOCK */

int main(void)
{
    a_resumed_run_counts_on();
}
