/* SPDX-License-Identifier: Apache-2.0 */
#include "hook_printed.h"

/* BLOCK */

int main(void)
{
    const int64_t ends[] = {5, 20, 100, 0};
    char *text = printed_by(HS_HOOK(.ops = &doubling_ops), ends);
    int next = 1;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), next *= 2)
        CHECK(atoi(line) == next && atof(strchr(line, ' ')) > 0);
    CHECK(next == 128);
    free(text);
}
