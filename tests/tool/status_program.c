/* SPDX-License-Identifier: Apache-2.0 */
/* status_program DIRECTORY STEPS: trains up to a step. STEPS 0: prints "step 5" after step 5, and waits to be killed. */
#include <hooksess/hooksess.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    ++*(float *)self;
    return HS_OK;
}

static void quiet(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level, (void)text;
}

int main(int argc, char **argv)
{
    float weight = 0;
    int last = argc > 2 ? atoi(argv[2]) : 0;
    hs_error err = {0};
    hs_env env = HS_INIT(hs_env, .logger = {quiet, NULL});
    hs_graph *graph = hs_graph_new(&env);
    hs_graph_variable(graph, "weight", HS_FLOAT, HS_SCALAR, &weight);
    hs_graph_op(graph, .name = "train", .run = train, .user = &weight, .writes = HS_NAMES("weight"), .advances_step = true);
    hs_session *session = hs_training_session_open(
        hs_graph_backend(graph),
        HS_TRAINING_OPTIONS(.checkpoint_dir = argc > 1 ? argv[1] : "run", .save_checkpoint_steps = 2,
                            .hooks = HS_HOOKS(hs_stop_at_step(.last_step = last ? last : 1000))),
        &err);
    while (!hs_session_should_stop(session) && hs_session_run(session, "train", &err) == HS_OK)
        if (!last && weight == 5) {
            puts("step 5");
            fflush(stdout);
            pause();
        }
    hs_outcome outcome = hs_session_close(session, &err);
    hs_graph_free(graph);
    if (outcome.reason == HS_REASON_FAILED)
        fprintf(stderr, "%s\n", outcome.error.message);
    return hs_outcome_exit_code(&outcome);
}
