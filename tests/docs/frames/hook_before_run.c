/* SPDX-License-Identifier: Apache-2.0 */
#include "hook_printed.h"

typedef struct {
    bool was_large;
} look_closer;

/* BLOCK */

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    look_closer *h = self;
    (void)err;
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
    int last = 1;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        CHECK(last == 1 ? atoi(line) == 2 : atoi(line) > last);
        CHECK(atof(strchr(line, ' ')) != 0);
        last = atoi(line);
    }
    CHECK(last > 2 && last < 50); /* the loss is large in the first steps */
    free(text);
}
