/* SPDX-License-Identifier: Apache-2.0 */
/* average DIRECTORY DECAY RAMP STEPS: trains variables that have moving averages, with a ramp if RAMP is 1, and saves each
 * step to DIRECTORY/model.ckpt-STEP. */
#include <hooksess/hooksess.h>

#include <stdio.h>
#include <stdlib.h>

enum { N = 1000 };

static float layer[N];
static double scale = 1;

static void make_step(int64_t step)
{
    for (int i = 0; i < N; i++)
        layer[i] += 0.37f * (float)((i * 7 + step * 13) % 101 - 50) / (float)(i + 1);
    scale += 0.1 / (double)(step + 3);
}

int main(int argc, char **argv)
{
    char prefix[4096];
    hs_error err;
    if (argc != 5)
        return 2;
    int64_t steps = atoi(argv[4]), step = 0;
    for (int i = 0; i < N; i++)
        layer[i] = (float)i / 3;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "layer/weights", HS_FLOAT, HS_SHAPE(10, N / 10), layer);
    hs_graph_variable(g, "scale", HS_DOUBLE, HS_SCALAR, &scale);
    hs_graph_global_step(g, NULL, &step);
    hs_hook averages = hs_moving_average(.variables = HS_NAMES("layer/weights", "scale"), .decay = atof(argv[2]),
                                         .ramp = atoi(argv[3]) == 1);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 1000), &err);
    hs_session *s = hs_session_open(hs_graph_backend(g), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(averages)), &err);
    hs_code code = s && saver ? HS_OK : err.code;
    snprintf(prefix, sizeof prefix, "%s/model.ckpt", argv[1]);
    while (!code && step <= steps) {
        code = hs_saver_save(saver, hs_session_raw(s), prefix, step, NULL, &err);
        if (code || !hs_step_begin(s))
            break;
        make_step(step);
        code = hs_step_end(s);
    }
    if (code)
        fprintf(stderr, "%s\n", err.message);
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_saver_free(saver);
    hs_graph_free(g);
    return code ? 1 : hs_outcome_exit_code(&outcome);
}
