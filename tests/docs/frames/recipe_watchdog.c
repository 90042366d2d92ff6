/* SPDX-License-Identifier: Apache-2.0 */
#include "hook_list.h"

#include <time.h>
#include <unistd.h>

/* A shorter floor, and more heartbeats. */
static hs_hook hurried(hs_watchdog_options options)
{
    CHECK(options.floor_secs == 300 && options.factor == 0);
    options.floor_secs = 0.05;
    options.heartbeat_secs = 0.02;
    options.factor = HS_NEVER;
    return hs_watchdog_hook(&options);
}
#undef hs_watchdog
#define hs_watchdog(...) hurried((hs_watchdog_options)HS_INIT(hs_watchdog_options, __VA_ARGS__))

/* Waits until the heartbeat has the text. */
static void wait_for(const char *text)
{
    for (bool found = false; !found;) {
        usleep(1000);
        if (!exists("run/heartbeat.json"))
            continue;
        char *heartbeat = contents("run/heartbeat.json");
        found = strstr(heartbeat, text) != NULL;
        free(heartbeat);
    }
}

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    hs_hook hooks[] = {hs_stop_at_step(.last_step = 3),
                       /* BLOCK */
                       {0}};
    hs_session *s = open_with(g, hooks);
    while (hs_step_begin(s)) {
        wait_for("\"stalled\": true");
        hs_step_end(s);
    }
    finish(s, g, 3);
    wait_for("\"phase\": \"closed\"");
}
