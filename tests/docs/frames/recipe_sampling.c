/* SPDX-License-Identifier: Apache-2.0 */
#include "hook_list.h"

static char next_character(const model *m, const char *text, uint64_t *random)
{
    (void)m, (void)text;
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (char)('a' + (*random >> 33) % 26);
}

/* BLOCK */

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    hs_hook hooks[] = {hs_stop_at_step(.last_step = 1000),
                       /* BLOCK */
                       {0}};
    hs_session *s = open_with(g, hooks);
    train(s, &m, &data);
    finish(s, g, 1000);

    int64_t samples = 0;
    hs_event_reader *events = hs_event_reader_open("run", NULL, NULL);
    for (const hs_event *event; hs_event_reader_next(events, &event, NULL) == HS_OK;)
        for (size_t i = 0; i < event->n_values; i++) {
            hs_string tag = event->values[i].tag;
            if (tag.bytes == 6 && memcmp(tag.data, "sample", 6) == 0) {
                samples++;
                CHECK(event->step == 500 * samples);
                CHECK(event->values[i].bytes.size > 256);
            }
        }
    hs_event_reader_close(events);
    CHECK(samples == 2);
}
