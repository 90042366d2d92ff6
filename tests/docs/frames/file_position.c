/* SPDX-License-Identifier: Apache-2.0 */
/* Two sessions read a file on. The second one must begin where the checkpoint of the first one was saved. */
#include <assert.h>
#include <errno.h>
#include <hooksess/hooksess.h>
#include <stdio.h>
#include <string.h>

/* BLOCK */

static int train(FILE *file, int64_t last_step, char *text)
{
    hs_graph *g = hs_graph_new(NULL);
    add_file(g, file);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(hs_stop_at_step(.last_step = last_step))), NULL);
    while (hs_step_begin(s)) {
        *text++ = (char)fgetc(file);
        hs_step_end(s);
    }
    *text = 0;
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}

int main(void)
{
    char text[20];
    FILE *file = fopen("data", "w+");
    assert(file && fputs("abcdefghij", file) >= 0);
    rewind(file);
    assert(train(file, 4, text) == 0 && strcmp(text, "abcd") == 0);
    rewind(file);
    assert(train(file, 7, text) == 0 && strcmp(text, "efg") == 0);
    fclose(file);
    return 0;
}
