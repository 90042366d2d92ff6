/* SPDX-License-Identifier: Apache-2.0 */
/* A training that is interrupted between two lines must print the same means as an uninterrupted one. */
#include "hook_list.h"

/* BLOCK */

static void train_to(int64_t step)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    /* BLOCK */
    hs_hook hooks[] = {hs_stop_at_step(.last_step = step),
                       /* BLOCK */
                       {0}};
    hs_session *s = open_with(g, hooks);
    train(s, &m, &data);
    finish(s, g, step);
}

/* Trains to the steps, ended by 0. Returns what the hook has printed, to be freed. */
static char *printed(const int64_t *steps)
{
    CHECK(system("rm -rf run") == 0);
    CHECK(freopen("printed", "w", stdout));
    for (; *steps; steps++)
        train_to(*steps);
    CHECK(fflush(stdout) == 0);
    return contents("printed");
}

int main(void)
{
    char *whole = printed((int64_t[]){200, 0}), *parts = printed((int64_t[]){70, 130, 200, 0});
    CHECK(strcmp(whole, parts) == 0);
    int lines = 0;
    for (char *line = strtok(whole, "\n"); line; line = strtok(NULL, "\n"))
        CHECK(atoi(line) == 50 * ++lines && atof(strchr(line, ' ')) > 0);
    CHECK(lines == 4);
    free(whole);
    free(parts);
}
