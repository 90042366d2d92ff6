/* SPDX-License-Identifier: Apache-2.0 */
#include "hook_list.h"

int main(void)
{
    float loss = 0;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    hs_hook hooks[] = {hs_stop_at_step(.last_step = 1000),
                       /* BLOCK */
                       {0}};
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g), HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .log_step_count_steps = HS_NEVER, .hooks = hooks),
        NULL);
    while (hs_step_begin(s))
        hs_step_end(s);
    finish(s, g, 1000);

    int tokens = 0, mfu = 0, steps = 0;
    hs_event_reader *events = hs_event_reader_open("run", NULL, NULL);
    for (const hs_event *event; hs_event_reader_next(events, &event, NULL) == HS_OK;)
        for (size_t i = 0; i < event->n_values; i++) {
            hs_string tag = event->values[i].tag;
            tokens += tag.bytes == 10 && memcmp(tag.data, "tokens/sec", 10) == 0;
            mfu += tag.bytes == 3 && memcmp(tag.data, "mfu", 3) == 0;
            steps += tag.bytes == 15 && memcmp(tag.data, "global_step/sec", 15) == 0;
        }
    hs_event_reader_close(events);
    CHECK(tokens == 9 && mfu == 9 && steps == 9); /* steps 101, 201 ... 901, each once */
}
