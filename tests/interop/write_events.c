/* SPDX-License-Identifier: Apache-2.0 */
/* write_events DIRECTORY: writes an event file with all kinds of events. For each line of standard input it writes ten
 * steps of scalars, flushes, and prints the file's path. It closes the file at the end of the input.
 *
 * write_events DIRECTORY on: prints the path immediately, and writes steps until it is killed. */
#include <hooksess/hooksess.h>

#include <stdio.h>
#include <string.h>

enum { STEPS_A_LINE = 10 };

static hs_code add_graph(hs_summary_writer *w, hs_error *err)
{
    static float weights[2];
    hs_graph *g = hs_graph_new(NULL);
    hs_bytes graph, meta = {0};
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(2), weights);
    hs_graph_op(g, .name = "train", .writes = HS_NAMES("weights"), .advances_step = true);
    hs_code code = hs_backend_graph_def(hs_graph_backend(g), &graph, err);
    if (!code && !(code = hs_summary_writer_graph(w, graph, 0, err)) &&
        !(code = hs_backend_export_meta_graph(hs_graph_backend(g), NULL, &meta, err)))
        code = hs_summary_writer_meta_graph(w, meta, 0, err);
    hs_env_free(NULL, (void *)meta.data);
    hs_graph_free(g);
    return code;
}

static hs_code add_step(hs_summary_writer *w, int64_t step, hs_error *err)
{
    hs_summary *summary = hs_summary_new(NULL);
    hs_code code = hs_summary_writer_scalar(w, "loss", 1 / (double)step, step, err);
    if (!code && !(code = hs_summary_scalar(summary, "metrics/accuracy", (double)step / 4, err)) &&
        !(code = hs_summary_scalar(summary, "metrics/größe", -1e30 * (double)step, err)))
        code = hs_summary_writer_summary(w, hs_summary_serialized(summary), step, err);
    hs_summary_free(summary);
    return code;
}

static hs_code serve(hs_summary_writer *w, hs_error *err)
{
    char line[16];
    int64_t step = 0;
    hs_code code = hs_summary_writer_session_log(w, HS_SESSION_LOG_START, NULL, NULL, 1, err);
    if (!code)
        code = add_graph(w, err);
    while (!code && fgets(line, sizeof line, stdin)) {
        for (int i = 0; !code && i < STEPS_A_LINE; i++)
            code = add_step(w, ++step, err);
        if (!code)
            code = hs_summary_writer_session_log(w, HS_SESSION_LOG_CHECKPOINT, "run/model.ckpt", "saved", step, err);
        if (!code)
            code = hs_summary_writer_flush(w, false, err);
        puts(hs_summary_writer_path(w));
        fflush(stdout);
    }
    return code ? code : hs_summary_writer_session_log(w, HS_SESSION_LOG_STOP, NULL, NULL, step, err);
}

/* Pauses after each burst, so that the file does not become too large to be read. */
static hs_code write_until_killed(hs_summary_writer *w, hs_error *err)
{
    enum { BURST = 20, PAUSE_NS = 200000 };
    hs_code code = HS_OK;
    puts(hs_summary_writer_path(w));
    fflush(stdout);
    for (int64_t step = 1; !code; step++) {
        code = hs_summary_writer_scalar(w, "loss", 1 / (double)step, step, err);
        if (step % BURST == 0)
            hs_env_sleep_ns(NULL, PAUSE_NS);
    }
    return code;
}

int main(int argc, char **argv)
{
    hs_error err = {0};
    if (argc < 2)
        return 2;
    bool endless = argc > 2;
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .queue_bytes = endless ? 1 << 11 : 0);
    hs_summary_writer *w = hs_summary_writer_open(argv[1], &options, &err);
    hs_code code = !w ? err.code : endless ? write_until_killed(w, &err) : serve(w, &err);
    if (!code)
        code = hs_summary_writer_close(w, &err);
    if (code)
        fprintf(stderr, "%s\n", err.message);
    return code ? 1 : 0;
}
