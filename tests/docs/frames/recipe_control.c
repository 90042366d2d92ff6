/* SPDX-License-Identifier: Apache-2.0 */
#include "hook_list.h"

static double last_rate;

/* Gives an order before the session, and trains. */
static void run(const char *order)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    mkdir("run", 0700);
    if (order) {
        FILE *file = fopen("run/order", "w");
        CHECK(file && fputs(order, file) >= 0 && fclose(file) == 0);
        CHECK(chmod("run/order", 0600) == 0 && rename("run/order", "run/control") == 0);
    }
    /* BLOCK */
    const hs_hook hooks[] = {control, hs_stop_at_step(.last_step = 1000), {0}};
    hs_session *s = open_with(g, hooks);
    train(s, &m, &data);
    last_rate = rate;
    hs_outcome outcome = hs_session_close(s, NULL);
    CHECK(outcome.reason != HS_REASON_FAILED);
    CHECK(order ? outcome.interrupted && outcome.step == 1 : outcome.step == 1000);
    hs_graph_free(g);
    rate = 0.5; /* a new process has its own number */
}

int main(void)
{
    run("set rate=0.01\nstop\n");
    CHECK(last_rate == 0.01);
    run(NULL); /* a resumed run continues with the number */
    CHECK(last_rate == 0.01);
}
