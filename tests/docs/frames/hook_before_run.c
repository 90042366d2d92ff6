/* SPDX-License-Identifier: Apache-2.0 */
#include "hook_printed.h"

/* BLOCK */

int main(void)
{
    look_closer h = {false};
    const int64_t ends[] = {100, 0};
    char *text = printed_by(HS_HOOK(.ops = &look_closer_ops, .self = &h), ends);
    int n = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), n++)
        CHECK(atoi(line) == n + 2 && atof(strchr(line, ' ')) != 0);
    CHECK(n > 1 && n < 50); /* the loss is large in the first steps */
    free(text);
}
