/* SPDX-License-Identifier: Apache-2.0 */
/* scalars DIRECTORY LAST_STEP [summary] [dies]: the program's own loop, with a loss of 1 / step. The hook hs_scalars writes
 * the loss, or with "summary" a summary op of the same name. With "dies", the program exits after the last step, and does
 * not close the session. */
#include <hooksess/hooksess.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_given(char **arguments, const char *wanted)
{
    while (*arguments && strcmp(*arguments, wanted) != 0)
        arguments++;
    return *arguments;
}

/* The file has events of steps after the last checkpoint. */
static void die(hs_raw_session *session, const char *directory)
{
    hs_summary_writer *writer;
    if (hs_raw_session_summary_writer(session, directory, &writer, NULL) == HS_OK)
        hs_raw_session_flush_writer(session, writer, true, NULL);
    _exit(7);
}

int main(int argc, char **argv)
{
    double weight = 0;
    float loss = 0;
    if (argc < 3)
        return 2;
    bool dies = is_given(argv, "dies"), summary = is_given(argv, "summary");
    int64_t last = atoll(argv[2]);
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weight", HS_DOUBLE, HS_SCALAR, &weight);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    if (summary)
        hs_graph_summary(g, HS_SUMMARY_SCALAR, .name = "loss", .tensor = "loss");
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = argv[1], .save_checkpoint_steps = 25, .save_summaries_steps = 10,
                            .scalars = summary ? NULL : HS_NAMES("loss"),
                            .hooks = HS_HOOKS(hs_stop_at_step(.last_step = dies ? last + 1 : last))),
        NULL);
    while (hs_step_begin(s)) {
        weight += 1;
        loss = 1 / (float)weight;
        hs_step_end(s);
        if (dies && hs_session_global_step(s, NULL) == last)
            die(hs_session_raw(s), argv[1]);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}
