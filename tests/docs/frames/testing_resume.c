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

/* BLOCK */

int main(void)
{
    a_resumed_run_counts_on();
}
