/* SPDX-License-Identifier: Apache-2.0 */
#include "hook_printed.h"

/* BLOCK */

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
