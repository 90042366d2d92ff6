/* SPDX-License-Identifier: Apache-2.0 */
#include "open_session.h"

/* Trains up to a step. Returns the weights, and the samples that were read of each set. */
static model run(int64_t step, reader *from_books_, reader *from_web)
{
    model m = {0};
    reader books = {0}, web = {1 << 30};
    uint64_t random_state = 1;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(2), m.weights);
    last_step = step;
    /* BLOCK */
    finish(s, g, step);
    *from_books_ = books;
    *from_web = web;
    return m;
}

int main(void)
{
    reader books, web, books_again, web_again;
    model whole = run(1000, &books, &web);
    CHECK(rename("run", "whole") == 0);
    run(500, &books_again, &web_again);
    model resumed = run(1000, &books_again, &web_again);
    CHECK(memcmp(whole.weights, resumed.weights, sizeof whole.weights) == 0);
    CHECK(books.position == books_again.position && web.position == web_again.position);
    double part = (double)books.position / (1000 * BATCH);
    CHECK(part > 0.25 && part < 0.35);
    CHECK(test_loss(&resumed) < 0.001);
}
