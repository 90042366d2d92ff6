/* SPDX-License-Identifier: Apache-2.0 */
#include "hook_list.h"

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    hs_hook hooks[] = {hs_stop_at_step(.last_step = 25),
                       /* BLOCK */
                       {0}};
    hs_session *s = open_with(g, hooks);
    train(s, &m, &data);
    finish(s, g, 25);
    char *text = contents("run/metrics.jsonl");
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        char begin[32];
        snprintf(begin, sizeof begin, "{\"step\":%d,", 10 * lines + 1);
        CHECK(strncmp(line, begin, strlen(begin)) == 0 && strstr(line, "\"loss\":") && strstr(line, "\"wall_time\":"));
    }
    CHECK(lines == 3);
    free(text);
}
