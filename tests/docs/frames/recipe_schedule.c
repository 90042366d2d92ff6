/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

static float rates[1000];
static int n_rates;

/* Records the learning rates. */
static void record_and_update(model *m, float rate)
{
    rates[n_rates++] = rate;
    update(m, rate);
}
#define update record_and_update

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    /* BLOCK */
    finish(s, g, 1000);
    CHECK(n_rates == 1000);
    CHECK(rates[0] == 0.001f && rates[99] == 0.1f);
    CHECK(rates[550] > 0.054f && rates[550] < 0.056f); /* in the middle of the cosine */
    CHECK(rates[999] < 0.0101f);
    CHECK(test_loss(&m) < 0.001);
}
