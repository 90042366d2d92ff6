/* SPDX-License-Identifier: Apache-2.0 */
/* A program of a user, in the common subset of C and C++. */
#include <hooksess/hooksess.h>

#include <stdio.h>
#include <string.h>

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    *(float *)self += 1;
    return HS_OK;
}

int main(void)
{
    float weight = 0;
    const char *writes[] = {"weight", NULL};
    hs_graph *graph = hs_graph_new(NULL);
    hs_op_def def;
    hs_stop_at_step_options stop;
    hs_session_options options;
    hs_hook hooks[2];
    hs_error err;
    memset(&def, 0, sizeof def);
    memset(&stop, 0, sizeof stop);
    memset(&options, 0, sizeof options);
    memset(&err, 0, sizeof err);
    memset(hooks, 0, sizeof hooks);
    def.size = sizeof def;
    def.name = "train";
    def.run = train;
    def.user = &weight;
    def.writes = writes;
    def.advances_step = true;
    hs_graph_variable(graph, "weight", HS_FLOAT, hs_shape_of(0, NULL), &weight);
    hs_graph_add_op(graph, &def);
    stop.size = sizeof stop;
    stop.last_step = 7;
    hooks[0] = hs_stop_at_step_hook(&stop);
    options.size = sizeof options;
    options.hooks = hooks;
    hs_session *session = hs_session_open(hs_graph_backend(graph), &options, &err);
    while (!hs_session_should_stop(session))
        if (hs_session_run(session, "train", &err) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(session, &err);
    hs_graph_free(graph);
    printf("hooksess %s: %s at step %d, weight %g\n", hs_version(), hs_reason_name(outcome.reason), (int)outcome.step,
           (double)weight);
    return outcome.step == 7 && weight == 7 ? hs_outcome_exit_code(&outcome) : 1;
}
