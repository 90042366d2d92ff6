/* SPDX-License-Identifier: Apache-2.0 */
#include "hook_list.h"

#include <glob.h>

int main(void)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    hs_hook hooks[] = {hs_stop_at_step(.last_step = 2500),
                       hs_nan_tensor(.tensor = "loss"),
                       /* BLOCK */
                       {0}};
    hs_session *s = open_with(g, hooks);
    train(s, &m, &data);
    finish(s, g, 2500);
    glob_t found;
    CHECK(glob("run/timeline-*.json", 0, NULL, &found) == 0 && found.gl_pathc == 2);
    char *text = contents(found.gl_pathv[0]);
    CHECK(strstr(text, "\"traceEvents\"") && strstr(text, "nan_tensor"));
    puts(found.gl_pathv[0]);
    free(text);
    globfree(&found);
}
