/* SPDX-License-Identifier: Apache-2.0 */
/* The hook must get the weights in the run after a large loss, and in no other. */
#include "hook_printed.h"

typedef struct {
    bool was_large;
} look_closer;

/* BLOCK */

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    look_closer *h = self;
    (void)err;
    CHECK(hs_run_values_count(values) == (h->was_large ? 2 : 1));
    if (h->was_large)
        printf("%lld %g\n", (long long)hs_run_context_global_step(run, NULL), hs_run_values_number(values, 1));
    h->was_large = hs_run_values_number(values, 0) > 0.5;
    return HS_OK;
}

static const hs_hook_ops look_closer_ops =
    HS_INIT(hs_hook_ops, .name = "look_closer", .before_run = before_run, .after_run = after_run);

int main(void)
{
    look_closer h = {false};
    const int64_t ends[] = {100, 0};
    char *text = printed_by(HS_HOOK(.ops = &look_closer_ops, .self = &h), ends);
    CHECK(strncmp(text, "2 ", 2) == 0);
    free(text);
}
