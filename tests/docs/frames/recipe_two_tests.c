/* SPDX-License-Identifier: Apache-2.0 */
#include "hook_list.h"

typedef struct {
    double loss;
    int runs;
} test_set;

static double test_loss_of(void *user)
{
    test_set *set = user;
    set->runs++;
    return set->loss;
}

/* BLOCK */

int main(void)
{
    model m = {0};
    reader data = {0};
    test_set near = {1, 0}, far = {2, 0};
    hs_graph *g = new_graph(&m, &data);
    /* BLOCK */
    hs_hook hooks[] = {hs_stop_at_step(.last_step = 1000),
                       /* BLOCK */
                       {0}};
    hs_session *s = open_with(g, hooks);
    train(s, &m, &data);
    finish(s, g, 1000);
    CHECK(near.runs == 10 && far.runs == 1);

    int64_t step = 0, last = 0;
    hs_event_reader *events = hs_event_reader_open("run", NULL, NULL);
    for (const hs_event *event; hs_event_reader_next(events, &event, NULL) == HS_OK;)
        for (size_t i = 0; i < event->n_values; i++) {
            hs_string tag = event->values[i].tag;
            if (tag.bytes == 10 && memcmp(tag.data, "often/near", 10) == 0) {
                step += 100;
                CHECK(event->step == step && event->values[i].scalar == 1);
            } else if (tag.bytes == 10 && memcmp(tag.data, "seldom/far", 10) == 0) {
                last = event->step;
                CHECK(event->values[i].scalar == 2);
            }
        }
    hs_event_reader_close(events);
    CHECK(step == 1000 && last == 1000);
}
